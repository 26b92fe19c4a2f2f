//! Watches: a consistent sequence of states, whatever happens to the stream.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use talos_client::Failure;
use talos_client::cosi::Resource;
use talos_client::resources::{MachineStatus, Schematic, ServiceStatus};
use talos_client::watch::{WaitError, Watch, WatchEvent};
use talos_proto::cosi::resource as wire;
use talos_proto::cosi::resource::EventType;
use talos_proto::resource::{extensions, runtime, v1alpha1};
use talos_proto::{Kind, kind};
use tonic::Code;
use upgrade_core::snapshot::Stage;

use crate::node::{Call, Step, send};
use crate::{World, deadlines};

fn resource(kind: Kind, id: &str, version: &str, spec: Vec<u8>) -> wire::Resource {
    wire::Resource {
        metadata: Some(wire::Metadata {
            namespace: kind.namespace.to_owned(),
            r#type: kind.resource_type.to_owned(),
            id: id.to_owned(),
            version: version.to_owned(),
            phase: "running".to_owned(),
            ..wire::Metadata::default()
        }),
        spec: Some(wire::Spec { proto_spec: spec.into(), yaml_spec: String::new() }),
    }
}

fn service(id: &str, version: &str, healthy: bool) -> wire::Resource {
    let spec = v1alpha1::ServiceSpec { running: true, healthy, unknown: false };
    resource(kind::SERVICE, id, version, spec.encode_to_vec())
}

fn machine(version: &str, stage: i32) -> wire::Resource {
    let spec = runtime::MachineStatusSpec {
        stage,
        status: Some(runtime::MachineStatusStatus { ready: true, unmet_conditions: vec![] }),
    };
    resource(kind::MACHINE_STATUS, "machine", version, spec.encode_to_vec())
}

fn event(kind: EventType, resource: wire::Resource) -> wire::Event {
    wire::Event { resource: Some(resource), event_type: kind.into(), ..wire::Event::default() }
}

fn marked(event: wire::Event, bookmark: &'static [u8]) -> wire::Event {
    wire::Event { bookmark: Some(Bytes::from_static(bookmark)), ..event }
}

fn created(resource: wire::Resource) -> wire::Event {
    event(EventType::Created, resource)
}

fn updated(resource: wire::Resource) -> wire::Event {
    event(EventType::Updated, resource)
}

fn destroyed(resource: wire::Resource) -> wire::Event {
    event(EventType::Destroyed, resource)
}

fn complete() -> wire::Event {
    event(EventType::Bootstrapped, service("", "undefined", false))
}

fn events(events: Vec<wire::Event>) -> Step {
    send(&wire::WatchResponse { event: events })
}

fn hello() -> Step {
    events(vec![])
}

/// Long enough for sent messages to arrive before the connection is cut.
fn moment() -> Step {
    Step::Pause(Duration::from_millis(100))
}

/// One script for each time the watch is opened.
fn scripts(scripts: Vec<Vec<Step>>) -> impl Fn(&Call) -> Vec<Step> + Send + Sync {
    let opened = AtomicUsize::new(0);
    move |call| {
        assert_eq!(call.method(), "Watch");
        let number = opened.fetch_add(1, Ordering::SeqCst);
        scripts.get(number).cloned().unwrap_or_else(|| vec![hello(), Step::Hang])
    }
}

fn requests(world: &World) -> Vec<wire::WatchRequest> {
    world.server.calls("Watch").iter().map(Call::request).collect()
}

/// Events in short form: `+etcd`, `~etcd`, `-etcd`, `synced`, `resumed`, `broken`.
async fn next(watch: &mut Watch<ServiceStatus>) -> String {
    let id = |resource: &Resource<ServiceStatus>| resource.metadata.id.clone();
    let next = tokio::time::timeout(Duration::from_mins(2), watch.next());
    match next.await.expect("an event in time").expect("no error") {
        WatchEvent::Created(new) => format!("+{}", id(&new)),
        WatchEvent::Updated { old, new } => {
            assert_eq!(id(&old), id(&new));
            format!("~{}", id(&new))
        }
        WatchEvent::Destroyed(old) => format!("-{}", id(&old)),
        WatchEvent::Synced => "synced".to_owned(),
        WatchEvent::Resumed => "resumed".to_owned(),
        WatchEvent::Interrupted(_) => "broken".to_owned(),
    }
}

async fn expect(watch: &mut Watch<ServiceStatus>, expected: &[&str]) {
    for expected in expected {
        assert_eq!(next(watch).await, *expected);
    }
}

