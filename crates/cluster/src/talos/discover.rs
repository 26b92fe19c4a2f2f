//! Finding the machines: as they know each other, asked of every control plane.
//!
//! A control plane that has just booted knows only a part of them for a while.
//! A machine that is left out is a machine that no rule protects, so what anyone
//! knows counts.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use talos_client::resources::{ClusterInfo, MachineKind, Member, Nodename};
use talos_client::{Client, Node};
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_engine::io::{Machine, Trouble};

use super::Known;
use crate::trouble;

/// The cluster's name and its machines.
pub(super) async fn machines(
    client: &Client,
    known: &Known,
) -> Result<(String, Vec<Machine>), Trouble> {
    let Known { called, named, listed } = known;
    let door = client.endpoint();
    let mut found = BTreeMap::new();
    members(&door, &mut found).await?;
    let control_planes: Vec<Node> = found
        .values()
        .filter(|machine| machine.role == Role::ControlPlane)
        .filter_map(|machine| Some(client.node(machine.address.parse().ok()?)))
        .collect();
    // Who does not answer adds nothing; somebody has answered already.
    for answer in join_all(control_planes.iter().map(|node| async {
        let mut found = BTreeMap::new();
        members(node, &mut found).await.map(|()| found)
    }))
    .await
    .into_iter()
    .flatten()
    {
        for (name, machine) in answer {
            found.entry(name).or_insert(machine);
        }
    }
    if found.is_empty() && listed.is_empty() {
        found = introduce(client, named).await?;
    }
    list(&mut found, listed);
    let cluster = cluster_name(&door, called).await;
    Ok((cluster, found.into_values().collect()))
}

/// Adds what somebody keeps a list of. A machine that is known by its address
/// goes by the name that it has itself.
fn list(found: &mut BTreeMap<NodeName, Machine>, listed: &[Machine]) {
    for machine in listed {
        if found.values().all(|known| known.address != machine.address) {
            found.entry(machine.name.clone()).or_insert_with(|| machine.clone());
        }
    }
}

/// The cluster's name, as a machine tells it or as the talosconfig does.
pub(super) async fn cluster_name(node: &Node, called: &str) -> String {
    match node.get::<ClusterInfo>().await {
        Ok(Some(info)) if !info.spec.name.is_empty() => info.spec.name,
        _ => called.to_owned(),
    }
}

async fn members(node: &Node, found: &mut BTreeMap<NodeName, Machine>) -> Result<(), Trouble> {
    let members = node.list::<Member>().await.map_err(|error| trouble::look(&error))?;
    for member in members {
        // The ID is the node's name in Kubernetes; the host name may differ.
        let name = NodeName(member.metadata.id);
        let (Some(role), Some(address)) = (member.spec.role, member.spec.addresses.first()) else {
            let text = format!("the member {name} tells neither its role nor its address");
            return Err(Trouble::new(FailureKind::Mismatch, &text));
        };
        let machine = Machine { name: name.clone(), address: address.to_string(), role };
        found.insert(name, machine);
    }
    Ok(())
}

/// Asks the machines that the talosconfig names who they are: where discovery is
/// switched off, nobody else knows.
async fn introduce(
    client: &Client,
    named: &[String],
) -> Result<BTreeMap<NodeName, Machine>, Trouble> {
    if named.is_empty() {
        let text = "the machines do not know each other (discovery is off), and the talosconfig \
                    names none: list all of them under `nodes`";
        return Err(Trouble::new(FailureKind::Mismatch, text));
    }
    let mut found = BTreeMap::new();
    for address in named {
        let parsed = address.parse().map_err(|error| {
            Trouble::new(FailureKind::Mismatch, &format!("the talosconfig's node: {error}"))
        })?;
        let node = client.node(parsed);
        let (name, kind) = tokio::join!(node.get::<Nodename>(), node.get::<MachineKind>());
        let name = name.map_err(|error| trouble::look(&error))?;
        let kind = kind.map_err(|error| trouble::look(&error))?;
        let (Some(name), Some(kind)) = (name, kind) else {
            let text = format!("{address} does not know its own name or role yet");
            return Err(Trouble::new(FailureKind::Unavailable, &text));
        };
        let name = NodeName(name.spec.name);
        let machine = Machine { name: name.clone(), address: address.clone(), role: kind.spec.0 };
        found.insert(name, machine);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_never_left_out() {
        // Rule 10: a machine that is left out is one that no rule protects.
        let machine = |name: &str, address: &str| Machine {
            name: name.into(),
            address: address.to_owned(),
            role: Role::Worker,
        };
        let mut found = BTreeMap::new();
        for known in [machine("a", "10.0.0.1"), machine("b", "10.0.0.2")] {
            found.insert(known.name.clone(), known);
        }
        let listed = [
            machine("a", "10.0.0.9"),
            machine("platform-b", "10.0.0.2"),
            machine("down", "10.0.0.3"),
        ];
        list(&mut found, &listed);
        let found: Vec<_> =
            found.values().map(|it| (it.name.0.as_str(), it.address.as_str())).collect();
        assert_eq!(found, [("a", "10.0.0.1"), ("b", "10.0.0.2"), ("down", "10.0.0.3")]);
    }
}
