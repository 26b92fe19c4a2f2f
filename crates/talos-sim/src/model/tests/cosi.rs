//! Resources: access, contents and watches.

use talos_proto::cosi::resource as cosi;
use talos_proto::{kind, machine};

use super::super::*;
use super::driver::Driver;

fn list(namespace: &str, resource_type: &str) -> Request {
    Request::CosiList(cosi::ListRequest {
        namespace: namespace.to_owned(),
        r#type: resource_type.to_owned(),
        options: None,
    })
}

fn listed(driver: &mut Driver, node: usize, kind: &talos_proto::Kind) -> Vec<cosi::Resource> {
    match driver.call(node, list(kind.namespace, kind.resource_type)) {
        Reply::Items(items) => items
            .into_iter()
            .map(|item| cosi::ListResponse::try_from(item).unwrap().resource.unwrap())
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn watch(namespace: &str, resource_type: &str, options: cosi::WatchOptions) -> cosi::WatchRequest {
    cosi::WatchRequest {
        namespace: namespace.to_owned(),
        r#type: resource_type.to_owned(),
        id: None,
        options: Some(options),
        api_version: 1,
    }
}

fn events(driver: &Driver, stream: StreamId) -> Vec<cosi::Event> {
    let messages: Vec<cosi::WatchResponse> = driver.items(stream);
    assert_eq!(messages[0], cosi::WatchResponse::default(), "the first message is empty");
    messages.into_iter().flat_map(|message| message.event).collect()
}

#[test]
fn every_kind_can_be_listed_and_has_both_specs() {
    for (talos, kubernetes, minor) in
        [("1.12.6", "1.34.2", 12), ("1.13.9", "1.36.1", 13), ("1.14.1", "1.37.0", 14)]
    {
        let mut driver = Driver::new(3, 1, talos, kubernetes);
        for kind in kind::ALL {
            for node in [0, 3] {
                if kind.since_minor > minor {
                    let status = driver.error(node, list(kind.namespace, kind.resource_type));
                    assert_eq!(status.code, Code::PermissionDenied);
                    continue;
                }
                let resources = listed(&mut driver, node, kind);
                // Nothing is wrong, and no installer runs.
                let empty = [kind::DIAGNOSTIC, kind::SERVICE_PID].contains(kind);
                let expected = !empty && node == 0;
                assert!(!expected || !resources.is_empty(), "{} of {talos}", kind.resource_type);
                for resource in resources {
                    let metadata = resource.metadata.unwrap();
                    assert_eq!(metadata.r#type, kind.resource_type);
                    assert_eq!(
                        (metadata.version.as_str(), metadata.phase.as_str()),
                        ("1", "running")
                    );
                    let spec = resource.spec.unwrap();
                    assert!(!spec.yaml_spec.is_empty());
                    for document in spec.yaml_spec.split("---\n") {
                        let _: serde_json::Value =
                            serde_saphyr::from_str(document).unwrap_or_else(|error| {
                                panic!("{}: {error}\n{document}", kind.resource_type)
                            });
                    }
                }
            }
        }
    }
}

/// What the real Talos 1.14.1 encodes, for values that a world can have.
#[test]
fn specs_are_those_of_a_real_node() {
    let mut driver = Driver::new(1, 1, "1.14.1", "1.37.0");
    let yaml = |driver: &mut Driver, node, resource_type, namespace, id| {
        let spec = driver.get(node, resource_type, namespace, id).unwrap().spec.unwrap();
        (spec.yaml_spec, spec.proto_spec.to_vec())
    };
    let (text, proto) = yaml(&mut driver, 0, "Services.v1alpha1.talos.dev", "runtime", "kubelet");
    assert_eq!(text, "running: true\nhealthy: true\nunknown: false\n");
    assert_eq!(proto, [8, 1, 16, 1]);
    let (text, proto) =
        yaml(&mut driver, 1, "MachineTypes.config.talos.dev", "config", "machine-type");
    assert_eq!((text.as_str(), &proto[..]), ("worker\n", &[8, 3][..]));
    let (text, _) = yaml(&mut driver, 0, "Members.cluster.talos.dev", "cluster", "cp-1");
    let id = text.lines().next().unwrap().to_owned();
    assert_eq!(
        text,
        format!(
            "{id}\naddresses:\n    - 10.5.0.2\nhostname: cp-1\nmachineType: controlplane\n\
             operatingSystem: Talos (v1.14.1)\ncontrolPlane:\n    port: 6443\n"
        )
    );
    let (text, _) = yaml(&mut driver, 0, "MachineStatuses.runtime.talos.dev", "runtime", "machine");
    assert_eq!(text, "stage: running\nstatus:\n    ready: true\n    unmetConditions: []\n");
    let (text, proto) = yaml(
        &mut driver,
        0,
        "ResourceDefinitions.meta.cosi.dev",
        "meta",
        "members.cluster.talos.dev",
    );
    assert!(text.starts_with("type: Members.cluster.talos.dev\ndisplayType: Member\n"), "{text}");
    assert_eq!(
        proto.len(),
        "0a194d656d626572732e636c75737465722e74616c6f732e64657612064d656d6265721a07636c7573746572\
         22066d656d6265722a076d656d626572732a0f6d656d626572732e636c75737465722a156d656d626572732e\
         636c75737465722e74616c6f732a066d656d62657232170a08486f73746e616d65120b7b2e686f73746e616d\
         657d321e0a0c4d616368696e652054797065120e7b2e6d616368696e65547970657d32180a024f5312127b2e\
         6f7065726174696e6753797374656d7d32190a09416464726573736573120c7b2e6164647265737365737d"
            .len()
            / 2
    );
}

#[test]
fn access_is_that_of_a_real_node() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let status = driver.error(0, list("runtime", "Nothings.talos.dev"));
    assert_eq!(status.code, Code::PermissionDenied);
    assert!(status.message.contains("is not supported"));
    let status = driver.error(0, list("nowhere", "Services.v1alpha1.talos.dev"));
    assert!(status.message.contains("namespace \"nowhere\" is not supported"));
    let status = driver.get(0, "Services.v1alpha1.talos.dev", "runtime", "x").unwrap_err();
    assert_eq!(status.code, Code::NotFound);
    assert_eq!(
        status.message,
        "resource Services.v1alpha1.talos.dev(runtime/x@undefined) doesn't exist"
    );
    let write = Request::CosiDestroy(cosi::DestroyRequest::default());
    assert_eq!(driver.error(0, write).code, Code::PermissionDenied);
    driver.caller = Caller::with_roles(["os:reader"]);
    assert!(driver.get(0, "Services.v1alpha1.talos.dev", "runtime", "kubelet").is_ok());
    for (resource_type, namespace, id) in [
        ("MachineConfigs.config.talos.dev", "config", "v1alpha1"),
        ("KubeletSpecs.kubernetes.talos.dev", "k8s", "kubelet"),
    ] {
        let status = driver.get(0, resource_type, namespace, id).unwrap_err();
        assert_eq!(
            (status.code, status.message.as_str()),
            (Code::PermissionDenied, "not authorized")
        );
    }
    // Open to readers before 1.13.
    let mut driver = Driver::new(1, 0, "1.12.6", "1.34.2");
    driver.caller = Caller::with_roles(["os:reader"]);
    assert!(driver.get(0, "KubeletSpecs.kubernetes.talos.dev", "k8s", "kubelet").is_ok());
}

#[test]
fn a_watch_begins_with_the_current_state() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let options = cosi::WatchOptions { bootstrap_contents: true, ..Default::default() };
    let services = "Services.v1alpha1.talos.dev";
    let stream = driver.stream(0, Request::CosiWatch(watch("runtime", services, options.clone())));
    let seen = events(&driver, stream);
    let last = seen.last().unwrap();
    assert_eq!(last.event_type(), cosi::EventType::Bootstrapped);
    assert!(last.bookmark.is_some() && last.resource.is_some());
    assert!(
        seen[..seen.len() - 1].iter().all(|event| event.event_type() == cosi::EventType::Created)
    );
    // An old client gets no BOOTSTRAPPED event.
    let old = cosi::WatchRequest { api_version: 0, ..watch("runtime", services, options.clone()) };
    let stream = driver.stream(0, Request::CosiWatch(old));
    assert_eq!(events(&driver, stream).len(), seen.len() - 1);
    // All of it in one message, if asked for.
    let aggregated = cosi::WatchOptions { aggregated: true, ..options };
    let stream = driver.stream(0, Request::CosiWatch(watch("runtime", services, aggregated)));
    let messages: Vec<cosi::WatchResponse> = driver.items(stream);
    assert_eq!((messages.len(), messages[1].event.len()), (2, seen.len()));
}

#[test]
fn a_watch_of_one_resource_follows_it() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.36.1");
    let status = "MachineStatuses.runtime.talos.dev";
    let one = |id: &str, options| cosi::WatchRequest {
        id: Some(id.to_owned()),
        ..watch("runtime", status, options)
    };
    let stream =
        driver.stream(1, Request::CosiWatch(one("machine", cosi::WatchOptions::default())));
    let absent =
        driver.stream(1, Request::CosiWatch(one("nothing", cosi::WatchOptions::default())));
    let gone = &events(&driver, absent)[0];
    assert_eq!(gone.event_type(), cosi::EventType::Destroyed);
    assert!(gone.resource.as_ref().unwrap().spec.is_some());
    driver.world.inject(driver.now, Some(NodeIndex(1)), &Fault::NotReady);
    driver.secs(1);
    let seen = events(&driver, stream);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].event_type(), cosi::EventType::Updated);
    let new = seen[1].resource.clone().unwrap();
    assert_eq!(new.metadata.unwrap().version, "2");
    assert!(new.spec.unwrap().yaml_spec.contains("node \"worker-1\" is not ready"));
    assert_eq!(seen[1].old.clone().unwrap().metadata.unwrap().version, "1");
    // From the bookmark on, no event is missed or repeated.
    driver.world.clear(driver.now, None, FaultKind::NotReady);
    let resume =
        |bookmark| cosi::WatchOptions { start_from_bookmark: bookmark, ..Default::default() };
    let mark = seen[1].bookmark.clone();
    let stream = driver.stream(1, Request::CosiWatch(one("machine", resume(mark.clone()))));
    let seen = events(&driver, stream);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].resource.clone().unwrap().metadata.unwrap().version, "3");
    for bad in [&b"short"[..], &[0x7f; 16], &[0; 16]] {
        let bad = resume(Some(bytes::Bytes::from_static(bad)));
        let status = driver.error(1, Request::CosiWatch(one("machine", bad)));
        assert_eq!(status.code, Code::FailedPrecondition);
    }
    let both = cosi::WatchOptions { bootstrap_contents: true, ..Default::default() };
    let status = driver.error(1, Request::CosiWatch(one("machine", both)));
    assert_eq!(status.code, Code::Unimplemented);
    // The next boot restarts the count, and rejects bookmarks of the previous one.
    let _ = driver.call(1, Request::Reboot(machine::RebootRequest { mode: 0 }));
    driver.secs(600);
    let status = driver.error(1, Request::CosiWatch(one("machine", resume(mark))));
    assert_eq!(status.code, Code::FailedPrecondition);
}

