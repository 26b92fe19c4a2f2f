//! After the boot: is everything as planned? Version, platform, Secure Boot, schematic, extensions
//! (rule 4), stage and readiness, etcd, static pods and API server, Node Ready. Each probe judges
//! the whole state, not events.

use upgrade_core::extension;
use upgrade_core::guard;
use upgrade_core::journal::Evidence;
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::TalosTarget;
use upgrade_core::readiness::listed;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{EtcdFacts, Fact, NodeName, Role, Stage, TalosFacts};
use upgrade_core::step::Action;
use upgrade_core::version::Version;
use upgrade_planner::etcd::MAX_APPLIED_LAG;

use super::wait::{Probe, Wait};
use super::{Completion, Step, lacks};
use crate::io::{Io, Kubernetes as _, Machine, Machines as _};

pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let machine = step.machine()?;
    let node = &machine.name;
    let target = step.talos_target()?;
    let to = step.hop().change.to();
    let before = step.evidence.as_ref().and_then(Evidence::boot_id);
    let wait = Wait::new(FailureKind::Deadline, format!("{node} did not become healthy"))
        .on(step.io.machines().changes(machine))
        .on(step.io.kubernetes().changes());
    let judged = wait.poll(step, || async {
        let facts = match step.io.machines().facts(machine).await {
            Ok(facts) => facts,
            Err(error) => return Ok(Probe::NotYet(format!("waiting for {node}: {error}"))),
        };
        let wrong = wrong_version(node, &facts, before, target, to);
        if let Err(why) = settled(step, machine, &facts).await {
            // A node that returned on its old version has to serve before the run stops, so that it
            // can be uncordoned (rules 5 and 7).
            let why = wrong.map_or(why.clone(), |wrong| format!("{wrong}; {why}"));
            return Ok(Probe::NotYet(why));
        }
        // Only a node that is up shows all its extensions.
        if let Some(failure) = wrong.or_else(|| dropped(node, &facts, target)) {
            return Err(failure);
        }
        still_unmet(step, node, &facts);
        Ok(Probe::Found(Completion::Done))
    });
    match judged.await {
        // The old version is the cause, whatever else is wrong.
        Err(failure) if failure.kind == FailureKind::Deadline => {
            let facts = step.io.machines().facts(machine).await;
            let wrong = facts.ok().and_then(|it| wrong_version(node, &it, before, target, to));
            Err(wrong.unwrap_or_else(|| may_still_boot_back(step, node, &failure)))
        }
        judged => judged,
    }
}

/// Reports the conditions that are unmet on a node that is as ready as before.
pub(crate) fn still_unmet<I: Io>(step: &Step<I>, node: &NodeName, facts: &TalosFacts) {
    if !facts.unmet.is_empty() {
        let unmet = listed(&facts.unmet);
        step.report_text(format!("{node} is as ready as before; still unmet: {unmet}"));
    }
}

/// Talos may still be waiting for a node that is not up within our deadline: it gives a boot 70
/// minutes, 30 of them for joining etcd, before it reverts what an installer wrote.
fn may_still_boot_back<I: Io>(step: &Step<I>, node: &NodeName, failure: &Failure) -> Failure {
    // Talos never reverts a boot of the other slot.
    if step.lane().has(Action::Rollback) {
        return failure.clone();
    }
    let text = format!(
        "{failure}. Talos itself may still go back to the old version, up to 70 minutes after \
         the boot: watch the version and the stage of {node} before you act"
    );
    Failure::new(failure.kind, &text)
}

