//! Container image references, as far as upgrades need them: what to keep, and
//! which tag to put in its place.

use std::fmt::{self, Display};
use std::str::FromStr;

use thiserror::Error;

use crate::text::serde_as_text;
use crate::version::Version;

/// `registry/repository:tag@digest`, each part as it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageRef {
    /// Host and perhaps port of the registry; `None` for a bare name.
    pub registry: Option<String>,
    /// The path below the registry.
    pub repository: String,
    /// The tag.
    pub tag: Option<String>,
    /// The digest, algorithm included.
    pub digest: Option<String>,
}

/// A text that is not an image reference.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not an image reference: {why}")]
pub struct ParseImageError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl ImageRef {
    /// The same image with another tag; a digest would pin the old content and
    /// is dropped.
    #[must_use]
    pub fn with_tag(&self, tag: &str) -> Self {
        Self { tag: Some(tag.to_owned()), digest: None, ..self.clone() }
    }

    /// The version in the tag. Variants such as `v1.34.2-fat` belong to the
    /// version before the suffix; see [`ImageRef::variant`].
    pub fn version(&self) -> Option<Version> {
        let tag = self.tag.as_deref()?;
        let tag = self.variant().map_or(tag, |variant| &tag[..tag.len() - variant.len()]);
        tag.parse().ok()
    }

    /// The kubelet image variant (`-fat` or `-slim`) that an upgrade must keep.
    pub fn variant(&self) -> Option<&'static str> {
        let tag = self.tag.as_deref()?;
        ["-fat", "-slim"].into_iter().find(|variant| tag.ends_with(variant))
    }
}

impl Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registry, repository, tag, digest } = self;
        if let Some(registry) = registry {
            write!(f, "{registry}/")?;
        }
        f.write_str(repository)?;
        if let Some(tag) = tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for ImageRef {
    type Err = ParseImageError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |why| ParseImageError { text: text.to_owned(), why };
        if text.is_empty() {
            return Err(fail("it is empty; write registry/name:tag"));
        }
        if text.contains("://") {
            return Err(fail("leave out the scheme; write registry/name:tag"));
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(fail("it contains white space"));
        }
        let (name, digest) = match text.split_once('@') {
            Some((_, digest)) if !digest.contains(':') => {
                return Err(fail("the digest lacks its algorithm, like sha256:..."));
            }
            Some((name, digest)) => (name, Some(digest.to_owned())),
            None => (text, None),
        };
        // A colon after the last slash starts the tag; one before it is a port.
        let slash = name.rfind('/').map_or(0, |at| at + 1);
        let (path, tag) = match name[slash..].split_once(':') {
            Some((_, "")) => return Err(fail("the tag after `:` is empty")),
            Some((last, tag)) => (&name[..slash + last.len()], Some(tag.to_owned())),
            None => (name, None),
        };
        // As container runtimes do: the first part is a registry if it looks
        // like a host.
        let (registry, repository) = match path.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => {
                (Some(host.to_owned()), rest)
            }
            _ => (None, path),
        };
        if repository.is_empty() || repository.split('/').any(str::is_empty) {
            return Err(fail("a part of the name is empty; write registry/name:tag"));
        }
        if repository.chars().any(|c| c.is_ascii_uppercase()) {
            return Err(fail("names are lower case"));
        }
        Ok(Self { registry, repository: repository.to_owned(), tag, digest })
    }
}

serde_as_text!(ImageRef);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_and_printed_again() {
        for text in [
            "ghcr.io/siderolabs/installer:v1.12.0",
            "factory.talos.dev/metal-installer/376567:v1.13.9",
            "localhost:5000/mirror/installer",
            "registry.example.com:5000/a/b:v1@sha256:abcd",
            "alpine",
            "library/alpine:3",
            "localhost/alpine:3",
        ] {
            assert_eq!(text.parse::<ImageRef>().unwrap().to_string(), text);
        }
        let image: ImageRef = "registry.example.com:5000/a/b:v1@sha256:abcd".parse().unwrap();
        assert_eq!(image.registry.as_deref(), Some("registry.example.com:5000"));
        assert_eq!(image.repository, "a/b");
        assert_eq!(image.with_tag("v2").to_string(), "registry.example.com:5000/a/b:v2");
    }

    #[test]
    fn bad_references_say_why() {
        for (text, hint) in [
            ("", "empty"),
            ("https://ghcr.io/a:b", "scheme"),
            ("ghcr.io/a b", "white space"),
            ("ghcr.io/a@deadbeef", "algorithm"),
            ("ghcr.io/a:", "empty"),
            ("ghcr.io//a", "part of the name"),
            ("ghcr.io/Siderolabs/a", "lower case"),
        ] {
            let error = text.parse::<ImageRef>().unwrap_err();
            assert!(error.to_string().contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn kubelet_variants_belong_to_their_version() {
        let image: ImageRef = "ghcr.io/siderolabs/kubelet:v1.34.2-fat".parse().unwrap();
        assert_eq!(image.version(), Some(Version::new(1, 34, 2)));
        assert_eq!(image.variant(), Some("-fat"));
        let image: ImageRef = "registry.k8s.io/kube-proxy:v1.34.2".parse().unwrap();
        assert_eq!((image.version(), image.variant()), (Some(Version::new(1, 34, 2)), None));
        let image: ImageRef = "registry.k8s.io/kube-proxy:latest".parse().unwrap();
        assert_eq!(image.version(), None);
    }
}
