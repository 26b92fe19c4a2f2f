//! What a reconciler does next: a pure function of what it knows, the time included. The
//! async part only carries it out.

use tokio::time::Instant;
use upgrade_api::run::RunPhase;

use super::rules::is_fresh;
use crate::front_end::NextAction;

/// The driver of the newest run, in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DriverState {
    /// There is none.
    None,
    /// It drives.
    Drives,
    /// It has ended, and its end is not recorded yet.
    Ended,
}

/// The lease of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// It was not taken.
    None,
    /// It is ours.
    Held,
    /// It was ours, and ran out.
    Lost,
}

/// What a reconciler knows of its cluster, and of itself.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is known on its own")]
pub(super) struct Known {
    /// The driver.
    pub(super) driver: DriverState,
    /// The lease.
    pub(super) lease: LeaseState,
    /// Whether the cluster is in the shard of this replica.
    pub(super) ours: bool,
    /// Whether the newest run was read since the cluster became ours.
    pub(super) loaded: bool,
    /// Whether other versions are wanted than in the last round.
    pub(super) new_targets: bool,
    /// The phase of the newest run.
    pub(super) run: Option<RunPhase>,
    /// Whether the object shows any status.
    pub(super) has_status: bool,
    /// The user keeps the controller away from the object.
    pub(super) hands_off: bool,
    /// When all that a plan needs was observed.
    pub(super) observed_at: Option<Instant>,
    /// When the cluster is observed again.
    pub(super) observe_at: Instant,
    /// When the credentials of the driver are compared again.
    pub(super) credentials_at: Instant,
    /// Until when the run that was just created waits for others that start.
    pub(super) starts_at: Option<Instant>,
}

/// One step of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Record how the driver ended.
    RecordEnd,
    /// Stop driving at once: another process may drive by now (rule 9).
    Abandon,
    /// Leave the cluster to the replica whose shard it is in.
    Leave,
    /// Read the newest run.
    Load,
    /// Judge the new targets on a new observation.
    NoteTargets,
    /// Ask the front end what is next.
    Decide,
    /// Take the lease of the cluster (rule 9).
    TakeLease,
    /// Carry out what the front end decided.
    Act {
        /// Write the status first: users see what happens while it happens.
        show: bool,
        /// Release the lease first.
        release: bool,
        /// The act.
        act: Act,
    },
}

/// How a decision of the front end is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Plan, and create a run.
    Begin,
    /// Wait until no other run is starting, or this moment.
    WaitToStart(Instant),
    /// Let the engine drive the run.
    Resume,
    /// Pass the user's command to the driver.
    Command {
        /// Compare its credentials with those that the front end has now.
        compare_credentials: bool,
    },
    /// End a run that no process drives.
    Close,
    /// Observe the cluster.
    Observe,
    /// Wait for a change, or this moment.
    Wait(Option<Instant>),
}

/// The next step. `decided` is what the front end decided in this round.
pub(super) fn step(known: &Known, decided: Option<&NextAction>, now: Instant) -> Step {
    let prepared = match known {
        Known { driver: DriverState::Ended, .. } => Some(Step::RecordEnd),
        Known { lease: LeaseState::Lost, .. } => Some(Step::Abandon),
        // A replica that drives a run keeps it, whichever shard it is in.
        Known { ours: false, driver: DriverState::None, .. } => Some(Step::Leave),
        Known { loaded: false, .. } => Some(Step::Load),
        Known { new_targets: true, .. } => Some(Step::NoteTargets),
        _ => None,
    };
    match (prepared, decided) {
        (Some(prepared), _) => prepared,
        (None, None) => Step::Decide,
        (None, Some(decided)) => carry_out(known, decided, now),
    }
}

