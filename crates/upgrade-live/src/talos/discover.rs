//! Finding the machines: as they know each other, asked of every control plane, and
//! where they do not, as the talosconfig and Kubernetes know them.
//!
//! A control plane that has just booted knows only a part of them for a while.
//! A machine that is left out is a machine that no rule protects, so what anyone
//! knows counts. One that hangs is waited for as long as it takes to tell (rule 10),
//! and what was known before stays then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use talos_client::cosi::Resource;
use talos_client::resources::{self, ClusterInfo, MachineKind, Nodename};
use talos_client::{Client, Node};
use upgrade_core::jiff::SignedDuration;
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_engine::io::machines::peer_limit;
use upgrade_engine::io::roster::{Member, Roster};
use upgrade_engine::io::{IoError, Machine};

use super::Known;
use super::within::{NoAnswer, within};

/// How often the endpoints are asked: one that hangs is followed by the next, and the
/// next look begins there.
const TRIES: usize = 2;

/// How much later each further address of a machine is asked: the better one wins where
/// both answer, and an unreachable one delays no other.
const STAGGER: Duration = Duration::from_millis(250);

/// What an address may mean that nothing answers at, and that only discovery has.
pub(super) const STALE: &str = "discovery alone shows it there, and shows a machine that left, \
     or that was made again under its name, at its old address for up to 30 minutes";

/// How long such a machine is asked: less than the caller's deadline.
pub(super) const STALE_LIMIT: SignedDuration = SignedDuration::from_secs(8);

/// What is known of the machines from one observation to the next.
#[derive(Default)]
pub(super) struct Memory {
    roster: Mutex<Roster>,
    /// Machines that the talosconfig names and that never said who they are, by address.
    silent: Mutex<BTreeMap<String, String>>,
    /// In which boot a machine told its name: in the same boot it is the same machine.
    identified: Mutex<BTreeMap<NodeName, String>>,
}

