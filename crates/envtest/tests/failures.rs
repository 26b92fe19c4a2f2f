//! Failing starts: each returns the reason and leaves nothing running.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use envtest::{Component, ControlPlane, Error, Event, Options, Tools};

use crate::common::anybody_names;

fn stand_in(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn options(folder: &Path) -> Options {
    Options::new(folder, Tools::find().expect("the tools"))
}

fn failure(options: Options) -> Error {
    ControlPlane::start(options).map(|_| ()).expect_err("it cannot start")
}

#[test]
fn a_component_that_dies_is_named_with_its_last_log_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(folder.path());
    // The real etcd is running by then, and has to be stopped.
    options.tools.kube_apiserver = stand_in("dies.sh");
    let error = failure(options).to_string();
    let log = folder.path().canonicalize().expect("a path").join("logs/kube-apiserver.log");
    let expected = format!(
        "kube-apiserver ended with exit status: 3; the end of {}:\n    starting up\n    \
         the disk is full",
        log.display()
    );
    assert_eq!(error, expected);
    assert!(!anybody_names(folder.path()));
}

#[test]
fn a_hanging_component_times_out_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(folder.path());
    options.tools.etcd = stand_in("hangs.sh");
    options.ready_limit = Duration::from_millis(300);
    let (sender, receiver) = std::sync::mpsc::channel();
    options.observer = Some(Box::new(move |event| {
        let line = match event {
            Event::Started { component, .. } => format!("started {component}"),
            Event::Waiting { component, reason } => format!("{component} {reason}"),
            Event::Stopping { component } => format!("stopping {component}"),
            _ => return,
        };
        sender.send(line).ok();
    }));
    let error = failure(options);
    let Error::NotReady { component: Component::Etcd, reason, tail, .. } = &error else {
        panic!("{error}")
    };
    assert!(reason.starts_with("does not listen on port "), "{reason}");
    assert_eq!(tail, "thinking");
    let events: Vec<String> = receiver.iter().collect();
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!((events[0].as_str(), events[2].as_str()), ("started etcd", "stopping etcd"));
    assert!(events[1].starts_with("etcd does not listen on port "), "{events:?}");
}

#[test]
fn an_interrupt_ends_a_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(folder.path());
    let interrupt = Arc::new(AtomicBool::new(false));
    options.interrupt = Some(Arc::clone(&interrupt));
    options.observer = Some(Box::new(move |event| {
        if matches!(event, Event::Started { component: Component::ApiServer, .. }) {
            interrupt.store(true, Ordering::Relaxed);
        }
    }));
    let error = failure(options);
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert!(!anybody_names(folder.path()));
}

#[test]
fn a_requested_port_is_never_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = taken.local_addr().expect("an address").port() - 3;
    let options = Options { port_base: Some(base), ..options(folder.path()) };
    let error = failure(options);
    assert!(matches!(error, Error::Port { port, .. } if port >= base), "{error}");
}

#[test]
fn a_missing_program_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(folder.path());
    options.tools.etcd = PathBuf::from("/nowhere/etcd");
    assert_eq!(failure(options).to_string(), "cannot run /nowhere/etcd");
}
