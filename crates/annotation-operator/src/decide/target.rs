//! Whether a target is valid, and what to set instead where it is not.
//!
//! Pure arithmetic of versions (rule 13); whether the cluster is fit for it is
//! the planner's question, later.

use upgrade_controller::front_end::Releases;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::product::Product;
use upgrade_core::version::Version;
use upgrade_planner::hops::OLDEST_HOST;

use crate::keys;
use upgrade_controller::versions_observed::ObservedVersions;

/// What becomes of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It can be gone for.
    Valid(Version),
    /// It runs already.
    There(Version),
    /// It is not valid; the text says why and what to set instead.
    Bad(String),
    /// It is valid once something else is done.
    Blocked(String),
}

/// Looks at a target.
pub fn check(
    product: Product,
    text: &str,
    rollback: bool,
    seen: &ObservedVersions,
    releases: Releases<'_>,
) -> Checked {
    let target: Version = match text.parse() {
        Ok(target) => target,
        Err(error) => {
            return Checked::Bad(format!("{error}{}", next(product, seen, releases)));
        }
    };
    let running = seen.of_product(product);
    if running.lowest == target && running.newest == target {
        return Checked::There(target);
    }
    if rollback {
        // Whether a rollback is possible is the planner's question.
        return Checked::Valid(target);
    }
    if target < running.newest {
        let back = format!("; to go back set {}=true as well", vitistack_api::annotation::ROLLBACK);
        return Checked::Bad(format!(
            "{product} {target} is older than {}, which runs{}{back}",
            running.newest,
            next(product, seen, releases)
        ));
    }
    match product {
        Product::Talos => talos(target, seen, releases),
        Product::Kubernetes => kubernetes(target, seen, releases),
    }
}

fn talos(target: Version, seen: &ObservedVersions, releases: Releases<'_>) -> Checked {
    let Some(row) = releases.matrix.row(target.minor()) else {
        return Checked::Bad(format!(
            "Talos {target} is unknown to the support matrix of this operator{}",
            next(Product::Talos, seen, releases)
        ));
    };
    let kubernetes = &seen.kubernetes;
    if row.runs(&kubernetes.lowest) && row.runs(&kubernetes.newest) {
        return Checked::Valid(target);
    }
    let (oldest, newest) = row.kubernetes_minors();
    if kubernetes.lowest.minor() < oldest {
        let first = step(Product::Kubernetes, seen, releases);
        let first = first.map_or_else(
            || format!("upgrade Kubernetes to {oldest} first"),
            |version| {
                format!(
                    "upgrade Kubernetes first: set {}={version}",
                    keys::target(Product::Kubernetes)
                )
            },
        );
        return Checked::Bad(format!(
            "Talos {target} runs Kubernetes {oldest} to {newest}, not {}; {first}",
            kubernetes.lowest
        ));
    }
    Checked::Bad(format!(
        "Talos {target} runs Kubernetes {oldest} to {newest}, not {}{}",
        kubernetes.newest,
        next(Product::Talos, seen, releases)
    ))
}

fn kubernetes(target: Version, seen: &ObservedVersions, releases: Releases<'_>) -> Checked {
    let running = &seen.kubernetes.lowest;
    match running.minor().steps_to(target.minor()) {
        Some(0 | 1) => {}
        _ => {
            return Checked::Bad(format!(
                "Kubernetes goes one minor at a time, and {target} is not the one after \
                 {running}{}",
                next(Product::Kubernetes, seen, releases)
            ));
        }
    }
    let talos = &seen.talos;
    if releases.matrix.supports(&talos.lowest, &target)
        && releases.matrix.supports(&talos.newest, &target)
    {
        return Checked::Valid(target);
    }
    let knows = releases.matrix.rows().iter().find(|row| row.runs(&target));
    match knows {
        Some(row) if row.talos > talos.lowest.minor() => Checked::Blocked(format!(
            "Talos {} does not support K8s {target}. Upgrade Talos first.{}",
            talos.lowest,
            step(Product::Talos, seen, releases).map_or_else(String::new, |version| format!(
                " Set {}={version}",
                keys::target(Product::Talos)
            ))
        )),
        _ => Checked::Bad(format!(
            "no Talos that this operator knows supports Kubernetes {target}{}",
            next(Product::Kubernetes, seen, releases)
        )),
    }
}

