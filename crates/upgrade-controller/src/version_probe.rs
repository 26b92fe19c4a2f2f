//! Cheap version probe for idle clusters. A fleet is idle most of the time, so this is most
//! of its load; an observation for a plan takes six times as many requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use upgrade_core::image::ImageRef;
use upgrade_core::product::VersionRange;
use upgrade_core::snapshot::{Component, KubernetesFacts, NodeName, Role};
use upgrade_core::version::Version;
use upgrade_engine::io::{Io as _, IoError, Kubernetes as _, Machine, Machines as _};
use upgrade_live::talos::{Parts, RunningVersions};

use crate::connect::ClusterIo;
use crate::limits::Throttled;
use crate::observe::ObserveError;
use crate::versions_observed::{ObservedVersions, VersionsError};

/// How many machines are asked at once.
const WIDTH: usize = 64;

/// All of it. Each question has its own, shorter limit.
const LIMIT: Duration = Duration::from_mins(1);

type Nodes = BTreeMap<NodeName, KubernetesFacts>;

/// Asks once.
pub async fn probe<I: ClusterIo>(
    live: &Throttled<I>,
    foreign: &BTreeSet<NodeName>,
) -> Result<ObservedVersions, ObserveError> {
    let _permit = live.observe_permit().await;
    match tokio::time::timeout(LIMIT, Box::pin(ask(live.at_once(), foreign))).await {
        Ok(seen) => seen,
        Err(_) => Err(ObserveError::TimedOut(LIMIT)),
    }
}

async fn ask<I: ClusterIo>(
    live: &I,
    foreign: &BTreeSet<NodeName>,
) -> Result<ObservedVersions, ObserveError> {
    let talos = live.machines();
    let (machines, nodes) = tokio::join!(talos.list(), live.kubernetes().nodes());
    let (_, mut machines) = machines?;
    if let Ok(nodes) = &nodes {
        let addresses =
            nodes.iter().map(|(name, facts)| (name.clone(), facts.addresses.clone())).collect();
        let identified = talos.identify(&addresses).await;
        machines = complete(machines, identified, nodes, foreign)?;
    }
    let first = machines.iter().position(|it| it.role == Role::ControlPlane);
    let each = machines.into_iter().enumerate().map(|(index, machine)| async move {
        let parts = match machine.role {
            Role::Worker => Parts::None,
            Role::ControlPlane if Some(index) == first => Parts::All,
            Role::ControlPlane => Parts::Own,
        };
        let running = live.running_versions(&machine, parts).await;
        (machine, running)
    });
    let each = stream::iter(each).buffered(WIDTH).collect::<Vec<_>>().await;
    Ok(combined(each, nodes)?)
}

/// The machines, with those that only Kubernetes leads to. The version of a
/// node without one is unknown, unless it is foreign (rule 10).
fn complete(
    mut machines: Vec<Machine>,
    identified: Vec<(NodeName, Result<Machine, IoError>)>,
    nodes: &Nodes,
    foreign: &BTreeSet<NodeName>,
) -> Result<Vec<Machine>, VersionsError> {
    let mut unknown = BTreeMap::new();
    for (name, found) in identified {
        match found {
            Ok(it) if machines.iter().any(|known| known.name == it.name) => {}
            Ok(it) => machines.push(it),
            Err(why) => drop(unknown.insert(name, why.to_string())),
        }
    }
    for name in nodes.keys() {
        let unseen = || "discovery does not show it".to_owned();
        unknown.entry(name.clone()).or_insert_with(unseen);
    }
    unknown.retain(|name, _| {
        !foreign.contains(name) && machines.iter().all(|known| known.name != *name)
    });
    match unknown.first_key_value() {
        Some((name, why)) => Err(VersionsError::NoMachine { node: name.clone(), why: why.clone() }),
        None => Ok(machines),
    }
}

/// What it comes to; says what could not be seen (rule 10). Kubernetes alone tells the
/// kubelets here: without it the lowest version is not known.
fn combined(
    each: Vec<(Machine, Result<RunningVersions, IoError>)>,
    nodes: Result<Nodes, IoError>,
) -> Result<ObservedVersions, VersionsError> {
    let nodes = nodes.map_err(|why| VersionsError::Kubernetes(why.to_string()))?;
    let mut talos: Vec<Version> = Vec::new();
    let mut kubernetes: Vec<Version> = nodes.values().map(|node| node.kubelet.clone()).collect();
    let count = each.len();
    for (Machine { name, .. }, running) in each {
        let RunningVersions { version, images } = running
            .map_err(|why| VersionsError::Node { node: name.clone(), why: why.to_string() })?;
        talos.push(version);
        kubernetes.extend(versions(&name, &images)?);
    }
    Ok(ObservedVersions {
        talos: VersionRange::of(talos).ok_or(VersionsError::NoNode)?,
        kubernetes: VersionRange::of(kubernetes).ok_or(VersionsError::NoComponent)?,
        nodes: count,
    })
}