#[test]
fn extensions_follow_the_image() {
    let mut spec = ClusterSpec::new(1, 0, &Version::new(1, 13, 9), &Version::new(1, 36, 1));
    let id = "beef".repeat(16);
    spec.registry.schematics.insert(
        id.clone(),
        Schematic {
            yaml: "customization:\n    systemExtensions:\n".to_owned(),
            extensions: vec!["siderolabs/qemu-guest-agent".to_owned()],
        },
    );
    spec.nodes[0].schematic = Some(id.clone());
    let mut driver = Driver::with(&spec, 0);
    let names = |driver: &mut Driver| -> Vec<String> {
        listed(driver, 0, &kind::EXTENSION_STATUS)
            .into_iter()
            .map(|resource| {
                let yaml = resource.spec.unwrap().yaml_spec;
                let value: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
                value["metadata"]["name"].as_str().unwrap().to_owned()
            })
            .collect()
    };
    assert_eq!(names(&mut driver), ["qemu-guest-agent", "schematic", "modules.dep"]);
    // The plain installer drops them (what rule 4 forbids).
    let call = driver.stream(
        0,
        Request::Upgrade(machine::UpgradeRequest {
            image: "ghcr.io/siderolabs/installer:v1.13.12".to_owned(),
            ..Default::default()
        }),
    );
    driver.secs(60);
    assert_eq!(driver.ended[&call], Content::End(Ok(())));
    driver.until("down", 130, |driver| !driver.world.is_reachable(NodeIndex(0)));
    driver.until("ready", 300, |driver| driver.is_ready(0));
    assert_eq!(driver.tag(0), "v1.13.12");
    assert_eq!(names(&mut driver), Vec::<String>::new());
}
