//! Checks before Kubernetes is upgraded: configurations that must not be overwritten, objects that
//! belong to another inventory, and what the cluster uses that the next minor has removed.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use talos_machine_config::removals::{Finding, Removals};
use talos_machine_config::settings::Settings;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::text::first;
use upgrade_core::version::Minor;

use super::super::wait::retry_read;
use super::super::{Completion, Step};
use super::configure::{read, refuse_staged, wrong};
use super::manifests::{foreign, keeps_inventory};
use crate::inventory;
use crate::io::{Io, Kubernetes as _, Machine, Machines as _};

/// How many configurations are read at once.
const AT_ONCE: usize = 32;

/// How many nodes are named for one finding.
const NAMED: usize = 3;

/// Every finding is reported, and a fatal one ends the run before anything was changed.
pub(super) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    if step.plan.rollback {
        // Rule 12; and the version that a rollback returns to ran here before.
        return Ok(Completion::Skipped("a rollback is not checked".to_owned()));
    }
    for machines in step.machines.chunks(AT_ONCE) {
        let staged = machines.iter().map(|machine| refuse_staged(step, machine));
        join_all(staged).await.into_iter().collect::<Result<(), Failure>>()?;
    }
    owned_by_others(step).await?;
    let change = &step.hop().change;
    let (from, to) = (change.from().minor(), change.to().minor());
    if from >= to {
        return Ok(Completion::Skipped(format!("{to} is not a new minor")));
    }
    let removals = Removals::builtin();
    let mut findings: BTreeMap<Finding, Vec<String>> = BTreeMap::new();
    for machines in step.machines.chunks(AT_ONCE) {
        let settings = join_all(machines.iter().map(|machine| settings_of(step, machine))).await;
        for (machine, settings) in machines.iter().zip(settings) {
            for finding in removals.findings(from, to, &settings?) {
                findings.entry(finding).or_default().push(machine.name.to_string());
            }
        }
    }
    for (resource, gone) in removals.resources(from, to) {
        let what = format!("the number of {resource}");
        let (version, name) = (&resource.api_version, &resource.name);
        let count = retry_read(step, &what, || step.io.kubernetes().count(version, name)).await?;
        if count > 0 {
            let resource = resource.to_string();
            findings.insert(Finding::Objects { resource, count, gone }, Vec::new());
        }
    }
    for finding in requested(step, from, to).await? {
        findings.insert(finding, Vec::new());
    }
    judge(step, &findings, to)
}

/// Objects of the manifests that belong to another inventory cannot be applied. It is better to
/// know before the control planes are upgraded.
async fn owned_by_others<I: Io>(step: &Step<I>) -> Result<(), Failure> {
    let control_planes = step.control_planes();
    let Some(first) = control_planes.first() else { return Ok(()) };
    if !keeps_inventory(step, &control_planes).await? {
        return Ok(());
    }
    let what = format!("the manifests of {}", first.name);
    let found = retry_read(step, &what, || step.io.machines().manifests(first)).await?;
    for objects in found.objects.chunks(AT_ONCE) {
        let names = objects.iter().map(|object| async move {
            let name = inventory::name_of(object);
            let what = name.to_string();
            let there = retry_read(step, &what, || step.io.kubernetes().object(&name)).await?;
            let owner = inventory::owner(object).or(there.as_ref().and_then(inventory::owner));
            match owner.filter(|owner| *owner != inventory::NAME) {
                Some(owner) => Err(foreign(&name, owner)),
                None => Ok(()),
            }
        });
        join_all(names).await.into_iter().collect::<Result<(), Failure>>()?;
    }
    Ok(())
}

async fn settings_of<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Vec<Settings>, Failure> {
    let config = read(step, machine).await?;
    talos_machine_config::settings(&config.0).map_err(|error| wrong(machine, &error))
}

/// Removed APIs that clients still requested.
async fn requested<I: Io>(step: &Step<I>, from: Minor, to: Minor) -> Result<Vec<Finding>, Failure> {
    let what = "the list of deprecated APIs in use";
    let used = match retry_read(step, what, || step.io.kubernetes().deprecated()).await {
        // It only warns, and reading it may not be permitted: nothing depends on it.
        Err(failure) if failure.kind == FailureKind::Refused => {
            step.report_text(format!("{what} could not be read: {failure}"));
            return Ok(Vec::new());
        }
        used => used?,
    };
    let used = used.into_iter().filter_map(|(resource, removed)| {
        let gone: Minor = removed.parse().ok()?;
        (from < gone && gone <= to).then_some(Finding::Requested { resource, gone })
    });
    Ok(used.collect())
}

fn judge<I: Io>(
    step: &Step<I>,
    findings: &BTreeMap<Finding, Vec<String>>,
    to: Minor,
) -> Result<Completion, Failure> {
    let mut fatal = Vec::new();
    for (finding, nodes) in findings {
        let mut text = finding.to_string();
        if !nodes.is_empty() {
            text = format!("{text} on {}", first(nodes, NAMED));
        }
        let text = format!("{text}: {}", finding.advice());
        if finding.is_fatal() {
            fatal.push(text);
        } else {
            step.report_text(text);
        }
    }
    if fatal.is_empty() {
        return Ok(Completion::Done);
    }
    let text = format!("not ready for Kubernetes {to}: {}", fatal.join("; "));
    Err(Failure::new(FailureKind::Refused, &text))
}
