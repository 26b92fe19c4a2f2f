//! The real kubectl at the endpoints of the Kubernetes API: authentication, forwarding, and control
//! planes that go down.

use talos_sim::address::Layout;
use talos_sim::cluster::{Options, Shape};
use talos_sim::model::NodeIndex;
use testkit::cluster::SPEED;

use crate::bench::Bench;

const CONFIG: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {app: test}}
data: {key: value}
";

async fn bench() -> Bench {
    Bench::quick(3, 1, "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_requests_and_a_watch() {
    let bench = bench().await;
    let kubectl = bench.kubectl();
    let mut watch = kubectl.follow("get --raw /api/v1/configmaps?watch=1");
    kubectl.ok_with("create --validate=false -f -", CONFIG).await;
    watch.until(&["\"ADDED\"", "\"one\""]).await;
    kubectl.says("get --raw /api/v1/namespaces/default/configmaps/one", &["value"]).await;
    kubectl.ok("delete --raw /api/v1/namespaces/default/configmaps/one").await;
    watch.until(&["\"DELETED\"", "\"one\""]).await;
    kubectl.fails("get --raw /api/v1/namespaces/default/configmaps/one", &["NotFound"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_let_in() {
    let bench = bench().await;
    let url = bench.cluster.kubernetes_url();
    let unauthorized = bench.file("nobody", &kubeconfig(&url, "{username: a, password: b}"));
    let unauthorized = bench.kubectl().with_kubeconfig(unauthorized);
    unauthorized.fails("get --raw /api/v1/nodes", &["Unauthorized"]).await;
    unauthorized.says("get --raw /readyz", &["ok"]).await;
    let wrong = bench.file("wrong", &kubeconfig(&url, "{token: abc}"));
    let wrong = bench.kubectl().with_kubeconfig(wrong);
    wrong.fails("get --raw /api/v1/nodes", &["Unauthorized"]).await;
    // Another cluster's administrator is not authenticated here.
    let other = Bench::with(Options::default()).await;
    let text = other.cluster.kubeconfig().lines().map(|line| match line.trim() {
        trimmed if trimmed.starts_with("server:") => format!("    server: {url}"),
        trimmed if trimmed.starts_with("certificate-authority-data:") => {
            "    insecure-skip-tls-verify: true".to_owned()
        }
        _ => line.to_owned(),
    });
    let stranger = bench.file("stranger", &text.collect::<Vec<_>>().join("\n"));
    let stranger = bench.kubectl().with_kubeconfig(stranger);
    stranger.fails("get --raw /api/v1/nodes", &["Unauthorized"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_authenticates_with_its_token() {
    let bench = bench().await;
    let secret = "apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata:
  name: robot
  annotations: {kubernetes.io/service-account.name: robot}
stringData: {token: abc}
data: {token: YWJj}
";
    bench.kubectl().ok_with("create --validate=false -f -", secret).await;
    let robot = bench.file("robot", &kubeconfig(&bench.cluster.kubernetes_url(), "{token: abc}"));
    bench.kubectl().with_kubeconfig(robot).says("get --raw /version", &["gitVersion"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_may_do_what_its_roles_allow() {
    let bench = bench().await;
    let admin = bench.kubectl();
    admin.ok("create serviceaccount robot").await;
    let token = admin.ok("create token robot").await;
    let user = format!("{{token: {}}}", token.trim());
    let robot = bench.file("robot", &kubeconfig(&bench.cluster.kubernetes_url(), &user));
    let robot = bench.kubectl().with_kubeconfig(robot);
    robot.says("auth whoami", &["system:serviceaccount:default:robot"]).await;
    let refused = "Error from server (Forbidden): pods is forbidden: User \
                   \"system:serviceaccount:default:robot\" cannot list resource \"pods\" in API \
                   group \"\" in the namespace \"default\"";
    robot.fails("get pods", &[refused]).await;
    robot.fails("auth can-i list pods", &["no"]).await;
    admin.ok("create role reader --verb=get,list --resource=pods").await;
    admin.ok("create rolebinding reader --role=reader --serviceaccount=default:robot").await;
    robot.says("get pods", &["No resources found"]).await;
    robot.says("auth can-i list pods", &["yes"]).await;
    robot.fails("get pods -n kube-system", &["(Forbidden)"]).await;
    robot.fails("cordon worker-1", &["(Forbidden): nodes \"worker-1\" is forbidden"]).await;
    admin
        .ok("create clusterrolebinding all --clusterrole=cluster-admin --serviceaccount=default:robot")
        .await;
    robot.ok("cordon worker-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_survives_its_servers_and_reports_a_missing_etcd() {
    survives(&bench().await).await;
}

pub(crate) async fn survives(bench: &Bench) {
    let kubectl = bench.kubectl();
    kubectl.ok("get --raw /api/v1/namespaces/default").await;
    bench.cluster.inject("cp-1", "partition").await.expect("a fault");
    // The shared address moves to the next control plane; cp-1's own is closed.
    kubectl.ok("get --raw /api/v1/namespaces/default").await;
    let first = bench.cluster.nodes()[0].kubernetes.expect("an API server");
    let dead = format!("get --raw /version --server=https://{first} --request-timeout=30s");
    kubectl.fails(&dead, &["refused"]).await;
    bench.cluster.inject("cp-2", "partition").await.expect("a fault");
    kubectl.fails("get --raw /api/v1/namespaces/default", &["etcdserver: request timed out"]).await;
    kubectl.fails("get --raw /readyz", &["[-]etcd failed"]).await;
    kubectl.says("get --raw /version", &["gitVersion"]).await;
    bench.cluster.clear("cp-2", "partition").await.expect("the fault was cleared");
    // The two remaining ones have their etcd again.
    let back = [NodeIndex(1), NodeIndex(2)];
    bench
        .until("etcd comes back", move |world| {
            back.iter().all(|node| world.api_server_runs(*node) && world.api_server_has_etcd(*node))
        })
        .await;
    kubectl.says("get --raw /readyz", &["ok"]).await;
    kubectl.ok("get --raw /api/v1/namespaces/default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_per_node_works_too() {
    let bench = Bench::with(Options { layout: Layout::Ports, ..Options::default() }).await;
    let kubectl = bench.kubectl();
    kubectl.ok("get --raw /api/v1/namespaces/default").await;
    for node in bench.cluster.nodes() {
        let Some(address) = node.kubernetes else { continue };
        kubectl.ok(&format!("get --raw /api/v1/namespaces --server=https://{address}")).await;
    }
}

pub(crate) fn kubeconfig(url: &str, user: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: '{url}', insecure-skip-tls-verify: true}}}}]
users: [{{name: u, user: {user}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"
    )
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn objects_survive_a_restart_and_the_kubeconfig_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("cluster");
    let options = || Options {
        shape: Some(Shape { control_planes: 1, workers: 1, ..Shape::default() }),
        folder: Some(folder.clone()),
        speed: SPEED,
        ..Options::default()
    };
    let bench = Bench::with(options()).await;
    let mode = std::fs::metadata(folder.join("kubeconfig")).expect("a kubeconfig").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    bench.kubectl().ok_with("create -f -", CONFIG).await;
    bench.kubectl().ok("cordon worker-1").await;
    let before = bench.kubectl().get("configmap one").await;
    bench.cluster.stop().await;
    let bench = Bench::with(options()).await;
    // The kubeconfig in the folder works.
    let kubectl = bench.kubectl().with_kubeconfig(folder.join("kubeconfig"));
    assert_eq!(kubectl.get("configmap one").await, before);
    kubectl.says("get node worker-1", &["Ready,SchedulingDisabled"]).await;
    bench.cluster.stop().await;
}
