//! Connecting: trust, errors, and the choice of the endpoint.

use std::error::Error as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::node::{Call, Node, Step, send};
use crate::pki::{Authority, Valid};
use crate::{client, client_with, deadlines};
use talos_client::{Client, ConnectionError, Failure};
use talos_proto::machine as wire;
use tonic::Code;

fn hostname(name: &str) -> Vec<Step> {
    vec![send(&wire::HostnameResponse {
        messages: vec![wire::Hostname { metadata: None, hostname: name.to_owned() }],
    })]
}

fn fault(client_error: &talos_client::Error) -> &ConnectionError {
    match client_error.failure() {
        Failure::Connect(fault) => fault,
        other => panic!("{other:?} is not a failure to connect"),
    }
}

async fn fault_of(client: &Client) -> ConnectionError {
    let error = client.endpoint().hostname().await.unwrap_err();
    assert!(error.source().unwrap().source().is_some());
    fault(&error).clone()
}

#[tokio::test]
async fn a_call_goes_to_its_node() {
    let authority = Authority::new();
    let node = Node::start(&authority, |_| hostname("cp-1")).await;
    let admin = authority.client("os:admin", Valid::Now);
    let client = client(&authority.talosconfig(&[node.endpoint()], &admin));
    assert_eq!(client.endpoint().hostname().await.unwrap(), "cp-1");
    let other = client.node("10.5.0.3".parse().unwrap());
    assert_eq!(other.hostname().await.unwrap(), "cp-1");
    let routes: Vec<_> = node.calls("Hostname").into_iter().map(|call| call.node).collect();
    assert_eq!(routes, [None, Some("10.5.0.3".to_owned())]);
    assert!(client.endpoints()[0].failure.is_none());
}

#[tokio::test]
async fn another_authority_is_not_trusted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let node = Node::start(&theirs, |_| hostname("cp-1")).await;
    let admin = ours.client("os:admin", Valid::Now);
    let client = client(&ours.talosconfig(&[node.endpoint()], &admin));
    assert_eq!(fault_of(&client).await, ConnectionError::WrongAuthority);
    assert!(node.methods().is_empty());
}

#[tokio::test]
async fn a_certificate_for_another_address_is_not_trusted() {
    let authority = Authority::new();
    let pair = authority.server(&["10.5.0.2", "cp-1"], Valid::Now);
    let node = Node::start_with(&authority, &pair, |_| hostname("cp-1")).await;
    let admin = authority.client("os:admin", Valid::Now);
    let client = client(&authority.talosconfig(&[node.endpoint()], &admin));
    assert_eq!(fault_of(&client).await, ConnectionError::WrongName);
}

#[tokio::test]
async fn an_expired_server_certificate_is_not_trusted() {
    let authority = Authority::new();
    for valid in [Valid::NoLonger, Valid::NotYet] {
        let pair = authority.server(&["127.0.0.1"], valid);
        let node = Node::start_with(&authority, &pair, |_| hostname("cp-1")).await;
        let admin = authority.client("os:admin", Valid::Now);
        let client = client(&authority.talosconfig(&[node.endpoint()], &admin));
        assert_eq!(fault_of(&client).await, ConnectionError::ServerCertificateExpired);
    }
}

#[tokio::test]
async fn a_replaced_certificate_is_reloaded() {
    // The file of a Talos service account is rewritten before its certificate expires, while the
    // program keeps running.
    let authority = Authority::new();
    let node = Node::start(&authority, |_| hostname("cp-1")).await;
    let old = authority.client("os:admin", Valid::NoLonger);
    let new = authority.client("os:admin", Valid::Now);
    let context = |pair| {
        let text = authority.talosconfig(&[node.endpoint()], pair);
        let config = talos_client::Talosconfig::parse(text.as_bytes(), "test").unwrap();
        config.context(None).unwrap()
    };
    let file = Arc::new(Mutex::new(None));
    let read = Arc::clone(&file);
    let reload = move || read.lock().unwrap().clone();
    let client = Client::reloading(&context(&old), deadlines(), reload).unwrap();
    assert_eq!(fault_of(&client).await, ConnectionError::ClientCertificateExpired);
    *file.lock().unwrap() = Some(context(&new));
    assert_eq!(client.endpoint().hostname().await.unwrap(), "cp-1");
    // While the file is missing, the last credentials are used.
    *file.lock().unwrap() = None;
    assert_eq!(client.endpoint().hostname().await.unwrap(), "cp-1");
}

#[tokio::test]
async fn an_expired_client_certificate_is_named() {
    let authority = Authority::new();
    let node = Node::start(&authority, |_| hostname("cp-1")).await;
    let admin = authority.client("os:admin", Valid::NoLonger);
    let client = client(&authority.talosconfig(&[node.endpoint()], &admin));
    let fault = fault_of(&client).await;
    assert_eq!(fault, ConnectionError::ClientCertificateExpired);
    assert!(fault.to_string().contains("talosctl config new"), "{fault}");
}

#[tokio::test]
async fn a_client_certificate_of_another_cluster_is_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    let node = Node::start(&authority, |_| hostname("cp-1")).await;
    let admin = other.client("os:admin", Valid::Now);
    let client = client(&authority.talosconfig(&[node.endpoint()], &admin));
    let fault = fault_of(&client).await;
    assert!(matches!(fault, ConnectionError::ClientCertificateRejected(_)), "{fault:?}");
}

