//! Moves the pods of a node elsewhere, by eviction alone (rule 6), and waits
//! until they and their volumes are gone.
//!
//! Each look judges the whole node again, so an attempt that was cut short needs
//! nothing but another: pods that are on their way are waited for, those that
//! are gone are no matter (rule 8).

mod words;

use std::collections::BTreeMap;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;
use upgrade_core::advice::Advice;
use upgrade_core::event::{StepProgress, Unit};
use upgrade_core::jiff;
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::policy::OnDrainTimeout;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::NodeName;
use upgrade_core::workload::{Budget, Pod, PodName};
use upgrade_planner::drain::{Fate, budgets_of, fate};

use super::wait::{Look, Wait};
use super::{Done, Step};
use crate::io::kubernetes::{Evicted, ObjectName};
use crate::io::{Io, Kubernetes as _, Trouble};
use words::{Left, Obstacle};

/// The first pause after an eviction that was refused, and the longest. Budgets
/// that allow one again are seen in between, and make it shorter.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(15);

/// How many evictions are asked for at once: a node has hundreds of pods, and
/// the API server has other clients.
const AT_ONCE: usize = 16;

/// An eviction that was refused.
struct Tried {
    again_at: Timestamp,
    pause: SignedDuration,
    obstacle: Obstacle,
}

/// What earlier looks found.
#[derive(Default)]
struct Memory {
    /// Refused, by pod.
    tried: BTreeMap<PodName, Tried>,
    /// What was still there at the last look.
    left: Left,
    /// The most pods that had to leave at one look.
    most: usize,
    /// Whether anything had to go.
    any: bool,
}

/// Runs the step.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    let node = step.node()?;
    // Held across calls; a look that is given up on leaves what it found.
    let memory = Mutex::new(Memory::default());
    let drained = Wait::new(FailureKind::Drain, format!("{node} was not drained"))
        .on(step.io.kubernetes().changes())
        .look(step, || look(step, node, &memory))
        .await;
    let Memory { left, any, .. } = memory.into_inner();
    match drained {
        Ok(()) if any => Ok(Done::Did),
        Ok(()) => Ok(Done::Skipped("no pod has to leave".to_owned())),
        // Stopped before it began, or never seen: no matter of time.
        Err(failure) if failure.kind != FailureKind::Drain || left.is_nothing() => Err(failure),
        Err(_) => {
            let limit = step.plan.policy.drain.timeout;
            let text = format!("{node} was not drained within {limit:#}: {left}");
            match step.plan.policy.drain.on_timeout {
                OnDrainTimeout::Halt if !mutant::is(Mutant::DrainDeadline) => {
                    Err(Failure::new(FailureKind::Drain, &text))
                }
                OnDrainTimeout::Halt | OnDrainTimeout::Proceed => {
                    Ok(Done::Skipped(format!("{text}; the policy says to go on")))
                }
            }
        }
    }
}

/// One look: evicts whom it can, and says who is left.
async fn look<I: Io>(
    step: &Step<I>,
    node: &NodeName,
    memory: &Mutex<Memory>,
) -> Result<Look<()>, Failure> {
    let kubernetes = step.io.kubernetes();
    let policy = &step.plan.policy.drain;
    let mut memory = memory.lock().await;
    let pods = match kubernetes.pods(Some(node)).await {
        Ok(pods) => pods,
        Err(trouble) => return Ok(Look::NotYet(trouble.to_string())),
    };
    let (mut evict, mut going, mut halts) = (Vec::new(), Vec::new(), Vec::new());
    let mut volumes_stay = false;
    for pod in &pods {
        match fate(pod, policy) {
            Fate::Evicted => evict.push(pod),
            Fate::Going => going.push(pod.name.clone()),
            Fate::Halts(stake) => halts.push((pod.name.clone(), stake)),
            // What a pod that the policy leaves there holds is never detached,
            // and cannot be told from what should be.
            Fate::Stays(_) => {
                let runs = !pod.is_daemon() && !pod.is_finished();
                volumes_stay |= runs && !pod.claims.is_empty();
            }
        }
    }
    // Before anybody is evicted: a drain that cannot end had better not begin.
    if !halts.is_empty() {
        let failure = Failure::new(FailureKind::Refused, &words::halted(node, &halts));
        return Err(failure.advise(Advice::pods_at_stake()));
    }
    memory.any |= !evict.is_empty() || !going.is_empty();
    memory.most = memory.most.max(evict.len() + going.len());
    memory.tried.retain(|name, _| evict.iter().any(|pod| pod.name == *name));
    let due = due(step, &evict, &memory.tried).await;
    for some in due.chunks(AT_ONCE) {
        step.permitted()?;
        let asked = some.iter().map(|pod| ask_to_go(step, pod));
        for (pod, answer) in some.iter().zip(join_all(asked).await) {
            let obstacle = match answer {
                Ok(Evicted::Accepted) => {
                    memory.tried.remove(&pod.name);
                    going.push(pod.name.clone());
                    continue;
                }
                Ok(Evicted::Gone) => {
                    memory.tried.remove(&pod.name);
                    continue;
                }
                Ok(Evicted::Blocked { budget, why }) => Obstacle { budget, why },
                Err(trouble) => Obstacle { budget: None, why: trouble.to_string() },
            };
            let earlier = memory.tried.get(&pod.name).map(|tried| tried.pause);
            let pause = earlier.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
            let again_at = step.now().saturating_add(pause).unwrap_or(Timestamp::MAX);
            memory.tried.insert(pod.name.clone(), Tried { again_at, pause, obstacle });
        }
    }
    let blocked = memory.tried.iter().map(|(pod, tried)| (pod.clone(), tried.obstacle.clone()));
    let mut left = Left { going, blocked: blocked.collect(), volumes: Vec::new() };
    if left.is_nothing() && !volumes_stay {
        match kubernetes.attachments(node).await {
            Ok(volumes) => left.volumes = volumes,
            Err(trouble) => return Ok(Look::NotYet(trouble.to_string())),
        }
    }
    memory.left = left;
    if memory.left.is_nothing() {
        return Ok(Look::Found(()));
    }
    Ok(Look::Counting(evicted(&memory)))
}

/// How many pods are gone, of all that had to leave.
fn evicted(memory: &Memory) -> StepProgress {
    let Memory { left, most, .. } = memory;
    let gone = most.saturating_sub(left.going.len() + left.blocked.len());
    let count = |pods: usize| u64::try_from(pods).unwrap_or(u64::MAX);
    StepProgress::counted(Unit::Pods, count(gone), Some(count(*most)), left.to_string())
}

/// Asks for a pod to go, as rule 6 wants it.
async fn ask_to_go<I: Io>(step: &Step<I>, pod: &Pod) -> Result<Evicted, Trouble> {
    let kubernetes = step.io.kubernetes();
    if mutant::is(Mutant::EvictByDelete) {
        let PodName { namespace, name } = pod.name.clone();
        let (api_version, kind) = ("v1".to_owned(), "Pod".to_owned());
        let name = ObjectName { api_version, kind, namespace, name };
        return kubernetes.delete(&name).await.map(|()| Evicted::Accepted);
    }
    kubernetes.evict(&pod.name, &pod.uid).await
}

/// Those whose eviction is to be asked for now: the ones never refused, those
/// whose pause is over, and those whose budgets allow one again.
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

/// Whether a budget counts the pod, and every one that does allows an eviction.
fn allowed(pod: &Pod, budgets: &[Budget]) -> bool {
    let own = budgets_of(pod, budgets);
    own.len() == 1 && own[0].disruptions_allowed > 0
}
