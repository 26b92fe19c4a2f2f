//! Cargo as if it were called by hand.

use std::env;
use std::process::Command;

/// What cargo sets for the program that it runs, which is this one. Build scripts
/// watch some of it: handed on, it would make every `cargo xtask` build again what
/// a plain `cargo` had built, and the other way round.
const FOR_US_ALONE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if FOR_US_ALONE.iter().any(|start| text.starts_with(start)) {
            cargo.env_remove(&name);
        }
    }
    cargo
}
