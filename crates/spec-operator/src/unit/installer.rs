//! The installer image that a spec names, next to the version that it wants.

use upgrade_core::image::ImageRef;
use upgrade_core::version::Version;

use super::problem::ProblemKind;

/// The image as the planner gets it. One without a tag gets that of the version; one with a
/// digest stays as it is, and the planner says what becomes of the digest. A tag that is not the
/// version is a contradiction: the image would be installed, and the version be untrue.
pub(super) fn installer(text: &str, wanted: &Version) -> Result<ImageRef, ProblemKind> {
    let image: ImageRef = text.parse().map_err(ProblemKind::NotAnImage)?;
    let Some(tag) = image.tag.clone() else {
        if image.digest.is_some() {
            return Ok(image);
        }
        return Ok(image.with_tag(&wanted.tag()));
    };
    if tag.parse::<Version>().is_ok_and(|named| named == *wanted) {
        return Ok(image);
    }
    Err(ProblemKind::OtherTag { tag, wanted: wanted.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:abcd";

    fn installer_of(text: &str) -> Result<String, ProblemKind> {
        installer(text, &Version::new(1, 13, 9)).map(|image| image.to_string())
    }

    #[test]
    fn a_tag_is_added_and_a_digest_kept() {
        let pinned = format!("ghcr.io/a/installer@{DIGEST}");
        let both = format!("ghcr.io/a/installer:v1.13.9@{DIGEST}");
        for (written, expected) in [
            ("ghcr.io/a/installer", "ghcr.io/a/installer:v1.13.9"),
            ("localhost:5000/installer", "localhost:5000/installer:v1.13.9"),
            ("ghcr.io/a/installer:v1.13.9", "ghcr.io/a/installer:v1.13.9"),
            ("ghcr.io/a/installer:1.13.9", "ghcr.io/a/installer:1.13.9"),
            (pinned.as_str(), pinned.as_str()),
            (both.as_str(), both.as_str()),
        ] {
            assert_eq!(installer_of(written).as_deref(), Ok(expected), "{written}");
        }
    }

    #[test]
    fn a_tag_of_another_version_is_refused() {
        // Rule 4: what is installed is what the version says.
        for (written, expected) in [
            ("ghcr.io/a/installer:v1.10.3", "v1.10.3"),
            ("ghcr.io/a/installer:v1.13.9-rc.1", "v1.13.9-rc.1"),
            ("ghcr.io/a/installer:latest", "latest"),
            ("ghcr.io/a/installer:v1.10.3@sha256:abcd", "v1.10.3"),
        ] {
            let Err(ProblemKind::OtherTag { tag, wanted }) = installer_of(written) else {
                panic!("{written}: {:?}", installer_of(written));
            };
            assert_eq!((tag.as_str(), wanted), (expected, Version::new(1, 13, 9)));
        }
        assert!(matches!(installer_of("https://ghcr.io/a"), Err(ProblemKind::NotAnImage(_))));
        assert_eq!(
            installer_of("ghcr.io/a/installer:v1.10.3").unwrap_err().to_string(),
            "the image says v1.10.3, the version v1.13.9: remove the tag or change it"
        );
    }
}
