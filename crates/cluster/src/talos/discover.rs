//! Finding the machines: as they know each other, asked of every control plane, and
//! where they do not, as the talosconfig and Kubernetes know them.
//!
//! A control plane that has just booted knows only a part of them for a while.
//! A machine that is left out is a machine that no rule protects, so what anyone
//! knows counts. One that hangs is waited for as long as it takes to tell (rule 10),
//! and what was known before stays then.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use talos_client::cosi::Resource;
use talos_client::resources::{self, ClusterInfo, MachineKind, Nodename};
use talos_client::{Client, Error, Node};
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_engine::io::roster::{Member, Roster};
use upgrade_engine::io::talos::peer_limit;
use upgrade_engine::io::{Machine, Trouble};

use super::Known;
use crate::trouble;

/// How often the endpoints are asked: one that hangs is followed by the next, and the
/// next look begins there.
const TRIES: usize = 2;

/// What is known of the machines from one look to the next.
#[derive(Default)]
pub(super) struct Memory(Mutex<Roster>);

impl Memory {
    pub(super) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cluster's name and its machines.
pub(super) async fn machines(
    client: &Client,
    known: &Known,
    memory: &Memory,
) -> Result<(String, Vec<Machine>), Trouble> {
    let own = first_list(client).await?;
    let peers = peers(client, &own, memory);
    let answers = join_all(peers.iter().map(members)).await;
    let all_came = answers.iter().all(Result::is_ok);
    let mut lists = vec![own];
    lists.extend(answers.into_iter().flatten());
    let is_off = lists.iter().all(Vec::is_empty);
    memory.roster().take(&lists, all_came);
    if is_off {
        introduce(client, &known.named, memory).await?;
    }
    memory.roster().list(&known.listed);
    probe(client, memory).await;
    let machines = memory.roster().machines();
    let cluster = cluster_name(client, &peers).await?;
    Ok((cluster, machines))
}

/// The control planes that are known now, or were known before.
fn peers(client: &Client, own: &[Member], memory: &Memory) -> Vec<Node> {
    let control_plane = |member: &&Member| member.role == Some(Role::ControlPlane);
    let shown = own.iter().filter(control_plane).filter_map(|it| address(it, memory));
    let known = memory.roster().machines().into_iter();
    let known = known.filter(|machine| machine.role == Role::ControlPlane);
    let all: BTreeSet<String> = shown.chain(known.map(|machine| machine.address)).collect();
    all.iter().filter_map(|address| Some(client.node(address.parse().ok()?))).collect()
}

/// Where a member answers, as far as is known.
fn address(member: &Member, memory: &Memory) -> Option<String> {
    let roster = memory.roster();
    let known = member.addresses.iter().find_map(|address| roster.at(address));
    let known = known.filter(|machine| machine.name == member.name);
    known.map(|machine| machine.address).or_else(|| member.addresses.first().cloned())
}

/// What an endpoint knows; the next one if it hangs.
async fn first_list(client: &Client) -> Result<Vec<Member>, Trouble> {
    let mut last = Err(silent());
    for _ in 0..TRIES {
        last = members(&client.endpoint()).await;
        if last.as_ref().err() != Some(&silent()) {
            break;
        }
    }
    last
}

fn silent() -> Trouble {
    let text = format!("no answer within {:#}", peer_limit());
    Trouble::new(FailureKind::Unavailable, &text)
}

/// An answer within the limit of one machine.
async fn within<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Trouble> {
    let limit = Duration::try_from(peer_limit()).unwrap_or_default();
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer.map_err(|error| trouble::look(&error)),
        Err(_) => Err(silent()),
    }
}

