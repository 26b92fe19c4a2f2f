//! The first minute of an operator whose hub is not set up yet: it reports everything that
//! is missing, each with the command that creates it, and continues once these were run.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::Value;
use testkit::{Hub, Tenant};

use crate::replica::Replica;

/// Longer than two of its questions to the hub.
const A_WHILE: Duration = Duration::from_secs(12);

/// What is shipped, and the program, where a user has them.
fn link_shipped_files(tenant: &Tenant) {
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
    symlink(deploy, tenant.file("deploy")).expect("a link");
    symlink(env!("CARGO_BIN_EXE_talos-operator"), tenant.file("talos-operator")).expect("a link");
}

/// Runs every command that an answer of `/readyz` names, as the administrator.
async fn run_fixes(tenant: &Tenant, answer: &str) {
    let fixes = answer.lines().filter_map(|line| line.trim().strip_prefix("fix: "));
    let fixes: BTreeSet<&str> = fixes.collect();
    assert!(!fixes.is_empty(), "{answer}");
    // Namespaces first, as a user would: what is in them comes later.
    let (first, then): (Vec<_>, Vec<_>) =
        fixes.into_iter().partition(|fix| fix.starts_with("kubectl create namespace"));
    for fix in first.into_iter().chain(then) {
        tenant.shell(fix).await;
    }
}

/// An error is logged once, however often it repeats, and never as a dump.
fn logged_once(log: &str, words: &str) {
    let lines = log.lines().filter(|line| line.contains(words));
    assert_eq!(lines.count(), 1, "`{words}` in\n{log}");
    for dump in ["ApiError", "Status {", "ServiceError", "Some("] {
        assert!(!log.contains(dump), "{dump} in\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_an_empty_hub_it_waits_and_tells_what_to_run() {
    let tenant = Hub::empty().await.tenant("empty").await;
    link_shipped_files(&tenant);
    // As a new user starts it: no flag for the hub, none for the log.
    let mut command = Replica::command();
    command.args(["operator", "--listen=127.0.0.1:0"]).env("KUBECONFIG", tenant.admin());
    let replica = Replica::spawn(&tenant, "new", command);
    let answer = replica.is_not_ready("missing on the hub").await;
    let kinds = ["kubernetesclusters.vitistack.io", "machines.vitistack.io"];
    for kind in kinds.into_iter().chain(["upgraderuns.upgrade.vitistack.io"]) {
        assert!(answer.contains(&format!("it does not serve {kind}")), "{answer}");
    }
    assert!(answer.contains("fix: kubectl apply -f deploy/10-crds.yaml\n"), "{answer}");
    assert!(answer.contains("the namespace vitistack-system does not exist"), "{answer}");
    assert!(answer.contains("fix: kubectl create namespace vitistack-system\n"), "{answer}");

    tokio::time::sleep(A_WHILE).await;
    let log = replica.log();
    let first = log.lines().next().expect("a line");
    assert!(first.contains("hub=") && first.contains("by=KUBECONFIG"), "{first}");
    assert!(first.contains("hub=https://127.0.0.1:"), "{first}");
    logged_once(&log, "missing on the hub: it does not serve machines.vitistack.io");
    logged_once(&log, "missing on the hub: the namespace vitistack-system does not exist");

    run_fixes(&tenant, &answer).await;
    replica.is_ready().await;
    let log = replica.terminate().await;
    logged_once(&log, "not missing any more: the namespace vitistack-system does not exist");
    logged_once(&log, "the hub has all that the operator needs");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_without_rights_learns_how_to_get_them() {
    let tenant = Hub::shared().await.tenant("rights").await;
    link_shipped_files(&tenant);
    let namespace = &tenant.namespace;
    for binding in [
        format!("clusterrolebinding talos-operator-{namespace}"),
        format!("clusterrolebinding talos-operator-cluster-access-{namespace}"),
        "rolebinding talos-operator".to_owned(),
    ] {
        tenant.delete(&binding).await;
    }
    let replica = Replica::start(&tenant, "one");
    let answer = replica.is_not_ready("missing on the hub").await;
    for right in [
        "list, watch kubernetesclusters.vitistack.io",
        "get, patch kubernetesclusters.vitistack.io",
        "patch kubernetesclusters.vitistack.io/status",
        "list, watch machines.vitistack.io",
        "get, list, create, delete upgraderuns.upgrade.vitistack.io",
        "patch upgraderuns.upgrade.vitistack.io/status",
        "create, patch events.events.k8s.io",
        "get secrets",
        "get, list, create, update, patch, delete leases.coordination.k8s.io",
    ] {
        let who = format!("the service account {namespace}/talos-operator");
        let line = format!("- {who} may not {right} in the namespace {namespace}\n");
        assert!(answer.contains(&line), "{line} in {answer}");
    }
    assert!(!answer.contains("configmaps"), "no list of versions is read: {answer}");
    run_fixes(&tenant, &answer).await;
    replica.is_ready().await;
    replica.logs("the hub has all that the operator needs").await;
    assert!(tenant.exists("lease talos-operator-one").await, "it works");

    // A right that is taken away: its heartbeat fails once a second, and says so once.
    let binding = format!("rolebinding talos-operator-leases-{namespace}-talos-operator");
    tenant.delete(&binding).await;
    replica.logs("the heartbeat fails").await;
    tokio::time::sleep(A_WHILE).await;
    logged_once(&replica.log(), "the heartbeat fails: the API server answers 403 Forbidden");
    tenant.grant_shipped_rights().await;
    replica.logs("the heartbeat recovered, after").await;
    replica.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_does_not_answer_is_named_once_in_a_line_for_programs() {
    let tenant = Hub::shared().await.tenant("away").await;
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
                      contexts: [{name: a, context: {cluster: a, user: a}}]\n\
                      clusters: [{name: a, cluster: {server: \"https://127.0.0.1:1\"}}]\n\
                      users: [{name: a, user: {token: hunter2}}]\n";
    std::fs::create_dir(tenant.file(".kube")).expect("a folder");
    std::fs::write(tenant.file(".kube/config"), kubeconfig).expect("a file");
    let mut command = Replica::command();
    command.args(["operator", "--log-format=json", "--listen=127.0.0.1:0"]);
    let replica = Replica::spawn(&tenant, "away", command);
    replica.is_not_ready("waiting for the hub: the API server cannot be reached").await;
    tokio::time::sleep(A_WHILE).await;
    let log = replica.terminate().await;
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let lines: Vec<Value> = lines.collect();
    assert_eq!(lines[0]["level"], "INFO");
    assert_eq!(lines[0]["by"], "~/.kube/config");
    let away = lines.iter().filter(|it| it["level"] == "WARN").collect::<Vec<_>>();
    let text = away[0]["message"].as_str().expect("text");
    assert!(
        text.starts_with("the hub cannot be asked: the API server cannot be reached"),
        "{text}"
    );
    assert_eq!(away.len(), 1, "{log}");
    // Rule 14.
    assert!(!log.contains("hunter2"), "{log}");
}