fn carry_out(known: &Known, decided: &NextAction, now: Instant) -> Step {
    // A run that never began has nothing in flight: it is not begun only to be stopped (rule 12).
    let waits = known.run == Some(RunPhase::Pending) && known.driver == DriverState::None;
    // A run that is paused already is paused without a driver, so it needs no lease.
    let paused = matches!(decided, NextAction::Pause { .. })
        && (waits || known.run == Some(RunPhase::Paused));
    let driven = match decided {
        NextAction::Drive => true,
        NextAction::Cancel => !waits,
        NextAction::Pause { .. } => !paused,
        NextAction::Begin(_) | NextAction::Idle | NextAction::Observe | NextAction::Close => false,
    };
    let begins = matches!(decided, NextAction::Begin(_));
    // Under the lease its phase is read again: another process may have begun it (rule 9).
    let ends = matches!(decided, NextAction::Cancel);
    if (driven || begins || ends) && known.lease == LeaseState::None {
        return Step::TakeLease;
    }
    let fresh = known.observed_at.is_some_and(|observed| is_fresh(observed, now));
    // A plan follows at once on a fresh observation: a status that says so would be read by
    // no one, unless it is the first status of the object.
    let show = !(begins && known.has_status && fresh);
    let act = match decided {
        _ if driven => drive(known, now),
        NextAction::Begin(_) => Act::Begin,
        NextAction::Close | NextAction::Cancel => Act::Close,
        _ if known.hands_off => Act::Wait(None),
        NextAction::Observe => Act::Observe,
        _ if now < known.observe_at => Act::Wait(Some(known.observe_at)),
        _ => Act::Observe,
    };
    let rests = paused || matches!(decided, NextAction::Idle);
    let release = rests && known.driver == DriverState::None && known.lease == LeaseState::Held;
    Step::Act { show, release, act }
}

