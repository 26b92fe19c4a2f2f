//! What to do next: the only home of parallelism, windows, pause, retries,
//! quorum and arming ahead.
//!
//! [`decide()`] is asked after every journal entry and every observation. It never
//! remembers anything itself: what it cannot see in the snapshot it finds in the
//! journal's [`State`]. The gates that a disruptive step has to pass are in
//! `gates`; this file decides which steps come up for them.

mod adopted;
mod away;
mod gates;
mod lane;
mod tried;

use jiff::{SignedDuration, Timestamp};
use upgrade_core::guard;
use upgrade_core::jiff;
use upgrade_core::journal::{Arming, Effect, Phase, State, StepState};
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::{Group, Plan, RebootMode, Target};
use upgrade_core::policy::RebootChoice;
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::{Node, NodeName, Snapshot};
use upgrade_core::step::{Action, StepId, StepName};
use upgrade_core::window::{Gate, gate};

pub use adopted::Lift;
pub use tried::{Tried, Unread};

use away::Away;
use gates::Closed;
use lane::{HopView, LaneView};

/// A step ends itself at its deadline; one that still runs this much later hangs, and its
/// process with it.
const OVERDUE_GRACE: SignedDuration = SignedDuration::from_mins(2);

/// How many steps a reason names before it counts.
const NAMED_STEPS: usize = 3;

/// A pause has no end of its own; the run is decided again after this long.
const PAUSE_POLL: SignedDuration = SignedDuration::from_hours(24);

/// How long a run that halts waits before it repeats an uncordon that failed (rule 7).
const LIFTED_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// How long a run that halts observes again for nodes that it did not see and that still have
/// its cordon (rule 7).
const LAST_OBSERVATIONS: SignedDuration = SignedDuration::from_mins(2);

/// Maximum immediate retries when the node already shows no cordon, for an API server that
/// serves reads but rejects writes.
const GONE_AT_ONCE: u32 = 5;

/// A step to start now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Which.
    pub step: StepId,
    /// The number of this attempt.
    pub attempt: u32,
    /// An earlier attempt may have acted: look for its effect first (rule 8).
    pub in_doubt: bool,
    /// A rollback continues without it if Kubernetes or etcd does not answer (rule 12).
    pub best_effort: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Lift these cordons of an earlier run, then decide again (rule 7). One attempt for
    /// each observation.
    Lift(Vec<Lift>),
    /// Start these steps, beside those that run.
    Run(Vec<Start>),
    /// Start nothing now.
    Wait {
        /// Why.
        reason: WaitReason,
        /// Until when at the latest (rule 11).
        until: Timestamp,
        /// Whether the run halts then, instead of observing again. Such a wait
        /// belongs in the journal, so that its time counts across restarts.
        gives_up: bool,
        /// Whether the cluster is observed again meanwhile, although steps run: a node in flight
        /// waits for something that none of them changes.
        observe: bool,
    },
    /// Stop until a user acts. Belongs in the journal at once, before the steps that are
    /// left to finish: otherwise a restart would forget the reason.
    Halt {
        /// Why.
        reason: HaltReason,
        /// Steps that bring nodes in flight to a safe state; decide again after
        /// them. Empty once nothing is left to do.
        finish: Vec<Start>,
        /// Nodes whose next boot, whatever causes it, is into the new version, or may be.
        armed: Vec<(NodeName, Arming)>,
        /// Nodes that stay cordoned because they are not ready.
        cordoned: Vec<NodeName>,
        /// Observe again until then, and decide again: a node with our cordon was not seen, and
        /// one lost answer must not leave it cordoned (rule 7).
        observe_until: Option<Timestamp>,
    },
    /// Everything planned is done.
    Done,
}

