//! Every typed view, by `Get`, `List` and `Watch`.

use std::collections::BTreeMap;

use talos_client::cosi::{Resource, Single, Spec};
use talos_client::resources::{
    ApiServerConfig, BootId, BootedEntry, ClusterInfo, ControllerManagerConfig, Diagnostic,
    EtcdMemberId, ExtensionStatus, KubeletSpec, KubernetesAccess, MachineConfig, MachineKind,
    MachineStatus, Manifest, Member, NodeStatus, Nodename, SchedulerConfig, Schematic,
    SecurityState, ServiceStatus, StaticPod, StaticPodStatus, VersionResource, VolumeStatus,
};
use talos_client::watch::WatchEvent;
use talos_client::{Error, Failure, Node};
use upgrade_core::snapshot::{Role, Stage};

use crate::{KUBERNETES, SOON, TALOS_1_12, TALOS_1_14, World, each_version};

each_version!(the_machine, kubernetes, the_cluster, secrets, what_is_not_there);

/// Reads the resources of a kind in every possible way.
async fn all<T: Spec + PartialEq>(node: &Node) -> BTreeMap<String, T> {
    let listed = node.list::<T>().await.unwrap();
    for resource in &listed {
        let Resource { metadata, .. } = resource;
        assert!(metadata.version.is_some() && !metadata.tearing_down, "{metadata:?}");
        let got = node.get_id::<T>(&metadata.id).await.unwrap();
        assert_eq!(got.as_ref(), Some(resource));
        let mut watch = node.watch_id::<T>(&metadata.id);
        assert_eq!(watch.next().await.unwrap(), WatchEvent::Created(resource.clone()));
        assert_eq!(watch.next().await.unwrap(), WatchEvent::Synced);
    }
    let mut watch = node.watch_all::<T>();
    watch.wait_for(SOON, |_| true).await.unwrap();
    assert!(watch.state().eq(listed.iter()));
    assert_eq!(node.get_id::<T>("no-such-id").await.unwrap(), None);
    let mut absent = node.watch_id::<T>("no-such-id");
    absent.wait_for(SOON, |watch| watch.state().count() == 0).await.unwrap();
    listed.into_iter().map(|resource| (resource.metadata.id, resource.spec)).collect()
}

/// The single resource of a kind.
async fn one<T: Single + PartialEq>(node: &Node) -> T {
    let mut all = all::<T>(node).await;
    let got = node.get::<T>().await.unwrap().expect("it exists").spec;
    let spec = all.remove(T::ID).expect("its ID is that of the view");
    assert_eq!(got, spec);
    spec
}

fn is_not_supported<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(error) if matches!(error.failure(), Failure::NotSupported(_)))
}

async fn the_machine(talos: &'static str) {
    let world = World::shared(talos).await;
    let node = world.node("cp-1");
    let status = one::<MachineStatus>(&node).await;
    assert_eq!(status.stage, Stage::Running);
    assert!(status.is_up() && status.unmet.is_empty());

    let services = all::<ServiceStatus>(&node).await;
    assert!(services["kubelet"].is_up() && services["etcd"].is_up());
    assert_eq!(services["etcd"].healthy, Some(true));

    assert_eq!(one::<MachineKind>(&node).await.0, Role::ControlPlane);
    assert_eq!(one::<MachineKind>(&world.node("worker-1")).await.0, Role::Worker);
    assert!(!one::<SecurityState>(&node).await.secure_boot);
    assert!(one::<BootedEntry>(&node).await.0.contains(talos));
    assert!(all::<Diagnostic>(&node).await.is_empty());
    let ephemeral = &all::<VolumeStatus>(&node).await["EPHEMERAL"];
    assert!(ephemeral.ready && ephemeral.size > 1 << 30 && ephemeral.error.is_empty());

    // Without extensions there is still the pseudo extension with the schematic.
    let extensions = all::<ExtensionStatus>(&node).await;
    let schematic = extensions.values().find(|extension| extension.is_schematic());
    let schematic = schematic.expect("an image of a factory").version.clone();
    assert_eq!(node.schematic().await.unwrap().expect("a schematic").id, schematic);
    assert_eq!(node.extensions().await.unwrap(), []);
}

async fn what_is_not_there(talos: &'static str) {
    let world = World::shared(talos).await;
    let node = world.node("cp-1");
    if talos == TALOS_1_14 {
        let boot_id = one::<BootId>(&node).await.0;
        assert_eq!(boot_id, node.boot_id().await.unwrap());
        assert_eq!(one::<Schematic>(&node).await, node.schematic().await.unwrap().unwrap());
    } else {
        assert!(is_not_supported(&node.get::<BootId>().await));
        assert!(is_not_supported(&node.list::<Schematic>().await));
        assert!(is_not_supported(&node.watch::<BootId>().next().await));
    }
    if talos != TALOS_1_12 {
        assert_eq!(one::<VersionResource>(&node).await.0, format!("v{talos}"));
    }
    // Workers have no control plane resources.
    let worker = world.node("worker-1");
    assert!(all::<StaticPod>(&worker).await.is_empty());
    assert!(all::<Manifest>(&worker).await.is_empty());
    assert_eq!(worker.get::<EtcdMemberId>().await.unwrap(), None);
    assert_eq!(worker.get::<ApiServerConfig>().await.unwrap(), None);
    assert_eq!(worker.get::<KubernetesAccess>().await.unwrap(), None);
}

