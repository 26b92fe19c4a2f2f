//! Moves the pods of a node elsewhere, by eviction only (rule 6), and waits until they and their
//! volumes are gone.
//!
//! Each probe judges the whole node again, so an attempt that was interrupted is simply repeated:
//! pods that are terminating are waited for, those that are gone need nothing (rule 8).

mod report;

use std::collections::BTreeMap;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;
use upgrade_core::advice::Advice;
use upgrade_core::event::{StepProgress, Unit};
use upgrade_core::guard;
use upgrade_core::jiff;
use upgrade_core::mutant::Mutant;
use upgrade_core::policy::OnDrainTimeout;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::NodeName;
use upgrade_core::workload::{Budget, Pod, PodName};
use upgrade_planner::drain::{Fate, budgets_of, fate};

use super::wait::{Probe, Wait};
use super::{Completion, Step};
use crate::io::kubernetes::{Evicted, ObjectName};
use crate::io::{Io, IoError, Kubernetes as _};
use report::{DrainStatus, EvictionBlock};

/// The shortest and the longest pause after an eviction that was refused. A budget that allows
/// evictions again ends the pause.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(15);

/// How many evictions are requested at once: a node has hundreds of pods, and the API server has
/// other clients.
const AT_ONCE: usize = 16;

/// An eviction that was refused.
struct Tried {
    again_at: Timestamp,
    pause: SignedDuration,
    block: EvictionBlock,
}

/// What earlier probes found.
#[derive(Default)]
struct Progress {
    /// Evictions that were refused, by pod.
    tried: BTreeMap<PodName, Tried>,
    /// What the last probe still found.
    left: DrainStatus,
    /// The largest number of pods that had to leave at one time.
    most: usize,
    /// Whether any pod had to leave.
    any: bool,
}

pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let node = step.node()?;
    // Held across calls; a probe that is cancelled leaves what it found.
    let progress = Mutex::new(Progress::default());
    let drained = Wait::new(FailureKind::Drain, format!("{node} was not drained"))
        .on(step.io.kubernetes().changes())
        .poll(step, || drain_once(step, node, &progress))
        .await;
    let Progress { left, any, .. } = progress.into_inner();
    match drained {
        Ok(()) if any => Ok(Completion::Done),
        Ok(()) => Ok(Completion::Skipped("no pod has to leave".to_owned())),
        // It ended before it began, or the pods could never be listed: not a question of time.
        Err(failure) if failure.kind != FailureKind::Drain || left.is_done() => Err(failure),
        Err(_) => {
            let limit = step.plan.policy.drain.timeout;
            let text = format!("{node} was not drained within {limit:#}: {left}");
            match step.plan.policy.drain.on_timeout {
                OnDrainTimeout::Halt if guard!(Mutant::DrainDeadline) => {
                    Err(Failure::new(FailureKind::Drain, &text))
                }
                OnDrainTimeout::Halt | OnDrainTimeout::Proceed => {
                    Ok(Completion::Skipped(format!("{text}; the policy says to proceed")))
                }
            }
        }
    }
}

