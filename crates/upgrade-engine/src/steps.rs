//! The steps, one file each. A step checks whether its work is done already, does it, waits until
//! it shows, and verifies it. It never decides what comes next, and never waits past its deadline
//! (rule 11).

mod boot;
mod cordon;
mod downgrade;
mod drain;
mod external;
mod forfeit;
mod install;
mod kubernetes;
mod pull;
pub(crate) mod rescheduling;
mod snapshot;
mod soak;
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

use rescheduling::EvictedOwners;

use crate::io::{Clock as _, Io, IoError, Kubernetes as _, Machine, ProgressSink};
use crate::journal::{Guard, Lost};
use crate::observe::limited;

/// How a step succeeded.
#[derive(Debug)]
pub(crate) enum Completion {
    /// It did its work.
    Done,
    /// It did its work, and this goes into the journal with it.
    Proved(Proof),
    /// There was nothing to do, and why.
    Skipped(String),
}

/// Everything that a step may use.
pub(crate) struct Step<I> {
    pub(crate) io: Arc<I>,
    pub(crate) plan: Arc<Plan>,
    /// Says whether the run is still ours (rule 9).
    pub(crate) guard: Arc<Guard>,
    pub(crate) id: StepId,
    /// Whether an earlier attempt may have acted (rule 8).
    pub(crate) in_doubt: bool,
    /// Whether the run continues without it where Kubernetes or etcd do not answer (rule 12).
    pub(crate) best_effort: bool,
    /// What was true before its first attempt; for [`Action::Verify`] and
    /// [`Action::Soak`] what was true before the reboot that they follow.
    pub(crate) evidence: Option<Evidence>,
    /// What an installer left on the node before, in this run or an earlier one
    /// (rule 5).
    pub(crate) armed: Option<Armed>,
    /// Whether the cordon of the node was set by another user before this run reached it (rule 7).
    pub(crate) found_cordoned: bool,
    /// The machines of the cluster, by the last observation.
    pub(crate) machines: Arc<[Machine]>,
    /// Which controllers had pods on which node.
    pub(crate) evicted_owners: Arc<EvictedOwners>,
    /// Its deadline.
    pub(crate) deadline: Timestamp,
    /// Where it reports progress.
    pub(crate) progress: Arc<dyn ProgressSink>,
    /// Its last progress message, for the error text at its deadline.
    pub(crate) last_message: Mutex<String>,
}

impl<I: Io> Step<I> {
    pub(crate) fn hop(&self) -> &Hop {
        let hop = self.plan.hops.iter().find(|hop| hop.number == self.id.hop);
        hop.expect("a step of the plan has its hop there")
    }

    pub(crate) fn lane(&self) -> &Lane {
        let (lane, _) =
            self.plan.place_of(&self.id).expect("a step of the plan has its lane there");
        lane
    }

    /// What a Talos lane leaves its node with.
    pub(crate) fn talos_target(&self) -> Result<&TalosTarget, Failure> {
        match &self.lane().target {
            Target::Talos(target) => Ok(target),
            _ => Err(self.misplaced("has no Talos target")),
        }
    }

    /// Whether a node with these facts is what the hop leads to. Where the version stays, the
    /// content decides.
    pub(crate) fn is_there(&self, facts: &TalosFacts) -> bool {
        let to = self.hop().change.to();
        let stays = |target: &&TalosTarget| target.from == *to;
        facts.version == *to
            && self.talos_target().ok().filter(stays).is_none_or(|target| !lacks(target, facts))
    }

    /// The conditions that the node did not meet before. Steps that check whether it is as ready as
    /// before accept these.
    pub(crate) fn unmet_before(&self) -> &[UnmetCondition] {
        self.evidence.as_ref().map_or(&[], Evidence::unmet)
    }

    pub(crate) fn node(&self) -> Result<&NodeName, Failure> {
        self.id.node.as_ref().ok_or_else(|| self.misplaced("has no node"))
    }

    /// The failure for a plan that the planner did not make.
    pub(crate) fn misplaced(&self, what: &str) -> Failure {
        Failure::new(FailureKind::Mismatch, &format!("the lane of {} {what}", self.id))
    }

