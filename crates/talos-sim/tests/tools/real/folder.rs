//! A folder whose cluster has a real API server, and the errors when that server cannot be used.

use std::path::Path;

use talos_sim::cluster::{Cluster, Options, Shape, StartError};
use talos_sim::kubernetes::read_workloads;
use talos_sim::kubernetes::remote::{RealApi, RemoteError};
use testkit::cluster::{SPEED, timings};

use super::Plane;
use crate::bench::{Bench, KUBERNETES, NODES};

const GIVEN: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: given}
data: {a: b}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: one}
";

fn options(folder: &Path) -> Options {
    Options {
        shape: Some(Shape {
            control_planes: 1,
            workers: 1,
            talos: NODES[1].clone(),
            kubernetes: KUBERNETES,
            ..Shape::default()
        }),
        folder: Some(folder.to_owned()),
        speed: SPEED,
        timings: timings(),
        ..Options::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_continues_with_its_api_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("cluster");
    let workloads = read_workloads(GIVEN).expect("workloads");
    let bench = Bench::with_real(Options { workloads, ..options(&home) }).await;
    let kubectl = bench.kubectl();
    kubectl.says("get configmap given -o yaml", &["a: b"]).await;
    kubectl.ok("get things.example.com one").await;
    let node = kubectl.get("node worker-1").await;
    let pods = kubectl.get("pods -A").await;
    let Bench { cluster, plane, folder: files } = bench;
    cluster.stop().await;

    // Only the folder is given: it stores the API server.
    let cluster = Cluster::start(Options { shape: None, ..options(&home) }).await;
    let cluster = cluster.expect("it starts again");
    let bench = Bench { cluster, plane, folder: files };
    bench.wait_until_up().await;
    let kubectl = bench.kubectl();
    let again = kubectl.get("node worker-1").await;
    assert_eq!(again["metadata"]["uid"], node["metadata"]["uid"]);
    assert_eq!(again["status"]["nodeInfo"]["bootID"], node["status"]["nodeInfo"]["bootID"]);
    let names = |list: &serde_json::Value| -> Vec<String> {
        let items = list["items"].as_array().expect("a list").iter();
        items.map(|pod| pod["metadata"]["uid"].to_string()).collect()
    };
    assert_eq!(names(&kubectl.get("pods -A").await), names(&pods), "the same pods");
    bench.cluster.stop().await;
}

/// The error of a cluster that does not start; its folder stays free.
async fn refused(folder: &Path, api: RealApi) -> RemoteError {
    let started = Cluster::start(Options { real_api: Some(api), ..options(folder) }).await;
    let Err(StartError::Remote(error)) = started else { panic!("not refused: {started:?}") };
    assert!(!folder.exists(), "nothing is left");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_with_an_api_server_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let home = folder.path().join("cluster");
    let plane = Plane::start().await;
    let good = plane.api();

    let url = "https://127.0.0.1:1".to_owned();
    let error = refused(&home, RealApi { url, ..good.clone() }).await;
    assert!(matches!(error, RemoteError::Unreachable { .. }), "{error}");
    assert!(error.advice().contains("--kubernetes-api"));

    let token_file = file("token", "wrong");
    let error = refused(&home, RealApi { token_file, ..good.clone() }).await;
    assert!(matches!(error, RemoteError::Refused { code: 401, .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("wrong"), "rule 14");
    assert!(error.advice().contains("--kubernetes-token-file"));

    // The CA of another cluster.
    let other = Cluster::start(Options::default()).await.expect("a cluster");
    let kubeconfig = other.kubeconfig().to_owned();
    other.stop().await;
    let line = kubeconfig.lines().find_map(|line| {
        line.trim().strip_prefix("certificate-authority-data: ").map(str::to_owned)
    });
    let ca_file = file("ca", &decode(&line.expect("an authority")));
    let error = refused(&home, RealApi { ca_file, ..good.clone() }).await;
    assert!(matches!(error, RemoteError::Untrusted { .. }), "{error}");
    assert!(error.advice().contains("--kubernetes-ca-file"));

    // A cluster with the embedded API cannot change to a real one.
    let own = Cluster::start(options(&home)).await.expect("a cluster");
    own.stop().await;
    let started = Cluster::start(Options { real_api: Some(good), ..options(&home) }).await;
    let Err(error @ StartError::Differs { .. }) = started else { panic!("not refused") };
    assert!(error.to_string().contains("with its own Kubernetes API, not a real one"), "{error}");

    // An object that the API server refuses.
    let home = folder.path().join("another");
    let workloads = read_workloads("{apiVersion: v1, kind: Nothing}").expect("workloads");
    let options = Options { workloads, real_api: Some(plane.api()), ..options(&home) };
    let started = Cluster::start(options).await;
    let Err(error @ StartError::Workloads(_)) = started else { panic!("not refused") };
    assert!(error.to_string().contains("does not know this kind"), "{error}");
    assert!(!home.exists(), "nothing is left");
}

fn decode(text: &str) -> String {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    String::from_utf8(bytes).expect("PEM")
}
