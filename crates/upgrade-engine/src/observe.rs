//! Looks at the whole cluster once.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use futures_util::{StreamExt as _, stream};
use jiff::SignedDuration;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff;
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::{
    Component, EtcdFacts, Fact, KubernetesFacts, Node, NodeName, Role, Snapshot, TalosFacts,
};
use upgrade_core::version::Version;

use crate::io::{Clock as _, Io, Kubernetes as _, Machine, Machines as _, Trouble};

/// How many machines are asked at once.
const WIDTH: usize = 64;

/// How long one question may take; a node that is down must not hold up what
/// is said of the others.
const LIMIT: SignedDuration = SignedDuration::from_secs(10);

/// Observes the machines, etcd and nodes: what a decision is made on. What a plan needs
/// besides is in [`crate::prepare`]. `pool_label` is the node label that names the pool of a
/// worker (rule 6).
pub async fn observe<I: Io>(io: &I, pool_label: &str) -> Result<Snapshot, Trouble> {
    let _turn = io.turn().await;
    snapshot(io, pool_label).await
}

/// Looks at all machines side by side. A fact that cannot be had is unknown, with the
/// reason (rule 10); only the list of machines must be there.
pub(crate) async fn snapshot<I: Io>(io: &I, pool_label: &str) -> Result<Snapshot, Trouble> {
    // Every fact is newer than this (rule 2).
    let taken_at = io.clock().now();
    let (cluster, machines) = limited(io, io.machines().list()).await?;
    let kubernetes = io.kubernetes();
    let (each, etcd, kubernetes, labels) = tokio::join!(
        look_at(io, &machines),
        etcd(io, &machines),
        limited(io, kubernetes.nodes()),
        limited(io, kubernetes.capacity()),
    );
    let mut seen = All { machines: machines.into_iter().zip(each).collect(), etcd };
    let unmatched = match &kubernetes {
        Ok(nodes) if !mutant::is(Mutant::InvisibleNodes) => seen.complete(io, nodes).await,
        _ => BTreeMap::new(),
    };
    if seen.machines.is_empty() {
        return Err(nothing_known(kubernetes.err()));
    }
    // Without its labels the pool of a node is unknown, and with it the limit
    // that counts for it (rule 6).
    let kubernetes = labels.and_then(|labels| Ok((kubernetes?, labels)));
    let mut nodes = BTreeMap::new();
    for (machine, (talos, images, api_server)) in seen.machines {
        let Machine { name, address, role } = machine;
        let (facts, pool) = match &kubernetes {
            Ok((nodes, labels)) => {
                let labels = labels.get(&name).map(|it| &it.labels);
                let pool = labels.and_then(|labels| labels.get(pool_label)).cloned();
                let absent = || Fact::Unknown("Kubernetes has no node of this name".to_owned());
                (nodes.get(&name).cloned().map_or_else(absent, Fact::Known), pool)
            }
            Err(trouble) => (Fact::Unknown(of_kubernetes(trouble)), None),
        };
        let kubernetes = facts;
        nodes.insert(name, Node { address, role, pool, talos, kubernetes, images, api_server });
    }
    let kubernetes = control_plane_version(&nodes);
    let etcd = seen.etcd;
    Ok(Snapshot { cluster, taken_at, nodes, etcd, kubernetes, unmatched })
}

/// Which of both did not answer: a machine is seen through Talos, and its node through
/// Kubernetes.
fn of_kubernetes(trouble: &Trouble) -> String {
    format!("Kubernetes does not tell of its node: {trouble}")
}

fn nothing_known(kubernetes: Option<Trouble>) -> Trouble {
    let why = kubernetes.map_or_else(
        || "no machine answers at the addresses of Kubernetes' nodes".to_owned(),
        |trouble| format!("Kubernetes' nodes could not be asked either: {trouble}"),
    );
    let text = format!(
        "the machines do not know each other (discovery is off), and {why}; list all of them \
         under `nodes` in the talosconfig"
    );
    Trouble::new(FailureKind::Mismatch, &text)
}

