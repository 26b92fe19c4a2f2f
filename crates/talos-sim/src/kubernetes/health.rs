//! An unhealthy API server: what it still serves without its etcd, and how it refuses requests.

use std::fmt::Write as _;
use std::time::Duration;

use kube_sim::{Reply, Request, Status};
use serde_json::json;

/// How long a request waits for an etcd that has no leader.
pub(super) const PATIENCE: Duration = Duration::from_secs(7);

/// The checks of `/livez`, `/readyz` and `/healthz`, reduced to those that can differ here. The
/// flag: whether it fails without etcd.
const CHECKS: &[(&str, bool)] = &[
    ("ping", false),
    ("log", false),
    ("etcd", true),
    ("etcd-readiness", true),
    ("informer-sync", false),
    ("poststarthook/start-apiextensions-controllers", false),
    ("poststarthook/crd-informer-synced", false),
    ("poststarthook/rbac/bootstrap-roles", false),
    ("poststarthook/apiservice-openapi-controller", false),
    ("shutdown", false),
];

/// Whether a request needs data that only etcd has.
pub(super) fn needs_etcd(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["api", rest @ ..] => rest.len() > 1,
        ["apis", rest @ ..] => rest.len() > 2,
        _ => false,
    }
}

/// The answer of a health check without etcd; `None` if the path is not one.
pub(super) fn without_etcd(request: &Request) -> Option<Reply> {
    let path = request.path.trim_matches('/');
    let (name, single) = path.split_once('/').unwrap_or((path, ""));
    if !["livez", "readyz", "healthz"].contains(&name) {
        return None;
    }
    let of_this = |check: &&(&str, bool)| match check.0 {
        "etcd-readiness" | "informer-sync" | "shutdown" => name == "readyz",
        _ => true,
    };
    if !single.is_empty() {
        let fails = CHECKS.iter().filter(of_this).find(|(check, _)| *check == single)?.1;
        let text =
            if fails { "internal server error: etcd failed: reason withheld\n" } else { "ok" };
        return Some(plain(if fails { 500 } else { 200 }, text.to_owned()));
    }
    let mut text = String::new();
    for (check, fails) in CHECKS.iter().filter(of_this) {
        let _ = if *fails {
            writeln!(text, "[-]{check} failed: reason withheld")
        } else {
            writeln!(text, "[+]{check} ok")
        };
    }
    let _ = writeln!(text, "{name} check failed");
    Some(plain(500, text))
}

/// The answer to a request whose wait for etcd timed out.
pub(super) fn timed_out() -> Reply {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "etcdserver: request timed out",
        "code": 500,
    });
    Reply::Response {
        status: 500,
        content_type: "application/json",
        retry_after: None,
        warnings: Vec::new(),
        body: status.to_string().into(),
    }
}

/// The answer to a refused request: 429 with the text of an overloaded API server, or 500.
pub(super) fn refused(code: u16) -> Reply {
    if code != 429 {
        let status = Status::internal("a simulated fault");
        return Reply::Response {
            status: status.code,
            content_type: "application/json",
            retry_after: None,
            warnings: Vec::new(),
            body: status.to_value().to_string().into(),
        };
    }
    Reply::Response {
        status: 429,
        content_type: "text/plain; charset=utf-8",
        retry_after: Some(1),
        warnings: Vec::new(),
        body: "Too many requests, please try again later.\n".into(),
    }
}

fn plain(status: u16, text: String) -> Reply {
    Reply::Response {
        status,
        content_type: "text/plain; charset=utf-8",
        retry_after: None,
        warnings: Vec::new(),
        body: text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_stored_objects_need_etcd() {
        for path in ["/api", "/api/v1", "/apis", "/apis/apps/v1", "/version", "/openapi/v3"] {
            assert!(!needs_etcd(path), "{path}");
        }
        for path in ["/api/v1/nodes", "/apis/apps/v1/deployments", "/api/v1/namespaces/a/pods/b"] {
            assert!(needs_etcd(path), "{path}");
        }
    }

    #[test]
    fn a_failed_check_names_etcd() {
        let Some(Reply::Response { status: 500, body, .. }) =
            without_etcd(&Request::get("/readyz?verbose"))
        else {
            panic!("not refused");
        };
        let text = String::from_utf8_lossy(&body);
        assert!(
            text.contains("[-]etcd failed: reason withheld\n[-]etcd-readiness failed"),
            "{text}"
        );
        assert!(text.ends_with("readyz check failed\n"), "{text}");
        assert!(without_etcd(&Request::get("/version")).is_none());
        let single = without_etcd(&Request::get("/livez/ping"));
        assert!(matches!(single, Some(Reply::Response { status: 200, .. })));
    }
}
