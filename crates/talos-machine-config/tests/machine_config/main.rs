//! Machine configurations: what is read from them, and what an edit changes.

mod images;
mod properties;