/// What was seen of the machines so far.
struct All {
    machines: Vec<(Machine, Seen)>,
    etcd: Fact<EtcdFacts>,
}

impl All {
    /// Looks for the machines of nodes that discovery does not show, at the addresses
    /// that Kubernetes has. Comes back with the nodes that stay without one, and with
    /// machines that never said what they are (rule 10).
    async fn complete<I: Io>(
        &mut self,
        io: &I,
        nodes: &BTreeMap<NodeName, KubernetesFacts>,
    ) -> BTreeMap<NodeName, String> {
        let machines: Vec<Machine> = self.machines.iter().map(|(it, _)| it.clone()).collect();
        let (found, mut why) = missing(io, &machines, nodes).await;
        self.add(io, found).await;
        let known: BTreeSet<&NodeName> = self.machines.iter().map(|(it, _)| &it.name).collect();
        let unmatched = nodes.keys().filter(|name| !known.contains(name));
        let unseen = || "discovery does not show it".to_owned();
        let mut unmatched: BTreeMap<NodeName, String> =
            unmatched.map(|name| (name.clone(), why.remove(name).unwrap_or_else(unseen))).collect();
        // Machines of which nothing is known, and that are no nodes either.
        why.retain(|name, _| !nodes.contains_key(name) && !known.contains(name));
        unmatched.append(&mut why);
        unmatched
    }

    /// Looks at machines that were found later. One that was listed under another name
    /// is the same machine.
    async fn add<I: Io>(&mut self, io: &I, found: Vec<Machine>) {
        if found.is_empty() {
            return;
        }
        let same = |listed: &Machine| found.iter().any(|it| it.address == listed.address);
        self.machines.retain(|(machine, _)| !same(machine));
        let each = look_at(io, &found).await;
        let etcd_too = found.iter().any(|machine| machine.role == Role::ControlPlane);
        self.machines.extend(found.into_iter().zip(each));
        if etcd_too {
            let all: Vec<Machine> = self.machines.iter().map(|(it, _)| it.clone()).collect();
            self.etcd = etcd(io, &all).await;
        }
    }
}

/// The machines of Kubernetes' nodes that are not among these, and why others were not
/// found.
pub(crate) async fn missing<I: Io>(
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
                    Err(trouble) => drop(why.insert(name, trouble.to_string())),
                }
            }
        }
        Err(trouble) => why.extend(nodes.keys().map(|it| (it.clone(), trouble.to_string()))),
    }
    found.retain(|machine| machines.iter().all(|known| known.name != machine.name));
    (found, why)
}

async fn look_at<I: Io>(io: &I, machines: &[Machine]) -> Vec<Seen> {
    let each: Vec<_> = machines.iter().map(|machine| look(io, machine)).collect();
    stream::iter(each).buffered(WIDTH).collect().await
}

async fn etcd<I: Io>(io: &I, machines: &[Machine]) -> Fact<EtcdFacts> {
    let control_planes = machines.iter().filter(|machine| machine.role == Role::ControlPlane);
    let control_planes: Vec<Machine> = control_planes.cloned().collect();
    let etcd = limited(io, async { Ok(io.machines().etcd(&control_planes).await) }).await;
    etcd.unwrap_or_else(|trouble| Fact::Unknown(trouble.to_string()))
}

type Seen = (Fact<TalosFacts>, Fact<BTreeMap<Component, ImageRef>>, Fact<()>);

async fn look<I: Io>(io: &I, machine: &Machine) -> Seen {
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

fn fact<T>(seen: Result<T, Trouble>) -> Fact<T> {
    seen.map_or_else(|trouble| Fact::Unknown(trouble.to_string()), Fact::Known)
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
    lowest.map_or_else(|| Fact::Unknown("no control plane was seen".to_owned()), Fact::Known)
}

/// An answer, or the trouble that there was none in time.
pub(crate) async fn limited<I: Io, T>(
    io: &I,
    question: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    tokio::select! {
        biased;
        answer = question => answer,
        () = io.clock().sleep(LIMIT) => {
            let text = format!("no answer within {LIMIT:#}");
            Err(Trouble::new(FailureKind::Unavailable, &text))
        }
    }
}
