//! Reads and streams: the result is complete, or an error.

use std::time::Duration;

use talos_client::etcd::{Alarm, MemberView};
use talos_client::events::{EventPayload, Past};
use talos_client::health::HealthCheck;
use talos_client::image::ImageStore;
use talos_client::logs::{Follow, Lines};
use talos_client::machine::ActorId;
use talos_client::snapshot::SnapshotError;
use talos_client::{Failure, Outcome};
use talos_proto::cluster::HealthCheckProgress;
use talos_proto::common::{self, Data};
use talos_proto::event::Payload;
use talos_proto::machine as wire;
use tonic::Code;
use upgrade_core::etcd_snapshot::Damaged;
use upgrade_core::snapshot::MemberId;

use crate::node::{Call, Step, send};
use crate::{World, deadlines};

fn data(bytes: &[u8]) -> Step {
    send(&Data { metadata: None, bytes: bytes.to_vec().into() })
}

#[tokio::test]
async fn machine_calls_return_every_field() {
    let world = World::new(|call: &Call| match call.method() {
        "Version" => vec![send(&wire::VersionResponse {
            messages: vec![wire::Version {
                version: Some(wire::VersionInfo {
                    tag: "v1.14.1".to_owned(),
                    arch: "arm64".to_owned(),
                    ..wire::VersionInfo::default()
                }),
                features: Some(wire::FeaturesInfo { rbac: true }),
                ..wire::Version::default()
            }],
        })],
        "ServiceList" => vec![send(&wire::ServiceListResponse {
            messages: vec![wire::ServiceList {
                metadata: None,
                services: vec![
                    wire::ServiceInfo {
                        id: "etcd".to_owned(),
                        state: "Running".to_owned(),
                        health: Some(wire::ServiceHealth {
                            healthy: true,
                            ..wire::ServiceHealth::default()
                        }),
                        ..wire::ServiceInfo::default()
                    },
                    wire::ServiceInfo {
                        id: "udevd".to_owned(),
                        health: Some(wire::ServiceHealth {
                            unknown: true,
                            ..wire::ServiceHealth::default()
                        }),
                        ..wire::ServiceInfo::default()
                    },
                ],
            }],
        })],
        "SystemStat" => vec![send(&wire::SystemStatResponse {
            messages: vec![wire::SystemStat {
                boot_time: 1_700_000_000,
                ..wire::SystemStat::default()
            }],
        })],
        _ => vec![send(&wire::MemoryResponse {
            messages: vec![wire::Memory {
                metadata: None,
                meminfo: Some(wire::MemInfo {
                    memtotal: 4096,
                    memavailable: 1024,
                    ..wire::MemInfo::default()
                }),
            }],
        })],
    })
    .await;
    let version = world.node.version().await.unwrap();
    assert_eq!(version.version().unwrap().to_string(), "1.14.1");
    assert_eq!((version.arch.as_str(), version.rbac), ("arm64", true));
    let services = world.node.services().await.unwrap();
    assert_eq!(services[0].healthy, Some(true));
    assert_eq!(services[1].healthy, None);
    assert_eq!(world.node.booted_at().await.unwrap().as_secs(), 1_700_000_000);
    assert_eq!(world.node.memory().await.unwrap().available, 1024);
}

#[tokio::test]
async fn etcd_calls_return_every_field() {
    let world = World::new(|call: &Call| match call.method() {
        "EtcdStatus" => vec![send(&wire::EtcdStatusResponse {
            messages: vec![wire::EtcdStatus {
                metadata: None,
                member_status: Some(wire::EtcdMemberStatus {
                    member_id: 1,
                    leader: 0,
                    raft_term: 3,
                    raft_index: 12,
                    raft_applied_index: 11,
                    db_size: 100,
                    ..wire::EtcdMemberStatus::default()
                }),
            }],
        })],
        "EtcdMemberList" => {
            let request: wire::EtcdMemberListRequest = call.request();
            vec![send(&wire::EtcdMemberListResponse {
                messages: vec![wire::EtcdMembers {
                    members: vec![wire::EtcdMember {
                        id: 1,
                        hostname: "cp-1".to_owned(),
                        is_learner: request.query_local,
                        ..wire::EtcdMember::default()
                    }],
                    ..wire::EtcdMembers::default()
                }],
            })]
        }
        "EtcdAlarmList" | "EtcdAlarmDisarm" => vec![send(&wire::EtcdAlarmListResponse {
            messages: vec![wire::EtcdAlarm {
                metadata: None,
                member_alarms: vec![wire::EtcdMemberAlarm { member_id: 1, alarm: 1 }],
            }],
        })],
        "EtcdForfeitLeadership" => vec![send(&wire::EtcdForfeitLeadershipResponse {
            messages: vec![wire::EtcdForfeitLeadership {
                metadata: None,
                member: "cp-2".to_owned(),
            }],
        })],
        "EtcdDefragment" => vec![Step::Fail(Code::Unavailable, "gone")],
        _ => vec![Step::Fail(Code::Unimplemented, "")],
    })
    .await;
    let node = &world.node;
    let status = node.etcd_status().await.unwrap();
    assert_eq!((status.member, status.leader), (MemberId(1), None));
    assert_eq!((status.term, status.index, status.applied_index), (3, 12, 11));
    assert!(!node.etcd_members(MemberView::Agreed).await.unwrap()[0].learner);
    assert!(node.etcd_members(MemberView::Local).await.unwrap()[0].learner);
    assert_eq!(node.etcd_alarms().await.unwrap()[0].alarm, Alarm::NoSpace);
    assert_eq!(node.etcd_disarm().await.unwrap().len(), 1);
    let leader = node.etcd_forfeit_leadership().await.unwrap();
    assert_eq!(leader.as_deref(), Some("cp-2"));
    let error = node.etcd_defragment().await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Unknown);
    assert_eq!(world.server.calls("EtcdDefragment").len(), 1);
}