    pub(crate) fn machine(&self) -> Result<&Machine, Failure> {
        let node = self.node()?;
        self.machines.iter().find(|machine| machine.name == *node).ok_or_else(|| {
            let text = format!("{node} was not among the machines of the last observation");
            Failure::new(FailureKind::Unavailable, &text)
        })
    }

    /// What Kubernetes knows about the node.
    pub(crate) async fn kubernetes_facts(&self) -> Result<KubernetesFacts, IoError> {
        let unavailable = |text: String| IoError::new(FailureKind::Unavailable, &text);
        let node = self.node().map_err(|failure| unavailable(failure.to_string()))?;
        let mut nodes = self.io.kubernetes().nodes().await?;
        nodes.remove(node).ok_or_else(|| unavailable(format!("Kubernetes has no node {node}")))
    }

    /// The machines that run etcd.
    pub(crate) fn control_planes(&self) -> Vec<Machine> {
        let machines = self.machines.iter();
        machines.filter(|machine| machine.role == Role::ControlPlane).cloned().collect()
    }

    /// Asked right before every act: a process that lost the run does nothing more (rules 8 and 9).
    /// The failure is not journaled; the run ends instead.
    pub(crate) fn permitted(&self) -> Result<(), Failure> {
        let lost = |lost: Lost| Failure::new(FailureKind::Refused, &lost.to_string());
        self.guard.holds().map_err(lost)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.io.clock().now()
    }

    /// The time until the deadline.
    pub(crate) fn left(&self) -> SignedDuration {
        self.deadline.duration_since(self.now()).max(SignedDuration::ZERO)
    }

    /// Reports progress as a text.
    pub(crate) fn report_text(&self, text: impl Into<String>) {
        self.report(StepProgress::text(text));
    }

    fn last_message(&self) -> String {
        self.last_message.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs the step until it ends, at its deadline at the latest (rule 11).
    pub(crate) async fn run(self) -> Outcome {
        let left = self.left();
        // Steps end at their deadline by themselves, with a reason; this is for a call that never
        // returns.
        let done = tokio::select! {
            biased;
            done = self.act() => done,
            () = self.io.clock().sleep(left.saturating_add(GRACE)) => Err(self.overdue()),
        };
        match done {
            Ok(Completion::Done) => Outcome::Done { proof: None },
            Ok(Completion::Proved(proof)) => Outcome::Done { proof: Some(proof) },
            Ok(Completion::Skipped(why)) => Outcome::Skipped { why },
            Err(failure) => Outcome::Failed { failure },
        }
    }

    fn overdue(&self) -> Failure {
        let said = self.last_message();
        let limit = self.id.action.timeout(&self.plan.policy);
        let last = if said.is_empty() { String::new() } else { format!(": {said}") };
        Failure::new(FailureKind::Deadline, &format!("not done within {limit:#}{last}"))
    }

    async fn act(&self) -> Result<Completion, Failure> {
        if !self.best_effort || self.id.action.boots() {
            return self.step().await;
        }
        let needs_kubernetes = matches!(self.id.action, Action::Cordon | Action::Drain);
        // A rollback waits for nothing but what it needs itself, the Talos API (rule 12).
        let skip = |why: Failure| {
            Ok(Completion::Skipped(format!("a rollback does not wait for it: {why}")))
        };
        if needs_kubernetes
            && let Err(error) = limited(&*self.io, self.io.kubernetes().nodes()).await
        {
            return skip(error.failure);
        }
        match self.step().await {
            Err(failure) if failure.kind == FailureKind::Unavailable => skip(failure),
            done => done,
        }
    }

    async fn step(&self) -> Result<Completion, Failure> {
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

/// How long after its deadline a step may take to return the reason.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// Calls of a step report their progress to the step itself.
impl<I: Io> ProgressSink for Step<I> {
    fn report(&self, progress: StepProgress) {
        self.last_message
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&progress.message);
        self.progress.report(progress);
    }
}

/// Whether the node runs other content than the target has.
pub(crate) fn lacks(target: &TalosTarget, facts: &TalosFacts) -> bool {
    target.schematic.is_some() && target.schematic != facts.schematic
}