#[tokio::test]
async fn a_closed_port_is_refused_and_a_name_unresolved() {
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    // Bound but not listening, so the port stays reserved and refuses connections.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = closed.local_addr().unwrap().to_string();
    let refused = client(&authority.talosconfig(&[address], &admin));
    assert_eq!(fault_of(&refused).await, ConnectionError::Refused);

    let nowhere = client(&authority.talosconfig(&["nowhere.invalid".to_owned()], &admin));
    let fault = fault_of(&nowhere).await;
    assert!(matches!(fault, ConnectionError::Unresolved(_)), "{fault:?}");
}

#[tokio::test]
async fn a_port_that_accepts_but_never_answers_times_out() {
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let config = authority.talosconfig(&[address], &admin);
    let mut deadlines = deadlines();
    deadlines.connect = Duration::from_millis(200);
    let client = client_with(&config, deadlines);
    assert_eq!(fault_of(&client).await, ConnectionError::TimedOut(deadlines.connect));
}

#[tokio::test]
async fn the_wrong_role_is_named() {
    let authority = Authority::new();
    let node =
        Node::start(&authority, |_| vec![Step::Fail(Code::PermissionDenied, "not authorized")])
            .await;
    let reader = authority.client("os:reader", Valid::Now);
    let client = client(&authority.talosconfig(&[node.endpoint()], &reader));
    let error = client.endpoint().hostname().await.unwrap_err();
    assert!(matches!(error.failure(), Failure::NotAuthorised(_)), "{error:?}");
    assert_eq!(node.methods().len(), 1, "a refusal is not retried");
    assert!(client.endpoints()[0].failure.is_none(), "it answered");
}

#[tokio::test]
async fn the_next_endpoint_takes_over_and_is_remembered() {
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    let first = Node::start(&authority, |_| hostname("cp-1")).await;
    let second = Node::start(&authority, |_| hostname("cp-2")).await;
    let client = client(&authority.talosconfig(&[first.endpoint(), second.endpoint()], &admin));
    let endpoint = client.endpoint();
    assert_eq!(endpoint.hostname().await.unwrap(), "cp-1");
    first.stop();
    // The connection may be broken or already closed.
    assert_eq!(endpoint.hostname().await.unwrap(), "cp-2");
    assert_eq!(endpoint.hostname().await.unwrap(), "cp-2");
    assert!(client.endpoints()[0].failure.is_some());
    assert!(client.endpoints()[1].failure.is_none());
}

#[tokio::test]
async fn a_worker_as_endpoint_is_skipped() {
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    let worker = Node::start(&authority, |call: &Call| match &call.node {
        Some(_) => vec![Step::Fail(Code::PermissionDenied, "no request forwarding")],
        None => hostname("worker-1"),
    })
    .await;
    let config = authority.talosconfig(&[worker.endpoint()], &admin);
    let alone = client(&config).node("10.5.0.2".parse().unwrap());
    let error = alone.hostname().await.unwrap_err();
    assert!(matches!(error.failure(), Failure::NotForwarded(_)), "{error:?}");

    let control_plane = Node::start(&authority, |_| hostname("cp-1")).await;
    let endpoints = [worker.endpoint(), control_plane.endpoint()];
    let both = client(&authority.talosconfig(&endpoints, &admin));
    let node = both.node("10.5.0.2".parse().unwrap());
    assert_eq!(node.hostname().await.unwrap(), "cp-1");
}

#[tokio::test]
async fn a_read_is_retried_with_a_limit() {
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    let node =
        Node::start(&authority, |_| vec![Step::Fail(Code::Unavailable, "the node is down")]).await;
    let client = client(&authority.talosconfig(&[node.endpoint()], &admin));
    let error = client.endpoint().hostname().await.unwrap_err();
    assert!(
        matches!(error.failure(), Failure::Status { code: Code::Unavailable, .. }),
        "{error:?}"
    );
    assert_eq!(node.methods().len(), 3);
}

#[tokio::test]
async fn a_hanging_call_times_out() {
    // Rule 11.
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    let node = Node::start(&authority, |_| vec![Step::Hang]).await;
    let mut deadlines = deadlines();
    deadlines.attempt = Duration::from_millis(100);
    let config = authority.talosconfig(&[node.endpoint()], &admin);
    let client = client_with(&config, deadlines);
    let error = client.endpoint().hostname().await.unwrap_err();
    assert!(matches!(error.failure(), Failure::Deadline(_)), "{error:?}");
}

#[tokio::test]
async fn large_messages_pass() {
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    // Larger than the default limit of gRPC libraries.
    let node = Node::start(&authority, |_| hostname(&"x".repeat(20 << 20))).await;
    let client = client(&authority.talosconfig(&[node.endpoint()], &admin));
    assert_eq!(client.endpoint().hostname().await.unwrap().len(), 20 << 20);
}

#[tokio::test]
async fn secrets_are_never_shown() {
    // Rule 14.
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    let text = authority.talosconfig(&["127.0.0.1:1".to_owned()], &admin);
    let config = talos_client::Talosconfig::parse(text.as_bytes(), "test").unwrap();
    let context = config.context(None).unwrap();
    let client = Client::new(&context).unwrap();
    let shown = format!("{config:?} {context:?} {client:?} {:#?}", client.endpoint());
    let key_lines: Vec<_> = text.lines().filter(|line| line.contains("key: ")).collect();
    let encoded = key_lines[0].trim().trim_start_matches("key: ");
    assert!(!shown.contains(encoded));
    let inner: Vec<_> = admin.key.lines().filter(|line| !line.starts_with('-')).collect();
    for piece in inner {
        assert!(!shown.contains(piece));
    }
    let bytes = format!("{:?}", &admin.key_der[16..]);
    assert!(!shown.contains(bytes.trim_matches(['[', ']'])));
}