/// Decides what to do next. The state must be the fold of this plan's journal, and `tried`
/// what this process did that is in no journal.
pub fn decide(
    plan: &Plan,
    state: &State,
    tried: &Tried,
    snapshot: &Snapshot,
    now: Timestamp,
) -> Decision {
    if state.completed() {
        return Decision::Done;
    }
    let lifts = adopted::lifts(state, tried, snapshot);
    if !lifts.is_empty() {
        return Decision::Lift(lifts);
    }
    let Some(hop) = HopView::current(plan, state) else {
        return adopted::over(plan, state, snapshot, now);
    };
    let run = Run { plan, state, snapshot, now, hop };
    if let Some(reason) = state.halted().cloned().or_else(|| run.fatal()) {
        return run.wind_down(reason);
    }
    let mut round = run.round();
    if !round.starts.is_empty() {
        return Decision::Run(round.starts);
    }
    if let Some(wait) = run.under_way(round.again, round.observe) {
        return wait;
    }
    match round.closed.take() {
        Some(Closed::Never(reason)) => run.wind_down(reason),
        Some(Closed::Now(reason)) => run.wait_at_gate(reason),
        None => round.idle.unwrap_or_else(|| {
            // Every unfinished lane runs, waits at a gate or may start; should that ever
            // be wrong, observe again rather than act.
            let newer_than = now;
            run.wait_at_gate(WaitReason::StaleObservation { newer_than })
        }),
    }
}

/// The current hop, as observed once.
struct Run<'a> {
    plan: &'a Plan,
    state: &'a State,
    snapshot: &'a Snapshot,
    now: Timestamp,
    hop: HopView<'a>,
}

/// What one pass over the lanes found.
#[derive(Default)]
struct Round {
    starts: Vec<Start>,
    closed: Option<Closed>,
    idle: Option<Decision>,
    /// When the first of the failed steps is retried.
    again: Option<Timestamp>,
    /// Whether a lane in flight waits at a gate. Steps of other lanes do not open it: a node whose
    /// reboot is in doubt after a restart of ours is back long before a drain beside it ends.
    observe: bool,
}

impl<'a> Run<'a> {
    /// A failure that may not be retried, or a step that hangs (rule 11).
    fn fatal(&self) -> Option<HaltReason> {
        self.hop.lanes().flat_map(|lane| lane.steps().map(move |step| (lane, step))).find_map(
            |(lane, (name, step))| match &step.phase {
                Phase::Failed { failure, .. }
                    if !self.may_retry(name.action, &step.phase, step.tried) =>
                {
                    Some(HaltReason::StepFailed {
                        step: lane.id(name),
                        attempt: step.attempts,
                        failure: failure.clone(),
                    })
                }
                Phase::Running { since } => {
                    let limit = name.action.timeout(&self.plan.policy);
                    let over = after(*since, limit.saturating_add(OVERDUE_GRACE));
                    (self.now >= over).then(|| HaltReason::Overdue { step: lane.id(name), limit })
                }
                _ => None,
            },
        )
    }

    /// Rule 5: what touches a slot is never retried automatically, unless it is certain
    /// that it did nothing.
    fn may_retry(&self, action: Action, phase: &Phase, tried: u32) -> bool {
        let Phase::Failed { failure, .. } = phase else { return false };
        let did_nothing = action == Action::Install && failure.effect() == Some(Effect::None);
        let safe = action.may_retry() || did_nothing;
        (safe && failure.kind.may_pass() || !guard!(Mutant::BlindRetry))
            && tried < self.plan.policy.retries.attempts
    }

