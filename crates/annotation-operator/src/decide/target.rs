//! Whether a target is valid, and what to set instead where it is not.
//!
//! Which version may follow is decided by [`follow`] (rule 13); this is its answer in the
//! words of annotations. Whether the cluster is fit for it is the planner's question, later.

use std::fmt::{self, Display};

use upgrade_controller::front_end::Releases;
use upgrade_controller::versions_observed::ObservedVersions;
use upgrade_core::product::{PerProduct, Product};
use upgrade_core::version::{ParseVersionError, Version};
use upgrade_planner::follow::{self, Obstacle, Running};

use crate::keys;

/// What becomes of a valid target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// It can be gone for.
    Valid(Version),
    /// It runs already.
    There(Version),
}

/// A target that cannot be gone for now. Its text says why, and what to set instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub cause: Cause,
    /// What to set instead, or first.
    pub next: Next,
}

/// Why a target is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It cannot be read.
    Unreadable(ParseVersionError),
    /// It may not follow what runs.
    Obstacle {
        /// The target.
        target: Version,
        /// What is in its way.
        obstacle: Obstacle,
    },
}

/// The next valid step of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The product; not always the one whose target was rejected.
    pub product: Product,
    /// What runs.
    pub running: Version,
    /// The target to set; `None` if nothing newer is available.
    pub target: Option<Version>,
}

/// Looks at a target.
pub fn check(
    product: Product,
    text: &str,
    rollback: bool,
    seen: &ObservedVersions,
    releases: Releases<'_>,
) -> Result<Target, Box<Rejected>> {
    let rejected = |cause: Cause| {
        let next = Next::of(cause.comes_first().unwrap_or(product), seen, releases);
        Box::new(Rejected { cause, next })
    };
    let target: Version = text.parse().map_err(|error| rejected(Cause::Unreadable(error)))?;
    let running = seen.of_product(product);
    if running.lowest == target && running.newest == target {
        return Ok(Target::There(target));
    }
    if rollback {
        // Whether a rollback is possible is the planner's question.
        return Ok(Target::Valid(target));
    }
    match follow::may_follow(product, &target, self::running(seen), releases.matrix) {
        Ok(()) => Ok(Target::Valid(target)),
        Err(obstacle) => Err(rejected(Cause::Obstacle { target, obstacle })),
    }
}

/// The newest version that a product can be taken to in one go: what is shown
/// as available.
pub fn step(product: Product, seen: &ObservedVersions, releases: Releases<'_>) -> Option<Version> {
    follow::newest_step(product, running(seen), releases.matrix, releases.catalogue)
}

const fn running(seen: &ObservedVersions) -> Running<'_> {
    PerProduct { talos: &seen.talos, kubernetes: &seen.kubernetes }
}

impl Rejected {
    /// Whether it waits for another Talos, and is valid then.
    pub const fn waits(&self) -> bool {
        matches!(self.cause, Cause::Obstacle { obstacle: Obstacle::TalosTooOld { .. }, .. })
    }
}

impl Cause {
    /// The other product, if that has to be upgraded first.
    const fn comes_first(&self) -> Option<Product> {
        match self {
            Self::Obstacle { obstacle: Obstacle::KubernetesTooOld { .. }, .. } => {
                Some(Product::Kubernetes)
            }
            Self::Obstacle { obstacle: Obstacle::TalosTooOld { .. }, .. } => Some(Product::Talos),
            Self::Obstacle { .. } | Self::Unreadable(_) => None,
        }
    }
}

impl Next {
    fn of(product: Product, seen: &ObservedVersions, releases: Releases<'_>) -> Self {
        let running = seen.of_product(product).lowest.clone();
        Self { product, running, target: step(product, seen, releases) }
    }
}

impl Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Some(version) => write!(f, "the next valid target is {version}"),
            None => write!(f, "{} {} is the newest available version", self.product, self.running),
        }
    }
}

