//! The kubelet. Talos restarts it with its new image; pods keep running, and the node does not
//! reboot.

use upgrade_core::journal::Evidence;
use upgrade_core::readiness::UnmetCondition;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{Component, KubernetesFacts, NodeName, Role, Stage, TalosFacts};
use upgrade_core::version::Version;

use super::super::verify::control_plane_serves;
use super::super::wait::{Probe, Wait, retry_read};
use super::super::{Completion, Step};
use super::configure::configure;
use super::target;
use crate::io::{Io, Kubernetes as _, Machines as _};

pub(super) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let machine = step.machine()?;
    let node = &machine.name;
    let image = target(step, Component::Kubelet)?;
    let to = image.version().unwrap_or_else(|| step.hop().change.to().clone());
    let what = format!("the state of {node}");
    let facts = retry_read(step, &what, || step.io.machines().facts(machine)).await?;
    let before = facts.boot_id;
    // As it was before the first attempt; as it is now, if the journal does not say.
    let unmet = step.evidence.as_ref().map_or(facts.unmet.as_slice(), Evidence::unmet);
    let changed = configure(step, machine, Component::Kubelet, image).await?;
    let wait = Wait::new(FailureKind::Deadline, format!("the kubelet of {node} did not come back"))
        .on(step.io.machines().changes(machine))
        .on(step.io.kubernetes().changes());
    wait.poll(step, || async {
        let talos = match step.io.machines().facts(machine).await {
            Ok(facts) => facts,
            Err(error) => return Ok(Probe::NotYet(format!("waiting for {node}: {error}"))),
        };
        if talos.boot_id != before {
            let text = format!(
                "{node} rebooted while its kubelet was changed; this upgrade requests no reboot"
            );
            return Err(Failure::new(FailureKind::Mismatch, &text));
        }
        let kubernetes = match step.kubernetes_facts().await {
            Ok(facts) => facts,
            Err(error) => return Ok(Probe::NotYet(format!("waiting for {node}: {error}"))),
        };
        let judged = judge(node, &to, &talos, unmet, &kubernetes);
        if machine.role == Role::Worker || !matches!(judged, Probe::Found(())) {
            return Ok(judged);
        }
        // Rule 1: static pods are not ready right after their kubelet has restarted.
        Ok(match control_plane_serves(step, machine, &talos).await {
            Ok(()) => Probe::Found(()),
            Err(why) => Probe::NotYet(why),
        })
    })
    .await?;
    if changed {
        return Ok(Completion::Done);
    }
    Ok(Completion::Skipped(format!("the kubelet of {node} is {to} already")))
}

fn judge(
    node: &NodeName,
    to: &Version,
    talos: &TalosFacts,
    unmet_before: &[UnmetCondition],
    kubernetes: &KubernetesFacts,
) -> Probe<()> {
    let KubernetesFacts { kubelet, ready, .. } = kubernetes;
    if kubelet != to {
        return Probe::NotYet(format!("the kubelet of {node} is still {kubelet}"));
    }
    // Talos's own readiness covers the health of the kubelet service.
    if talos.stage != Stage::Running {
        return Probe::NotYet(format!("{node} is in stage {:?}", talos.stage));
    }
    if let Some(why) = talos.less_ready_than(unmet_before) {
        return Probe::NotYet(format!("Talos reports {node} {why}"));
    }
    if !ready {
        return Probe::NotYet(format!("the Node {node} is not Ready yet"));
    }
    Probe::Found(())
}