/// Rule 5: another version than planned.
fn wrong_version(
    node: &NodeName,
    facts: &TalosFacts,
    before: Option<&str>,
    target: &TalosTarget,
    to: &Version,
) -> Option<Failure> {
    if !guard!(Mutant::BootBackAccepted) {
        return None;
    }
    let found = &facts.version;
    let booted = before.is_none_or(|before| before != facts.boot_id);
    if found == to {
        // Where the version is the same, the content tells the slots apart.
        let back = target.from == *to && lacks(target, facts);
        return back.then(|| {
            let found = facts.schematic.as_deref().unwrap_or("none");
            let did = if booted { "came back on" } else { "has not rebooted and runs" };
            let kind = if booted { FailureKind::BootBack } else { FailureKind::Mismatch };
            Failure::new(kind, &format!("{node} {did} its old schematic {found}"))
        });
    }
    Some(if !booted {
        let text = format!("{node} has not rebooted and runs {found}, not {to}");
        Failure::new(FailureKind::Mismatch, &text)
    } else if *found == target.from {
        let text = format!("{node} came back on its old version {found}, not on {to}");
        Failure::new(FailureKind::BootBack, &text)
    } else {
        let text = format!("{node} came back on {found}, not on {to}");
        Failure::new(FailureKind::Mismatch, &text)
    })
}

/// Rule 4: something that had to stay is gone.
fn dropped(node: &NodeName, facts: &TalosFacts, target: &TalosTarget) -> Option<Failure> {
    if !guard!(Mutant::ContentUnchecked) {
        return None;
    }
    if let Some(expected) = &target.platform
        && facts.platform != *expected
    {
        let found = &facts.platform;
        let text = format!("{node} runs on platform {found}, not {expected}");
        return Some(Failure::new(FailureKind::Mismatch, &text));
    }
    if target.secure_boot.is_some_and(|expected| facts.secure_boot != expected) {
        let now = if facts.secure_boot { "on" } else { "off" };
        let text = format!("Secure Boot of {node} is {now} after the boot, and was not before");
        return Some(Failure::new(FailureKind::Mismatch, &text));
    }
    if let Some(expected) = &target.schematic
        && facts.schematic.as_ref() != Some(expected)
    {
        let found = facts.schematic.as_deref().unwrap_or("none");
        let text = format!("{node} runs schematic {found}, not {expected}");
        return Some(Failure::new(FailureKind::Mismatch, &text));
    }
    let has =
        |name: &String| facts.extensions.iter().any(|found| extension::is_same(name, &found.name));
    let missing: Vec<&str> =
        target.extensions.iter().flatten().filter(|name| !has(name)).map(String::as_str).collect();
    (!missing.is_empty()).then(|| {
        let text = format!("{node} lacks its extensions {}", missing.join(", "));
        Failure::new(FailureKind::Mismatch, &text)
    })
}

/// Whether the node serves, or why not.
pub(crate) async fn serves<I: Io>(step: &Step<I>, machine: &Machine) -> Result<(), String> {
    let facts = step.io.machines().facts(machine).await.map_err(|error| error.to_string())?;
    settled(step, machine, &facts).await
}

async fn settled<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
) -> Result<(), String> {
    let node = &machine.name;
    // Both from one reading: a node is ready for a moment while it shuts down.
    let less = facts.less_ready_than(step.unmet_before());
    if facts.stage != Stage::Running || less.is_some() {
        let less = less.map(|why| format!(", {why}")).unwrap_or_default();
        return Err(format!("{node} is in stage {:?}{less}", facts.stage));
    }
    if machine.role == Role::ControlPlane {
        match step.io.machines().etcd(&step.control_planes()).await {
            Fact::Known(etcd) => caught_up(node, &etcd)?,
            Fact::Unknown(why) => return Err(format!("the state of etcd is unknown: {why}")),
            Fact::Unasked => return Err("etcd was not asked".to_owned()),
        }
        control_plane_serves(step, machine, facts).await?;
    }
    match step.kubernetes_facts().await {
        Ok(facts) if facts.ready => Ok(()),
        Ok(_) => Err(format!("the Node {node} is not Ready yet")),
        Err(error) => Err(error.to_string()),
    }
}

