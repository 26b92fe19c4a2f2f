//! The Kubernetes side of a simulated cluster.

use serde_json::{Value, json};
use upgrade_core::plan::RebootMode;
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::Fact;
use upgrade_core::workload::Pod;
use upgrade_engine::io::kubernetes::{Apply, Evicted, ObjectName};
use upgrade_engine::io::{Io as _, Kubernetes as _, Machine, Machines as _, NodeUpgrader as _};

use super::{TALOS_1_13, World, eventually};

/// A deployment of some pods, and a budget that wants so many of them.
pub(crate) fn web(replicas: usize, wants: usize) -> Vec<Value> {
    let labels = json!({"app": "web"});
    vec![
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "containers": [{
                            "name": "web", "image": "example.org/web:1",
                            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                        }],
                        "volumes": [{"name": "cache", "emptyDir": {}}],
                    },
                },
            },
        }),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": wants, "selector": {"matchLabels": labels}},
        }),
    ]
}

fn named(api_version: &str, kind: &str, name: &str) -> ObjectName {
    ObjectName {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

pub(crate) async fn web_pods(world: &World, count: usize) -> Vec<Pod> {
    let kubernetes = world.live.kubernetes();
    eventually(kubernetes.changes(), "all pods of web are ready", || async {
        let pods = kubernetes.pods(None).await.ok()?;
        let web = pods.into_iter().filter(|pod| {
            pod.name.name.starts_with("web-") && pod.ready && pod.deleting_since.is_none()
        });
        let web: Vec<_> = web.collect();
        (web.len() == count).then_some(web)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_pods_and_budgets() {
    let world = World::with(TALOS_1_13, 1, 2, web(2, 2)).await;
    let kubernetes = world.live.kubernetes();
    let pods = web_pods(&world, 2).await;
    let nodes = kubernetes.nodes().await.unwrap();
    assert_eq!(nodes.len(), 3);
    assert!(nodes.values().all(|node| node.ready && !node.unschedulable));
    assert_eq!(nodes[&"worker-1".into()].kubelet.to_string(), super::KUBERNETES);
    let capacity = kubernetes.capacity().await.unwrap();
    assert!(capacity[&"worker-1".into()].allocatable.pods > 0);
    assert!(!capacity[&"cp-1".into()].taints.is_empty(), "control planes are tainted");
    let pod = &pods[0];
    assert_eq!(pod.controller.as_ref().unwrap().0, "ReplicaSet");
    assert!(pod.empty_dir && !pod.mirror);
    assert_eq!((pod.requests.cpu_millis, pod.requests.memory_bytes), (100, 64 << 20));
    let node = pod.node.clone().unwrap();
    let here = kubernetes.pods(Some(&node)).await.unwrap();
    assert!(here.iter().any(|other| other.name == pod.name));
    assert!(here.iter().all(|other| other.node.as_ref() == Some(&node)));
    let mirrors = kubernetes.pods(Some(&"cp-1".into())).await.unwrap();
    assert!(mirrors.iter().any(|pod| pod.mirror && pod.config_hash.is_some()));
    let budget = eventually(kubernetes.changes(), "the budget counts both", || async {
        let mut budgets = kubernetes.budgets().await.ok()?;
        budgets.pop().filter(|budget| budget.current_healthy == 2)
    })
    .await;
    assert!(budget.selects(pod) && budget.never_allows(), "{budget:?}");
    assert!(kubernetes.attachments(&node).await.unwrap().is_empty());
    assert!(kubernetes.deprecated().await.unwrap().is_empty());
    let Fact::Known(workloads) = upgrade_engine::observe_workloads(kubernetes).await else {
        panic!("unknown");
    };
    assert_eq!((workloads.budgets.len(), workloads.capacity.len()), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn cordons_and_evictions() {
    // Rule 6.
    let world = World::with(TALOS_1_13, 1, 2, web(2, 2)).await;
    let kubernetes = world.live.kubernetes();
    let pods = web_pods(&world, 2).await;
    let pod = &pods[0];
    let node = pod.node.clone().unwrap();
    for cordon in [true, true, false, false] {
        kubernetes.set_unschedulable(&node, cordon).await.unwrap();
        assert_eq!(kubernetes.nodes().await.unwrap()[&node].unschedulable, cordon);
    }
    let unknown = kubernetes.set_unschedulable(&"nobody".into(), true).await.unwrap_err();
    assert_eq!(unknown.failure.kind, FailureKind::Refused, "{unknown}");
    let blocked = eventually(kubernetes.changes(), "the budget blocks", || async {
        match kubernetes.evict(&pod.name, &pod.uid).await.ok()? {
            Evicted::Blocked { budget: Some(budget), why } => Some((budget, why)),
            _ => None,
        }
    })
    .await;
    assert_eq!(blocked.0, "default/web", "{blocked:?}");
    let mut absent = pod.name.clone();
    absent.name = "nobody".to_owned();
    assert_eq!(kubernetes.evict(&absent, &pod.uid).await.unwrap(), Evicted::Gone);
    kubernetes.delete(&named("policy/v1", "PodDisruptionBudget", "web")).await.unwrap();
    // A budget is asked before the precondition, so this comes after it.
    assert_eq!(kubernetes.evict(&pod.name, "another").await.unwrap(), Evicted::Gone);
    assert_eq!(kubernetes.evict(&pod.name, &pod.uid).await.unwrap(), Evicted::Accepted);
    let again = web_pods(&world, 2).await;
    assert!(again.iter().all(|other| other.uid != pod.uid), "another took its place");
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_go_with_their_pods() {
    let labels = json!({"app": "db"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "db", "image": "example.org/db:1"}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }],
        },
    });
    let world = World::with(TALOS_1_13, 1, 2, vec![set]).await;
    let kubernetes = world.live.kubernetes();
    let pod = eventually(kubernetes.changes(), "the pod is ready", || async {
        let pods = kubernetes.pods(None).await.ok()?;
        pods.into_iter().find(|pod| pod.name.name == "db-0" && pod.ready)
    })
    .await;
    assert_eq!(pod.claims, ["data-db-0"]);
    let node = pod.node.clone().unwrap();
    let volumes = kubernetes.attachments(&node).await.unwrap();
    assert_eq!(volumes.len(), 1, "{volumes:?}");
    assert!(volumes[0].starts_with("pvc-"), "{volumes:?}");
    kubernetes.set_unschedulable(&node, true).await.unwrap();
    assert_eq!(kubernetes.evict(&pod.name, &pod.uid).await.unwrap(), Evicted::Accepted);
    eventually(kubernetes.changes(), "the volume is detached", || async {
        kubernetes.attachments(&node).await.ok()?.is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_outlive_the_api_server() {
    let world = World::start(TALOS_1_13, 1, 1).await;
    let (talos, kubernetes) = (world.live.machines(), world.live.kubernetes());
    let machine = world.machine("cp-1").await;
    let changes = kubernetes.changes();
    let all_ready = || async {
        let nodes = kubernetes.nodes().await.ok()?;
        (nodes.len() == 2 && nodes.values().all(|node| node.ready)).then_some(())
    };
    eventually(changes.clone(), "both nodes are ready", all_ready).await;
    let before = world.facts("cp-1").await.boot_id;
    talos.reboot(&machine, RebootMode::Default).await.unwrap();
    // The only control plane takes its API server along.
    eventually(talos.changes(&machine), "another boot", || async {
        let facts = talos.facts(&machine).await.ok()?;
        (facts.ready && facts.boot_id != before).then_some(())
    })
    .await;
    eventually(changes.clone(), "both nodes are ready again", all_ready).await;
    // No fallback here: the watch alone has to tell.
    let telling = async {
        let mut changes = changes;
        for cordon in [true, false] {
            changes.mark_unchanged();
            kubernetes.set_unschedulable(&"worker-1".into(), cordon).await.unwrap();
            while kubernetes.nodes().await.unwrap()[&"worker-1".into()].unschedulable != cordon {
                changes.changed().await.unwrap();
            }
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(super::SOON, telling).await.expect("the watches came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_out_of_reach_is_looked_up_among_the_endpoints() {
    // Rule 1: its own address cannot be reached from here, so the endpoints of the
    // Service `kubernetes` tell.
    let world = World::start(TALOS_1_13, 3, 0).await;
    let (talos, kubernetes) = (world.live.machines(), world.live.kubernetes());
    let machine = world.machine("cp-2").await;
    // The broadcast address: no system connects there, and nothing is sent.
    let far = |name: &str| Machine {
        name: name.into(),
        address: "255.255.255.255".to_owned(),
        ..machine.clone()
    };
    let (here, away) = (far("cp-3"), far("cp-2"));
    assert_eq!(kubernetes.api_server(&away).await, Ok(()));
    world.cluster.inject("cp-2", "never-returns").await.expect("a fault");
    talos.reboot(&machine, RebootMode::Default).await.unwrap();
    let error = eventually(kubernetes.changes(), "it is taken out", || async {
        kubernetes.api_server(&away).await.err()
    })
    .await;
    assert_eq!(error.failure.kind, FailureKind::Unavailable);
    assert!(error.to_string().contains("not among the endpoints"), "{error}");
    assert_eq!(kubernetes.api_server(&here).await, Ok(()), "the others are there");
    world.cluster.clear("cp-2", "never-returns").await.expect("no fault");
    eventually(kubernetes.changes(), "it is listed again", || async {
        kubernetes.api_server(&away).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_any_kind() {
    let world = World::start(TALOS_1_13, 1, 0).await;
    let kubernetes = world.live.kubernetes();
    let object = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"name": "c", "namespace": "default"}, "data": {"key": value}})
    };
    let name = named("v1", "ConfigMap", "c");
    let how = Apply::default();
    assert_eq!(kubernetes.object(&name).await.unwrap(), None);
    let dry = Apply { dry_run: true, ..how };
    kubernetes.apply(&object("1"), "talos", dry).await.unwrap();
    assert_eq!(kubernetes.object(&name).await.unwrap(), None);
    let applied = kubernetes.apply(&object("1"), "talos", how).await.unwrap();
    assert_eq!(applied["data"]["key"], "1");
    let conflict = kubernetes.apply(&object("2"), "somebody", how).await.unwrap_err();
    assert_eq!(conflict.failure.kind, FailureKind::Refused, "{conflict}");
    let force = Apply { force: true, ..how };
    kubernetes.apply(&object("2"), "somebody", force).await.unwrap();
    assert_eq!(kubernetes.object(&name).await.unwrap().unwrap()["data"]["key"], "2");
    for _ in 0..2 {
        kubernetes.delete(&name).await.unwrap();
    }
    assert_eq!(kubernetes.object(&name).await.unwrap(), None);
    let strange = named("example.org/v1", "Strange", "s");
    assert_eq!(kubernetes.object(&strange).await.unwrap(), None);
    kubernetes.delete(&strange).await.unwrap();
    // Of the whole cluster, and under a name with a colon.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                      "metadata": {"name": "system:x"}, "rules": []});
    kubernetes.apply(&role, "talos", how).await.unwrap();
}

#[tokio::test]
async fn a_kubeconfig_that_expired_is_read_again() {
    // A user who is not known (any more) gets a 401, and the file may have been
    // written again meanwhile.
    let world = World::start(TALOS_1_13, 1, 0).await;
    let good = world.cluster.kubeconfig().to_owned();
    let without_key = |line: &&str| !line.contains("client-certificate-data");
    let unauthorized: Vec<&str> = good.lines().filter(without_key).collect();
    let unauthorized = unauthorized.join("\n").replace("client-key-data:", "username:");
    let file = world.folder.path().join("kubeconfig");
    std::fs::write(&file, unauthorized).expect("written");
    let live = super::connect(world.folder.path(), Some(&file)).await;
    let refused = live.kubernetes().nodes().await.expect_err("an unknown user is refused");
    assert_eq!(refused.failure.kind, FailureKind::Refused, "{refused}");
    assert!(refused.to_string().contains("401"), "{refused}");
    std::fs::write(&file, good).expect("written");
    assert_eq!(live.kubernetes().nodes().await.expect("known again").len(), 1);
}

#[tokio::test]
async fn a_staged_configuration_and_missing_manifests_are_seen() {
    // Rule 10.
    let mut options = super::simulated(TALOS_1_13, 1, 0);
    options.speed = 20.0;
    let world = World::launch(options).await;
    let machine = world.machine("cp-1").await;
    let talos = world.live.machines();
    let found = talos.manifests(&machine).await.expect("manifests");
    assert_eq!(found.missing, Vec::<String>::new());
    assert!(!talos.config_is_staged(&machine).await.expect("an answer"));
    let config = talos.config(&machine).await.expect("a configuration").0;
    let url = "https://nowhere.example/cni.yaml";
    let inline = "inlineManifests:\n        - name: mine\n          contents: |-\n            \
                  apiVersion: v1\n            kind: ConfigMap\n            metadata:\n              \
                  name: mine\n";
    let extra = format!("    extraManifests:\n        - {url}\n    {inline}    etcd:\n");
    let config = config.replacen("    etcd:\n", &extra, 1);
    talos
        .apply(&machine, &upgrade_engine::io::machines::Config(config.clone()))
        .await
        .expect("taken");
    let found = talos.manifests(&machine).await.expect("manifests");
    assert_eq!(found.missing, [format!("99-{url}")]);
    assert!(found.objects.iter().any(|it| it["metadata"]["name"] == "mine"));
    assert!(!talos.config_is_staged(&machine).await.expect("an answer"), "it is active");
    // The node puts it where an object without a namespace goes.
    let name = named("v1", "ConfigMap", "mine");
    eventually(world.live.kubernetes().changes(), "it is created", || async {
        world.live.kubernetes().object(&name).await.ok()?
    })
    .await;
    let node = world.live.client().node(machine.address.parse().expect("an address"));
    let other = config.replace("debug: false", "debug: true");
    let mode = talos_client::config::ApplyMode::Staged;
    node.apply_config(other.as_bytes(), mode).await.expect("staged");
    assert!(talos.config_is_staged(&machine).await.expect("an answer"));
}