fn versions(
    node: &NodeName,
    images: &BTreeMap<Component, ImageRef>,
) -> Result<Vec<Version>, VersionsError> {
    let version = |(component, image): (&Component, &ImageRef)| {
        image.version().ok_or_else(|| {
            let why = format!("{component} on {node} runs {image}: no version");
            VersionsError::Kubernetes(why)
        })
    };
    images.iter().map(version).collect()
}

#[cfg(test)]
mod tests {
    use upgrade_core::reason::FailureKind;

    use super::*;

    fn machine(
        name: &str,
        role: Role,
        image: Option<&str>,
    ) -> (Machine, Result<RunningVersions, IoError>) {
        let image = image.map(|it| (Component::KubeApiserver, it.parse().expect("an image")));
        let running = RunningVersions {
            version: Version::new(1, 13, 9),
            images: image.into_iter().collect(),
        };
        let address = "10.0.0.1".to_owned();
        (Machine { name: NodeName(name.to_owned()), address, role }, Ok(running))
    }

    fn both() -> Vec<(Machine, Result<RunningVersions, IoError>)> {
        let server = "registry.k8s.io/kube-apiserver:v1.35.0";
        vec![machine("cp", Role::ControlPlane, Some(server)), machine("w", Role::Worker, None)]
    }

    fn nodes() -> Nodes {
        let kubelet = Version::new(1, 34, 2);
        let facts = KubernetesFacts {
            kubelet,
            ready: true,
            unschedulable: false,
            marked: false,
            addresses: vec![],
        };
        BTreeMap::from([(NodeName("w".to_owned()), facts)])
    }

    #[test]
    fn versions_of_all_parts_are_observed() {
        let seen = combined(both(), Ok(nodes())).unwrap();
        assert_eq!((seen.talos.lowest, seen.nodes), (Version::new(1, 13, 9), 2));
        assert_eq!(seen.kubernetes.lowest, Version::new(1, 34, 2));
        assert_eq!(seen.kubernetes.newest, Version::new(1, 35, 0));
    }

    #[test]
    fn a_node_without_a_machine_is_not_left_out() {
        // Rule 10.
        let (cp, _) = machine("cp", Role::ControlPlane, None);
        let (w, _) = machine("w", Role::Worker, None);
        let none = BTreeSet::new();
        let found = vec![("w".into(), Ok(w.clone()))];
        let all = complete(vec![cp.clone()], found, &nodes(), &none).unwrap();
        assert_eq!(all.len(), 2);
        let away = IoError::new(FailureKind::Unavailable, "connection refused");
        for found in [vec![("w".into(), Err(away))], Vec::new()] {
            let why = complete(vec![cp.clone()], found, &nodes(), &none).unwrap_err();
            assert!(
                matches!(&why, VersionsError::NoMachine { node, .. } if node.0 == "w"),
                "{why}"
            );
        }
        let foreign = BTreeSet::from([NodeName::from("w")]);
        assert_eq!(complete(vec![cp], Vec::new(), &nodes(), &foreign).unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_be_seen_is_not_guessed() {
        // Rule 10.
        let away = || IoError::new(FailureKind::Unavailable, "connection refused");
        let why = combined(both(), Err(away())).unwrap_err();
        assert_eq!(why, VersionsError::Kubernetes(away().to_string()));
        let mut one = both();
        one[1].1 = Err(away());
        let why = combined(one, Ok(nodes())).unwrap_err();
        assert_eq!(why, VersionsError::Node { node: "w".into(), why: away().to_string() });
        let odd = vec![machine("cp", Role::ControlPlane, Some("registry/kube-apiserver:latest"))];
        let why = combined(odd, Ok(nodes())).unwrap_err();
        let component = Component::KubeApiserver.to_string();
        assert!(
            matches!(&why, VersionsError::Kubernetes(why) if why.contains(&component)),
            "{why}"
        );
    }
}