    /// One pass over the lanes that may do something.
    fn round(&self) -> Round {
        let mut round = Round { idle: self.nothing_new(), ..Round::default() };
        let may_begin = round.idle.is_none();
        let mut away = Away::new(self);
        for (lane, may_disrupt) in self.candidates() {
            let Some((name, step)) = lane.current() else {
                continue;
            };
            let action = name.action;
            // Nothing new starts while paused or outside a window; a node in flight
            // continues until it is safe (rule 12).
            let in_flight = guard!(Mutant::PauseAbandons, lane.is_entered());
            if !(may_begin || in_flight) {
                continue;
            }
            if !may_disrupt && action != Action::Install {
                continue;
            }
            match &step.phase {
                Phase::Running { .. } | Phase::Done => continue,
                Phase::Failed { at, .. } => {
                    let again = after(*at, self.backoff(step.tried));
                    if self.now < again {
                        let attempt = step.attempts;
                        let reason = WaitReason::Backoff { step: lane.id(name), attempt };
                        round.again = Some(round.again.map_or(again, |first| first.min(again)));
                        round.idle = Some(pause(reason, again));
                        continue;
                    }
                }
                Phase::Pending | Phase::InDoubt => {}
            }
            match self.pass(&lane, action, &away) {
                Ok(()) => {
                    if action.is_disruptive() {
                        away.enter(&self.hop, &lane, self.snapshot);
                    }
                    round.starts.push(self.start(&lane, name, step));
                }
                Err(closed) => {
                    round.observe |= guard!(Mutant::DoubtUnobserved, lane.is_entered());
                    // The first gate in plan order is the one to report, but one that
                    // never opens ends the run at once.
                    if round.closed.is_none() || matches!(closed, Closed::Never(_)) {
                        round.closed = Some(closed);
                    }
                }
            }
        }
        round
    }

    /// The lanes of the current wave and of the one after it: workers may roll on as soon as
    /// the limit allows, and are armed one wave ahead. Nothing is written to a control plane
    /// before its own wave: the disk has etcd's log, and another member may be down
    /// (rule 1).
    fn candidates(&self) -> Vec<(LaneView<'a>, bool)> {
        let Some(current) = self.hop.current_wave() else {
            return Vec::new();
        };
        let group = |wave: usize| self.hop.hop.waves.get(wave).map(|wave| wave.group);
        let here = group(current);
        let mut lanes: Vec<_> = self.hop.wave(current).map(|lane| (lane, true)).collect();
        let next = current + 1;
        let rolls = match here {
            Some(Group::ControlPlane) => !guard!(Mutant::TwoControlPlanes),
            here => here == Some(Group::Workers),
        };
        if guard!(Mutant::TrialNotAwaited, self.is_trial(current)) {
            return lanes;
        }
        let may_disrupt = rolls && group(next) == here;
        let may_arm = match group(next) {
            Some(Group::Workers) => matches!(here, Some(Group::Workers | Group::ControlPlane)),
            Some(Group::ControlPlane) => !guard!(Mutant::ControlPlaneAhead),
            _ => false,
        };
        if may_disrupt || may_arm {
            lanes.extend(self.hop.wave(next).map(|lane| (lane, may_disrupt)));
        }
        lanes
    }

