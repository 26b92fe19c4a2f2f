//! Observes the whole cluster once.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use futures_util::{StreamExt as _, stream};
use jiff::SignedDuration;
use upgrade_core::guard;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff;
use upgrade_core::mutant::Mutant;
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::{
    Component, EtcdFacts, Fact, KubernetesFacts, Node, NodeName, Role, Snapshot, TalosFacts,
    Unmatched,
};
use upgrade_core::version::Version;

use crate::io::{Clock as _, Io, IoError, Kubernetes as _, Machine, Machines as _};

/// How many machines are read at once.
const WIDTH: usize = 64;

/// How long one call may take; a node that is down must not delay the facts of the others.
const LIMIT: SignedDuration = SignedDuration::from_secs(10);

/// Observes machines, etcd and nodes: what a decision is made on. What only a plan needs is in
/// [`crate::prepare`]. `pool_label` is the node label that names the pool of a worker (rule 6).
pub async fn observe<I: Io>(io: &I, pool_label: &str) -> Result<Snapshot, IoError> {
    let _permit = io.observe_permit().await;
    snapshot(io, pool_label).await
}

/// Reads all machines concurrently. A fact that cannot be read is unknown, with the reason (rule
/// 10); only the list of machines is required.
pub(crate) async fn snapshot<I: Io>(io: &I, pool_label: &str) -> Result<Snapshot, IoError> {
    // Every fact is newer than this (rule 2).
    let taken_at = io.clock().now();
    let (cluster, machines) = limited(io, io.machines().list()).await?;
    let kubernetes = io.kubernetes();
    let (each, etcd, kubernetes, labels) = tokio::join!(
        observe_machines(io, &machines),
        etcd(io, &machines),
        limited(io, kubernetes.nodes()),
        limited(io, kubernetes.capacity()),
    );
    let mut observed = Observed { machines: machines.into_iter().zip(each).collect(), etcd };
    let unmatched = match &kubernetes {
        Ok(nodes) if guard!(Mutant::InvisibleNodes) => observed.complete(io, nodes).await,
        _ => BTreeMap::new(),
    };
    if observed.machines.is_empty() {
        return Err(no_machines(kubernetes.err()));
    }
    // Without its labels the pool of a node is unknown, and with it the limit that applies (rule
    // 6).
    let kubernetes = labels.and_then(|labels| Ok((kubernetes?, labels)));
    let mut nodes = BTreeMap::new();
    for (machine, (talos, images, api_server)) in observed.machines {
        let Machine { name, address, role } = machine;
        let (facts, pool) = match &kubernetes {
            Ok((nodes, labels)) => {
                let labels = labels.get(&name).map(|it| &it.labels);
                let pool = labels.and_then(|labels| labels.get(pool_label)).cloned();
                let absent = || Fact::Unknown("Kubernetes has no node of this name".to_owned());
                (nodes.get(&name).cloned().map_or_else(absent, Fact::Known), pool)
            }
            Err(error) => (Fact::Unknown(kubernetes_unknown(error)), None),
        };
        let kubernetes = facts;
        nodes.insert(name, Node { address, role, pool, talos, kubernetes, images, api_server });
    }
    let kubernetes = control_plane_version(&nodes);
    let etcd = observed.etcd;
    Ok(Snapshot { cluster, taken_at, nodes, etcd, kubernetes, unmatched })
}

/// Names the side that did not answer: a machine is observed through Talos, its node through
/// Kubernetes.
fn kubernetes_unknown(error: &IoError) -> String {
    format!("its Node could not be read: {error}")
}

fn no_machines(kubernetes: Option<IoError>) -> IoError {
    let why = kubernetes.map_or_else(
        || "no machine answers at the addresses of Kubernetes' nodes".to_owned(),
        |error| format!("the nodes of Kubernetes could not be read either: {error}"),
    );
    let text = format!(
        "the machines do not know each other (discovery is off), and {why}; list all of them \
         under `nodes` in the talosconfig"
    );
    IoError::new(FailureKind::Mismatch, &text)
}

/// What was observed of the machines so far.
struct Observed {
    machines: Vec<(Machine, MachineFacts)>,
    etcd: Fact<EtcdFacts>,
}

impl Observed {
    /// Looks for the machines of nodes that discovery does not show, at the addresses that
    /// Kubernetes has. Returns the nodes that still have no machine, and machines that never
    /// identified themselves (rule 10).
    async fn complete<I: Io>(
        &mut self,
        io: &I,
        nodes: &BTreeMap<NodeName, KubernetesFacts>,
    ) -> BTreeMap<NodeName, Unmatched> {
        let machines: Vec<Machine> = self.machines.iter().map(|(it, _)| it.clone()).collect();
        let (found, mut why) = find_missing(io, &machines, nodes).await;
        self.add(io, found).await;
        let known: BTreeSet<&NodeName> = self.machines.iter().map(|(it, _)| &it.name).collect();
        let unseen = || "discovery does not show it".to_owned();
        let mut unmatched = BTreeMap::new();
        for (name, facts) in nodes.iter().filter(|(name, _)| !known.contains(name)) {
            let why = why.remove(name).unwrap_or_else(unseen);
            unmatched.insert(name.clone(), Unmatched { why, kubernetes: Some(facts.clone()) });
        }
        // Machines that are unknown and are no nodes either.
        why.retain(|name, _| !nodes.contains_key(name) && !known.contains(name));
        unmatched.extend(why.into_iter().map(|(name, why)| (name, Unmatched::because(&why))));
        unmatched
    }