/// Evicts the pods that may leave now, and reports those that remain.
async fn drain_once<I: Io>(
    step: &Step<I>,
    node: &NodeName,
    progress: &Mutex<Progress>,
) -> Result<Probe<()>, Failure> {
    let kubernetes = step.io.kubernetes();
    let policy = &step.plan.policy.drain;
    let mut progress = progress.lock().await;
    let pods = match kubernetes.pods(Some(node)).await {
        Ok(pods) => pods,
        Err(error) => return Ok(Probe::NotYet(error.to_string())),
    };
    let (mut evict, mut going, mut halts) = (Vec::new(), Vec::new(), Vec::new());
    let mut volumes_stay = false;
    for pod in &pods {
        match fate(pod, policy) {
            Fate::Evicted => evict.push(pod),
            Fate::Going => going.push(pod.name.clone()),
            Fate::Halts(stake) => halts.push((pod.name.clone(), stake)),
            // The volumes of a pod that the policy leaves on the node are never detached, and
            // cannot be told from those that should be.
            Fate::Stays(_) => {
                let runs = !pod.is_daemon() && !pod.is_finished();
                volumes_stay |= runs && !pod.claims.is_empty();
            }
        }
    }
    // Before the first eviction: a drain that cannot end should not begin.
    if !halts.is_empty() {
        let failure = Failure::new(FailureKind::Refused, &report::halted(node, &halts));
        return Err(failure.advise(Advice::pods_at_stake()));
    }
    progress.any |= !evict.is_empty() || !going.is_empty();
    progress.most = progress.most.max(evict.len() + going.len());
    progress.tried.retain(|name, _| evict.iter().any(|pod| pod.name == *name));
    let due = due(step, &evict, &progress.tried).await;
    for some in due.chunks(AT_ONCE) {
        step.permitted()?;
        let asked = some.iter().map(|pod| evict_pod(step, pod));
        for (pod, answer) in some.iter().zip(join_all(asked).await) {
            let block = match answer {
                Ok(Evicted::Accepted) => {
                    progress.tried.remove(&pod.name);
                    going.push(pod.name.clone());
                    continue;
                }
                Ok(Evicted::Gone) => {
                    progress.tried.remove(&pod.name);
                    continue;
                }
                Ok(Evicted::Blocked { budget, why }) => EvictionBlock { budget, why },
                Err(error) => EvictionBlock { budget: None, why: error.to_string() },
            };
            let earlier = progress.tried.get(&pod.name).map(|tried| tried.pause);
            let pause = earlier.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
            let again_at = step.now().saturating_add(pause).unwrap_or(Timestamp::MAX);
            progress.tried.insert(pod.name.clone(), Tried { again_at, pause, block });
        }
    }
    let blocked = progress.tried.iter().map(|(pod, tried)| (pod.clone(), tried.block.clone()));
    let mut left = DrainStatus { going, blocked: blocked.collect(), volumes: Vec::new() };
    if left.is_done() && !volumes_stay {
        match kubernetes.attachments(node).await {
            Ok(volumes) => left.volumes = volumes,
            Err(error) => return Ok(Probe::NotYet(error.to_string())),
        }
    }
    progress.left = left;
    if progress.left.is_done() {
        return Ok(Probe::Found(()));
    }
    Ok(Probe::Counting(evicted(&progress)))
}

/// How many pods are gone, of all that had to leave.
fn evicted(progress: &Progress) -> StepProgress {
    let Progress { left, most, .. } = progress;
    let gone = most.saturating_sub(left.going.len() + left.blocked.len());
    let count = |pods: usize| u64::try_from(pods).unwrap_or(u64::MAX);
    StepProgress::counted(Unit::Pods, count(gone), Some(count(*most)), left.to_string())
}

/// Requests the eviction of a pod (rule 6).
async fn evict_pod<I: Io>(step: &Step<I>, pod: &Pod) -> Result<Evicted, IoError> {
    let kubernetes = step.io.kubernetes();
    if !guard!(Mutant::EvictByDelete) {
        let PodName { namespace, name } = pod.name.clone();
        let (api_version, kind) = ("v1".to_owned(), "Pod".to_owned());
        let name = ObjectName { api_version, kind, namespace, name };
        return kubernetes.delete(&name).await.map(|()| Evicted::Accepted);
    }
    kubernetes.evict(&pod.name, &pod.uid).await
}

/// Pods whose eviction is requested now: those never refused, those whose pause is over, and those
/// whose budget allows one again.
async fn due<'a, I: Io>(
    step: &Step<I>,
    evict: &[&'a Pod],
    tried: &BTreeMap<PodName, Tried>,
) -> Vec<&'a Pod> {
    let now = step.now();
    let waits = |pod: &&Pod| tried.get(&pod.name).is_some_and(|tried| tried.again_at > now);
    let (waiting, mut due): (Vec<&Pod>, Vec<&Pod>) = evict.iter().copied().partition(waits);
    if !waiting.is_empty()
        && let Ok(budgets) = step.io.kubernetes().budgets().await
    {
        due.extend(waiting.into_iter().filter(|pod| allowed(pod, &budgets)));
    }
    due
}

/// Whether exactly one budget covers the pod, and it allows an eviction.
fn allowed(pod: &Pod, budgets: &[Budget]) -> bool {
    let own = budgets_of(pod, budgets);
    own.len() == 1 && own[0].disruptions_allowed > 0
}
