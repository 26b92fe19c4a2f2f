//! Runs of Kubernetes and their Jobs.

use super::*;

#[test]
fn a_job_is_made_watched_and_given_up() {
    // Rule 11: a Job that never starts ends its run.
    let to = version("1.35.0");
    let not_started =
        |overdue| Job::NotStarted { why: Some("ImagePullBackOff".to_owned()), overdue };
    for (job, expected) in [
        (Job::Absent, NextAction::EnsureJob { to }),
        (Job::Running, NextAction::WaitForJob),
        (not_started(false), NextAction::WaitForJob),
        (Job::Foreign { ended: false }, NextAction::WaitForJob),
        (Job::Foreign { ended: true }, NextAction::EndJob),
    ] {
        let case = Case::kubernetes().run(Product::Kubernetes, RunPhase::Running).job(job.clone());
        let (state, reason, next) = case.outcome();
        assert_eq!((state, reason), (State::UpgradingKubernetes, Reason::Upgrading), "{job:?}");
        assert_eq!(next, expected, "{job:?}");
    }
    for job in [not_started(true), Job::Ended] {
        let case = Case::kubernetes().run(Product::Kubernetes, RunPhase::Running).job(job.clone());
        let (state, _, next) = case.outcome();
        assert_eq!(state, State::UpgradingKubernetes, "its outcome is not recorded yet");
        assert!(matches!(next, NextAction::Halt { .. }), "{job:?}: {next:?}");
    }
    for process in [INLINE, Process::Job] {
        let case = Case::kubernetes().run(Product::Kubernetes, RunPhase::Running).process(process);
        assert_eq!(case.decide().next, NextAction::Drive);
    }
}

#[test]
fn a_job_is_told_by_its_own_process() {
    let unwanted = |job| {
        let case = Case::kubernetes().run(Product::Kubernetes, RunPhase::Running).job(job);
        case.versions("v1.13.9", "v1.34.0")
    };
    assert_eq!(unwanted(Job::Running).decide().next, NextAction::WaitForJob);
    assert_eq!(unwanted(Job::Ended).decide().next, NextAction::EndJob);
    assert_eq!(unwanted(Job::Absent).decide().next, NextAction::Cancel, "no other process is left");
    let own = unwanted(Job::Running).process(Process::Job);
    assert_eq!(own.decide().next, NextAction::Cancel);
}

#[test]
fn a_run_of_kubernetes_is_judged_by_the_cluster() {
    let completed = |now: Option<Result<Observed, &'static str>>, job| {
        let case = Case::new().run(Product::Kubernetes, RunPhase::Completed).job(job);
        Case { observed: now, ..case }.state("UpgradingKubernetes")
    };
    let there = || Some(Ok(observed("1.13.9", "1.35.0")));
    let (state, _, next) = completed(None, Job::Ended).outcome();
    assert_eq!((state, next), (State::UpgradingKubernetes, NextAction::Observe), "rule 2");
    let (state, _, next) = completed(Some(Err("no answer")), Job::Ended).outcome();
    assert_eq!((state, next), (State::UpgradingKubernetes, NextAction::Idle), "rule 10");
    let (update, next) = completed(there(), Job::Ended).shown();
    assert_eq!((update.control_plane.state, next), (State::Ready, NextAction::EndJob));
    let conditions = &update.control_plane.conditions;
    let succeeded = condition(conditions, ConditionType::KubernetesUpgradeSucceeded);
    assert_eq!((succeeded.holds, succeeded.reason), (Some(true), Reason::UpgradeSucceeded));
    // Without a Job, as `inline`: at rest, and the outcome is shown all the same.
    let (update, next) = completed(there(), Job::Absent).shown();
    assert_eq!((reason(&update), next), (Reason::Reconciled, NextAction::Idle));
    let conditions = &update.control_plane.conditions;
    let succeeded = condition(conditions, ConditionType::KubernetesUpgradeSucceeded);
    assert_eq!(succeeded.holds, Some(true));
    // The Job ended well, the cluster did not.
    let behind = || Some(Ok(observed("1.13.9", "1.34.0")));
    let (state, reason, next) = completed(behind(), Job::Ended).outcome();
    assert_eq!((state, reason), (State::KubernetesUpgradeFailed, Reason::Failed));
    assert_eq!(next, NextAction::EndJob);
    // Rule 5: it stays failed without the Job, and after a restart.
    let after = |now| completed(now, Job::Absent).state("KubernetesUpgradeFailed");
    let expected = (State::KubernetesUpgradeFailed, Reason::Failed, NextAction::Idle);
    assert_eq!(after(behind()).outcome(), expected);
    assert_eq!(after(None).decide(), Decision { update: None, next: NextAction::Observe });
    let again = after(behind()).annotate(keys::RETRY, "1");
    assert_eq!(again.begins().product, Product::Kubernetes);
    assert_eq!(after(there()).outcome(), (State::Ready, Reason::Reconciled, NextAction::Idle));
}

#[test]
fn jobs_are_deleted_whatever_came_of_them() {
    let not_started = Job::NotStarted { why: None, overdue: false };
    for job in [Job::Ended, not_started, Job::Foreign { ended: true }] {
        let case = Case::new().job(job.clone());
        assert_eq!(case.decide(), Decision { update: None, next: NextAction::EndJob }, "{job:?}");
    }
    let foreign = Case::new().job(Job::Foreign { ended: false });
    let (state, _, next) = foreign.outcome();
    assert_eq!((state, next), (State::UpgradingKubernetes, NextAction::WaitForJob));
    let cancelled = Case::new().run(Product::Kubernetes, RunPhase::Cancelled).job(Job::Ended);
    assert_eq!(cancelled.decide().next, NextAction::EndJob);
}

#[test]
fn a_job_that_runs_is_left_to_its_end() {
    // Made by hand, it creates its run itself.
    assert_eq!(Case::kubernetes().job(Job::Running).decide().next, NextAction::WaitForJob);
    for phase in [RunPhase::Completed, RunPhase::Halted, RunPhase::Cancelled] {
        let case = Case::new().run(Product::Kubernetes, phase).job(Job::Running);
        assert_eq!(case.decide().next, NextAction::WaitForJob, "{phase}");
        let own = case.process(Process::Job);
        assert_eq!(own.decide().next, NextAction::Idle, "its own process does not delete it");
    }
}
