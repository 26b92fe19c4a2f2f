//! How long a plan takes: a span from good to bad days, never a promise.

use jiff::SignedDuration;
use serde::Serialize;
use upgrade_core::jiff;
use upgrade_core::plan::{Group, Hop, Lane, Plan, Wave};
use upgrade_core::step::Action;

/// From a good day to a bad one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The good day.
    pub low: SignedDuration,
    /// The bad day.
    pub high: SignedDuration,
}

impl Span {
    const fn seconds(low: i64, high: i64) -> Self {
        Self { low: SignedDuration::from_secs(low), high: SignedDuration::from_secs(high) }
    }

    fn then(self, next: Self) -> Self {
        Self { low: self.low.saturating_add(next.low), high: self.high.saturating_add(next.high) }
    }

    fn or_longer(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.max(other.high) }
    }
}

/// The time for a plan and for each of its hops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// In all.
    pub total: Span,
    /// Hop by hop.
    pub hops: Vec<Span>,
}

/// What one step takes. The operating system's numbers are those that the
/// documentation of the annotations promises.
fn step(action: Action, plan: &Plan) -> Span {
    match action {
        Action::CheckRemovals | Action::Forfeit | Action::Cordon | Action::Uncordon => {
            Span::seconds(0, 2)
        }
        Action::SetKubeProxy => Span::seconds(1, 5),
        Action::SnapshotEtcd => Span::seconds(2, 30),
        Action::DowngradeEtcd => Span::seconds(5, 30),
        Action::Pull | Action::Verify => Span::seconds(30, 60),
        Action::Install => Span::seconds(10, 30),
        Action::Drain => Span::seconds(10, 60),
        Action::Reboot | Action::Rollback => Span::seconds(30, 90),
        Action::Upgrade => Span::seconds(40, 120),
        // An image is downloaded and a machine is made.
        Action::ExternalUpgrade => Span::seconds(60, 300),
        Action::Soak => Span { low: plan.policy.soak, high: plan.policy.soak },
        Action::SetKubeApiserver => Span::seconds(20, 60),
        Action::SetKubeControllerManager | Action::SetKubeScheduler | Action::SetKubelet => {
            Span::seconds(10, 40)
        }
        Action::SyncManifests => Span::seconds(20, 120),
    }
}

fn lane(lane: &Lane, plan: &Plan, armed_ahead: bool) -> Span {
    lane.actions()
        // Workers are armed while other nodes are away.
        .filter(|action| !(armed_ahead && *action == Action::Install))
        .fold(Span::default(), |sum, action| sum.then(step(action, plan)))
}

fn wave(wave: &Wave, plan: &Plan, armed_ahead: bool) -> Span {
    wave.lanes
        .iter()
        .fold(Span::default(), |longest, next| longest.or_longer(lane(next, plan, armed_ahead)))
}

fn hop(hop: &Hop, plan: &Plan) -> Span {
    let mut armed_ahead = false;
    hop.waves.iter().fold(Span::default(), |sum, next| {
        let span = wave(next, plan, armed_ahead && next.group == Group::Workers);
        armed_ahead |= next.group != Group::Prepare;
        sum.then(span)
    })
}

/// How long the plan takes, windows and waiting aside.
pub fn estimate(plan: &Plan) -> Estimate {
    let hops: Vec<Span> = plan.hops.iter().map(|next| hop(next, plan)).collect();
    Estimate { total: hops.iter().fold(Span::default(), |sum, hop| sum.then(*hop)), hops }
}
