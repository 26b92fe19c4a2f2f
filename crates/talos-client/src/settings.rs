//! Default locations of the talosconfig; only this module of the crate reads the environment.

use std::ffi::OsString;
use std::path::PathBuf;

/// The variable that names the file.
pub const VARIABLE: &str = "TALOSCONFIG";

/// Where Talos mounts the file in pods with access to its API.
const IN_POD: &str = "/var/run/secrets/talos.dev/config";

/// The locations in order. If the variable names a file, it is the only one.
pub fn candidates() -> Vec<PathBuf> {
    from_environment(variable)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment is read here and nowhere else in this crate"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(path) = set(VARIABLE) {
        return vec![path.into()];
    }
    let home = set("HOME").map(|home| PathBuf::from(home).join(".talos").join("config"));
    home.into_iter().chain([IN_POD.into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Vec<String> {
        from_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
        .into_iter()
        .map(|path| path.display().to_string())
        .collect()
    }

    #[test]
    fn the_default_locations_in_order() {
        assert_eq!(with(&[]), [IN_POD]);
        assert_eq!(with(&[("HOME", "/h")]), ["/h/.talos/config", IN_POD]);
        assert_eq!(with(&[("HOME", "/h"), (VARIABLE, "/t")]), ["/t"]);
        assert_eq!(with(&[("HOME", ""), (VARIABLE, "")]), [IN_POD]);
    }
}