impl Memory {
    pub(super) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn identified(&self) -> MutexGuard<'_, BTreeMap<NodeName, String>> {
        self.identified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cluster's name and its machines.
pub(super) async fn machines(
    client: &Client,
    known: &Known,
    memory: &Memory,
) -> Result<(String, Vec<Machine>), IoError> {
    let own = first_list(client).await?;
    {
        let mut roster = memory.roster();
        roster.take(std::slice::from_ref(&own), false);
        roster.list(&known.listed);
    }
    // First: a machine with several addresses is asked for its list at one that answers.
    let mut probed = BTreeMap::new();
    probe(client, memory, &mut probed).await;
    let peers = peers(client, memory);
    let silent = |name: &NodeName| probed.get(name) == Some(&false);
    let asked = peers.iter().filter(|(name, _)| !silent(name)).map(|(_, node)| members(node));
    let answers = join_all(asked).await;
    let all_came = answers.len() == peers.len() && answers.iter().all(Result::is_ok);
    let mut lists = vec![own];
    lists.extend(answers.into_iter().flatten());
    let is_off = lists.iter().all(Vec::is_empty);
    memory.roster().take(&lists, all_came);
    let unnamed =
        if is_off { introduce(client, &known.named, memory).await? } else { BTreeMap::new() };
    // In one go: others may look at the same time.
    *memory.silent() = unnamed;
    memory.roster().list(&known.listed);
    probe(client, memory, &mut probed).await;
    let machines = memory.roster().machines();
    let cluster = cluster_name(client, &peers).await?;
    Ok((cluster, machines))
}

/// The control planes that are known now, or were known before.
fn peers(client: &Client, memory: &Memory) -> Vec<(NodeName, Node)> {
    let known = memory.roster().machines().into_iter();
    let known = known.filter(|machine| machine.role == Role::ControlPlane);
    known.filter_map(|it| Some((it.name, client.node(it.address.parse().ok()?)))).collect()
}

/// What an endpoint knows; the next one if it hangs.
async fn first_list(client: &Client) -> Result<Vec<Member>, IoError> {
    let mut tries = 1;
    loop {
        match members(&client.endpoint()).await {
            Err(NoAnswer::Silent(_)) if tries < TRIES => tries += 1,
            answer => return answer.map_err(IoError::from),
        }
    }
}

async fn members(node: &Node) -> Result<Vec<Member>, NoAnswer> {
    let members = within(peer_limit(), node.list::<resources::Member>()).await?;
    let member = |it: Resource<resources::Member>| Member {
        // The ID is the node's name in Kubernetes; the host name may differ.
        name: NodeName(it.metadata.id),
        role: it.spec.role,
        addresses: it.spec.addresses.iter().map(ToString::to_string).collect(),
    };
    Ok(members.into_iter().map(member).collect())
}

/// Asks the machines that the talosconfig names who they are: where discovery is
/// switched off, they do not know each other. One that does not answer is who it was
/// before. If it never answered, not even its role is known (rule 10): it is no machine
/// until it says what it is, and [`identify`] tells of it.
async fn introduce(
    client: &Client,
    named: &[String],
    memory: &Memory,
) -> Result<BTreeMap<String, String>, IoError> {
    let mut silent = BTreeMap::new();
    let each = named.iter().map(|address| async move { (address, who(client, address).await) });
    let mut answered = named.is_empty();
    for (address, who) in join_all(each).await {
        match who {
            Ok(machine) => {
                answered = true;
                memory.roster().introduce(&machine);
            }
            Err(_) if memory.roster().at(address).is_some() => answered = true,
            Err(error) => {
                tracing::debug!(%address, %error, "a machine does not say who it is");
                silent.insert(address.clone(), error.to_string());
            }
        }
    }
    if answered { Ok(silent) } else { Err(silent_all(named)) }
}

fn silent_all(named: &[String]) -> IoError {
    let text = format!(
        "the machines do not know each other (discovery is off), and none of those that the \
         talosconfig names says who it is: {}; check that they are on and reachable, or list \
         others under `nodes`",
        named.join(", ")
    );
    IoError::new(FailureKind::Unavailable, &text)
}

/// Asks the machine at this address who it is.
async fn who(client: &Client, address: &str) -> Result<Machine, IoError> {
    let parsed = address.parse().map_err(|error| {
        IoError::new(FailureKind::Mismatch, &format!("the address of a node: {error}"))
    })?;
    let node = client.node(parsed);
    let both = async { tokio::try_join!(node.get::<Nodename>(), node.get::<MachineKind>()) };
    let (Some(name), Some(kind)) = within(peer_limit(), both).await? else {
        let text = format!("{address} does not know its own name or role yet");
        return Err(IoError::new(FailureKind::Unavailable, &text));
    };
    let name = NodeName(name.spec.name);
    Ok(Machine { name, address: address.to_owned(), role: kind.spec.0 })
}

/// Finds the address at which a machine with several addresses answers: the first may be
/// in a network that cannot be reached from here. No machine is asked twice in one
/// observation; `probed` says which machines answered.
async fn probe(client: &Client, memory: &Memory, probed: &mut BTreeMap<NodeName, bool>) {
    let mut each = memory.roster().to_probe();
    each.retain(|(name, _)| !probed.contains_key(name));
    let each = each.into_iter().map(|(name, addresses)| async move {
        let address = first_answer(client, &name, &addresses).await;
        (name, address)
    });
    for (name, address) in join_all(each).await {
        probed.insert(name.clone(), address.is_some());
        if let Some(address) = address {
            memory.roster().tried(&name, &address, true);
        }
    }
}

/// The address at which the machine of this name answers; the better one if several do.
async fn first_answer(client: &Client, name: &NodeName, addresses: &[String]) -> Option<String> {
    let ask = |(address, after): (&String, Duration)| {
        let address = address.clone();
        async move {
            tokio::time::sleep(after).await;
            who(client, &address).await
        }
    };
    let after = (0u32..).map(|place| STAGGER * place);
    let mut answers: FuturesUnordered<_> = addresses.iter().zip(after).map(ask).collect();
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(machine) if machine.name == *name => return Some(machine.address),
            Ok(other) => tracing::debug!(%name, found = %other.name, "another machine answers"),
            Err(error) => tracing::debug!(%name, %error, "no answer at an address"),
        }
    }
    None
}

