//! A namespace of a hub for one test.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use talos_sim::cluster::Cluster;
use tempfile::TempDir;

use crate::hub::{self, Hub};
use crate::kinds::{self, Selection};
use crate::manifests;
use crate::objects::{annotation, kubernetes_cluster};
use crate::watch::{self, Watch};

/// The shipped service account.
const ACCOUNT: &str = "talos-operator";

/// A namespace, the shipped account in it, and a folder.
pub struct Tenant {
    /// The namespace.
    pub namespace: String,
    hub: Hub,
    admin: Client,
    folder: TempDir,
}

impl Tenant {
    pub(crate) async fn new(hub: Hub, name: &str) -> Self {
        // Tests of several processes share a hub.
        let namespace = format!("{name}-{}", std::process::id());
        let folder = tempfile::tempdir().expect("a folder");
        let mut kubeconfig = hub.admin();
        for context in &mut kubeconfig.contexts {
            if let Some(context) = &mut context.context {
                context.namespace = Some(namespace.clone());
            }
        }
        let admin = hub::client(kubeconfig.clone()).await;
        let tenant = Self { namespace, hub, admin, folder };
        tenant.write("admin", &kubeconfig);
        std::os::unix::fs::symlink(&tenant.hub.kubectl, tenant.file("kubectl")).expect("a link");
        tenant.set_up(&kubeconfig).await;
        tenant
    }

