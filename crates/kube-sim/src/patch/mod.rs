//! Patches of three types. The fourth, server-side apply, is in `fields`.

mod json;
mod merge;
mod strategic;

pub(crate) use json::json_patch;
pub(crate) use merge::merge_patch;
pub(crate) use strategic::{go, strategic_merge_patch};
