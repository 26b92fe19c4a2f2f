//! Planning and deciding.
