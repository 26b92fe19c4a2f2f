//! Talos machine configurations: which images they name, and the same text with
//! another image in one place.
//!
//! A configuration is its owner's text. [`set_image`] changes the bytes of one
//! scalar, or puts in the line that was missing, and leaves the rest as it is:
//! comments, order, quotes, indentation, line ends, other documents. What could
//! change more than that (a value shared through an anchor) is refused. [`yaml`] is the tree
//! with places and the edits behind it, for other texts of users too.
//!
//! Two forms are known: the v1alpha1 document with everything in it, and from
//! Talos 1.14 a document for each component, which then takes precedence.
//! [`settings()`] reads the flags and feature gates of the components; [`removals`] compares
//! them with what the next Kubernetes no longer has.
//!
//! Configurations hold keys. No error quotes them (rule 14), and nothing here
//! that holds text of one has a `Debug` form.

// Nothing here reads a clock or the environment; an exception cannot be made.
#![forbid(clippy::disallowed_methods)]

mod edit;
mod error;
mod image_path;
pub mod removals;
pub mod settings;
pub mod yaml;

pub use edit::{image, images, proxy_is_off, set_image};
pub use error::ConfigError;
pub use settings::settings;
