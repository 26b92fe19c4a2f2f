//! Roles, services, events and the smaller calls.

use talos_proto::machine;

use super::super::*;
use super::driver::Driver;

#[test]
fn roles_decide() {
    let calls: &[(Request, &[&str])] = &[
        (Request::Version, &["os:reader", "os:operator", "os:admin"]),
        (Request::EtcdStatus, &["os:reader", "os:operator", "os:admin", "os:etcd:backup"]),
        (
            Request::EtcdSnapshot(machine::EtcdSnapshotRequest {}),
            &["os:operator", "os:admin", "os:etcd:backup"],
        ),
        (Request::EtcdDefragment, &["os:operator", "os:admin"]),
        (Request::Read(machine::ReadRequest { path: "/etc/os-release".to_owned() }), &["os:admin"]),
        (Request::Kubeconfig, &["os:admin"]),
    ];
    let roles =
        ["os:reader", "os:operator", "os:admin", "os:etcd:backup", "os:impersonator", "what"];
    for (request, allowed) in calls {
        for role in roles {
            let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
            driver.caller = Caller::with_roles([role]);
            let refused = match driver.call(0, request.clone()) {
                Reply::Error(status) => status.message == "not authorized",
                _ => false,
            };
            assert_eq!(refused, !allowed.contains(&role), "{request:?} by {role}");
        }
    }
}

#[test]
fn services_are_listed_with_health_and_events() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.36.1");
    for (node, expected) in [(0, true), (1, false)] {
        let list: machine::ServiceListResponse = driver.unary(node, Request::ServiceList);
        let services = &list.messages[0].services;
        assert_eq!(services.iter().any(|service| service.id == "etcd"), expected);
        for service in services {
            assert_eq!(service.state, "Running");
            assert!(service.health.is_some());
            assert!(!service.events.as_ref().unwrap().events.is_empty());
        }
    }
    let restart =
        |id: &str| Request::ServiceRestart(machine::ServiceRestartRequest { id: id.to_owned() });
    let _: machine::ServiceRestartResponse = driver.unary(1, restart("kubelet"));
    assert!(!driver.is_ready(1));
    driver.secs(5);
    assert!(driver.is_ready(1));
    assert_eq!(driver.error(1, restart("machined")).code, Code::Unknown);
    assert_eq!(driver.error(1, restart("nothing")).code, Code::Unknown);
}

#[test]
fn past_events_can_be_read() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    for _ in 0..700 {
        driver.world.inject(driver.now, None, &Fault::NotReady);
        driver.secs(1);
        driver.world.clear(driver.now, None, FaultKind::NotReady);
        driver.secs(1);
    }
    let past = |driver: &mut Driver, request| -> Vec<machine::Event> {
        let stream = driver.stream(0, Request::Events(request));
        let mut events = driver.items(stream);
        assert_eq!(events.remove(0), machine::Event::default());
        events
    };
    let all = past(&mut driver, machine::EventsRequest { tail_events: -1, ..Default::default() });
    assert_eq!(all.len(), 990);
    assert!(all.is_sorted_by_key(|event| event.id.clone()));
    assert!(past(&mut driver, machine::EventsRequest::default()).is_empty());
    let some = past(&mut driver, machine::EventsRequest { tail_events: 7, ..Default::default() });
    assert_eq!(some, all[983..]);
    let after = machine::EventsRequest { tail_id: all[980].id.clone(), ..Default::default() };
    assert_eq!(past(&mut driver, after), all[981..]);
    let recent =
        past(&mut driver, machine::EventsRequest { tail_seconds: 10, ..Default::default() });
    assert!((9..=11).contains(&recent.len()), "{}", recent.len());
    let unknown_actor = machine::EventsRequest {
        tail_events: -1,
        with_actor_id: "nobody".to_owned(),
        ..Default::default()
    };
    assert!(past(&mut driver, unknown_actor).is_empty());
    let bad = machine::EventsRequest { tail_id: "x".to_owned(), ..Default::default() };
    assert_eq!(driver.error(0, Request::Events(bad)).code, Code::Unknown);
}

