//! What a decision is made from, and what it is.

use std::collections::BTreeMap;

use upgrade_api::run::RunPhase;
use upgrade_controller::front_end::{Releases, Start};
use upgrade_controller::steering::Steering;
use upgrade_core::policy::Policy;
use upgrade_core::product::{PerProduct, Product};
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;

use super::show::Update;
use crate::asks::Asked;
use crate::path::Observed;
use crate::unit::{Problem, Unit, UnitObjects};

/// Which process decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The operator. It drives runs of Talos, and those of Kubernetes if it may make no Jobs.
    Operator {
        /// Whether it drives Kubernetes itself.
        inline: bool,
    },
    /// The process of a Job, which drives one run of Kubernetes.
    Job,
}

impl Process {
    /// Whether this process drives the runs of a product.
    pub const fn drives(self, product: Product) -> bool {
        match (self, product) {
            (Self::Operator { .. }, Product::Talos)
            | (Self::Operator { inline: true } | Self::Job, Product::Kubernetes) => true,
            (Self::Operator { inline: false }, Product::Kubernetes)
            | (Self::Job, Product::Talos) => false,
        }
    }
}

/// The Job of a control plane, as the hub has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// There is none.
    Absent,
    /// Its pod does not run yet.
    NotStarted {
        /// Why, in the words of the Job and its pod.
        why: Option<String>,
        /// Whether it had enough time for it (rule 11).
        overdue: bool,
    },
    /// Its pod runs.
    Running,
    /// It is over, well or not: the run and the cluster say which.
    Ended,
    /// One of its name that another operator made.
    Foreign {
        /// Whether it is over.
        ended: bool,
    },
}

/// Where a node stands in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStage {
    /// Its lane has not started.
    Pending,
    /// Its lane has started and not ended.
    InFlight {
        /// The step that it is at.
        step: String,
    },
    /// Its lane has ended.
    Done,
    /// The run halted on it.
    Failed {
        /// Why.
        why: String,
    },
}

/// The newest run of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The name of its object.
    pub name: String,
    /// What it upgrades.
    pub product: Product,
    /// What ran before it, the lowest of each product.
    pub from: PerProduct<Option<Version>>,
    /// The version that it ends on, for people; where nodes differ, the newest.
    pub to: Version,
    /// Whether it is a rollback.
    pub rollback: bool,
    /// Its phase.
    pub phase: RunPhase,
    /// The same in a sentence.
    pub message: String,
    /// Nodes done.
    pub done: usize,
    /// Nodes in all.
    pub total: usize,
    /// Its nodes.
    pub nodes: BTreeMap<NodeName, NodeStage>,
    /// What the user asked for when it began; `None` if that is not known, and then it did not
    /// change: what is not known did not happen (rule 5).
    pub asked: Option<Asked>,
}

impl Run {
    /// Whether it is driven, or will be without another action of the user.
    pub const fn is_active(&self) -> bool {
        matches!(self.phase, RunPhase::Pending | RunPhase::Running | RunPhase::Paused)
    }

    /// Whether the user still asks for what it does.
    pub(super) fn is_wanted(&self, now: &Asked) -> bool {
        let same = |asked: &Asked| asked.products.of(self.product) == now.products.of(self.product);
        self.asked.as_ref().is_none_or(same)
    }

    /// Whether the user still asks for it, and did not ask for another try.
    pub(super) fn is_settled(&self, now: &Asked) -> bool {
        self.is_wanted(now) && self.asked.as_ref().is_none_or(|asked| asked.retry == now.retry)
    }

    pub(super) fn progress(&self) -> String {
        format!("{}/{}", self.done, self.total)
    }
}

/// All that a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The objects.
    pub objects: &'a UnitObjects<'a>,
    /// The same as a unit.
    pub unit: &'a Unit,
    /// What other units have against it.
    pub conflicts: &'a [Problem],
    /// The annotations of the control plane.
    pub steering: &'a Steering,
    /// The value of the annotation that lets a failed upgrade be tried again.
    pub retry: Option<&'a str>,
    /// The operator's own policy.
    pub base: &'a Policy,
    /// What was observed; `None` before the first observation and after the end of a run, until the
    /// cluster is observed again (rule 2). An error if it could not be observed.
    pub observed: Option<Result<&'a Observed, &'a str>>,
    /// The newest run.
    pub run: Option<&'a Run>,
    /// The Job.
    pub job: &'a Job,
    /// Which process asks.
    pub process: Process,
    /// Whether the specs have been left alone for a moment: several objects are written one
    /// after the other, and a run begins with the last of them.
    pub settled: bool,
    /// Known releases.
    pub releases: Releases<'a>,
}

/// A run to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// What it upgrades.
    pub product: Product,
    /// To what.
    pub to: Version,
    /// What is wanted, and how.
    pub start: Start,
    /// What the user asks for now, to be stored with the run.
    pub asked: Asked,
    /// Whether a Job drives it: then this process only creates it.
    pub by_job: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Nothing until something changes.
    Idle,
    /// Observe the cluster, then decide again.
    Observe,
    /// Decide again once the specs are settled.
    Settle,
    /// Plan, and start a run.
    Begin(Box<Begin>),
    /// Plan, and tell what a run would do.
    Preview(Box<Begin>),
    /// Continue the run.
    Drive,
    /// Let the run reach a safe state and stay there (rule 12).
    Pause {
        /// Who asked for it.
        by: String,
    },
    /// Let the run reach a safe state, then end it (rule 12).
    Cancel,
    /// The run is over; decide again without it.
    Close,
    /// End a run that its Job can no longer drive, as halted.
    Halt {
        /// Why.
        why: String,
    },
    /// Make the Job of the run, if it does not exist.
    EnsureJob {
        /// The version that it upgrades to.
        to: Version,
    },
    /// Wait for the Job, and look again after half a minute even if nothing was reported.
    WaitForJob,
    /// Delete the Job, then decide again.
    EndJob,
    /// Remove the finalizer.
    Release,
}

/// A decision. The update is shown before the action begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to show; `None` leaves the objects alone.
    pub update: Option<Update>,
    /// What to do afterwards.
    pub next: NextAction,
}