/// Rule 1: the node's own API server answers. Right after a boot Talos reports ready before any
/// static pod exists, and up to 1.13 the pod of an API server is ready before the API server is.
pub(crate) async fn control_plane_serves<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    facts: &TalosFacts,
) -> Result<(), String> {
    if !guard!(Mutant::StaticPodsUnchecked) {
        return Ok(());
    }
    let node = &machine.name;
    let down = |why: String| format!("the control plane of {node} does not serve yet: {why}");
    if let Some(why) = facts.control_plane_down() {
        return Err(down(why));
    }
    let asked = step.io.kubernetes().api_server(machine).await;
    asked.map_err(|error| down(format!("its API server does not answer: {error}")))
}

/// Rule 1: the member of the node is back, and has caught up.
fn caught_up(node: &NodeName, etcd: &EtcdFacts) -> Result<(), String> {
    let Some(own) = etcd.members.iter().find(|member| member.node == *node) else {
        return Err(format!("{node} is not a member of etcd"));
    };
    if own.learner {
        return Err(format!("{node} is a learner of etcd"));
    }
    let status = own.status.as_result().map_err(|why| format!("etcd on {node}: {why}"))?;
    if let Some(error) = status.errors.first() {
        return Err(format!("etcd on {node} reports: {error}"));
    }
    if status.leader.is_none() {
        return Err(format!("etcd on {node} knows no leader"));
    }
    let statuses = etcd.members.iter().filter_map(|member| member.status.known());
    let ahead = statuses.map(|status| status.applied_index).max().unwrap_or_default();
    match ahead.saturating_sub(status.applied_index) {
        lag if lag > MAX_APPLIED_LAG => Err(format!("etcd on {node} is {lag} entries behind")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::plan::{RebootMode, UpgradeMethod};
    use upgrade_core::snapshot::Extension;

    use super::*;

    fn facts(extension: &str) -> TalosFacts {
        TalosFacts {
            version: Version::new(1, 14, 1),
            boot_id: "2".to_owned(),
            stage: Stage::Running,
            ready: true,
            static_pods: vec![],
            schematic: Some("abc".to_owned()),
            extensions: vec![Extension { name: extension.to_owned(), version: "v1".to_owned() }],
            installer: None,
            platform: "nocloud".to_owned(),
            secure_boot: true,
            unmet: vec![],
            uki: true,
            container: false,
            factory: None,
        }
    }

    fn target() -> TalosTarget {
        TalosTarget {
            from: Version::new(1, 13, 1),
            method: UpgradeMethod::Lifecycle,
            installer: "factory.lan/nocloud-installer-secureboot/abc:v1.14.1".parse().unwrap(),
            schematic: Some("abc".to_owned()),
            extensions: Some(vec!["i915-ucode".to_owned()]),
            previous: None,
            etcd: None,
            force: false,
            reboot: RebootMode::Default,
            platform: Some("nocloud".to_owned()),
            secure_boot: Some(true),
        }
    }

    #[test]
    fn what_stays_is_compared_after_the_boot() {
        // Rule 4.
        let judge = |facts: &TalosFacts, target: &TalosTarget| {
            dropped(&"cp-1".into(), facts, target).map(|failure| failure.to_string())
        };
        let says = |facts: &TalosFacts, words: &str| {
            let said = judge(facts, &target()).expect("a failure");
            assert!(said.contains(words), "{said}");
        };
        assert_eq!(judge(&facts("i915-ucode"), &target()), None);
        // It has another name in newer releases.
        assert_eq!(judge(&facts("i915"), &target()), None);
        says(&facts("amdgpu"), "lacks its extensions i915-ucode");
        says(&TalosFacts { platform: "metal".to_owned(), ..facts("i915") }, "platform metal");
        says(&TalosFacts { secure_boot: false, ..facts("i915") }, "Secure Boot of cp-1 is off");
        says(&TalosFacts { schematic: None, ..facts("i915") }, "schematic none");
        // A plan of an older version of this program does not contain it.
        let older = TalosTarget { platform: None, secure_boot: None, ..target() };
        let metal = TalosFacts { platform: "metal".to_owned(), ..facts("i915") };
        assert_eq!(judge(&metal, &older), None);
    }
}
