//! The built binary without a cluster: what it prints, what the documents say of
//! that, and `sim`.

mod documented;
mod golden;
#[cfg(unix)]
mod sim;
