//! What a decision is made from, and what it is.

use upgrade_api::run::RunPhase;
use upgrade_controller::front_end::{Releases, RunView as AnyRun};
use upgrade_controller::versions_observed::ObservedVersions;
use upgrade_core::product::Product;
use upgrade_core::version::Version;
use vitistack_api::status::Status;

use crate::annotations::UpgradeRequest;
use crate::status::StatusUpdate;

/// The newest run of a cluster. Runs of this front end upgrade one product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// What it upgrades.
    pub product: Product,
    /// To what.
    pub to: Version,
    /// Whether it is a rollback.
    pub rollback: bool,
    /// Where it stands.
    pub phase: RunPhase,
    /// The same in a sentence.
    pub message: String,
    /// Nodes done.
    pub done: usize,
    /// Nodes in all.
    pub total: usize,
    /// Its target was removed since it ended, if only for a moment.
    pub target_removed: bool,
}

impl RunView {
    /// The run as the controller has it; `None` if it has no target that can be read.
    pub fn of(run: &AnyRun) -> Option<Self> {
        let AnyRun { versions, rollback, phase, message, done, total, withdrawn, .. } = run;
        let talos = versions.to.talos.as_ref().map(|version| (Product::Talos, version));
        let kubernetes =
            versions.to.kubernetes.as_ref().map(|version| (Product::Kubernetes, version));
        let (product, to) = talos.or(kubernetes)?;
        Some(Self {
            product,
            to: to.parse().ok()?,
            rollback: *rollback,
            phase: *phase,
            message: message.clone(),
            done: *done,
            total: *total,
            target_removed: *withdrawn,
        })
    }

    /// Whether it is driven, or will be without another action of the user.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.phase, RunPhase::Pending | RunPhase::Running | RunPhase::Paused)
    }

    pub(super) fn is_wanted(&self, request: &UpgradeRequest) -> bool {
        request.targets(self.product, &self.to) && request.steering.rollback == self.rollback
    }

    pub(super) fn progress(&self) -> String {
        format!("{}/{}", self.done, self.total)
    }
}

/// All that a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What the user wrote.
    pub request: &'a UpgradeRequest,
    /// What the object says of Talos now.
    pub talos_reported: Option<Status>,
    /// What the object says of Kubernetes now.
    pub kubernetes_reported: Option<Status>,
    /// `status.phase`, empty if there is none.
    pub phase: &'a str,
    /// What was seen; `None` before the first look, an error if it failed.
    pub observed: Option<Result<&'a ObservedVersions, &'a str>>,
    /// The newest run.
    pub run: Option<&'a RunView>,
    /// What is known of releases.
    pub releases: Releases<'a>,
}

impl<'a> Facts<'a> {
    pub(super) fn reported(&self, product: Product) -> Option<Status> {
        match product {
            Product::Talos => self.talos_reported,
            Product::Kubernetes => self.kubernetes_reported,
        }
    }

    pub(super) fn versions(&self) -> Option<&'a ObservedVersions> {
        self.observed.and_then(Result::ok)
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Nothing until something changes.
    Idle,
    /// Observe the cluster, then decide again.
    Observe,
    /// Plan, and begin a run.
    Begin {
        /// Of what.
        product: Product,
        /// To what.
        target: Version,
    },
    /// Continue the run.
    Drive,
    /// Let the run reach a safe state and stay there.
    Pause {
        /// Who wants it.
        by: String,
    },
    /// Let the run reach a safe state, then end it.
    Cancel,
    /// The run is past; decide again without it.
    Close,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to write; `None` leaves the object alone.
    pub update: Option<StatusUpdate>,
    /// What to do afterwards.
    pub next: NextAction,
}