async fn members(node: &Node) -> Result<Vec<Member>, Trouble> {
    let members = within(node.list::<resources::Member>()).await?;
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
/// before, and unknown if it never answered.
async fn introduce(client: &Client, named: &[String], memory: &Memory) -> Result<(), Trouble> {
    let each = named.iter().map(|address| async move { (address, who(client, address).await) });
    let mut answered = named.is_empty();
    for (address, who) in join_all(each).await {
        match who {
            Ok(machine) => {
                answered = true;
                memory.roster().introduce(&machine);
            }
            Err(_) if memory.roster().at(address).is_some() => answered = true,
            Err(trouble) => {
                tracing::debug!(%address, %trouble, "a machine does not say who it is");
                let name = NodeName(address.clone());
                let role = Role::Worker;
                memory.roster().list(&[Machine { name, address: address.clone(), role }]);
            }
        }
    }
    if answered { Ok(()) } else { Err(silent_all(named)) }
}

fn silent_all(named: &[String]) -> Trouble {
    let text = format!(
        "the machines do not know each other (discovery is off), and none of those that the \
         talosconfig names says who it is: {}; check that they are on and reachable, or list \
         others under `nodes`",
        named.join(", ")
    );
    Trouble::new(FailureKind::Unavailable, &text)
}

/// Asks the machine at this address who it is.
async fn who(client: &Client, address: &str) -> Result<Machine, Trouble> {
    let parsed = address.parse().map_err(|error| {
        Trouble::new(FailureKind::Mismatch, &format!("the address of a node: {error}"))
    })?;
    let node = client.node(parsed);
    let both = async { tokio::try_join!(node.get::<Nodename>(), node.get::<MachineKind>()) };
    let (Some(name), Some(kind)) = within(both).await? else {
        let text = format!("{address} does not know its own name or role yet");
        return Err(Trouble::new(FailureKind::Unavailable, &text));
    };
    let name = NodeName(name.spec.name);
    Ok(Machine { name, address: address.to_owned(), role: kind.spec.0 })
}

/// Finds the address at which a machine with several addresses answers: the first may be
/// in a network that cannot be reached from here.
async fn probe(client: &Client, memory: &Memory) {
    let each = memory.roster().to_probe();
    let each = each.into_iter().map(|(name, addresses)| async move {
        let answers = addresses.iter().map(|address| who(client, address));
        let answers = join_all(answers).await;
        let works = answers.into_iter().flatten().find(|machine| machine.name == name);
        works.map(|machine| machine.address).map(|address| (name, address))
    });
    for (name, address) in join_all(each).await.into_iter().flatten() {
        memory.roster().tried(&name, &address, true);
    }
}

/// The machines of Kubernetes' nodes; those that are not known yet are asked at the
/// addresses that the kubelets report.
pub(super) async fn identify(
    client: &Client,
    memory: &Memory,
    nodes: &BTreeMap<NodeName, Vec<String>>,
) -> Vec<(NodeName, Result<Machine, Trouble>)> {
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
    all
}

/// The machine of this name at one of these addresses.
async fn named(client: &Client, name: &NodeName, addresses: &[String]) -> Result<Machine, Trouble> {
    let mut why = Trouble::new(
        FailureKind::Mismatch,
        "discovery does not show it, and its node reports no internal address",
    );
    for answer in join_all(addresses.iter().map(|address| who(client, address))).await {
        let text = match answer {
            Ok(machine) if machine.name == *name => return Ok(machine),
            Ok(other) => format!("the machine at {} is {}", other.address, other.name),
            Err(trouble) => trouble.to_string(),
        };
        let at = addresses.join(", ");
        let text = format!("discovery does not show it, and it is not found at {at}: {text}");
        why = Trouble::new(FailureKind::Unavailable, &text);
    }
    Err(why)
}

/// The cluster's name, as a machine tells it. It is never guessed: another name is
/// another cluster (rule 9).
async fn cluster_name(client: &Client, peers: &[Node]) -> Result<String, Trouble> {
    let first = client.endpoint();
    let mut last = None;
    for node in std::iter::once(&first).chain(peers).take(TRIES) {
        match own_cluster(node).await {
            Ok(name) => return Ok(name),
            Err(trouble) => last = Some(trouble),
        }
    }
    Err(last.unwrap_or_else(silent))
}

/// The name of the cluster that a machine belongs to.
pub(super) async fn own_cluster(node: &Node) -> Result<String, Trouble> {
    match within(node.get::<ClusterInfo>()).await? {
        Some(info) if !info.spec.name.is_empty() => Ok(info.spec.name),
        _ => {
            let text = "the machine does not tell the name of its cluster yet";
            Err(Trouble::new(FailureKind::Unavailable, text))
        }
    }
}
