//! The client against a scripted node on loopback, over real TLS and real HTTP/2.

mod acts;
mod connect;
mod node;
mod pki;
mod streams;
mod talosconfig;
mod watch;

use std::time::Duration;

use node::{Call, Node, Step};
use pki::{Authority, Valid};
use talos_client::deadline::Deadlines;
use talos_client::{Client, Talosconfig};

/// Short enough for tests, long enough for a busy machine.
fn deadlines() -> Deadlines {
    Deadlines {
        connect: Duration::from_secs(4),
        attempt: Duration::from_secs(3),
        read: Duration::from_secs(8),
        act: Duration::from_secs(3),
        progress_idle: Duration::from_secs(3),
        data_idle: Duration::from_secs(3),
        follow_idle: Duration::from_secs(3),
        watch_idle: Duration::from_secs(3),
        ..Deadlines::default()
    }
}

/// A client with this talosconfig.
fn client(talosconfig: &str) -> Client {
    client_with(talosconfig, deadlines())
}

/// The same with other deadlines.
fn client_with(talosconfig: &str, deadlines: Deadlines) -> Client {
    let config = Talosconfig::parse(talosconfig.as_bytes(), "test").expect("a talosconfig");
    let context = config.context(None).expect("a context");
    Client::with_deadlines(&context, deadlines).expect("usable credentials")
}

/// A scripted node, and a client that reaches it by an address.
struct World {
    server: Node,
    node: talos_client::Node,
}

impl World {
    async fn new(script: impl Fn(&Call) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::with_deadlines(deadlines(), script).await
    }

    async fn with_deadlines(
        deadlines: Deadlines,
        script: impl Fn(&Call) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let authority = Authority::new();
        let server = Node::start(&authority, script).await;
        let admin = authority.client("os:admin", Valid::Now);
        let config = authority.talosconfig(&[server.endpoint()], &admin);
        let client = client_with(&config, deadlines);
        Self { server, node: client.node("10.5.0.2".parse().expect("an address")) }
    }
}
