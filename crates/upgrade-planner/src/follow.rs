//! Which version may follow what runs, in one go (rule 13).
//!
//! This is the arithmetic of versions alone, for front ends that judge a target before
//! the cluster is observed for a plan. [`hops`](crate::hops) finds whole paths with it, and
//! the planner judges the cluster.

use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::{Matrix, Row};
use upgrade_core::product::{PerProduct, Product, VersionRange};
use upgrade_core::version::{Minor, Version};

use crate::report::Constraint;

/// The first Talos whose upgrade call keeps the data of a node: up to 1.7 it wipes
/// the EPHEMERAL partition and leaves etcd, unless it is asked to preserve them.
pub const OLDEST_HOST: Version = Version::new(1, 8, 0);

/// Why a version may not follow what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Some part of the cluster runs a newer one; only a rollback goes back.
    Older {
        /// The newest that runs.
        newest: Version,
    },
    /// The support matrix does not know this line of Talos (rule 10).
    UnknownTalos,
    /// This Talos runs newer versions of Kubernetes only: Kubernetes comes first.
    KubernetesTooOld {
        /// What runs.
        running: Version,
        /// The oldest minor that this Talos runs.
        oldest: Minor,
        /// The newest minor that this Talos runs.
        newest: Minor,
    },
    /// This Talos runs older versions of Kubernetes only.
    KubernetesTooNew {
        /// What runs.
        running: Version,
        /// The oldest minor that this Talos runs.
        oldest: Minor,
        /// The newest minor that this Talos runs.
        newest: Minor,
    },
    /// Kubernetes goes one minor at a time.
    NotTheNextMinor {
        /// What runs.
        running: Version,
    },
    /// The Talos that runs is too old for this Kubernetes: Talos comes first.
    TalosTooOld {
        /// What runs.
        running: Version,
    },
    /// No known Talos runs this Kubernetes together with what runs.
    NoTalos,
}

/// What runs of each product.
pub type Running<'a> = PerProduct<&'a VersionRange>;

/// Whether a product may go to `target` in one go. Whether a rollback is possible is
/// the planner's question; here `target` has to be newer.
pub fn may_follow(
    product: Product,
    target: &Version,
    running: Running<'_>,
    matrix: &Matrix,
) -> Result<(), Obstacle> {
    let newest = &running.of(product).newest;
    if target < newest {
        return Err(Obstacle::Older { newest: newest.clone() });
    }
    match product {
        Product::Talos => talos(target, running.kubernetes, matrix),
        Product::Kubernetes => kubernetes(target, running, matrix),
    }
}

fn talos(target: &Version, kubernetes: &VersionRange, matrix: &Matrix) -> Result<(), Obstacle> {
    let row = matrix.row(target.minor()).ok_or(Obstacle::UnknownTalos)?;
    if runs_all(row, kubernetes) {
        return Ok(());
    }
    let (oldest, newest) = row.kubernetes_minors();
    Err(if kubernetes.lowest.minor() < oldest {
        Obstacle::KubernetesTooOld { running: kubernetes.lowest.clone(), oldest, newest }
    } else {
        Obstacle::KubernetesTooNew { running: kubernetes.newest.clone(), oldest, newest }
    })
}

fn kubernetes(target: &Version, running: Running<'_>, matrix: &Matrix) -> Result<(), Obstacle> {
    let lowest = &running.kubernetes.lowest;
    if !matches!(lowest.minor().steps_to(target.minor()), Some(0 | 1)) {
        return Err(Obstacle::NotTheNextMinor { running: lowest.clone() });
    }
    let talos = running.talos;
    if supported_by_all(talos, target, matrix) {
        return Ok(());
    }
    let first = matrix.rows().iter().find(|row| row.runs(target));
    Err(match first {
        Some(row) if row.talos > talos.lowest.minor() => {
            Obstacle::TalosTooOld { running: talos.lowest.clone() }
        }
        _ => Obstacle::NoTalos,
    })
}

/// The newest version that a product can be taken to in one go: nothing broken, no
/// prerelease; Kubernetes only what the Talos that runs supports, and a Talos only if it
/// supports the Kubernetes that runs.
pub fn newest_step(
    product: Product,
    running: Running<'_>,
    matrix: &Matrix,
    catalogue: &Catalogue,
) -> Option<Version> {
    let VersionRange { lowest, newest } = running.of(product);
    let released = match product {
        Product::Talos => Catalogue::newest_talos,
        Product::Kubernetes => Catalogue::newest_kubernetes,
    };
    let line = lowest.minor();
    [line.next(), line].into_iter().find_map(|line| {
        let version = released(catalogue, line)?;
        let fits = match product {
            // The plan passes what has to come first by itself; what it refuses
            // is not offered.
            Product::Talos => matrix.row(version.minor()).is_some_and(|row| {
                lowest.release() >= OLDEST_HOST
                    && row.accepts_host(lowest)
                    && runs_all(row, running.kubernetes)
            }),
            Product::Kubernetes => supported_by_all(running.talos, version, matrix),
        };
        (version > lowest && version >= newest && fits).then(|| version.clone())
    })
}

