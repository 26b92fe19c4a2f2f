//! What steps do to the world, at once and in the end.

use upgrade_core::image::ImageRef;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::{Evidence, Outcome, Proof, Record};
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{Component, Fact, NodeName, Role, Stage, TalosFacts};
use upgrade_core::step::{Action, StepId};
use upgrade_core::version::Version;
use upgrade_planner::decide::Start;

use super::{Crash, InFlight, Trouble, World};
use crate::common::{etcd, kubernetes, talos};

impl World {
    pub(super) fn begin(&mut self, start: &Start) -> bool {
        let Start { step, attempt, in_doubt, best_effort: _ } = start.clone();
        let evidence = self.evidence(&step);
        let first = self.state.step(&step).unwrap().evidence.clone();
        let number = self.entries.len();
        if self.write(Record::Started { step: step.clone(), attempt, evidence }) {
            return true;
        }
        // Look first: did an earlier attempt reboot the node?
        let happened = match (&first, step.action) {
            (Some(Evidence::BootId(before)), Action::Reboot | Action::Upgrade) => {
                assert!(in_doubt, "rule 8: {step} is in doubt");
                self.talos(&step).boot_id != *before
            }
            _ => false,
        };
        if !happened {
            self.act(&step);
        }
        let ends = self.now + duration(step.action);
        self.in_flight.push(InFlight { ends, step, attempt, acted: !happened });
        matches!(self.crash, Some(Crash::AfterAct(at)) if at == number)
    }

    fn evidence(&self, step: &StepId) -> Option<Evidence> {
        let node = self.truth.nodes.get(step.node.as_ref()?)?;
        match step.action {
            Action::Reboot | Action::Upgrade => {
                Some(Evidence::BootId(node.talos.known()?.boot_id.clone()))
            }
            Action::Cordon => Some(Evidence::WasCordoned(node.kubernetes.known()?.unschedulable)),
            _ => None,
        }
    }

    fn talos(&mut self, step: &StepId) -> &mut TalosFacts {
        talos(&mut self.truth, &step.node.as_ref().unwrap().0)
    }

    /// What the act does to the world at once.
    fn act(&mut self, step: &StepId) {
        if let Some(node) = &step.node
            && step.action.is_disruptive()
            && self.truth.nodes[node].role == Role::ControlPlane
        {
            assert!(self.snapshot_taken.contains(&step.hop), "rule 3: {step}");
        }
        match step.action {
            Action::Cordon => {
                let node = step.node.clone().unwrap();
                let facts = kubernetes(&mut self.truth, &node.0);
                (facts.marked, facts.unschedulable) = (!facts.unschedulable || facts.marked, true);
            }
            Action::Reboot | Action::Upgrade => {
                let node = step.node.clone().unwrap();
                *self.reboots.entry((step.hop, node.clone())).or_default() += 1;
                self.talos(step).stage = Stage::Rebooting;
                kubernetes(&mut self.truth, &node.0).ready = false;
                self.lead_elsewhere(&node);
                self.boots += 1;
                let boots = self.boots;
                let back = self.trouble_at(step);
                let to = self.target(step);
                let facts = self.talos(step);
                facts.boot_id = format!("boot-{boots}");
                if !matches!(back, Some(Trouble::BootsBack)) {
                    facts.version = to;
                }
            }
            Action::Forfeit => {
                let node = step.node.clone().unwrap();
                self.lead_elsewhere(&node);
            }
            _ => {}
        }
        self.referee();
    }

    fn trouble_at(&self, step: &StepId) -> Option<Trouble> {
        let name = step.to_string();
        self.trouble.get(&name).cloned()
    }

    fn target(&self, step: &StepId) -> Version {
        self.plan.hops[step.hop as usize - 1].change.to().clone()
    }

    fn lead_elsewhere(&mut self, node: &NodeName) {
        let facts = etcd(&mut self.truth);
        if facts.leader() == Some(node)
            && let Some(next) = facts.members.iter().find(|member| member.node != *node)
        {
            let id = next.id;
            for member in &mut facts.members {
                if let Fact::Known(status) = &mut member.status {
                    status.leader = Some(id);
                    status.term += 1;
                }
            }
        }
    }

    /// Nodes that were rebooted from outside come back by themselves.
    pub(super) fn wake(&mut self) {
        let now = self.now;
        let due: Vec<NodeName> =
            self.waking.extract_if(.., |(at, _)| *at <= now).map(|(_, node)| node).collect();
        for node in due {
            self.up(&node);
        }
    }

    fn up(&mut self, node: &NodeName) {
        talos(&mut self.truth, &node.0).stage = Stage::Running;
        kubernetes(&mut self.truth, &node.0).ready = true;
    }

    /// A step ends: what it leaves, and what the journal says.
    pub(super) fn end(&mut self, flight: InFlight) -> bool {
        let InFlight { step, attempt, .. } = flight;
        let outcome = self.outcome(&step);
        self.referee();
        self.write(Record::Finished { step, attempt, outcome })
    }

    fn outcome(&mut self, step: &StepId) -> Outcome {
        let failed = |kind, text: &str| Outcome::Failed { failure: Failure::new(kind, text) };
        match self.trouble_at(step) {
            Some(Trouble::Fails(kind, times)) => {
                let met = self.failures.entry(step.clone()).or_default();
                if *met < times {
                    *met += 1;
                    return failed(kind, "as the test wants it");
                }
            }
            Some(Trouble::NeverReturns) => {
                return failed(FailureKind::NeverReturned, "the node did not come back");
            }
            _ => {}
        }
        let to = self.target(step);
        match step.action {
            Action::SnapshotEtcd => {
                self.snapshot_taken.insert(step.hop);
                let proof = Proof::EtcdSnapshot {
                    location: format!("etcd-{}.snapshot", step.hop),
                    sha256: "00".to_owned(),
                    bytes: 1,
                };
                return Outcome::Done { proof: Some(proof) };
            }
            Action::Reboot | Action::Upgrade => self.up(&step.node.clone().unwrap()),
            Action::Verify if self.talos(step).version != to => {
                return failed(FailureKind::BootBack, "the node runs its old version");
            }
            Action::Uncordon => {
                let node = step.node.clone().unwrap();
                let found = self.state.found_cordoned(&node);
                let facts = kubernetes(&mut self.truth, &node.0);
                (facts.unschedulable, facts.marked) = (found, false);
            }
            action => {
                if let (Some(component), Some(node)) = (action.component(), &step.node) {
                    self.set(&node.clone(), component, &to);
                }
            }
        }
        Outcome::Done { proof: None }
    }

    fn set(&mut self, node: &NodeName, component: Component, to: &Version) {
        let node = self.truth.nodes.get_mut(node).unwrap();
        if let Fact::Known(images) = &mut node.images {
            let next = images[&component].with_tag(&to.tag());
            images.insert(component, next);
        }
        if let (Component::Kubelet, Fact::Known(facts)) = (component, &mut node.kubernetes) {
            facts.kubelet = to.clone();
        }
        let images = self.truth.nodes.values().filter_map(|node| node.images.known());
        let lowest = images.flat_map(|images| images.values()).filter_map(ImageRef::version).min();
        self.truth.kubernetes = Fact::Known(lowest.unwrap());
    }
}

fn duration(action: Action) -> SignedDuration {
    SignedDuration::from_secs(match action {
        Action::Pull => 45,
        Action::Install => 20,
        Action::Drain => 15,
        Action::Reboot => 60,
        Action::Upgrade => 80,
        Action::Verify => 30,
        Action::SnapshotEtcd => 5,
        _ => 1,
    })
}
