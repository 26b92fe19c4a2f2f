//! The hub of a size: a real API server with everything that is shipped but the
//! pods, and the objects of the clusters.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use envtest::{Component, ControlPlane, Options, Tools};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::host::processor;
use crate::serve::ServedCluster;

/// Where the clusters' objects are.
const NAMESPACE: &str = "fleet";

/// How many requests of ours are on their way together.
const WIDTH: usize = 32;

/// The API server counts requests by flow: this one has the operator's alone,
/// and the priority that they would have without it.
const FLOW: &str = "talos-operator";

/// A cluster's object, as the tests of the manifests have it.
const OBJECT: &str = include_str!("../../../vitistack-api/tests/deploy/cluster.yaml");

/// A hub. It is stopped when this is dropped.
pub(crate) struct Hub {
    plane: ControlPlane,
    client: Client,
    folder: TempDir,
}

impl Hub {
    /// Starts it.
    pub(crate) async fn start(interrupt: &Arc<AtomicBool>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("a path").join("hub");
        let mut options = Options::new(home, Tools::find().expect("the tools"));
        options.interrupt = Some(Arc::clone(interrupt));
        let plane = tokio::task::spawn_blocking(move || ControlPlane::start(options));
        let plane = plane.await.expect("no panic").expect("a control plane");
        let kubeconfig = plane.kubeconfig().expect("a kubeconfig");
        let parsed = Kubeconfig::from_yaml(&kubeconfig).expect("a kubeconfig");
        let usual = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(parsed, &usual).await;
        let client = Client::try_from(config.expect("a configuration")).expect("a client");
        let hub = Self { plane, client, folder };
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        for part in ["00-namespace", "10-crds", "20-rbac", "30-admission"] {
            hub.apply(&deploy.join(format!("{part}.yaml")));
        }
        hub.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
        hub.kubectl(&["create", "namespace", NAMESPACE]);
        let flow = hub.file("flow.json");
        std::fs::write(&flow, flow_schema().to_string()).expect("written");
        hub.apply(&flow);
        let token = "create token talos-operator -n vitistack-system --duration 4h";
        let token = hub.kubectl(&token.split(' ').collect::<Vec<_>>());
        let admin = hub.plane.token().expect("a token");
        let account = kubeconfig.replace(&admin, token.trim());
        std::fs::write(hub.account(), account).expect("written");
        hub
    }

    /// The path of a file beside it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The kubeconfig of the shipped account.
    pub(crate) fn account(&self) -> PathBuf {
        self.file("account")
    }

    fn apply(&self, path: &Path) {
        self.kubectl(&["apply", "--server-side", "-f", &path.display().to_string()]);
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.plane.kubectl().args(arguments).stdin(Stdio::null()).output();
        let output = output.expect("kubectl starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {}: {stderr}", arguments.join(" "));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Makes the objects of a cluster: its Secret, its Machines, and itself.
    pub(crate) fn register(
        &self,
        cluster: ServedCluster,
        all: &mut JoinSet<()>,
        width: &Arc<Semaphore>,
    ) {
        let (client, width) = (self.client.clone(), Arc::clone(width));
        all.spawn(async move {
            let _permit = width.acquire_owned().await.expect("open");
            let core = format!("/api/v1/namespaces/{NAMESPACE}");
            let platform = format!("/apis/vitistack.io/v1alpha1/namespaces/{NAMESPACE}");
            let secret = json!({
                "metadata": {"name": cluster.name},
                "stringData": {
                    "talosconfig": cluster.talosconfig, "kube.config": cluster.kubeconfig,
                },
            });
            send(&client, "POST", &format!("{core}/secrets"), &secret).await;
            for node in &cluster.nodes {
                let name = format!("{}-{}", cluster.name, node.name);
                let role = if node.control_plane { "control-plane" } else { "worker" };
                let machine = json!({
                    "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
                    "metadata": {"name": name, "labels": {
                        "vitistack.io/clusterid": cluster.name, "vitistack.io/node-role": role}},
                    "spec": {"provider": "kubevirt"},
                });
                send(&client, "POST", &format!("{platform}/machines"), &machine).await;
                let status = json!({"status": {"publicIPAddresses": [node.address]}});
                let path = format!("{platform}/machines/{name}/status");
                send(&client, "PATCH", &path, &status).await;
            }
            let mut object: Value = serde_saphyr::from_str(OBJECT).expect("an object");
            object["metadata"] = json!({"name": cluster.name});
            object["spec"]["data"]["clusterId"] = json!(cluster.name);
            object["spec"]["data"]["clusterUid"] = json!(cluster.name);
            send(&client, "POST", &format!("{platform}/kubernetesclusters"), &object).await;
        });
    }

    /// How wide [`Self::register`] works.
    pub(crate) fn width() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(WIDTH))
    }

    /// Sets the target of every cluster.
    pub(crate) async fn set_targets(&self, names: &[String], target: &str) {
        let width = Self::width();
        let mut all = JoinSet::new();
        for name in names {
            let (client, width) = (self.client.clone(), Arc::clone(&width));
            let path = format!(
                "/apis/vitistack.io/v1alpha1/namespaces/{NAMESPACE}/kubernetesclusters/{name}"
            );
            let key = "upgrade.vitistack.io/talos-target";
            let body = json!({"metadata": {"annotations": {key: target}}});
            all.spawn(async move {
                let _permit = width.acquire_owned().await.expect("open");
                send(&client, "PATCH", &path, &body).await;
            });
        }
        all.join_all().await;
    }

    /// How many runs there are with a status that says that nothing is wrong.
    pub(crate) async fn runs(&self) -> usize {
        let path =
            format!("/apis/upgrade.vitistack.io/v1alpha1/namespaces/{NAMESPACE}/upgraderuns");
        let request = http::Request::get(format!("{path}?includeObject=None"))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .expect("a request");
        let table: Value = self.client.request(request).await.expect("runs");
        let columns = table["columnDefinitions"].as_array().expect("columns");
        let phase = columns.iter().position(|it| it["name"] == "Phase").expect("a phase");
        let rows = table["rows"].as_array().expect("rows");
        let well = |row: &&Value| {
            ["Pending", "Running", "Completed"].iter().any(|it| row["cells"][phase] == *it)
        };
        rows.iter().filter(well).count()
    }

    /// Processor time that the hub has used, in seconds.
    pub(crate) fn processor(&self) -> f64 {
        Component::ALL.into_iter().filter_map(|part| self.plane.pid(part)).map(processor).sum()
    }

    /// How many requests of the operator the API server has served.
    pub(crate) async fn requests(&self) -> f64 {
        let request = http::Request::get("/metrics").body(Vec::new()).expect("a request");
        let text = self.client.request_text(request).await.expect("metrics");
        text.lines()
            .filter(|it| it.starts_with("apiserver_flowcontrol_dispatched_requests_total{"))
            .filter(|it| it.contains(&format!("flow_schema=\"{FLOW}\"")))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    }
}

fn flow_schema() -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": FLOW},
        "spec": {
            "priorityLevelConfiguration": {"name": "workload-low"},
            "matchingPrecedence": 500,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": {
                    "name": "talos-operator", "namespace": "vitistack-system"}}],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                    "clusterScope": true, "namespaces": ["*"]}],
            }],
        },
    })
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(body.to_string().into_bytes())
        .expect("a request");
    let sent: Result<Value, kube::Error> = client.request(request).await;
    sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
}
