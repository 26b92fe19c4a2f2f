//! The real programs, from an empty folder to a restart.

mod common;

use std::process::Command;
use std::thread;
use std::time::Duration;

use envtest::{Component, ControlPlane, Error, Health, Options, Tools};

use crate::common::anybody_names;

const DEPLOYMENT: &str = "deployment/web";

fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("kubectl starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

fn kubectl(plane: &ControlPlane, line: &str) -> String {
    succeed(plane.kubectl().args(line.split(' ')))
}

fn processes(plane: &ControlPlane) -> Vec<u32> {
    Component::ALL.iter().filter_map(|component| plane.pid(*component)).collect()
}

/// One long test, because every part would have to repeat the first one.
#[test]
fn a_control_plane_is_real_and_keeps_its_state() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().canonicalize().expect("a path").join("plane");
    let tools = Tools::find().expect("the tools");
    let options = || Options::new(&folder, tools.clone());
    let mut plane = ControlPlane::start(options()).expect("a control plane");

    // It is a real cluster, with our users.
    assert_eq!(kubectl(&plane, "get --raw /readyz"), "ok");
    assert!(plane.kubeconfig().expect("a kubeconfig").contains(&plane.url()));
    assert!(plane.certificate_authority().expect("certificates").contains("BEGIN CERTIFICATE"));
    assert_eq!(kubectl(&plane, "auth whoami -o jsonpath={.status.userInfo.username}"), "admin");
    let refused = plane.kubectl().args(["get", "nodes", "--as", "somebody"]).output();
    assert!(!refused.expect("kubectl starts").status.success(), "RBAC rejects anonymous requests");

    // It has one owner.
    let second = ControlPlane::start(options()).map(|_| ()).expect_err("one owner");
    assert!(matches!(second, Error::Busy { .. }), "{second}");
    let seen = envtest::inspect(&folder, &tools).expect("ours").expect("there");
    assert!(seen.is_ready(), "{seen:?}");
    assert_eq!(seen.owner, Some(std::process::id()));

    // Objects are created and deleted, and controllers act on them.
    kubectl(&plane, "create configmap kept --from-literal=key=value");
    kubectl(&plane, "create configmap lost --from-literal=key=value");
    kubectl(&plane, "delete configmap lost");
    kubectl(&plane, "create deployment web --image=example.invalid/web:1 --replicas=2");
    kubectl(&plane, "wait --for=create replicaset --selector app=web --timeout=300s");
    kubectl(
        &plane,
        "wait --for=jsonpath={.status.replicas}=2 replicaset --selector app=web --timeout=300s",
    );
    // Without nodes the pods stay pending, but the scheduler has tried.
    kubectl(
        &plane,
        "wait --for=condition=PodScheduled=false pod --selector app=web --timeout=300s",
    );
    let token = kubectl(&plane, "create token default");

    // A new API server has the same objects and accepts the same tokens.
    let before = plane.pid(Component::ApiServer);
    plane.restart_apiserver().expect("an API server");
    assert_ne!(plane.pid(Component::ApiServer), before);
    let still_there = |plane: &ControlPlane| {
        assert_eq!(kubectl(plane, "get configmap kept -o jsonpath={.data.key}"), "value");
        assert_eq!(kubectl(plane, "get configmap lost --ignore-not-found"), "");
        let name = kubectl(plane, &format!("get {DEPLOYMENT} -o jsonpath={{.metadata.name}}"));
        assert_eq!(name, "web");
    };
    still_there(&plane);
    let review = format!("auth whoami --token {} -o name", token.trim());
    kubectl(&plane, &review);

    // Controllers survive it, and a killed one comes back.
    plane.kill(Component::ControllerManager).expect("it ends");
    assert_eq!(plane.pid(Component::ControllerManager), None);
    plane.check().expect("a requested kill is not a failure");
    plane.restart(Component::ControllerManager).expect("a controller manager");
    kubectl(&plane, &format!("delete {DEPLOYMENT} --cascade=foreground --timeout=300s"));
    kubectl(&plane, "create deployment web --image=example.invalid/web:1 --replicas=0");

    // Once detached, it keeps running, and any process can take it down, twice.
    let (url, token) = (plane.url(), plane.token().expect("a token"));
    let left = processes(&plane);
    assert!(anybody_names(&folder), "or the checks below mean nothing");
    assert_eq!(left.len(), Component::ALL.len());
    plane.detach().expect("it keeps running");
    let error = ControlPlane::start(options()).map(|_| ()).expect_err("it runs");
    assert!(matches!(error, Error::AlreadyRunning { .. }), "{error}");
    let seen = envtest::inspect(&folder, &tools).expect("ours").expect("there");
    assert_eq!(seen.components.iter().filter_map(|it| it.pid).collect::<Vec<_>>(), left);
    assert!(seen.is_ready() && seen.owner.is_none(), "{seen:?}");
    assert_eq!(envtest::take_down(&folder).expect("it stops"), Component::ALL);
    assert_eq!(envtest::take_down(&folder).expect("still stopped"), []);
    let seen = envtest::inspect(&folder, &tools).expect("ours").expect("there");
    assert!(seen.components.iter().all(|it| it.health == Health::Stopped), "{seen:?}");
    assert!(!anybody_names(&folder));

    // The folder is the cluster: same address, token and objects.
    let plane = ControlPlane::start(options()).expect("a control plane");
    assert_eq!((plane.url(), plane.token().expect("a token")), (url, token));
    still_there(&plane);
    plane.stop().expect("it stops");
    assert!(!anybody_names(&folder));

    // A crash is detected, and neither it nor a panicking test keeps the rest from stopping.
    let mut plane = ControlPlane::start(options()).expect("a control plane");
    let etcd = plane.pid(Component::Etcd).expect("etcd runs");
    succeed(Command::new("/bin/sh").args(["-c", &format!("kill -KILL {etcd}")]));
    let noticed = (0..100).find_map(|_| {
        thread::sleep(Duration::from_millis(20));
        plane.check().err()
    });
    let error = noticed.expect("etcd is dead");
    assert!(matches!(error, Error::Died { component: Component::Etcd, .. }), "{error}");
    let panicking = thread::spawn(move || {
        let _plane = plane;
        panic!("on purpose");
    });
    panicking.join().expect_err("it panics");
    assert!(!anybody_names(&folder));
}
