//! The bootstrap manifests: those that the nodes render from their configuration are applied,
//! roll-outs are waited for, and objects that left them are pruned.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use upgrade_core::image::ImageRef;
use upgrade_core::manifests::ObjectKey;
use upgrade_core::plan::Target;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::Component;
use upgrade_core::version::Minor;

use super::super::wait::{Probe, Wait, retry_read};
use super::super::{Completion, Step};
use super::{prune, rollout};
use crate::inventory;
use crate::io::kubernetes::{Apply, ObjectName};
use crate::io::{Io, Kubernetes as _, Machine, Machines as _};
use crate::manifests;

/// The first Talos that keeps an inventory.
const KEEPS_INVENTORY: Minor = Minor::new(1, 13);

/// All of it may be repeated: applying what is there changes nothing, and what was pruned is gone
/// (rule 8).
pub(super) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let machines = step.control_planes();
    let Some(machine) = machines.first() else {
        let text = "there is no control plane to render the manifests";
        return Err(Failure::new(FailureKind::Unavailable, text));
    };
    let keeps = keeps_inventory(step, &machines).await?;
    let mut objects = rendered(step, machine).await?;
    objects.sort_by_key(rank);
    if keeps {
        for object in &mut objects {
            mark(object)?;
        }
    }
    let (applied, changed) = apply_all(step, &objects, keeps).await?;
    if keeps {
        record(step, &applied).await?;
    }
    for name in changed {
        roll_out(step, &name).await?;
    }
    // Last: the new objects are up before the old ones go.
    if keeps {
        prune::run(step, &machines).await?;
    }
    Ok(Completion::Done)
}

/// Older nodes neither read nor write an inventory; pruning by an inventory that they do not keep
/// would miss what they add.
pub(super) async fn keeps_inventory<I: Io>(
    step: &Step<I>,
    machines: &[Machine],
) -> Result<bool, Failure> {
    for machine in machines {
        let what = format!("the version of {}", machine.name);
        let facts = retry_read(step, &what, || step.io.machines().facts(machine)).await?;
        if facts.version.minor() < KEEPS_INVENTORY {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The manifests, once they name the kube-proxy that this hop sets: a node takes a moment to render
/// them. Failed downloads are waited for for a limited time; then the rest is applied without them.
async fn rendered<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Vec<Value>, Failure> {
    let proxy = proxy_of(step, machine);
    let node = &machine.name;
    let wait = Wait::new(FailureKind::Deadline, format!("{node} did not render its manifests"))
        .on(step.io.machines().changes(machine));
    let patience = step.now().saturating_add(step.plan.policy.timeouts.call);
    let patience = patience.unwrap_or(step.deadline);
    wait.poll(step, || async {
        let found = match step.io.machines().manifests(machine).await {
            Err(error) if !error.failure.kind.may_pass() => return Err(error.failure),
            Err(error) => return Ok(Probe::NotYet(format!("manifests of {node}: {error}"))),
            Ok(found) => found,
        };
        let gap = manifests::gap(machine, &found);
        let image = found.objects.iter().find_map(proxy_image);
        Ok(match (image, proxy, gap) {
            // Without a kube-proxy there is nothing to wait for: it is disabled.
            (Some(image), Some(proxy), _) if image != proxy.to_string() => {
                Probe::NotYet(format!("the manifests of {node} still name {image}"))
            }
            (_, _, Some(gap)) if step.now() < patience => Probe::NotYet(gap),
            _ => Probe::Found(found.objects),
        })
    })
    .await
}

/// The kube-proxy that this hop sets on a machine.
fn proxy_of<'a, I: Io>(step: &'a Step<I>, machine: &Machine) -> Option<&'a ImageRef> {
    let mut lanes = step.hop().lanes().filter(|lane| lane.node.as_ref() == Some(&machine.name));
    lanes.find_map(|lane| match &lane.target {
        Target::Kubernetes { images, .. } => images.get(&Component::KubeProxy),
        _ => None,
    })
}

fn proxy_image(object: &Value) -> Option<&str> {
    if object["kind"] != "DaemonSet" || object["metadata"]["name"] != "kube-proxy" {
        return None;
    }
    let containers = object.pointer("/spec/template/spec/containers")?.as_array()?;
    let mut containers = containers.iter();
    containers.find(|container| container["name"] == "kube-proxy")?["image"].as_str()
}

/// The order of applying: what others need first (namespaces, definitions, roles), then what pods
/// read, then the rest, each in its own order.
fn rank(object: &Value) -> u8 {
    match object["kind"].as_str().unwrap_or_default() {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "ClusterRole" | "Role" | "ServiceAccount" => 2,
        "ConfigMap" | "Secret" => 3,
        _ => 4,
    }
}

/// Adds the owner annotation.
fn mark(object: &mut Value) -> Result<(), Failure> {
    if let Some(owner) = inventory::owner(object).filter(|owner| *owner != inventory::NAME) {
        return Err(foreign(&inventory::name_of(object), owner));
    }
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][inventory::OWNER] = json!(inventory::NAME);
    Ok(())
}