fn drive(known: &Known, now: Instant) -> Act {
    match (known.driver, known.starts_at) {
        (DriverState::None, Some(until)) => Act::WaitToStart(until),
        (DriverState::None, None) => Act::Resume,
        _ => Act::Command { compare_credentials: now >= known.credentials_at },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use upgrade_core::intent::Intent;

    use super::super::rules::FRESH;
    use super::*;
    use crate::front_end::Start;

    /// An idle cluster of ours, with its newest run in this phase.
    fn known(run: Option<RunPhase>) -> Known {
        let now = Instant::now();
        Known {
            driver: DriverState::None,
            lease: LeaseState::None,
            ours: true,
            loaded: true,
            new_targets: false,
            run,
            has_status: true,
            hands_off: false,
            observed_at: None,
            observe_at: now,
            credentials_at: now,
            starts_at: None,
        }
    }

    fn begin() -> NextAction {
        let start = Start { intent: Intent::default(), policy: Err(String::new()) };
        NextAction::Begin(Box::new(start))
    }

    fn pause() -> NextAction {
        NextAction::Pause { by: "anna".to_owned() }
    }

    fn next(known: &Known, decided: &NextAction) -> Step {
        step(known, Some(decided), Instant::now())
    }

    fn act(known: &Known, decided: &NextAction) -> Act {
        match next(known, decided) {
            Step::Act { act, .. } => act,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn only_a_lease_starts_or_steers_a_run() {
        // Rule 9.
        for decided in [begin(), NextAction::Drive, NextAction::Cancel] {
            for run in RunPhase::ALL.map(Some) {
                assert_eq!(next(&known(run), &decided), Step::TakeLease, "{decided:?} {run:?}");
            }
        }
        for decided in [NextAction::Idle, NextAction::Observe, NextAction::Close] {
            let step = next(&known(Some(RunPhase::Running)), &decided);
            assert!(matches!(step, Step::Act { .. }), "{decided:?}");
        }
    }

    #[tokio::test]
    async fn a_lost_lease_comes_before_everything_but_the_end_of_the_driver() {
        // Rule 9: nothing is decided or written for a cluster that another process may drive.
        let mut known = Known { lease: LeaseState::Lost, loaded: false, ..known(None) };
        known.driver = DriverState::Drives;
        assert_eq!(next(&known, &NextAction::Drive), Step::Abandon);
        known.driver = DriverState::Ended;
        assert_eq!(next(&known, &NextAction::Drive), Step::RecordEnd);
    }

    #[tokio::test]
    async fn a_replica_that_drives_keeps_a_cluster_of_another_shard() {
        // Rule 8: handing a run over puts its steps in doubt, for nothing.
        let mut known = Known { ours: false, lease: LeaseState::Held, ..known(None) };
        assert_eq!(next(&known, &NextAction::Drive), Step::Leave);
        known.driver = DriverState::Drives;
        assert!(matches!(act(&known, &NextAction::Drive), Act::Command { .. }));
    }

    #[tokio::test]
    async fn runs_are_read_and_new_targets_noted_before_the_front_end_is_asked() {
        let mut known = Known { loaded: false, new_targets: true, ..known(None) };
        assert_eq!(step(&known, None, Instant::now()), Step::Load);
        known.loaded = true;
        assert_eq!(step(&known, None, Instant::now()), Step::NoteTargets);
        known.new_targets = false;
        assert_eq!(step(&known, None, Instant::now()), Step::Decide);
    }

    #[tokio::test]
    async fn a_pause_needs_a_driver_until_the_run_is_paused() {
        // Rule 12: the node in flight reaches a safe state first.
        let running = Known { lease: LeaseState::Held, ..known(Some(RunPhase::Running)) };
        assert_eq!(act(&running, &pause()), Act::Resume);
        let paused = Known { lease: LeaseState::Held, ..known(Some(RunPhase::Paused)) };
        let step = next(&paused, &pause());
        assert_eq!(step, Step::Act { show: true, release: true, act: Act::Observe });
        assert_eq!(act(&known(Some(RunPhase::Paused)), &pause()), Act::Observe);
    }

    #[tokio::test]
    async fn a_run_that_never_began_is_not_begun_to_be_stopped() {
        // Rule 12: nothing of it is in flight.
        let pending = known(Some(RunPhase::Pending));
        assert_eq!(act(&pending, &pause()), Act::Observe);
        assert_eq!(next(&pending, &NextAction::Cancel), Step::TakeLease);
        let held = Known { lease: LeaseState::Held, ..pending };
        assert_eq!(act(&held, &pause()), Act::Observe);
        assert_eq!(act(&held, &NextAction::Cancel), Act::Close);
        assert_eq!(act(&held, &NextAction::Drive), Act::Resume);
        // Its driver has started, and may have written more than we know.
        let driven = Known { driver: DriverState::Drives, ..held };
        for stop in [pause(), NextAction::Cancel] {
            assert!(matches!(act(&driven, &stop), Act::Command { .. }), "{stop:?}");
        }
    }

    #[tokio::test]
    async fn the_status_is_written_first_unless_a_plan_follows_at_once() {
        let shows = |known: &Known, decided: &NextAction| {
            let step = next(known, decided);
            matches!(step, Step::Act { show: true, .. })
        };
        let mut known = Known { lease: LeaseState::Held, ..known(None) };
        assert!(shows(&known, &begin()), "the observation takes a while");
        known.observed_at = Some(Instant::now());
        assert!(!shows(&known, &begin()));
        assert!(shows(&known, &NextAction::Drive));
        known.has_status = false;
        assert!(shows(&known, &begin()), "the first status of the object");
    }

    #[tokio::test]
    async fn an_old_observation_is_shown_before_a_plan_is_made_on_a_new_one() {
        // Rule 2.
        let now = Instant::now();
        let known = Known { lease: LeaseState::Held, observed_at: Some(now), ..known(None) };
        let shows = |now| {
            let step = step(&known, Some(&begin()), now);
            matches!(step, Step::Act { show: true, act: Act::Begin, .. })
        };
        assert!(!shows(now + FRESH - Duration::from_millis(1)));
        assert!(shows(now + FRESH));
    }

    #[tokio::test]
    async fn a_run_that_was_just_created_waits_for_others_that_start() {
        let until = Instant::now() + Duration::from_secs(9);
        let mut known = Known { lease: LeaseState::Held, starts_at: Some(until), ..known(None) };
        assert_eq!(act(&known, &NextAction::Drive), Act::WaitToStart(until));
        known.driver = DriverState::Drives;
        assert!(matches!(act(&known, &NextAction::Drive), Act::Command { .. }));
    }

    #[tokio::test]
    async fn an_idle_cluster_is_observed_when_it_is_time_and_never_against_its_user() {
        let later = Instant::now() + Duration::from_mins(5);
        let mut known = Known { observe_at: later, ..known(None) };
        assert_eq!(act(&known, &NextAction::Idle), Act::Wait(Some(later)));
        assert_eq!(act(&known, &NextAction::Observe), Act::Observe, "at once");
        known.hands_off = true;
        assert_eq!(act(&known, &NextAction::Observe), Act::Wait(None));
    }

    #[tokio::test]
    async fn the_credentials_of_a_driver_are_compared_from_time_to_time() {
        let later = Instant::now() + Duration::from_secs(15);
        let known = Known {
            driver: DriverState::Drives,
            lease: LeaseState::Held,
            credentials_at: later,
            ..known(None)
        };
        let compares = |now| step(&known, Some(&NextAction::Drive), now);
        let command = |compare_credentials| Step::Act {
            show: true,
            release: false,
            act: Act::Command { compare_credentials },
        };
        assert_eq!(compares(Instant::now()), command(false));
        assert_eq!(compares(later), command(true));
    }
}