#[tokio::test]
async fn a_watch_reports_all_resources_of_a_kind() {
    let world = World::new(scripts(vec![vec![
        hello(),
        events(vec![
            created(service("apid", "1", true)),
            created(service("etcd", "1", false)),
            marked(complete(), b"1"),
        ]),
        events(vec![updated(service("etcd", "2", true))]),
        events(vec![destroyed(service("apid", "1", true)), created(service("cri", "1", true))]),
        Step::Hang,
    ]]))
    .await;
    let mut watch = world.node.watch_all::<ServiceStatus>();
    assert!(!watch.is_current());
    expect(&mut watch, &["+apid", "+etcd", "synced"]).await;
    assert!(watch.is_current());
    expect(&mut watch, &["~etcd", "-apid", "+cri"]).await;
    let known: Vec<_> = watch.state().map(|one| one.metadata.id.as_str()).collect();
    assert_eq!(known, ["cri", "etcd"]);
    assert_eq!(watch.get("etcd").unwrap().metadata.version, Some(2));
    let request = &requests(&world)[0];
    let options = request.options.clone().unwrap();
    assert!(options.bootstrap_contents && options.aggregated);
    assert_eq!((request.api_version, &request.id), (1, &None));
    assert_eq!(request.namespace, "runtime");
}

#[tokio::test]
async fn a_single_resource_is_reported_if_it_exists() {
    let world = World::new(scripts(vec![vec![
        hello(),
        events(vec![created(service("etcd", "1", true))]),
        Step::Hang,
    ]]))
    .await;
    let mut watch = world.node.watch_id::<ServiceStatus>("etcd");
    expect(&mut watch, &["+etcd", "synced"]).await;
    let request = &requests(&world)[0];
    assert_eq!(request.id.as_deref(), Some("etcd"));
    assert!(!request.options.clone().unwrap().bootstrap_contents);

    let tombstone = service("etcd", "undefined", false);
    let world = World::new(scripts(vec![vec![
        hello(),
        events(vec![destroyed(tombstone)]),
        events(vec![created(service("etcd", "1", true))]),
        Step::Hang,
    ]]))
    .await;
    let mut watch = world.node.watch_id::<ServiceStatus>("etcd");
    expect(&mut watch, &["synced"]).await;
    expect(&mut watch, &["+etcd"]).await;
}

#[tokio::test]
async fn a_broken_watch_resumes_from_its_bookmark() {
    let world = World::new(scripts(vec![
        vec![
            hello(),
            events(vec![created(service("etcd", "1", true)), marked(complete(), b"mark-1")]),
            events(vec![marked(updated(service("etcd", "2", false)), b"mark-2")]),
            moment(),
            Step::Break,
        ],
        vec![
            hello(),
            events(vec![marked(updated(service("etcd", "3", true)), b"mark-3")]),
            Step::Hang,
        ],
    ]))
    .await;
    let mut watch = world.node.watch_all::<ServiceStatus>();
    expect(&mut watch, &["+etcd", "synced", "~etcd", "broken"]).await;
    assert!(!watch.is_current());
    assert!(watch.interruption().is_some());
    expect(&mut watch, &["resumed", "~etcd"]).await;
    assert!(watch.is_current());
    let options = requests(&world)[1].options.clone().unwrap();
    assert_eq!(options.start_from_bookmark.as_deref(), Some(&b"mark-2"[..]));
    assert!(!options.bootstrap_contents);
}

#[tokio::test]
async fn an_unknown_bookmark_causes_a_relisting() {
    let world = World::new(scripts(vec![
        vec![
            hello(),
            events(vec![
                created(service("apid", "5", true)),
                created(service("cri", "1", true)),
                created(service("etcd", "1", true)),
                marked(complete(), b"mark"),
            ]),
            moment(),
            Step::Break,
        ],
        vec![Step::Fail(Code::FailedPrecondition, "invalid watch bookmark")],
        vec![
            hello(),
            events(vec![
                // After a reboot the version restarts, but the content differs.
                created(service("apid", "5", false)),
                created(service("etcd", "1", true)),
                created(service("kubelet", "1", true)),
                marked(complete(), b"other"),
            ]),
            Step::Hang,
        ],
    ]))
    .await;
    let mut watch = world.node.watch_all::<ServiceStatus>();
    expect(&mut watch, &["+apid", "+cri", "+etcd", "synced", "broken"]).await;
    // Only what is different, and nothing of what is not.
    expect(&mut watch, &["-cri", "~apid", "+kubelet", "synced"]).await;
    let marks: Vec<_> = requests(&world)
        .into_iter()
        .map(|request| request.options.unwrap().start_from_bookmark)
        .collect();
    assert_eq!(marks, [None, Some(Bytes::from_static(b"mark")), None]);
}