pub(super) fn foreign(name: &ObjectName, owner: &str) -> Failure {
    let text = format!(
        "{name} belongs to inventory {owner}, not to Talos's; take it out of there or out of the \
         manifests"
    );
    Failure::new(FailureKind::Refused, &text)
}

/// Applies every object. Returns the workloads that have to roll out: those that changed, and
/// kube-proxy and CoreDNS even if they changed in an earlier attempt.
async fn apply_all<I: Io>(
    step: &Step<I>,
    objects: &[Value],
    keeps: bool,
) -> Result<(BTreeSet<ObjectKey>, Vec<ObjectName>), Failure> {
    let mut applied = BTreeSet::new();
    let mut rolling = Vec::new();
    for object in objects {
        let name = inventory::name_of(object);
        let what = name.to_string();
        let before = retry_read(step, &what, || step.io.kubernetes().object(&name)).await?;
        let owner = before.as_ref().and_then(inventory::owner);
        if let Some(owner) = owner.filter(|owner| keeps && *owner != inventory::NAME) {
            return Err(foreign(&name, owner));
        }
        let after = apply(step, object, &name).await?;
        // As the API server returns it: it knows the namespace of an object that names none, and
        // which kinds have none.
        applied.insert(inventory::key_of(&after));
        let generation = |object: &Value| object.pointer("/metadata/generation").cloned();
        let changed = before.is_none_or(|before| generation(&before) != generation(&after));
        let core = name.namespace == "kube-system"
            && matches!(name.name.as_str(), "kube-proxy" | "coredns");
        if matches!(name.kind.as_str(), "DaemonSet" | "Deployment") && (changed || core) {
            rolling.push(name);
        }
    }
    Ok((applied, rolling))
}

/// Applies one object as Talos does: its fields belong to Talos from then on, by force.
pub(super) async fn apply<I: Io>(
    step: &Step<I>,
    object: &Value,
    name: &ObjectName,
) -> Result<Value, Failure> {
    let wait = Wait::new(FailureKind::Unavailable, format!("{name} was not applied"));
    let how = Apply { force: true, dry_run: false };
    wait.poll(step, || async {
        step.permitted()?;
        Probe::or_fail(step.io.kubernetes().apply(object, inventory::MANAGER, how).await)
    })
    .await
}

/// Writes the inventory: it names an object before anything can remove it from the manifests again.
async fn record<I: Io>(step: &Step<I>, applied: &BTreeSet<ObjectKey>) -> Result<(), Failure> {
    let name = inventory::object_name();
    let what = name.to_string();
    let found = retry_read(step, &what, || step.io.kubernetes().object(&name)).await?;
    let mut entries = inventory::entries(found.as_ref());
    let new = |key: &&ObjectKey| !inventory::holds(&entries, key);
    let new: Vec<ObjectKey> = applied.iter().filter(new).cloned().collect();
    if found.is_some() && new.is_empty() {
        return Ok(());
    }
    entries.extend(new);
    apply(step, &inventory::object(&entries, &BTreeSet::new()), &name).await.map(drop)
}

/// Waits until a workload runs its new version everywhere.
async fn roll_out<I: Io>(step: &Step<I>, name: &ObjectName) -> Result<(), Failure> {
    let pulling = AtomicBool::new(false);
    let wait = Wait::new(FailureKind::Deadline, format!("{name} did not roll out"))
        .on(step.io.kubernetes().changes());
    let done = wait
        .poll(step, || async {
            let object = match step.io.kubernetes().object(name).await {
                Ok(Some(object)) => object,
                Ok(None) => return Ok(Probe::NotYet(format!("{name} is gone"))),
                Err(error) => return Ok(Probe::NotYet(format!("{name}: {error}"))),
            };
            let Some(missing) = rollout::missing(&object) else {
                return Ok(Probe::Found(()));
            };
            let pods = step.io.kubernetes().pods(None).await.unwrap_or_default();
            let stuck = rollout::stuck(&object, &pods);
            pulling.store(stuck.as_ref().is_some_and(|(_, pulls)| *pulls), Ordering::Relaxed);
            let why = stuck.map(|(why, _)| format!("; {why}")).unwrap_or_default();
            Ok(Probe::NotYet(format!("{name}: {missing}{why}")))
        })
        .await;
    done.map_err(|failure| {
        let pulls = pulling.load(Ordering::Relaxed);
        if pulls { Failure::new(FailureKind::Pull, failure.text()) } else { failure }
    })
}