async fn kubernetes(talos: &'static str) {
    let world = World::shared(talos).await;
    let node = world.node("cp-2");
    let tag = format!(":v{KUBERNETES}");
    let nodename = one::<Nodename>(&node).await;
    assert_eq!((nodename.name.as_str(), nodename.registered), ("cp-2", true));
    let status = &all::<NodeStatus>(&node).await["cp-2"];
    assert_eq!(status.name, "cp-2");
    assert!(status.ready && !status.unschedulable);

    let kubelet = one::<KubeletSpec>(&node).await;
    assert!(kubelet.image.ends_with(&tag), "{kubelet:?}");
    // Newer versions have a second copy of these; the view reads the first.
    let configs = [
        node.get::<ApiServerConfig>().await.unwrap().unwrap().spec.image,
        node.get::<ControllerManagerConfig>().await.unwrap().unwrap().spec.image,
        node.get::<SchedulerConfig>().await.unwrap().unwrap().spec.image,
    ];
    let pods = all::<StaticPod>(&node).await;
    let statuses = all::<StaticPodStatus>(&node).await;
    assert_eq!((pods.len(), statuses.len()), (3, 3));
    assert!(statuses.values().all(|it| it.phase == "Running" && it.ready == Some(true)));
    for (name, image) in
        ["kube-apiserver", "kube-controller-manager", "kube-scheduler"].into_iter().zip(configs)
    {
        assert!(image.ends_with(&tag) && image.contains(name), "{image}");
        let pod = &pods[name];
        assert_eq!(pod.name, format!("kube-system/{name}"));
        assert!(statuses.contains_key(&pod.status_id("cp-2")), "{:?}", statuses.keys());
    }
    assert!(one::<ControllerManagerConfig>(&node).await.enabled);
    assert!(one::<SchedulerConfig>(&node).await.enabled);
    one::<ApiServerConfig>(&node).await;
    let manifests = all::<Manifest>(&node).await;
    assert!(manifests.values().any(|manifest| !manifest.objects.expose().is_empty()));
    one::<KubernetesAccess>(&node).await;
}

async fn the_cluster(talos: &'static str) {
    let world = World::shared(talos).await;
    let node = world.node("cp-3");
    let members = all::<Member>(&node).await;
    assert_eq!(members.len(), world.cluster.nodes().len());
    for place in world.cluster.nodes() {
        let member = &members[&place.hostname];
        assert_eq!(member.hostname, place.hostname);
        assert_eq!(member.addresses, [place.address]);
        assert_eq!(member.version().unwrap().to_string(), talos);
        let control_plane = place.hostname.starts_with("cp-");
        assert_eq!(member.role == Some(Role::ControlPlane), control_plane);
    }
    assert_eq!(one::<ClusterInfo>(&node).await.name, world.cluster.shape().name);
    let EtcdMemberId(id) = one::<EtcdMemberId>(&node).await;
    assert_eq!(id, node.etcd_status().await.unwrap().member);
}

async fn secrets(talos: &'static str) {
    let world = World::shared(talos).await;
    let node = world.node("cp-1");
    let config = one::<MachineConfig>(&node).await;
    let yaml = config.0.expose();
    let secret = yaml.lines().find_map(|line| line.trim().strip_prefix("token: "));
    let secret = secret.expect("a machine config has a token");
    let shown = format!("{config:?} {:?}", node.list::<MachineConfig>().await);
    assert!(!shown.contains(secret), "{shown}");
    assert!(!format!("{:?}", node.watch::<MachineConfig>().next().await).contains(secret));

    // Without permission a read fails, and so does a watch instead of waiting.
    let reader = world.client_as("os:reader").node(world.place("cp-1").address.into());
    let denied = |failure: &Failure| matches!(failure, Failure::NotAuthorised(_));
    assert!(denied(reader.get::<MachineConfig>().await.unwrap_err().failure()));
    assert!(denied(reader.list::<MachineConfig>().await.unwrap_err().failure()));
    assert!(denied(reader.watch::<MachineConfig>().next().await.unwrap_err().failure()));
    // These two became sensitive later.
    let image = reader.get::<KubeletSpec>().await.map(|_| ());
    let server = reader.get::<ApiServerConfig>().await.map(|_| ());
    if talos == TALOS_1_12 {
        assert!(image.is_ok() && server.is_ok());
    } else {
        assert!(denied(image.unwrap_err().failure()) && denied(server.unwrap_err().failure()));
    }
    assert!(reader.get::<MachineStatus>().await.unwrap().is_some());
}
