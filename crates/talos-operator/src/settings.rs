//! Environment variables: the only module of this crate that reads them.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder for the state of clusters without a profile.
pub fn state_home() -> Option<PathBuf> {
    state_home_from(variable)
}

/// The user of this process, such as `anna@desk`, for the journal.
pub fn who() -> String {
    let user = variable("USER").or_else(|| variable("LOGNAME"));
    let user = user.map_or_else(|| "unknown".to_owned(), |user| user.to_string_lossy().into());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // It is printed and stored: one line without special characters.
    let plain = |text: String| -> String {
        text.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(63).collect()
    };
    format!("{}@{}", plain(user), plain(host))
}

/// A name for this process that is unique over all machines.
pub fn process() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let host: String =
        host.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(63).collect();
    format!("{}-{}", host.trim_matches('-'), std::process::id())
}

/// The variable that names the kubeconfigs, as for kubectl.
pub fn kubeconfig() -> Option<OsString> {
    variable("KUBECONFIG")
}

/// The variables of S3 clients: credentials, region, endpoint.
pub fn s3() -> s3_snapshots::Environment {
    s3_snapshots::Environment::read(|name| variable(name)?.into_string().ok())
}

/// The home folder.
pub fn home() -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from)
}

/// What kind of terminal this is.
pub fn terminal() -> Option<String> {
    variable("TERM").map(|name| name.to_string_lossy().into_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment is read here and nowhere else in this crate"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn state_home_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // By the XDG standard a relative path is ignored.
    let named = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    Some(named.or_else(home)?.join("talos-operator"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_folder_follows_the_xdg_standard() {
        let from = |pairs: &[(&str, &str)]| {
            let found = state_home_from(|name| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            });
            found.map(|path| path.display().to_string())
        };
        assert_eq!(from(&[]), None);
        assert_eq!(from(&[("HOME", "/h")]).unwrap(), "/h/.local/state/talos-operator");
        let both = [("HOME", "/h"), ("XDG_STATE_HOME", "/s")];
        assert_eq!(from(&both).unwrap(), "/s/talos-operator");
        let relative = [("HOME", "/h"), ("XDG_STATE_HOME", "s")];
        assert_eq!(from(&relative).unwrap(), "/h/.local/state/talos-operator");
        assert!(who().contains('@'));
    }
}