fn runs_all(row: &Row, kubernetes: &VersionRange) -> bool {
    row.runs(&kubernetes.lowest) && row.runs(&kubernetes.newest)
}

fn supported_by_all(talos: &VersionRange, kubernetes: &Version, matrix: &Matrix) -> bool {
    matrix.supports(&talos.lowest, kubernetes) && matrix.supports(&talos.newest, kubernetes)
}

/// What the matrix has against running both versions together.
pub fn pair(talos: &Version, kubernetes: &Version, matrix: &Matrix) -> Option<Constraint> {
    let Some(row) = matrix.row(talos.minor()) else {
        return Some(Constraint::UnknownTalos { talos: talos.clone() });
    };
    let (oldest, newest) = row.kubernetes_minors();
    (!row.runs(kubernetes)).then(|| Constraint::Pair {
        talos: talos.clone(),
        kubernetes: kubernetes.clone(),
        oldest,
        newest,
        needs: matrix
            .rows()
            .iter()
            .find(|row| row.talos > talos.minor() && row.runs(kubernetes))
            .map(|row| row.talos),
    })
}

/// What the matrix has against installing one Talos over the other.
pub fn host(from: &Version, to: &Version, matrix: &Matrix) -> Option<Constraint> {
    let row = matrix.row(to.minor())?;
    if !row.accepts_host(from) {
        return Some(Constraint::Host {
            from: from.clone(),
            to: to.clone(),
            oldest: row.host_min.clone(),
            too_new: row.host_max.clone(),
        });
    }
    row.passes_first(from).map(|first| Constraint::Patch {
        from: from.clone(),
        to: to.clone(),
        first: first.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    /// What runs: one version of each product, or two with `..` between them.
    fn range(text: &str) -> VersionRange {
        let (lowest, newest) = text.split_once("..").unwrap_or((text, text));
        VersionRange { lowest: version(lowest), newest: version(newest) }
    }

    fn asked(
        product: Product,
        target: &str,
        talos: &str,
        kubernetes: &str,
    ) -> Result<(), Obstacle> {
        let (talos, kubernetes) = (range(talos), range(kubernetes));
        let running = PerProduct { talos: &talos, kubernetes: &kubernetes };
        may_follow(product, &version(target), running, &Matrix::builtin())
    }

    #[test]
    fn talos_may_pass_minors_of_its_own() {
        for target in ["1.11.7", "1.12.0", "1.13.9"] {
            assert_eq!(asked(Product::Talos, target, "1.11.6", "1.33.4"), Ok(()), "{target}");
        }
    }

    #[test]
    fn kubernetes_goes_one_minor_at_a_time() {
        let running = version("1.33.4");
        let asked = |target| asked(Product::Kubernetes, target, "1.11.6", "1.33.4");
        assert_eq!(asked("1.33.5"), Ok(()));
        assert_eq!(asked("1.34.1"), Ok(()));
        assert_eq!(asked("1.35.0"), Err(Obstacle::NotTheNextMinor { running }));
    }

    #[test]
    fn what_was_begun_can_be_finished_and_not_be_left() {
        let half = |target| asked(Product::Talos, target, "1.11.6..1.12.0", "1.33.4");
        assert_eq!(half("1.12.0"), Ok(()));
        assert_eq!(half("1.11.6"), Err(Obstacle::Older { newest: version("1.12.0") }));
    }

    #[test]
    fn both_products_have_to_suit_each_other() {
        let running = version("1.31.4");
        let (oldest, newest) = (version("1.32.0").minor(), version("1.37.0").minor());
        let expected = Obstacle::KubernetesTooOld { running, oldest, newest };
        assert_eq!(asked(Product::Talos, "1.14.1", "1.13.9", "1.31.4"), Err(expected));
        let running = version("1.36.1");
        assert!(matches!(
            asked(Product::Talos, "1.11.9", "1.11.6", "1.36.1"),
            Err(Obstacle::KubernetesTooNew { running: it, .. }) if it == running
        ));
        let running = version("1.11.6");
        let expected = Obstacle::TalosTooOld { running };
        assert_eq!(asked(Product::Kubernetes, "1.35.0", "1.11.6", "1.34.1"), Err(expected));
        assert_eq!(
            asked(Product::Kubernetes, "1.99.0", "1.14.1", "1.98.0"),
            Err(Obstacle::NoTalos)
        );
        assert_eq!(
            asked(Product::Talos, "1.99.0", "1.11.6", "1.33.4"),
            Err(Obstacle::UnknownTalos)
        );
    }
}
