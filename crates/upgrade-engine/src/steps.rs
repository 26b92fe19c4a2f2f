//! The steps, one file each. A step looks whether its work is done already,
//! does it, waits until it shows, and verifies it. It never decides what comes
//! next, and it never waits past its deadline (rule 11).

mod boot;
mod cordon;
mod downgrade;
mod drain;
mod external;
mod forfeit;
mod install;
mod kubernetes;
mod pull;
mod snapshot;
mod soak;
pub(crate) mod tenants;
mod verify;
pub(crate) mod wait;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use upgrade_core::event::StepProgress;
use upgrade_core::jiff;
use upgrade_core::journal::{Armed, Evidence, Outcome, Proof};
use upgrade_core::plan::{Hop, Lane, Plan, TalosTarget, Target};
use upgrade_core::readiness::UnmetCondition;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{KubernetesFacts, NodeName, Role, TalosFacts};
use upgrade_core::step::{Action, StepId};

use tenants::Tenants;

use crate::io::{Clock as _, Io, Kubernetes as _, Machine, ProgressSink, Trouble};
use crate::journal::{Guard, Lost};
use crate::observe::limited;

/// How a step ended well.
#[derive(Debug)]
pub(crate) enum Done {
    /// It did its work.
    Did,
    /// It did its work, and this has to be remembered of it.
    Proved(Proof),
    /// There was nothing to do, and why.
    Skipped(String),
}

/// All that a step may know.
pub(crate) struct Step<I> {
    /// The outside.
    pub(crate) io: Arc<I>,
    /// The plan.
    pub(crate) plan: Arc<Plan>,
    /// Whether the run is still ours.
    pub(crate) guard: Arc<Guard>,
    /// Which step.
    pub(crate) id: StepId,
    /// An earlier attempt may have acted (rule 8).
    pub(crate) look_first: bool,
    /// The run goes on without it where Kubernetes or etcd do not answer (rule 12).
    pub(crate) best_effort: bool,
    /// What was true before its first attempt; for [`Action::Verify`] and
    /// [`Action::Soak`] what was true before the reboot that they follow.
    pub(crate) evidence: Option<Evidence>,
    /// What an installer left on the node before, in this run or an earlier one
    /// (rule 5).
    pub(crate) armed: Option<Armed>,
    /// Whether the node's cordon is not ours to touch: somebody else set it
    /// before we came (rule 7).
    pub(crate) found_cordoned: bool,
    /// Every machine of the cluster at the last observation.
    pub(crate) machines: Arc<[Machine]>,
    /// Who had pods on which node.
    pub(crate) tenants: Arc<Tenants>,
    /// When the step has to have ended.
    pub(crate) deadline: Timestamp,
    /// Where it says how far it is.
    pub(crate) progress: Arc<dyn ProgressSink>,
    /// What it said last, for the words of a deadline that passes.
    pub(crate) said: Mutex<String>,
}

impl<I: Io> Step<I> {
    /// The hop it belongs to.
    pub(crate) fn hop(&self) -> &Hop {
        let hop = self.plan.hops.iter().find(|hop| hop.number == self.id.hop);
        hop.expect("a step of the plan has its hop there")
    }

    /// The lane it belongs to.
    pub(crate) fn lane(&self) -> &Lane {
        let mut lanes = self.hop().lanes().filter(|lane| lane.node == self.id.node);
        let lane = lanes.find(|lane| lane.steps.contains(&self.id.action));
        lane.expect("a step of the plan has its lane there")
    }

    /// What an operating system lane leaves its node with.
    pub(crate) fn talos_target(&self) -> Result<&TalosTarget, Failure> {
        match &self.lane().target {
            Target::Talos(target) => Ok(target),
            _ => Err(self.misplaced("has no Talos target")),
        }
    }

    /// Whether a node that tells this is where the hop leads. Where the version
    /// stays, what is in it decides.
    pub(crate) fn is_there(&self, facts: &TalosFacts) -> bool {
        let to = self.hop().change.to();
        let stays = |target: &&TalosTarget| target.from == *to;
        facts.version == *to
            && self.talos_target().ok().filter(stays).is_none_or(|target| !lacks(target, facts))
    }

    /// The conditions that the node did not meet before, for a step that asks whether
    /// it is as ready as it was.
    pub(crate) fn unmet_before(&self) -> &[UnmetCondition] {
        self.evidence.as_ref().map_or(&[], Evidence::unmet)
    }

    /// The node's name.
    pub(crate) fn node(&self) -> Result<&NodeName, Failure> {
        self.id.node.as_ref().ok_or_else(|| self.misplaced("has no node"))
    }

    /// A plan that was not made by the planner.
    pub(crate) fn misplaced(&self, what: &str) -> Failure {
        Failure::new(FailureKind::Mismatch, &format!("the lane of {} {what}", self.id))
    }