    /// Whether a wave tests that its nodes boot through their firmware: the waves after it
    /// wait, and are not even armed.
    fn is_trial(&self, wave: usize) -> bool {
        let cycles = |lane: LaneView<'_>| match &lane.lane.target {
            Target::Talos(target) => target.reboot == RebootMode::Powercycle,
            _ => false,
        };
        self.plan.policy.reboot.mode == RebootChoice::PowercycleFirst
            && self.hop.wave(wave).any(cycles)
    }

    /// The wait, if a pause or a window lets nothing new begin.
    fn nothing_new(&self) -> Option<Decision> {
        if let Some(by) = self.state.paused()
            && guard!(Mutant::PauseIgnored)
        {
            let reason = WaitReason::Paused { by: by.to_owned() };
            return Some(pause(reason, after(self.now, PAUSE_POLL)));
        }
        let policy = &self.plan.policy;
        match gate(&policy.windows, &policy.freezes, self.now) {
            Gate::Closed { until, why } if guard!(Mutant::WindowIgnored) => {
                Some(pause(WaitReason::Window { why }, until))
            }
            _ => None,
        }
    }

    /// Waiting for steps that run, if there are any; no longer than until a failed one is
    /// retried beside them.
    fn under_way(&self, again: Option<Timestamp>, observe: bool) -> Option<Decision> {
        let mut steps = Vec::new();
        let mut count = 0;
        let mut until = again.unwrap_or(Timestamp::MAX);
        // Any step of a lane, not only its first unfinished one: a run that halts uncordons
        // out of turn.
        let all = self.hop.lanes().flat_map(|lane| lane.steps().map(move |step| (lane, step)));
        for (lane, (name, step)) in all {
            if let Phase::Running { since } = step.phase {
                let limit = name.action.timeout(&self.plan.policy).saturating_add(OVERDUE_GRACE);
                until = until.min(after(since, limit));
                count += 1;
                if steps.len() < NAMED_STEPS {
                    steps.push(lane.id(name));
                }
            }
        }
        (count > 0).then_some(Decision::Wait {
            reason: WaitReason::Running { steps, count },
            until,
            gives_up: false,
            observe,
        })
    }

    /// Waiting at a closed gate, until its deadline (rule 11).
    fn wait_at_gate(&self, reason: WaitReason) -> Decision {
        let since = self.state.waiting_since(&reason.key()).unwrap_or(self.now);
        let until = after(since, self.plan.policy.timeouts.gate);
        if !guard!(Mutant::DeadlineRemoved) {
            let until = Timestamp::MAX;
            return Decision::Wait { reason, until, gives_up: true, observe: true };
        }
        if self.now >= until {
            return self.wind_down(HaltReason::WaitedTooLong { since, waiting_for: reason });
        }
        Decision::Wait { reason, until, gives_up: true, observe: true }
    }

    /// Comes to a stop: nodes in flight reach a safe state first, our cordons are lifted
    /// where the node is up again (rules 7 and 12), nothing new begins.
    fn wind_down(&self, reason: HaltReason) -> Decision {
        let mut finish = Vec::new();
        let mut observe = false;
        let away = Away::new(self);
        for lane in self.hop.lanes().filter(LaneView::is_entered) {
            let Some((name, step)) = lane.current() else {
                continue;
            };
            if lane.steps().any(|(_, step)| matches!(step.phase, Phase::Running { .. })) {
                continue;
            }
            // A node that was uncordoned after a failure of its own could start over, but
            // not while the run halts.
            let failed = lane.steps().any(|(_, step)| matches!(step.phase, Phase::Failed { .. }));
            let may_continue = matches!(step.phase, Phase::Pending | Phase::InDoubt)
                && !failed
                && !gives_up_on(&lane, &reason);
            let continues = may_continue && self.pass(&lane, name.action, &away).is_ok();
            observe |= may_continue && !continues;
            if continues {
                finish.push(self.start(&lane, name, step));
            } else {
                finish.extend(self.lift_cordon(&lane));
            }
        }
        // Waiting for a step that hangs would never end.
        let hangs = matches!(reason, HaltReason::Overdue { .. });
        match self.under_way(None, observe) {
            Some(wait) if finish.is_empty() && !hangs => wait,
            _ => Decision::Halt {
                reason,
                observe_until: self.last_observations(finish.is_empty()),
                finish,
                armed: self.state.next_boots(),
                cordoned: adopted::cordoned(self.state),
            },
        }
    }

    /// How long a run with nothing left to finish observes again for nodes that it did not see
    /// and that still have its cordon. Since the latest entry: none is written meanwhile.
    fn last_observations(&self, nothing_left: bool) -> Option<Timestamp> {
        let unseen = |node: &NodeName| {
            self.snapshot.unmatched.contains_key(node)
                || self.snapshot.nodes.get(node).is_some_and(
                    |Node { talos, kubernetes, api_server, .. }| {
                        let troubles = [
                            talos.why_unknown(),
                            kubernetes.why_unknown(),
                            api_server.why_unknown(),
                        ];
                        troubles.iter().any(Option::is_some)
                    },
                )
        };
        // A run that only now decides to halt may have written nothing for long.
        let since = self.state.halted().map_or(Some(self.now), |_| self.state.last_at())?;
        let until = after(since, LAST_OBSERVATIONS);
        let observes = nothing_left && self.now < until && self.state.our_cordons().any(unseen);
        observes.then_some(until)
    }

    /// Lifts our cordon from a node that is up (rule 7). One that is not keeps it, and the
    /// halt names it.
    fn lift_cordon(&self, lane: &LaneView<'_>) -> Option<Start> {
        let node = lane.lane.node.as_ref()?;
        let ours = self.state.our_cordons().any(|cordoned| cordoned == node);
        let (name, step) = lane.step(Action::Uncordon)?;
        let may_try = match &step.phase {
            Phase::Pending | Phase::InDoubt => true,
            // A later attempt may succeed; and if the cordon is gone already, that is
            // journaled before another one is set from outside.
            Phase::Failed { at, failure } => {
                let again = self.now >= after(*at, LIFTED_AGAIN);
                let gone = step.attempts < GONE_AT_ONCE && self.is_seen_lifted(node, *at);
                failure.kind.may_pass() && (again || gone)
            }
            Phase::Running { .. } | Phase::Done => false,
        };
        let serves = |seen: &Node| {
            // A node that we did not boot is up if Kubernetes says so, even if its machine
            // cannot be observed: another one may delay the whole observation.
            seen.is_up() || (!lane.has_booted() && seen.is_ready_unseen())
        };
        // Kubernetes tells of a node even while no machine is found for it.
        let ready = || self.snapshot.kubernetes_of(node).is_some_and(|facts| facts.ready);
        let unmatched = || !lane.has_booted() && ready();
        let up = self.snapshot.nodes.get(node).map_or_else(unmatched, serves);
        (ours && may_try && up).then(|| self.start(lane, name, step))
    }

    /// Whether an observation that is newer than this shows the node without our cordon.
    fn is_seen_lifted(&self, node: &NodeName, since: Timestamp) -> bool {
        let facts = self.snapshot.kubernetes_of(node);
        self.snapshot.taken_at > since && facts.is_some_and(|facts| !facts.has_our_cordon())
    }

    fn start(&self, lane: &LaneView<'_>, name: &StepName, step: &StepState) -> Start {
        Start {
            step: lane.id(name),
            attempt: step.attempts + 1,
            in_doubt: step.attempts > 0,
            best_effort: self.plan.rollback && may_be_left_out(name.action),
        }
    }

    fn backoff(&self, tried: u32) -> SignedDuration {
        let first = self.plan.policy.retries.backoff;
        let doubled = 1_i32.checked_shl(tried.saturating_sub(1).min(16)).unwrap_or(1);
        first.checked_mul(doubled).unwrap_or(SignedDuration::MAX)
    }
}

/// Whether a rollback may do without it: what needs Kubernetes or etcd to answer. Of a boot
/// it is the check that leadership did not come back.
fn may_be_left_out(action: Action) -> bool {
    matches!(action, Action::Forfeit | Action::Cordon | Action::Drain) || action.boots()
}

/// Whether the reason for stopping is this lane's own.
fn gives_up_on(lane: &LaneView<'_>, reason: &HaltReason) -> bool {
    let node = match reason {
        HaltReason::StepFailed { step, .. } | HaltReason::Overdue { step, .. } => {
            step.node.as_ref()
        }
        HaltReason::Drift { node, .. } => Some(node),
        HaltReason::WaitedTooLong { .. }
        | HaltReason::NoSnapshot { .. }
        | HaltReason::OtherPlan { .. } => return true,
    };
    lane.lane.node.as_ref() == node
}

fn after(start: Timestamp, span: SignedDuration) -> Timestamp {
    start.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// A wait for the clock or a person: no observation ends it.
fn pause(reason: WaitReason, until: Timestamp) -> Decision {
    Decision::Wait { reason, until, gives_up: false, observe: false }
}