/// The machines of Kubernetes' nodes; those that are not known yet are asked at the
/// addresses that the kubelets report.
pub(super) async fn identify(
    client: &Client,
    memory: &Memory,
    nodes: &BTreeMap<NodeName, Vec<String>>,
) -> Vec<(NodeName, Result<Machine, IoError>)> {
    memory.roster().prefer(nodes);
    let asked = memory.roster().unmatched(nodes);
    let found = join_all(asked.iter().map(|(name, addresses)| named(client, name, addresses)));
    let found = found.await;
    let mut all = Vec::new();
    for ((name, _), machine) in asked.into_iter().zip(found) {
        if let Ok(machine) = &machine {
            memory.roster().introduce(machine);
        }
        all.push((name.clone(), machine));
    }
    let known = memory.roster().machines();
    let others = known.into_iter().filter(|machine| nodes.contains_key(&machine.name));
    for machine in others {
        if all.iter().all(|(name, _)| *name != machine.name) {
            all.push((machine.name.clone(), Ok(machine)));
        }
    }
    all.extend(silent(memory, nodes));
    all
}

/// Machines that the talosconfig names, that never said who they are, and that no node of
/// Kubernetes stands for either: their role is unknown, so nothing is safe (rule 10).
fn silent(
    memory: &Memory,
    nodes: &BTreeMap<NodeName, Vec<String>>,
) -> Vec<(NodeName, Result<Machine, IoError>)> {
    let claimed: BTreeSet<&String> = nodes.values().flatten().collect();
    let silent = memory.silent().clone();
    let unclaimed = silent
        .into_iter()
        .filter(|(address, _)| !claimed.contains(address) && memory.roster().at(address).is_none());
    let unknown = |(address, why): (String, String)| {
        let text = format!(
            "the talosconfig names {address}, and it never said who it is, so that its role is \
             unknown: {why}"
        );
        (NodeName(address), Err(IoError::new(FailureKind::Unavailable, &text)))
    };
    unclaimed.map(unknown).collect()
}

/// The machine of this name at one of these addresses.
async fn named(client: &Client, name: &NodeName, addresses: &[String]) -> Result<Machine, IoError> {
    let mut why = IoError::new(
        FailureKind::Mismatch,
        "discovery does not show it, and its node reports no internal address",
    );
    for answer in join_all(addresses.iter().map(|address| who(client, address))).await {
        let text = match answer {
            Ok(machine) if machine.name == *name => return Ok(machine),
            Ok(other) => format!("the machine at {} is {}", other.address, other.name),
            Err(error) => error.to_string(),
        };
        let at = addresses.join(", ");
        let text = format!("discovery does not show it, and it is not found at {at}: {text}");
        why = IoError::new(FailureKind::Unavailable, &text);
    }
    Err(why)
}

/// The cluster's name, as a machine tells it. It is never guessed: another name is
/// another cluster (rule 9).
async fn cluster_name(client: &Client, peers: &[(NodeName, Node)]) -> Result<String, IoError> {
    let mut answer = own_cluster(&client.endpoint()).await;
    for (_, node) in peers.iter().take(TRIES - 1) {
        if answer.is_ok() {
            break;
        }
        answer = own_cluster(node).await;
    }
    answer
}

/// The name of the cluster that a machine belongs to.
pub(super) async fn own_cluster(node: &Node) -> Result<String, IoError> {
    match within(peer_limit(), node.get::<ClusterInfo>()).await? {
        Some(info) if !info.spec.name.is_empty() => Ok(info.spec.name),
        _ => {
            let text = "the machine does not tell the name of its cluster yet";
            Err(IoError::new(FailureKind::Unavailable, text))
        }
    }
}