    /// The node's machine.
    pub(crate) fn machine(&self) -> Result<&Machine, Failure> {
        let node = self.node()?;
        self.machines.iter().find(|machine| machine.name == *node).ok_or_else(|| {
            let text = format!("{node} was not among the machines of the cluster at the last look");
            Failure::new(FailureKind::Unavailable, &text)
        })
    }

    /// What Kubernetes tells of the node.
    pub(crate) async fn kubernetes_facts(&self) -> Result<KubernetesFacts, Trouble> {
        let unavailable = |text: String| Trouble::new(FailureKind::Unavailable, &text);
        let node = self.node().map_err(|failure| unavailable(failure.to_string()))?;
        let mut nodes = self.io.kubernetes().nodes().await?;
        nodes.remove(node).ok_or_else(|| unavailable(format!("Kubernetes has no node {node}")))
    }

    /// The machines that run etcd.
    pub(crate) fn control_planes(&self) -> Vec<Machine> {
        let machines = self.machines.iter();
        machines.filter(|machine| machine.role == Role::ControlPlane).cloned().collect()
    }

    /// Asked right before every act: a process that lost the run does nothing
    /// more (rules 8 and 9). The failure is not written; the run ends instead.
    pub(crate) fn permitted(&self) -> Result<(), Failure> {
        let lost = |lost: Lost| Failure::new(FailureKind::Refused, &lost.to_string());
        self.guard.holds().map_err(lost)
    }

    /// Now.
    pub(crate) fn now(&self) -> Timestamp {
        self.io.clock().now()
    }

    /// How long it may still take.
    pub(crate) fn left(&self) -> SignedDuration {
        self.deadline.duration_since(self.now()).max(SignedDuration::ZERO)
    }

    /// Says how far it is.
    pub(crate) fn say(&self, text: impl Into<String>) {
        self.report(StepProgress::text(text));
    }

    fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs it to its end, which is its deadline at the latest (rule 11).
    pub(crate) async fn run(self) -> Outcome {
        let left = self.left();
        // Steps give up at their deadline by themselves, in their own words;
        // this is for a call that never comes back.
        let done = tokio::select! {
            biased;
            done = self.act() => done,
            () = self.io.clock().sleep(left.saturating_add(GRACE)) => Err(self.overdue()),
        };
        match done {
            Ok(Done::Did) => Outcome::Done { proof: None },
            Ok(Done::Proved(proof)) => Outcome::Done { proof: Some(proof) },
            Ok(Done::Skipped(why)) => Outcome::Skipped { why },
            Err(failure) => Outcome::Failed { failure },
        }
    }

    fn overdue(&self) -> Failure {
        let said = self.said();
        let limit = self.id.action.timeout(&self.plan.policy);
        let last = if said.is_empty() { String::new() } else { format!(": {said}") };
        Failure::new(FailureKind::Deadline, &format!("not done within {limit:#}{last}"))
    }

    async fn act(&self) -> Result<Done, Failure> {
        if !self.best_effort || self.id.action.boots() {
            return self.step().await;
        }
        let needs_kubernetes = matches!(self.id.action, Action::Cordon | Action::Drain);
        // A way back is held up by nothing but what it needs itself, which is
        // the Talos API (rule 12).
        let skip = |why: Failure| Ok(Done::Skipped(format!("a way back does not wait: {why}")));
        if needs_kubernetes
            && let Err(trouble) = limited(&*self.io, self.io.kubernetes().nodes()).await
        {
            return skip(trouble.failure);
        }
        match self.step().await {
            Err(failure) if failure.kind == FailureKind::Unavailable => skip(failure),
            done => done,
        }
    }

    async fn step(&self) -> Result<Done, Failure> {
        match self.id.action {
            Action::SnapshotEtcd => snapshot::run(self).await,
            Action::DowngradeEtcd => downgrade::run(self).await,
            Action::Pull => pull::run(self).await,
            Action::Install => install::run(self).await,
            Action::Forfeit => forfeit::run(self).await,
            Action::Cordon => cordon::run(self).await,
            Action::Drain => drain::run(self).await,
            Action::Reboot | Action::Upgrade | Action::Rollback => boot::run(self).await,
            Action::ExternalUpgrade => external::run(self).await,
            Action::Verify => verify::run(self).await,
            Action::Uncordon => cordon::lift(self).await,
            Action::Soak => soak::run(self).await,
            Action::CheckRemovals
            | Action::SetKubeApiserver
            | Action::SetKubeControllerManager
            | Action::SetKubeScheduler
            | Action::SetKubeProxy
            | Action::SyncManifests
            | Action::SetKubelet => kubernetes::run(self).await,
        }
    }
}

/// How much longer than its deadline a step gets to say why it missed it.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// Calls of a step get the step itself to report how far they are.
impl<I: Io> ProgressSink for Step<I> {
    fn report(&self, progress: StepProgress) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&progress.message);
        self.progress.report(progress);
    }
}

/// Whether the content that a target wants is not what runs.
pub(crate) fn lacks(target: &TalosTarget, facts: &TalosFacts) -> bool {
    target.schematic.is_some() && target.schematic != facts.schematic
}
