//! k
/// k
#[derive(Debug)]
pub struct Kind;