#[tokio::test]
async fn without_bookmarks_unchanged_resources_are_not_repeated() {
    let listing = vec![
        hello(),
        events(vec![created(service("etcd", "1", true)), complete()]),
        moment(),
        Step::Fail(Code::Unavailable, "shutting down"),
    ];
    let world = World::new(scripts(vec![listing.clone(), listing])).await;
    let mut watch = world.node.watch_all::<ServiceStatus>();
    expect(&mut watch, &["+etcd", "synced", "broken", "synced", "broken"]).await;
}

#[tokio::test]
async fn an_incomplete_listing_reports_nothing() {
    let world = World::new(scripts(vec![
        vec![
            hello(),
            events(vec![created(service("etcd", "1", true)), complete()]),
            Step::Fail(Code::Unavailable, "gone"),
        ],
        // An incomplete list must not look like a state without etcd.
        vec![
            hello(),
            events(vec![created(service("apid", "1", true))]),
            Step::Fail(Code::Unavailable, "gone"),
        ],
        vec![
            hello(),
            events(vec![
                created(service("apid", "1", true)),
                created(service("etcd", "1", true)),
                complete(),
            ]),
            Step::Hang,
        ],
    ]))
    .await;
    let mut watch = world.node.watch_all::<ServiceStatus>();
    expect(&mut watch, &["+etcd", "synced", "broken", "+apid", "synced"]).await;
}

#[tokio::test]
async fn a_watch_aborted_by_the_node_is_relisted() {
    let overrun = wire::Event {
        event_type: EventType::Errored.into(),
        error: Some("buffer overrun".to_owned()),
        ..wire::Event::default()
    };
    let world = World::new(scripts(vec![
        vec![
            hello(),
            events(vec![created(service("etcd", "1", true)), marked(complete(), b"mark")]),
            events(vec![overrun]),
            Step::Hang,
        ],
        vec![
            hello(),
            events(vec![created(service("etcd", "9", true)), marked(complete(), b"mark")]),
            Step::Hang,
        ],
    ]))
    .await;
    let mut watch = world.node.watch_all::<ServiceStatus>();
    expect(&mut watch, &["+etcd", "synced", "broken", "~etcd", "synced"]).await;
    assert_eq!(requests(&world)[1].options.clone().unwrap().start_from_bookmark, None);
}

#[tokio::test]
async fn silence_is_checked_and_not_reported() {
    let mut deadlines = deadlines();
    deadlines.watch_idle = Duration::from_millis(100);
    let world = World::with_deadlines(
        deadlines,
        scripts(vec![
            vec![
                hello(),
                events(vec![created(service("etcd", "1", true)), marked(complete(), b"mark")]),
                Step::Hang,
            ],
            vec![hello(), Step::Hang],
            vec![hello(), events(vec![updated(service("etcd", "2", true))]), Step::Hang],
        ]),
    )
    .await;
    let mut watch = world.node.watch_all::<ServiceStatus>();
    expect(&mut watch, &["+etcd", "synced", "~etcd"]).await;
    assert!(watch.is_current());
    assert_eq!(requests(&world).len(), 3);
}

#[tokio::test]
async fn a_listing_that_stalls_is_an_interruption() {
    // Rule 11: what is waited for is visible.
    let mut deadlines = deadlines();
    deadlines.watch_idle = Duration::from_millis(100);
    let world = World::with_deadlines(
        deadlines,
        scripts(vec![
            vec![hello(), events(vec![created(service("etcd", "1", true))]), Step::Hang],
            vec![
                hello(),
                events(vec![created(service("etcd", "1", true)), complete()]),
                Step::Hang,
            ],
        ]),
    )
    .await;
    let mut watch = world.node.watch_all::<ServiceStatus>();
    expect(&mut watch, &["broken", "+etcd", "synced"]).await;
}

#[tokio::test]
async fn without_an_address_a_bookmark_is_not_used() {
    let world = World::new(scripts(vec![vec![
        hello(),
        events(vec![created(service("etcd", "1", true)), marked(complete(), b"mark")]),
        moment(),
        Step::Break,
    ]]))
    .await;
    let mut watch = world.node.client().endpoint().watch_all::<ServiceStatus>();
    expect(&mut watch, &["+etcd", "synced", "broken"]).await;
    let more = tokio::time::timeout(Duration::from_millis(800), watch.next()).await;
    assert!(more.is_err(), "the second listing never completes");
    assert_eq!(requests(&world)[1].options.clone().unwrap().start_from_bookmark, None);
    assert_eq!(world.server.calls("Watch")[1].node, None);
}

