//! Versions of Talos and Kubernetes, and the minors that support rules speak of.
//!
//! Users write `1.12.0` and `v1.12.0`; both are read. What is printed depends on
//! the front end: annotations and profiles carry the bare form ([`Display`]), specs,
//! image tags and `talosctl` the tagged one ([`Version::tag`]).

use std::fmt::{self, Display};
use std::str::FromStr;

use thiserror::Error;

use crate::text::serde_as_text;

/// A full version: major, minor, patch and perhaps a prerelease.
///
/// Ordering is that of semantic versioning, so `1.14.0-rc.1 < 1.14.0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(semver::Version);

/// A text that is not a version, with what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a version: {why}")]
pub struct ParseVersionError {
    /// What was given.
    pub text: String,
    /// What is wrong with it, and what would be right.
    pub why: String,
}

impl Version {
    /// A release version.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self(semver::Version::new(major, minor, patch))
    }

    /// The minor this version belongs to.
    pub fn minor(&self) -> Minor {
        Minor::new(self.0.major, self.0.minor)
    }

    /// The patch number.
    pub fn patch(&self) -> u64 {
        self.0.patch
    }

    /// Whether this is an alpha, beta or release candidate.
    pub fn is_prerelease(&self) -> bool {
        !self.0.pre.is_empty()
    }

    /// The same version without its prerelease part. The support matrix
    /// compares this way: `1.14.0-rc.1` counts as `1.14.0`.
    #[must_use]
    pub fn release(&self) -> Self {
        Self::new(self.0.major, self.0.minor, self.0.patch)
    }

    /// The form with a leading `v`, used in image tags and specs.
    pub fn tag(&self) -> String {
        format!("v{}", self.0)
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` keeps width and alignment working in tables.
        f.pad(&self.0.to_string())
    }
}

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |why: &str| ParseVersionError { text: text.to_owned(), why: why.to_owned() };
        let bare = text.strip_prefix('v').unwrap_or(text);
        if bare.is_empty() {
            return Err(fail("it is empty; write it like 1.13.9"));
        }
        if bare.bytes().filter(|byte| *byte == b'.').count() < 2
            && bare.split('.').all(|part| part.parse::<u64>().is_ok())
        {
            return Err(fail("the patch number is missing; write all three parts, like 1.13.9"));
        }
        let version = semver::Version::parse(bare).map_err(|_| {
            fail("write major, minor and patch as numbers, like 1.13.9 or v1.14.0-rc.1")
        })?;
        if !version.build.is_empty() {
            return Err(fail("image tags cannot carry build metadata; leave out what follows `+`"));
        }
        Ok(Self(version))
    }
}

serde_as_text!(Version);

/// A minor release line such as `1.13`; the unit of the support matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor {
    major: u64,
    minor: u64,
}

impl Minor {
    /// The line `major.minor`.
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }

    /// The next line of the same major.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { major: self.major, minor: self.minor + 1 }
    }

    /// The line before this one, of the same major; the first has none before it.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self { major: self.major, minor: self.minor.saturating_sub(1) }
    }

    /// How many minors lie between this line and a later one of the same
    /// major; `None` for an earlier line or another major.
    pub fn steps_to(self, later: Self) -> Option<u64> {
        if self.major == later.major { later.minor.checked_sub(self.minor) } else { None }
    }

    /// The first release of this line.
    pub const fn first(self) -> Version {
        Version::new(self.major, self.minor, 0)
    }
}

impl Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.major, self.minor))
    }
}

impl FromStr for Minor {
    type Err = ParseVersionError;

    /// Reads `1.13` and `v1.13`, and takes the minor of a full version.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(version) = text.parse::<Version>() {
            return Ok(version.minor());
        }
        let bare = text.strip_prefix('v').unwrap_or(text);
        let parts = bare
            .split_once('.')
            .and_then(|(major, minor)| Some(Self::new(major.parse().ok()?, minor.parse().ok()?)));
        parts.ok_or_else(|| ParseVersionError {
            text: text.to_owned(),
            why: "write a minor as two numbers, like 1.13".to_owned(),
        })
    }
}

serde_as_text!(Minor);

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn both_spellings_are_one_version() {
        assert_eq!(version("1.12.0"), version("v1.12.0"));
        assert_eq!(version("v1.12.0").to_string(), "1.12.0");
        assert_eq!(version("1.12.0").tag(), "v1.12.0");
    }

    #[test]
    fn prereleases_order_before_their_release() {
        assert!(version("1.14.0-alpha.2") < version("1.14.0-rc.1"));
        assert!(version("1.14.0-rc.1") < version("v1.14.0"));
        assert!(version("1.14.0-rc.1").is_prerelease());
        assert_eq!(version("1.14.0-rc.1").release(), version("1.14.0"));
        assert_eq!(version("1.14.0-rc.1").tag(), "v1.14.0-rc.1");
    }

    #[test]
    fn nonsense_says_what_to_write() {
        for (text, hint) in [
            ("1.x", "write major, minor and patch as numbers"),
            ("1.13", "the patch number is missing"),
            ("v1", "the patch number is missing"),
            ("", "it is empty"),
            ("v", "it is empty"),
            ("latest", "write major, minor and patch"),
            ("1.13.9+build", "leave out what follows `+`"),
            ("1.13.9.1", "write major, minor and patch"),
            ("vv1.13.9", "write major, minor and patch"),
            (" 1.13.9", "write major, minor and patch"),
        ] {
            let error = text.parse::<Version>().unwrap_err();
            assert!(error.to_string().contains(hint), "{text}: {error}");
            assert!(error.to_string().starts_with(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn minors_are_read_from_both_forms() {
        for text in ["1.13", "v1.13", "1.13.9", "v1.13.0-rc.1"] {
            assert_eq!(text.parse::<Minor>().unwrap(), Minor::new(1, 13));
        }
        assert!("1.x".parse::<Minor>().is_err());
        assert!("13".parse::<Minor>().is_err());
        assert_eq!(Minor::new(1, 11).steps_to(Minor::new(1, 13)), Some(2));
        assert_eq!(Minor::new(1, 13).steps_to(Minor::new(1, 11)), None);
        assert_eq!(Minor::new(1, 13).steps_to(Minor::new(2, 13)), None);
    }

    #[test]
    fn json_carries_the_bare_form_and_reads_both() {
        assert_eq!(serde_json::to_string(&version("v1.13.9")).unwrap(), "\"1.13.9\"");
        assert_eq!(serde_json::from_str::<Version>("\"v1.13.9\"").unwrap(), version("1.13.9"));
        let error = serde_json::from_str::<Version>("\"1.13\"").unwrap_err();
        assert!(error.to_string().contains("patch number is missing"), "{error}");
    }
}