    /// Creates the namespace, the account with the shipped rights, and its kubeconfig.
    async fn set_up(&self, admin: &Kubeconfig) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": self.namespace}});
        self.apply(&namespace).await;
        self.grant_shipped_rights().await;
        let accounts = self.api(&Selection::read("serviceaccounts"));
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 7200}});
        let how = PostParams::default();
        let made = accounts.create_subresource("token", ACCOUNT, &how, &request).await;
        let made: Value = made.expect("a token");
        let token = made["status"]["token"].as_str().expect("a token").to_owned();
        let mut account = admin.clone();
        for user in &mut account.auth_infos {
            if let Some(user) = &mut user.auth_info {
                user.token = Some(token.clone().into());
            }
        }
        self.write("account", &account);
    }

    /// Grants the account the shipped rights, also after a test removed some. Its `ClusterRole` is
    /// `talos-operator-<namespace>`.
    pub async fn grant_shipped_rights(&self) {
        for object in manifests::account_in(&self.namespace) {
            self.apply(&object).await;
        }
    }

    fn write(&self, name: &str, kubeconfig: &Kubeconfig) {
        // JSON is YAML too.
        let text = serde_json::to_string(kubeconfig).expect("a kubeconfig");
        fs::write(self.file(name), text).expect("written");
    }

    /// The hub of this namespace.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// The path of a file of this test.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The kubeconfig of the administrator, with this namespace as its default.
    pub fn admin(&self) -> PathBuf {
        self.file("admin")
    }

    /// The kubeconfig of the shipped account.
    pub fn account(&self) -> PathBuf {
        self.file("account")
    }

    /// A client of the administrator.
    pub fn admin_client(&self) -> Client {
        self.admin.clone()
    }

    /// A client of the shipped account.
    pub async fn client(&self) -> Client {
        hub::client(Kubeconfig::read_from(self.account()).expect("a kubeconfig")).await
    }

    /// The real kubectl, as the administrator, in this namespace.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.hub.kubectl);
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        let folder = self.folder.path();
        command
            .env("KUBECONFIG", self.admin())
            .env("HOME", folder)
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display()))
            .current_dir(folder)
            .stdin(Stdio::null());
    }

    /// Runs a script with `kubectl` in its path, as a user would.
    pub async fn try_shell(&self, script: &str) -> Output {
        let mut shell = Command::new("/bin/sh");
        self.prepare(&mut shell);
        shell.arg("-ec").arg(script);
        let ran = tokio::task::spawn_blocking(move || shell.output());
        ran.await.expect("no panic").expect("a shell")
    }

    /// The same, asserting success. Returns its output.
    pub async fn shell(&self, script: &str) -> String {
        let output = self.try_shell(script).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{script}\n{stdout}{stderr}");
        stdout.trim().to_owned()
    }

    fn api(&self, selection: &Selection) -> Api<DynamicObject> {
        watch::api(self.admin.clone(), &self.namespace, selection)
    }

    /// Applies an object.
    pub async fn apply(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let selection = Selection { resource: kinds::of(object), name: None, labels: None };
        let how = PatchParams::apply("tests").force();
        let applied = self.api(&selection).patch(&name, &how, &Patch::Apply(object)).await;
        applied.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Merges into an object: `kubernetescluster one`.
    pub async fn merge(&self, what: &str, patch: &Value) {
        let selection = Selection::read(what);
        let name = selection.name.as_deref().expect("a name");
        let patch = Patch::Merge(patch);
        let patched = self.api(&selection).patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("{what}: {error}"));
    }

    /// Merges into the status of an object: `machine one`.
    pub async fn merge_status(&self, what: &str, status: &Value) {
        let selection = Selection::read(what);
        let name = selection.name.as_deref().expect("a name");
        let (how, patch) = (PatchParams::default(), json!({"status": status}));
        let api = self.api(&selection);
        let patched = api.patch_status(name, &how, &Patch::Merge(&patch)).await;
        patched.unwrap_or_else(|error| panic!("{what}: {error}"));
    }

    /// Deletes an object: `machine one`.
    pub async fn delete(&self, what: &str) {
        let selection = Selection::read(what);
        let name = selection.name.as_deref().expect("a name");
        let deleted = self.api(&selection).delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("{what}: {error}"));
    }

    /// An object, or a list: `kubernetescluster one`, `upgraderuns -l key=value`.
    pub async fn get(&self, what: &str) -> Value {
        let selection = Selection::read(what);
        let api = self.api(&selection);
        let found = if let Some(name) = &selection.name {
            api.get(name).await.map(|it| serde_json::to_value(it).expect("JSON"))
        } else {
            let mut which = ListParams::default();
            which.label_selector.clone_from(&selection.labels);
            let listed = api.list(&which).await;
            listed.map(|it| json!({"items": it.items}))
        };
        found.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Whether a named object exists.
    pub async fn exists(&self, what: &str) -> bool {
        let selection = Selection::read(what);
        let name = selection.name.as_deref().expect("a name");
        self.api(&selection).get_opt(name).await.expect("an answer").is_some()
    }

    /// Waits with a watch until a condition of an object, or of a list `{"items": [...]}`, holds.
    /// It sees every state.
    pub async fn until(&self, what: &str, why: &str, holds: impl FnMut(&Value) -> bool) -> Value {
        let selection = Selection::read(what);
        watch::until(self.api(&selection), &selection, why, holds).await
    }

    /// Watches objects, one state of one object at a time: for tests that react to what they see,
    /// or that watch many objects.
    pub fn watch(&self, what: &str) -> Watch {
        let selection = Selection::read(what);
        Watch::new(self.api(&selection), what, &selection)
    }

    /// Sets annotations of a cluster, `key=value`; `key-` removes one.
    pub async fn annotate(&self, name: &str, annotations: &[&str]) {
        let mut patch = serde_json::Map::new();
        for annotation in annotations {
            let (key, value) = match annotation.split_once('=') {
                Some((key, value)) => (key, Value::from(value)),
                None => (annotation.strip_suffix('-').expect("key=value or key-"), Value::Null),
            };
            patch.insert(format!("upgrade.vitistack.io/{key}"), value);
        }
        let patch = json!({"metadata": {"annotations": patch}});
        self.merge(&format!("kubernetescluster {name}"), &patch).await;
    }

    /// Waits for an annotation's value.
    pub async fn annotated(&self, name: &str, key: &str, value: &str) -> Value {
        let what = format!("kubernetescluster {name}");
        self.until(&what, &format!("{key}={value}"), |it| annotation(it, key) == value).await
    }

    /// The runs of a cluster, oldest first.
    pub async fn runs_of(&self, name: &str) -> Vec<Value> {
        let listed = self.get(&format!("upgraderuns -l upgrade.vitistack.io/cluster={name}")).await;
        let mut runs = listed["items"].as_array().cloned().unwrap_or_default();
        // Kubernetes stores whole seconds, and names end in random letters.
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        runs.sort_by_key(|run| {
            let (meta, made) = (&run["metadata"], annotation(run, "made").to_owned());
            (text(&meta["creationTimestamp"]), made, text(&meta["name"]))
        });
        runs
    }

    /// The newest run of a cluster, if there is one.
    pub async fn run_of(&self, name: &str) -> Option<Value> {
        self.runs_of(name).await.pop()
    }

    /// Creates the objects of a simulated cluster.
    pub async fn register(&self, name: &str, cluster: &Cluster) {
        self.keys(name, cluster.talosconfig(), cluster.kubeconfig()).await;
        self.apply(&kubernetes_cluster(name)).await;
    }

    /// Creates a `KubernetesCluster`.
    pub async fn cluster(&self, name: &str) {
        self.apply(&kubernetes_cluster(name)).await;
    }

    /// Writes a cluster's Secret.
    pub async fn keys(&self, name: &str, talosconfig: &str, kubeconfig: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"talosconfig": talosconfig, "kube.config": kubeconfig},
        });
        self.apply(&secret).await;
    }
}