impl Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, next } = self;
        let (target, obstacle) = match cause {
            Cause::Unreadable(error) => return write!(f, "{error}; {next}"),
            Cause::Obstacle { target, obstacle } => (target, obstacle),
        };
        let annotation = keys::target(next.product);
        match obstacle {
            Obstacle::Older { newest } => write!(
                f,
                "{} {target} is older than {newest}, which runs; {next}; to go back set {}=true \
                 as well",
                next.product,
                vitistack_api::annotation::ROLLBACK
            ),
            Obstacle::UnknownTalos => write!(
                f,
                "Talos {target} is unknown to the support matrix of this operator; {next}"
            ),
            Obstacle::KubernetesTooOld { running, oldest, newest } => {
                let runs = format!("Talos {target} runs Kubernetes {oldest} to {newest}");
                write!(f, "{runs}, not {running}; ")?;
                match &next.target {
                    Some(first) => {
                        write!(f, "upgrade Kubernetes first: set {annotation}={first}")
                    }
                    None => write!(f, "upgrade Kubernetes to {oldest} first"),
                }
            }
            Obstacle::KubernetesTooNew { running, oldest, newest } => write!(
                f,
                "Talos {target} runs Kubernetes {oldest} to {newest}, not {running}; {next}"
            ),
            Obstacle::NotTheNextMinor { running } => write!(
                f,
                "Kubernetes goes one minor at a time, and {target} is not the one after \
                 {running}; {next}"
            ),
            Obstacle::TalosTooOld { running } => {
                let text = "Upgrade Talos first.";
                write!(f, "Talos {running} does not support K8s {target}. {text}")?;
                next.target.iter().try_for_each(|first| write!(f, " Set {annotation}={first}"))
            }
            Obstacle::NoTalos => {
                write!(f, "no Talos that this operator knows supports Kubernetes {target}; {next}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::catalogue::Catalogue;
    use upgrade_core::matrix::Matrix;

    use super::*;
    use crate::decide::tests::seen;

    fn checked(
        product: Product,
        text: &str,
        seen: &ObservedVersions,
    ) -> Result<Target, Box<Rejected>> {
        let (matrix, catalogue) = (Matrix::builtin(), crate::decide::tests::catalogue());
        check(product, text, false, seen, Releases { matrix: &matrix, catalogue: &catalogue })
    }

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    #[track_caller]
    fn bad(product: Product, text: &str, seen: &ObservedVersions) -> Rejected {
        *checked(product, text, seen).expect_err(text)
    }

    #[track_caller]
    fn obstacle(product: Product, text: &str, seen: &ObservedVersions) -> (Obstacle, Next) {
        match bad(product, text, seen) {
            Rejected { cause: Cause::Obstacle { target, obstacle }, next } => {
                assert_eq!(target, version(text));
                (obstacle, next)
            }
            other @ Rejected { cause: Cause::Unreadable(_), .. } => panic!("{text}: {other}"),
        }
    }

    fn next(product: Product, running: &str, target: &str) -> Next {
        Next { product, running: version(running), target: Some(version(target)) }
    }

    #[test]
    fn what_makes_sense_is_taken() {
        let seen = seen("1.11.6", "1.33.4");
        for text in ["1.12.0", "v1.12.0", "1.11.7", "1.13.9"] {
            let version = text.parse().unwrap();
            assert_eq!(checked(Product::Talos, text, &seen), Ok(Target::Valid(version)), "{text}");
        }
        let target = checked(Product::Kubernetes, "1.34.1", &seen);
        assert_eq!(target, Ok(Target::Valid(Version::new(1, 34, 1))));
        let there = checked(Product::Talos, "v1.11.6", &seen);
        assert_eq!(there, Ok(Target::There(Version::new(1, 11, 6))));
    }

    #[test]
    fn a_bad_target_names_the_next_valid_one() {
        let seen = seen("1.11.6", "1.33.4");
        let next_talos = next(Product::Talos, "1.11.6", "1.12.11");
        let unreadable = bad(Product::Talos, "latest", &seen);
        assert!(matches!(unreadable.cause, Cause::Unreadable(_)), "{unreadable}");
        assert_eq!(unreadable.next, next_talos);
        let older = obstacle(Product::Talos, "1.10.0", &seen);
        assert_eq!(older, (Obstacle::Older { newest: version("1.11.6") }, next_talos.clone()));
        let unknown = obstacle(Product::Talos, "1.99.0", &seen);
        assert_eq!(unknown, (Obstacle::UnknownTalos, next_talos));
        let expected = Obstacle::NotTheNextMinor { running: version("1.33.4") };
        let next_kubernetes = next(Product::Kubernetes, "1.33.4", "1.34.9");
        let far = obstacle(Product::Kubernetes, "1.35.0", &seen);
        assert_eq!(far, (expected, next_kubernetes));
    }

    #[test]
    fn an_incompatible_pair_names_what_comes_first() {
        let first = bad(Product::Kubernetes, "1.35.0", &seen("1.11.6", "1.34.1"));
        assert!(first.waits(), "{first}");
        assert_eq!(first.next, next(Product::Talos, "1.11.6", "1.12.11"));
        let first = bad(Product::Talos, "1.14.1", &seen("1.13.9", "1.31.4"));
        assert!(!first.waits(), "{first}");
        assert_eq!(first.next, next(Product::Kubernetes, "1.31.4", "1.32.9"));
    }

    /// Those of the seed to the letter.
    #[test]
    fn rejections_are_worded() {
        for (product, target, talos, kubernetes, expected) in [
            (
                Product::Talos,
                "latest",
                "1.11.6",
                "1.33.4",
                "`latest` is not a version: write major, minor and patch as numbers, like 1.13.9 or \
                 v1.14.0-rc.1; the next valid target is 1.12.11",
            ),
            (
                Product::Talos,
                "1.10.0",
                "1.11.6",
                "1.33.4",
                "Talos 1.10.0 is older than 1.11.6, which runs; the next valid target is 1.12.11; \
                 to go back set upgrade.vitistack.io/rollback=true as well",
            ),
            (
                Product::Talos,
                "1.99.0",
                "1.11.6",
                "1.33.4",
                "Talos 1.99.0 is unknown to the support matrix of this operator; the next valid \
                 target is 1.12.11",
            ),
            (
                Product::Talos,
                "1.14.1",
                "1.13.9",
                "1.31.4",
                "Talos 1.14.1 runs Kubernetes 1.32 to 1.37, not 1.31.4; upgrade Kubernetes first: \
                 set upgrade.vitistack.io/kubernetes-target=1.32.9",
            ),
            (
                Product::Kubernetes,
                "1.35.0",
                "1.11.6",
                "1.33.4",
                "Kubernetes goes one minor at a time, and 1.35.0 is not the one after 1.33.4; the \
                 next valid target is 1.34.9",
            ),
            (
                Product::Kubernetes,
                "1.35.0",
                "1.11.6",
                "1.34.1",
                "Talos 1.11.6 does not support K8s 1.35.0. Upgrade Talos first. Set \
                 upgrade.vitistack.io/talos-target=1.12.11",
            ),
        ] {
            let rejected = bad(product, target, &seen(talos, kubernetes));
            assert_eq!(rejected.to_string(), expected);
        }
    }

    #[test]
    fn half_an_upgrade_can_be_finished_and_not_be_forgotten() {
        let mut half = seen("1.11.6", "1.33.4");
        half.talos.newest = Version::new(1, 12, 0);
        let target = checked(Product::Talos, "1.12.0", &half);
        assert_eq!(target, Ok(Target::Valid(Version::new(1, 12, 0))));
        let (older, _) = obstacle(Product::Talos, "1.11.6", &half);
        assert_eq!(older, Obstacle::Older { newest: version("1.12.0") });
    }

    #[test]
    fn available_is_what_can_be_had() {
        let (matrix, catalogue) = (Matrix::builtin(), crate::decide::tests::catalogue());
        let releases = Releases { matrix: &matrix, catalogue: &catalogue };
        let at = |product, talos, kubernetes| {
            step(product, &seen(talos, kubernetes), releases).map(|it| it.to_string())
        };
        assert_eq!(at(Product::Talos, "1.11.6", "1.33.4").as_deref(), Some("1.12.11"));
        assert_eq!(
            at(Product::Talos, "1.13.8", "1.31.4").as_deref(),
            Some("1.13.9"),
            "1.14 has no 1.31"
        );
        assert_eq!(at(Product::Talos, "1.14.1", "1.35.0"), None);
        assert_eq!(
            at(Product::Talos, "1.10.3", "1.33.4").as_deref(),
            Some("1.11.9"),
            "by way of 1.10.9"
        );
        let all = Catalogue::builtin();
        let releases = Releases { matrix: &matrix, catalogue: &all };
        let of_talos = |talos| step(Product::Talos, &seen(talos, "1.29.4"), releases);
        assert_eq!(of_talos("1.8.1"), Some(Version::new(1, 9, 6)));
        assert_eq!(of_talos("1.7.6"), None, "its upgrade wipes the node");
        assert_eq!(at(Product::Kubernetes, "1.11.6", "1.34.1").as_deref(), Some("1.34.9"));
        assert_eq!(at(Product::Kubernetes, "1.12.0", "1.34.1").as_deref(), Some("1.35.9"));
    }
}
