//! The spec front end against the simulator, over real sockets and TLS.

use std::net::IpAddr;

use spec_operator::access::{Request, Source};
use talos_client::Talosconfig;
use upgrade_core::jiff::Timestamp;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_answers_to_what_is_made_of_its_secrets() {
    let cluster = testkit::cluster::simulated("specs", 0, "1.13.9", "1.34.2").await;
    let bundle = cluster.secrets_bundle().await.expect("it runs");
    let endpoints: Vec<IpAddr> = cluster.nodes().iter().map(|it| it.address).collect();
    let now = time::OffsetDateTime::now_utc().unix_timestamp();
    let now = Timestamp::from_second(now).expect("a time");
    let request = Request { cluster: "specs", endpoints: &endpoints, now };
    let source = Source::StateSecret { name: "specs-state".to_owned() };
    let credentials = request.credentials(&source, bundle.as_bytes()).expect("credentials");
    let file = Talosconfig::parse(credentials.talosconfig(), "memory").expect("a talosconfig");
    let context = file.context(None).expect("usable credentials");
    let client = talos_client::Client::new(&context).expect("a client");
    for place in cluster.nodes() {
        let node = client.node(place.address.into());
        assert_eq!(node.version().await.expect("an answer").tag, "v1.13.9");
    }
}
