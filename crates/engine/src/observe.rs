//! Looks at the whole cluster once.

use std::collections::BTreeMap;
use std::future::Future;

use futures_util::{StreamExt as _, stream};
use jiff::SignedDuration;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff;
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::{Component, Fact, Node, NodeName, Role, Snapshot, TalosFacts};
use upgrade_core::version::Version;

use crate::io::{Clock as _, Io, Kubernetes as _, Machine, Talos as _, Trouble};

/// The node label that names a worker's pool; it is what the platform of the
/// annotation door calls a pool.
pub const POOL_LABEL: &str = "vitistack.io/nodepool";

/// How many machines are asked at once.
const WIDTH: usize = 64;

/// How long one question may take; a node that is down must not hold up what
/// is said of the others.
const LIMIT: SignedDuration = SignedDuration::from_secs(10);

/// Looks at everything, all machines side by side. A fact that cannot be had is
/// unknown, with the reason (rule 10); only the list of machines must be there.
pub async fn observe<I: Io>(io: &I) -> Result<Snapshot, Trouble> {
    let _turn = io.turn().await;
    // Every fact is newer than this (rule 2).
    let taken_at = io.clock().now();
    let (cluster, machines) = limited(io, io.talos().machines()).await?;
    let control_planes: Vec<Machine> =
        machines.iter().filter(|machine| machine.role == Role::ControlPlane).cloned().collect();
    let each: Vec<_> = machines.iter().map(|machine| look(io, machine)).collect();
    let each = stream::iter(each).buffered(WIDTH).collect::<Vec<_>>();
    let kubernetes = io.kubernetes();
    let (each, etcd, kubernetes, labels) = tokio::join!(
        each,
        limited(io, async { Ok(io.talos().etcd(&control_planes).await) }),
        limited(io, kubernetes.nodes()),
        limited(io, kubernetes.capacity()),
    );
    // Without its labels the pool of a node is unknown, and with it the limit
    // that counts for it (rule 6).
    let kubernetes = labels.and_then(|labels| Ok((kubernetes?, labels)));
    let mut nodes = BTreeMap::new();
    for (machine, (talos, images, api_server)) in machines.into_iter().zip(each) {
        let Machine { name, address, role } = machine;
        let (facts, pool) = match &kubernetes {
            Ok((nodes, labels)) => {
                let labels = labels.get(&name).map(|it| &it.labels);
                let pool = labels.and_then(|labels| labels.get(POOL_LABEL)).cloned();
                let absent = || Fact::Unknown("Kubernetes has no node of this name".to_owned());
                (nodes.get(&name).cloned().map_or_else(absent, Fact::Known), pool)
            }
            Err(trouble) => (Fact::Unknown(trouble.to_string()), None),
        };
        let kubernetes = facts;
        nodes.insert(name, Node { address, role, pool, talos, kubernetes, images, api_server });
    }
    let etcd = etcd.unwrap_or_else(|trouble| Fact::Unknown(trouble.to_string()));
    let kubernetes = control_plane_version(&nodes);
    Ok(Snapshot { cluster, taken_at, nodes, etcd, kubernetes })
}

type Seen = (Fact<TalosFacts>, Fact<BTreeMap<Component, ImageRef>>, Fact<()>);

async fn look<I: Io>(io: &I, machine: &Machine) -> Seen {
    let talos = io.talos();
    let api_server = async {
        match machine.role {
            Role::ControlPlane => fact(limited(io, io.kubernetes().api_server(machine)).await),
            Role::Worker => Fact::Unasked,
        }
    };
    let (facts, images, api_server) = tokio::join!(
        limited(io, talos.facts(machine)),
        limited(io, talos.images(machine)),
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
