//! Which objects a plan deletes: what left Talos's manifests, if those are known
//! completely (rule 10), and if nothing else is deleted with it without consent.

use upgrade_core::guard;
use upgrade_core::manifests::{Manifests, ObjectKey};
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::{Change, Plan};
use upgrade_core::policy::Prune;
use upgrade_core::snapshot::Fact;

use crate::report::{Report, Warning};

/// Chooses them, and tells what is deleted and what is kept.
pub(crate) fn choose(
    plan: &Plan,
    manifests: &Fact<Manifests>,
    report: &mut Report,
) -> Vec<ObjectKey> {
    let syncs = plan.hops.iter().any(|hop| matches!(hop.change, Change::Kubernetes { .. }));
    // A rollback brings no new manifests, so nothing leaves them.
    if !syncs || plan.rollback || plan.policy.manifests.prune == Prune::None {
        return Vec::new();
    }
    let manifests = match manifests {
        Fact::Known(manifests) => manifests,
        Fact::Unknown(why) => {
            report.warn(Warning::PruneHeld { why: why.clone() });
            return Vec::new();
        }
        Fact::Unasked => return Vec::new(),
    };
    if !manifests.gaps.is_empty() {
        report.warn(Warning::PruneHeld { why: manifests.gaps.join("; ") });
        return Vec::new();
    }
    let all = !guard!(Mutant::PruneAll, plan.policy.manifests.prune != Prune::All);
    let left = manifests.left.iter().cloned();
    let (kept, pruned): (Vec<_>, Vec<_>) = left.partition(|it| it.takes_others_along() && !all);
    if !pruned.is_empty() {
        report.warn(Warning::Prunes { objects: pruned.clone() });
    }
    if !kept.is_empty() {
        report.warn(Warning::PruneNeedsConsent { objects: kept });
    }
    pruned
}