    /// Observes machines that were found later. One that was listed under another name is the same
    /// machine.
    async fn add<I: Io>(&mut self, io: &I, found: Vec<Machine>) {
        if found.is_empty() {
            return;
        }
        let same = |listed: &Machine| found.iter().any(|it| it.address == listed.address);
        self.machines.retain(|(machine, _)| !same(machine));
        let each = observe_machines(io, &found).await;
        let etcd_too = found.iter().any(|machine| machine.role == Role::ControlPlane);
        self.machines.extend(found.into_iter().zip(each));
        if etcd_too {
            let all: Vec<Machine> = self.machines.iter().map(|(it, _)| it.clone()).collect();
            self.etcd = etcd(io, &all).await;
        }
    }
}

/// The machines of Kubernetes' nodes that are not in this list, and why others were not found.
pub(crate) async fn find_missing<I: Io>(
    io: &I,
    machines: &[Machine],
    nodes: &BTreeMap<NodeName, KubernetesFacts>,
) -> (Vec<Machine>, BTreeMap<NodeName, String>) {
    let addresses =
        nodes.iter().map(|(name, facts)| (name.clone(), facts.addresses.clone())).collect();
    let answers = limited(io, async { Ok(io.machines().identify(&addresses).await) }).await;
    let (mut found, mut why) = (Vec::new(), BTreeMap::new());
    match answers {
        Ok(answers) => {
            for (name, answer) in answers {
                match answer {
                    Ok(machine) => found.push(machine),
                    Err(error) => drop(why.insert(name, error.to_string())),
                }
            }
        }
        Err(error) => why.extend(nodes.keys().map(|it| (it.clone(), error.to_string()))),
    }
    found.retain(|machine| machines.iter().all(|known| known.name != machine.name));
    (found, why)
}

async fn observe_machines<I: Io>(io: &I, machines: &[Machine]) -> Vec<MachineFacts> {
    let each: Vec<_> = machines.iter().map(|machine| observe_machine(io, machine)).collect();
    stream::iter(each).buffered(WIDTH).collect().await
}

async fn etcd<I: Io>(io: &I, machines: &[Machine]) -> Fact<EtcdFacts> {
    let control_planes = machines.iter().filter(|machine| machine.role == Role::ControlPlane);
    let control_planes: Vec<Machine> = control_planes.cloned().collect();
    let etcd = limited(io, async { Ok(io.machines().etcd(&control_planes).await) }).await;
    etcd.unwrap_or_else(|error| Fact::Unknown(error.to_string()))
}

type MachineFacts = (Fact<TalosFacts>, Fact<BTreeMap<Component, ImageRef>>, Fact<()>);

async fn observe_machine<I: Io>(io: &I, machine: &Machine) -> MachineFacts {
    let machines = io.machines();
    let api_server = async {
        match machine.role {
            Role::ControlPlane => fact(limited(io, io.kubernetes().api_server(machine)).await),
            Role::Worker => Fact::Unasked,
        }
    };
    let (facts, images, api_server) = tokio::join!(
        limited(io, machines.facts(machine)),
        limited(io, machines.images(machine)),
        api_server,
    );
    (fact(facts), fact(images), api_server)
}

fn fact<T>(answer: Result<T, IoError>) -> Fact<T> {
    answer.map_or_else(|error| Fact::Unknown(error.to_string()), Fact::Known)
}

/// The lowest version among the components of the control planes (rule 13).
fn control_plane_version(nodes: &BTreeMap<NodeName, Node>) -> Fact<Version> {
    let mut lowest: Option<Version> = None;
    for (name, node) in nodes.iter().filter(|(_, node)| node.role == Role::ControlPlane) {
        let images = match node.images.as_result() {
            Ok(images) => images,
            Err(why) => return Fact::Unknown(format!("the images of {name}: {why}")),
        };
        for (component, image) in images.iter().filter(|(it, _)| **it != Component::Kubelet) {
            let Some(version) = image.version() else {
                return Fact::Unknown(format!("{component} on {name} runs {image}: no version"));
            };
            lowest = Some(lowest.map_or(version.clone(), |lowest| lowest.min(version)));
        }
    }
    lowest.map_or_else(|| Fact::Unknown("no control plane was observed".to_owned()), Fact::Known)
}

/// The result of a call, or an error if it takes too long.
pub(crate) async fn limited<I: Io, T>(
    io: &I,
    question: impl Future<Output = Result<T, IoError>>,
) -> Result<T, IoError> {
    tokio::select! {
        biased;
        answer = question => answer,
        () = io.clock().sleep(LIMIT) => {
            let text = format!("no answer within {LIMIT:#}");
            Err(IoError::new(FailureKind::Unavailable, &text))
        }
    }
}
