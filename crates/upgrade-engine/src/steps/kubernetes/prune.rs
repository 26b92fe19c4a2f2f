//! Deletes objects that left Talos's manifests: those that the plan lists and that no control plane
//! renders now either. Unless every control plane can be read and has everything that its
//! configuration wants, nothing is deleted (rule 10).

use std::collections::BTreeSet;

use futures_util::future::join_all;
use upgrade_core::guard;
use upgrade_core::manifests::ObjectKey;
use upgrade_core::mutant::Mutant;
use upgrade_core::policy::Prune;
use upgrade_core::reason::{Failure, FailureKind};

use super::super::Step;
use super::super::wait::{Probe, Wait, retry_read};
use super::manifests::apply;
use crate::io::{Io, Kubernetes as _, Machine, Machines as _};
use crate::{inventory, manifests};

/// Prunes, or reports why not.
pub(super) async fn run<I: Io>(step: &Step<I>, control_planes: &[Machine]) -> Result<(), Failure> {
    let planned: BTreeSet<&ObjectKey> = step.plan.prune.iter().collect();
    if planned.is_empty() {
        return Ok(());
    }
    let asked = manifests::all_of(control_planes);
    let each = join_all(asked.iter().map(|machine| rendered(step, machine))).await;
    let rendered: BTreeSet<ObjectKey> = match each.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(each) => each.into_iter().flatten().collect(),
        Err(failure) => {
            step.report_text(format!(
                "nothing is pruned, since the manifests are not known completely: {failure}"
            ));
            return Ok(());
        }
    };
    let name = inventory::object_name();
    let what = name.to_string();
    let found = retry_read(step, &what, || step.io.kubernetes().object(&name)).await?;
    let mut entries = inventory::entries(found.as_ref());
    let mut going = inventory::left(&entries, &rendered);
    going.retain(|entry| planned.contains(entry) && may_prune(step, entry));
    if going.is_empty() {
        return Ok(());
    }
    // The inventory names an object for as long as it may exist, so a crash in between forgets
    // nothing.
    apply(step, &inventory::object(&entries, &going), &name).await?;
    for entry in &going {
        prune(step, entry).await?;
        entries.remove(entry);
    }
    apply(step, &inventory::object(&entries, &BTreeSet::new()), &name).await?;
    let going: Vec<String> = going.iter().map(ToString::to_string).collect();
    step.report_text(format!("pruned {}", going.join(", ")));
    Ok(())
}

/// What a control plane renders, once it has everything that its configuration wants. That is
/// waited for for a limited time, with the reason reported (rule 11).
async fn rendered<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Vec<ObjectKey>, Failure> {
    let node = &machine.name;
    let until = step.now().saturating_add(step.plan.policy.timeouts.call);
    let wait = Wait::new(FailureKind::Unavailable, format!("the manifests of {node} did not come"))
        .on(step.io.machines().changes(machine))
        .until(until.unwrap_or(step.deadline));
    wait.poll(step, || async {
        let found = match step.io.machines().manifests(machine).await {
            Err(error) if !error.failure.kind.may_pass() => return Err(error.failure),
            Err(error) => return Ok(Probe::NotYet(format!("manifests of {node}: {error}"))),
            Ok(found) => found,
        };
        Ok(match manifests::gap(machine, &found) {
            Some(gap) => Probe::NotYet(gap),
            None => Probe::Found(found.objects.iter().map(inventory::key_of).collect()),
        })
    })
    .await
}

/// Whether the user consented to deleting what goes with it.
fn may_prune<I: Io>(step: &Step<I>, entry: &ObjectKey) -> bool {
    match step.plan.policy.manifests.prune {
        Prune::None => false,
        Prune::Safe => !guard!(Mutant::PruneAll, entry.takes_others_along()),
        Prune::All => true,
    }
}

/// Deletes an object, if it is Talos's to delete.
async fn prune<I: Io>(step: &Step<I>, entry: &ObjectKey) -> Result<(), Failure> {
    let what = format!("the versions of {}", entry.group);
    let version = retry_read(step, &what, || step.io.kubernetes().preferred(&entry.group)).await?;
    let Some(version) = version else {
        return Ok(());
    };
    let name = inventory::in_version(entry, version);
    let what = name.to_string();
    let Some(object) = retry_read(step, &what, || step.io.kubernetes().object(&name)).await? else {
        return Ok(());
    };
    if inventory::owner(&object).is_some_and(|owner| owner != inventory::NAME) {
        // Another owner took it over: it is not ours to delete.
        return Ok(());
    }
    step.report_text(format!("pruning {name}"));
    let wait = Wait::new(FailureKind::Unavailable, format!("{name} was not deleted"));
    wait.poll(step, || async {
        step.permitted()?;
        Probe::or_fail(step.io.kubernetes().delete(&name).await)
    })
    .await
}