fn snapshot() -> Vec<u8> {
    use sha2::Digest as _;
    let mut all = vec![7; 2048];
    let sum = sha2::Sha256::digest(&all);
    all.extend_from_slice(&sum);
    all
}

#[tokio::test]
async fn a_snapshot_is_written_and_verified() {
    let whole = snapshot();
    let pieces: Vec<_> = whole.chunks(1000).map(data).collect();
    let world = World::new(move |_| pieces.clone()).await;
    let mut file = Vec::new();
    let result = world.node.etcd_snapshot(&mut file).await.unwrap();
    assert_eq!(result.bytes, 2080);
    assert_eq!(file, whole, "the checksum is part of the file");
    assert_eq!(result.sha256[..], whole[2048..]);
}

#[tokio::test]
async fn half_a_snapshot_is_an_error() {
    let whole = snapshot();
    for (steps, expected) in [
        (vec![data(&whole[..1000])], "size"),
        (vec![data(&whole[..1000]), Step::Fail(Code::Unavailable, "gone")], "call"),
        (vec![data(&whole[..1000]), Step::Pause(Duration::from_millis(50)), Step::Break], "call"),
        (vec![data(&whole[..1000]), Step::Hang], "call"),
        (vec![data(&[8; 2048]), data(&whole[2048..])], "checksum"),
    ] {
        let mut deadlines = deadlines();
        deadlines.data_idle = Duration::from_secs(2);
        let world = World::with_deadlines(deadlines, move |_| steps.clone()).await;
        let error = world.node.etcd_snapshot(&mut Vec::new()).await.unwrap_err();
        let kind = match error {
            SnapshotError::Call(_) => "call",
            SnapshotError::Damaged(Damaged::Size { .. }) => "size",
            SnapshotError::Damaged(Damaged::Checksum) => "checksum",
            SnapshotError::Write(_) => "write",
        };
        assert_eq!(kind, expected, "{error:?}");
    }
}

#[tokio::test]
async fn files_and_logs() {
    let world = World::new(|call: &Call| match call.method() {
        "Kubeconfig" => {
            // `kubeconfig` with "apiVersion: v1", made by GNU tar and gzip.
            vec![data(include_bytes!("kubeconfig.tar.gz"))]
        }
        "Read" => vec![data(b"0f8fad5b-d9cb"), data(b""), data(b"-469f\n")],
        "Get" => vec![Step::Fail(Code::PermissionDenied, "BootIDs is not supported")],
        "Logs" => {
            let request: wire::LogsRequest = call.request();
            assert_eq!((request.id.as_str(), request.tail_lines), ("kubelet", 5));
            vec![data(b"line\n")]
        }
        _ => vec![data(b"kernel\n")],
    })
    .await;
    let node = &world.node;
    let kubeconfig = node.kubeconfig().await.unwrap();
    assert_eq!(kubeconfig.expose(), "apiVersion: v1\n");
    assert_eq!(format!("{kubeconfig:?}"), "<hidden>");
    assert_eq!(node.boot_id().await.unwrap(), "0f8fad5b-d9cb-469f");
    let log = node.service_log("kubelet", Lines::Last(5), Follow::No).await.unwrap();
    assert_eq!(log.collect(100).await.unwrap(), b"line\n");
    let mut log = node.dmesg(Follow::Yes).await.unwrap();
    assert_eq!(log.next().await.unwrap().unwrap(), "kernel\n");
    let file = node.read_file("/etc/os-release").await.unwrap();
    let error = file.collect(3).await.unwrap_err();
    assert!(matches!(error.failure(), Failure::Malformed(_)), "{error:?}");
}

