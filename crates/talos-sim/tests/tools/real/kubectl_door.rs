//! The endpoints in front of a real Kubernetes API.

use crate::bench::{Bench, NODES};
use crate::kubectl_door::{kubeconfig, survives};

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_survives_its_endpoints_and_checks_tokens_itself() {
    let bench = Bench::start_real(&NODES[1], 1).await;
    // A caller with a token of its own is authenticated by the real server.
    bench.kubectl().ok("create serviceaccount robot").await;
    let token = bench.kubectl().ok("create token robot").await;
    let text = kubeconfig(&bench.cluster.kubernetes_url(), &format!("{{token: {}}}", token.trim()));
    let robot = bench.kubectl().with_kubeconfig(bench.file("robot", &text));
    robot.says("auth whoami", &["system:serviceaccount:default:robot"]).await;
    robot.fails("get nodes", &["Forbidden"]).await;
    let text = kubeconfig(&bench.cluster.kubernetes_url(), "{token: nonsense}");
    let unauthorized = bench.kubectl().with_kubeconfig(bench.file("nobody", &text));
    unauthorized.fails("get --raw /api/v1/nodes", &["Unauthorized"]).await;
    survives(&bench).await;
}