#[tokio::test]
async fn a_permanent_error_ends_the_watch() {
    let unreadable = resource(kind::SERVICE, "etcd", "1", vec![0xff]);
    let foreign = resource(kind::NODENAME, "etcd", "1", vec![]);
    for steps in [
        vec![Step::Fail(Code::PermissionDenied, "not authorized")],
        vec![Step::Fail(Code::PermissionDenied, "type is not supported")],
        vec![hello(), events(vec![created(unreadable)])],
        vec![hello(), events(vec![created(foreign)])],
    ] {
        let world = World::new(scripts(vec![steps])).await;
        let mut watch = world.node.watch_all::<ServiceStatus>();
        let first = watch.next().await.unwrap_err();
        let second = watch.next().await.unwrap_err();
        assert_eq!(first, second);
        assert_eq!(requests(&world).len(), 1);
    }
}

#[tokio::test]
async fn waiting_for_a_state() {
    let world = World::new(scripts(vec![
        vec![hello(), events(vec![created(machine("7", 5))]), moment(), Step::Break],
        vec![Step::Fail(Code::Unavailable, "booting")],
        vec![
            hello(),
            events(vec![created(machine("1", 1))]),
            events(vec![updated(machine("2", 4))]),
        ],
    ]))
    .await;
    let running = |watch: &Watch<MachineStatus>| {
        watch.get("machine").is_some_and(|status| status.spec.is_up())
    };
    let mut watch = world.node.watch::<MachineStatus>();
    watch.wait_for(Duration::from_mins(2), running).await.unwrap();
    assert_eq!(watch.get("machine").unwrap().spec.stage, Stage::Running);
}

#[tokio::test]
async fn a_wait_times_out_with_the_last_interruption() {
    // Rule 11.
    let world =
        World::new(scripts(vec![vec![hello(), events(vec![created(machine("1", 4))])]])).await;
    let mut watch = world.node.watch::<MachineStatus>();
    watch.next().await.unwrap();
    world.server.stop();
    let within = Duration::from_millis(900);
    let error = watch.wait_for(within, |_| false).await.unwrap_err();
    let WaitError::Deadline { interruption, .. } = error else {
        panic!("{error:?}");
    };
    assert!(interruption.is_some());
}

#[tokio::test]
async fn get_and_list() {
    let world = World::new(|call: &Call| {
        if call.method() == "Get" {
            let request: wire::GetRequest = call.request();
            match request.id.as_str() {
                "machine" => vec![send(&wire::GetResponse { resource: Some(machine("3", 4)) })],
                "image-factory-schematic" => {
                    vec![Step::Fail(Code::PermissionDenied, "it is not supported")]
                }
                _ => vec![Step::Fail(Code::NotFound, "doesn't exist")],
            }
        } else {
            let extension = |id: &str, name: &str, version: &str| {
                let layer = extensions::Layer {
                    image: String::new(),
                    metadata: Some(extensions::Metadata {
                        name: name.to_owned(),
                        version: version.to_owned(),
                        ..extensions::Metadata::default()
                    }),
                };
                send(&wire::ListResponse {
                    resource: Some(resource(
                        kind::EXTENSION_STATUS,
                        id,
                        "1",
                        layer.encode_to_vec(),
                    )),
                })
            };
            vec![
                extension("0", "qemu-guest-agent", "10.0"),
                extension("1", "iscsi-tools", "v0.2"),
                extension("2", "schematic", "376567"),
            ]
        }
    })
    .await;
    let node = &world.node;
    let status = node.get::<MachineStatus>().await.unwrap().unwrap();
    assert_eq!(status.spec.stage, Stage::Running);
    assert!(!status.metadata.tearing_down);
    assert!(node.get_id::<ServiceStatus>("etcd").await.unwrap().is_none());
    let extensions = node.extensions().await.unwrap();
    let names: Vec<_> = extensions.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["iscsi-tools", "qemu-guest-agent"]);
    // Older nodes report their schematic as an extension.
    assert_eq!(node.schematic().await.unwrap().unwrap().id, "376567");
    let error = node.get::<Schematic>().await.unwrap_err();
    assert!(matches!(error.failure(), Failure::NotSupported(_)));
}
