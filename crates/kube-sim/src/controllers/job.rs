//! Runs the pods of jobs until enough have succeeded.

use serde_json::{Value, json};

use super::{Controllers, conditions, manager, pods, select};
use crate::names::{JOBS, PODS};
use crate::object;
use crate::store::Store;

impl Controllers {
    pub(super) fn job(&mut self, store: &mut Store, namespace: &str, name: &str) {
        let Some(job) = store.get(&JOBS, namespace, name).cloned() else { return };
        let over = conditions::is_true(&job, "Complete") || conditions::is_true(&job, "Failed");
        if object::is_deleting(&job) || over {
            return;
        }
        let number =
            |field: &str, usual: i64| object::number(&job, &["spec", field]).unwrap_or(usual);
        let (wanted, at_once, tries) =
            (number("completions", 1), number("parallelism", 1), number("backoffLimit", 6));
        let all = self.pods_of(store, &job);
        let phase = |wanted: &str| {
            let count = all.iter().filter(|pod| object::text(pod, &["status", "phase"]) == wanted);
            i64::try_from(count.count()).unwrap_or(i64::MAX)
        };
        let (succeeded, failed) = (phase("Succeeded"), phase("Failed"));
        let running: Vec<_> =
            all.iter().filter(|pod| !select::is_over(pod) && !object::is_deleting(pod)).collect();
        let mut active = i64::try_from(running.len()).unwrap_or(i64::MAX);
        let outcome = if succeeded >= wanted {
            Some(("Complete", "CompletionsReached", "Reached expected number of succeeded pods"))
        } else if failed > tries {
            Some(("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"))
        } else {
            None
        };
        if outcome.is_some() {
            for pod in &running {
                pods::delete(store, pod);
            }
            active = 0;
        } else if !object::flag(&job, &["spec", "suspend"]) {
            while active < at_once.min(wanted - succeeded) {
                let mut pod = pods::from_template(&job);
                object::set(&mut pod, &["metadata", "generateName"], format!("{name}-"));
                for (key, value) in [("job-name", name), ("controller-uid", object::uid(&job))] {
                    object::set(&mut pod, &["metadata", "labels", key], value);
                    let key = format!("batch.kubernetes.io/{key}");
                    object::set(&mut pod, &["metadata", "labels", &key], value);
                }
                if store.create(&manager(), &PODS, pod).is_err() {
                    break;
                }
                active += 1;
            }
        }
        report(store, &job, [active, succeeded, failed], &running, outcome);
    }
}

fn report(
    store: &mut Store,
    job: &Value,
    [active, succeeded, failed]: [i64; 3],
    running: &[&std::sync::Arc<Value>],
    outcome: Option<(&str, &str, &str)>,
) {
    let now = store.now();
    let started = match object::text(job, &["status", "startTime"]) {
        "" => now.to_text(),
        known => known.to_owned(),
    };
    let ready = if outcome.is_some() {
        0
    } else {
        running.iter().filter(|pod| pods::is_ready(pod)).count()
    };
    let mut status = json!({
        "active": active, "succeeded": succeeded, "failed": failed, "ready": ready,
        "startTime": started,
        "uncountedTerminatedPods": {},
        "terminating": 0,
    });
    pods::drop_zeros(&mut status, &["active", "succeeded", "failed"]);
    if let Some((kind, reason, message)) = outcome {
        let mut list = object::list(job, &["status", "conditions"]).to_vec();
        if kind == "Complete" {
            let early = "SuccessCriteriaMet";
            conditions::put(&mut list, early, "True", reason, message, now);
            object::set(&mut status, &["completionTime"], now.to_text());
        }
        conditions::put(&mut list, kind, "True", reason, message, now);
        object::set(&mut status, &["conditions"], list);
    }
    let (namespace, name) = (object::namespace(job), object::name(job));
    let _ = store.modify_status(&manager(), &JOBS, namespace, name, |job| {
        object::set(job, &["status"], status);
    });
}