/// The newest version that a product can be taken to in one go: what is shown
/// as available. Nothing broken, no prerelease; Kubernetes only what the Talos
/// that runs supports, and a Talos only if it supports the Kubernetes that runs.
pub fn step(product: Product, seen: &ObservedVersions, releases: Releases<'_>) -> Option<Version> {
    let Releases { matrix, catalogue } = releases;
    let running = &seen.of_product(product).lowest;
    let newest = match product {
        Product::Talos => Catalogue::newest_talos,
        Product::Kubernetes => Catalogue::newest_kubernetes,
    };
    let line = running.minor();
    [line.next(), line].into_iter().find_map(|line| {
        let version = newest(catalogue, line)?;
        let fits = match product {
            Product::Talos => {
                let ObservedVersions { kubernetes, .. } = seen;
                // The plan passes what has to come first by itself; what it refuses
                // is not offered.
                let row = matrix.row(version.minor());
                running.release() >= OLDEST_HOST
                    && row.is_some_and(|row| row.accepts_host(running))
                    && matrix.supports(version, &kubernetes.lowest)
                    && matrix.supports(version, &kubernetes.newest)
            }
            Product::Kubernetes => {
                matrix.supports(&seen.talos.lowest, version)
                    && matrix.supports(&seen.talos.newest, version)
            }
        };
        (version > running && *version >= seen.of_product(product).newest && fits)
            .then(|| version.clone())
    })
}

/// The next valid step, as the end of a sentence.
fn next(product: Product, seen: &ObservedVersions, releases: Releases<'_>) -> String {
    match step(product, seen, releases) {
        Some(version) => format!("; the next valid target is {version}"),
        None => format!(
            "; {product} {} is the newest available version",
            seen.of_product(product).lowest
        ),
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::matrix::Matrix;

    use super::*;
    use crate::decide::tests::seen;

    fn checked(product: Product, text: &str, seen: &ObservedVersions) -> Checked {
        let (matrix, catalogue) = (Matrix::builtin(), crate::decide::tests::catalogue());
        check(product, text, false, seen, Releases { matrix: &matrix, catalogue: &catalogue })
    }

    #[track_caller]
    fn bad(product: Product, text: &str, seen: &ObservedVersions) -> String {
        match checked(product, text, seen) {
            Checked::Bad(text) => text,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_makes_sense_is_taken() {
        let seen = seen("1.11.6", "1.33.4");
        for text in ["1.12.0", "v1.12.0", "1.11.7", "1.13.9"] {
            let version = text.parse().unwrap();
            assert_eq!(checked(Product::Talos, text, &seen), Checked::Valid(version), "{text}");
        }
        let target = checked(Product::Kubernetes, "1.34.1", &seen);
        assert_eq!(target, Checked::Valid(Version::new(1, 34, 1)));
        let there = checked(Product::Talos, "v1.11.6", &seen);
        assert_eq!(there, Checked::There(Version::new(1, 11, 6)));
    }

    #[test]
    fn a_bad_target_names_the_next_valid_one() {
        let seen = seen("1.11.6", "1.33.4");
        let text = bad(Product::Talos, "latest", &seen);
        assert!(text.starts_with("`latest` is not a version"), "{text}");
        assert!(text.ends_with("the next valid target is 1.12.11"), "{text}");
        let text = bad(Product::Talos, "1.10.0", &seen);
        assert!(text.contains("1.10.0 is older than 1.11.6"), "{text}");
        assert!(text.contains("the next valid target is 1.12.11"), "{text}");
        assert!(text.contains("upgrade.vitistack.io/rollback=true"), "{text}");
        let text = bad(Product::Kubernetes, "1.35.0", &seen);
        assert!(text.contains("one minor at a time"), "{text}");
        assert!(text.ends_with("the next valid target is 1.34.9"), "{text}");
        let text = bad(Product::Talos, "1.99.0", &seen);
        assert!(text.contains("unknown to the support matrix"), "{text}");
    }

    #[test]
    fn an_incompatible_pair_is_blocked_in_the_words_of_the_seed() {
        let Checked::Blocked(text) =
            checked(Product::Kubernetes, "1.35.0", &seen("1.11.6", "1.34.1"))
        else {
            panic!("not blocked");
        };
        assert!(
            text.starts_with("Talos 1.11.6 does not support K8s 1.35.0. Upgrade Talos first."),
            "{text}"
        );
        assert!(text.ends_with("Set upgrade.vitistack.io/talos-target=1.12.11"), "{text}");
        let text = bad(Product::Talos, "1.14.1", &seen("1.13.9", "1.31.4"));
        assert!(text.contains("Talos 1.14.1 runs Kubernetes 1.32 to 1.37, not 1.31.4"), "{text}");
        assert!(text.contains("upgrade.vitistack.io/kubernetes-target=1.32.9"), "{text}");
    }

    #[test]
    fn half_an_upgrade_can_be_finished_and_not_be_forgotten() {
        let mut half = seen("1.11.6", "1.33.4");
        half.talos.newest = Version::new(1, 12, 0);
        let target = checked(Product::Talos, "1.12.0", &half);
        assert_eq!(target, Checked::Valid(Version::new(1, 12, 0)));
        assert!(bad(Product::Talos, "1.11.6", &half).contains("older than 1.12.0"));
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