#[test]
fn files_logs_and_kernel_messages_can_be_read() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let read = |path: &str| Request::Read(machine::ReadRequest { path: path.to_owned() });
    assert_eq!(driver.error(0, read("/nothing")).code, Code::NotFound);
    assert_eq!(driver.error(0, read("/etc")).code, Code::Unknown);
    let Reply::Items(items) = driver.call(0, read("/etc/os-release")) else {
        panic!("no file");
    };
    let data: talos_proto::common::Data = items[0].clone().try_into().unwrap();
    assert!(String::from_utf8(data.bytes.to_vec()).unwrap().contains("VERSION_ID=v1.13.9"));
    let logs = |id: &str, follow| {
        Request::Logs(machine::LogsRequest {
            namespace: "system".to_owned(),
            id: id.to_owned(),
            follow,
            tail_lines: -1,
            ..Default::default()
        })
    };
    assert!(
        matches!(driver.call(0, logs("kubelet", false)), Reply::Items(lines) if lines.len() == 2)
    );
    let stream = driver.stream(0, logs("kubelet", true));
    assert_eq!(driver.got[&stream].len(), 2);
    assert!(!driver.ended.contains_key(&stream));
    assert_eq!(driver.error(0, logs("nothing", false)).code, Code::Unknown);
    let dmesg = Request::Dmesg(machine::DmesgRequest::default());
    assert!(matches!(driver.call(0, dmesg), Reply::Items(lines) if !lines.is_empty()));
    assert_eq!(driver.error(0, Request::Kubeconfig).code, Code::Unavailable);
    driver.world.set_kubeconfig(bytes::Bytes::from_static(b"archive"));
    assert!(matches!(driver.call(0, Request::Kubeconfig), Reply::Items(_)));
}

#[test]
fn a_health_check_names_what_it_waits_for() {
    let mut driver = Driver::new(3, 1, "1.13.9", "1.36.1");
    let check = || {
        Request::HealthCheck(talos_proto::cluster::HealthCheckRequest {
            wait_timeout: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
            cluster_info: None,
        })
    };
    let stream = driver.stream(0, check());
    assert_eq!(driver.ended[&stream], Content::End(Ok(())));
    driver.world.inject(driver.now, Some(NodeIndex(3)), &Fault::NotReady);
    let stream = driver.stream(0, check());
    driver.secs(59);
    assert!(!driver.ended.contains_key(&stream));
    driver.secs(2);
    let Content::End(Err(status)) = &driver.ended[&stream] else {
        panic!("{:?}", driver.ended);
    };
    assert_eq!(status.code, Code::DeadlineExceeded);
    assert!(status.message.contains("worker-1"), "{status}");
    assert_eq!(driver.error(3, check()).code, Code::Unimplemented);
}

#[test]
fn pulls_report_progress_and_the_pinned_name() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let containerd = Some(talos_proto::common::ContainerdInstance { driver: 1, namespace: 2 });
    let pull = || {
        Request::ImageServicePull(machine::ImageServicePullRequest {
            containerd,
            image_ref: "registry.k8s.io/kube-apiserver:v1.36.3".to_owned(),
        })
    };
    driver.world.inject(driver.now, None, &Fault::SlowPull { factor: 10 });
    let stream = driver.stream(0, pull());
    driver.secs(60);
    assert!(!driver.ended.contains_key(&stream));
    driver.secs(600);
    let items: Vec<machine::ImageServicePullResponse> = driver.items(stream);
    assert_eq!(items.len(), 8 * 4 + 1);
    let Some(machine::image_service_pull_response::Response::Name(name)) =
        &items.last().unwrap().response
    else {
        panic!("no name");
    };
    assert!(name.starts_with("registry.k8s.io/kube-apiserver@sha256:"), "{name}");
    // It is there now.
    let stream = driver.stream(0, pull());
    assert_eq!(driver.ended[&stream], Content::End(Ok(())));
    let list = Request::ImageServiceList(machine::ImageServiceListRequest { containerd });
    assert!(matches!(driver.call(0, list), Reply::Items(images) if images.len() == 5));
    driver.world.inject(driver.now, None, &Fault::FailingPull);
    let legacy = machine::ImagePullRequest {
        namespace: 1,
        reference: "ghcr.io/siderolabs/kubelet:v1.36.3".to_owned(),
    };
    let call = driver.stream(0, Request::ImagePull(legacy));
    driver.secs(600);
    assert!(
        matches!(&driver.ended[&call], Content::End(Err(status)) if status.code == Code::Unknown)
    );
}