#[tokio::test]
async fn a_malformed_kubeconfig_is_an_error() {
    let world = World::new(|_| vec![data(b"not an archive")]).await;
    let error = world.node.kubeconfig().await.unwrap_err();
    assert!(matches!(error.failure(), Failure::Malformed(_)), "{error:?}");
}

#[tokio::test]
async fn an_error_inside_a_stream_is_an_error() {
    let world = World::new(|_| {
        vec![send(&Data {
            metadata: Some(common::Metadata {
                error: "no such file".to_owned(),
                ..common::Metadata::default()
            }),
            bytes: bytes::Bytes::new(),
        })]
    })
    .await;
    let mut file = world.node.read_file("/nothing").await.unwrap();
    assert!(file.next().await.is_err());
}

#[tokio::test]
async fn events_begin_with_a_hello() {
    let world = World::new(|_| {
        let sequence = Payload::from(wire::SequenceEvent {
            sequence: "reboot".to_owned(),
            ..wire::SequenceEvent::default()
        });
        let unknown = prost_types::Any {
            type_url: "talos/runtime/machine.NewerEvent".to_owned(),
            value: vec![],
        };
        let event = |id: &str, data| {
            send(&wire::Event {
                data: Some(data),
                id: id.to_owned(),
                actor_id: "actor".to_owned(),
                ..wire::Event::default()
            })
        };
        vec![
            send(&wire::Event::default()),
            event("1", sequence.pack()),
            event("2", unknown),
            Step::Fail(Code::Unavailable, "rebooting"),
        ]
    })
    .await;
    let actor = ActorId("actor".to_owned());
    let mut events = world.node.events(Past::After("0".to_owned()), Some(&actor)).await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert_eq!((first.id.as_str(), first.actor.as_ref()), ("1", Some(&actor)));
    assert!(
        matches!(&first.payload, EventPayload::Known(Payload::Sequence(event)) if event.sequence == "reboot")
    );
    let second = events.next().await.unwrap().unwrap();
    assert!(matches!(second.payload, EventPayload::Unknown { .. }));
    assert!(events.next().await.is_err());
    let request: wire::EventsRequest = world.server.calls("Events")[0].request();
    assert_eq!((request.tail_id.as_str(), request.with_actor_id.as_str()), ("0", "actor"));
}

#[tokio::test]
async fn a_silent_stream_times_out() {
    // Rule 11.
    let mut deadlines = deadlines();
    deadlines.follow_idle = Duration::from_millis(200);
    let world =
        World::with_deadlines(deadlines, |_| vec![send(&wire::Event::default()), Step::Hang]).await;
    let mut events = world.node.events(Past::All, None).await.unwrap();
    let error = events.next().await.unwrap_err();
    assert_eq!(error.failure(), &Failure::Idle(deadlines.follow_idle));
}

#[tokio::test]
async fn the_health_check_has_a_verdict() {
    let say = |text: &str| send(&HealthCheckProgress { metadata: None, message: text.to_owned() });
    let check = HealthCheck {
        wait: Duration::from_secs(1),
        control_planes: vec!["10.5.0.2".to_owned()],
        workers: vec![],
    };
    let healthy = vec![say("waiting for etcd: OK")];
    let world = World::new(move |_| healthy.clone()).await;
    let mut report = world.node.health_check(&check).await.unwrap();
    assert_eq!(report.next().await.unwrap().unwrap(), "waiting for etcd: OK");
    assert_eq!(report.next().await.unwrap(), None);

    let ill = vec![say("waiting for etcd"), Step::Fail(Code::Internal, "healthcheck error")];
    let world = World::new(move |_| ill.clone()).await;
    let mut report = world.node.health_check(&check).await.unwrap();
    assert!(report.next().await.is_ok());
    assert!(report.next().await.is_err());
}

#[tokio::test]
async fn images_by_both_apis() {
    let world = World::new(|call: &Call| match call.method() {
        "List" => vec![
            send(&wire::ImageServiceListResponse {
                name: "a".to_owned(),
                size: 3,
                ..wire::ImageServiceListResponse::default()
            }),
            send(&wire::ImageServiceListResponse {
                name: "b".to_owned(),
                ..wire::ImageServiceListResponse::default()
            }),
        ],
        _ => vec![send(&wire::ImagePullResponse {
            messages: vec![wire::ImagePull { metadata: None }],
        })],
    })
    .await;
    let images = world.node.images(ImageStore::Kubernetes).await.unwrap();
    assert_eq!(images.len(), 2);
    assert_eq!((images[0].name.as_str(), images[0].size), ("a", 3));
    world.node.legacy_pull("kubelet:v1", ImageStore::System).await.unwrap();
    let request: wire::ImagePullRequest = world.server.calls("ImagePull")[0].request();
    assert_eq!((request.namespace, request.reference.as_str()), (1, "kubelet:v1"));
}
