//! Machine configurations and their effects.

use talos_proto::machine;
use talos_proto::machine::apply_configuration_request::Mode;

use super::super::*;
use super::driver::Driver;

fn config(driver: &mut Driver, node: usize) -> (String, String) {
    let resource =
        driver.get(node, "MachineConfigs.config.talos.dev", "config", "v1alpha1").unwrap();
    (resource.spec.unwrap().yaml_spec, resource.metadata.unwrap().version)
}

fn apply(text: &str, mode: Mode) -> machine::ApplyConfigurationRequest {
    machine::ApplyConfigurationRequest {
        data: text.as_bytes().to_vec(),
        mode: mode.into(),
        ..Default::default()
    }
}

fn applied(
    driver: &mut Driver,
    node: usize,
    request: machine::ApplyConfigurationRequest,
) -> machine::ApplyConfiguration {
    let response: machine::ApplyConfigurationResponse =
        driver.unary(node, Request::ApplyConfiguration(request));
    response.messages[0].clone()
}

#[test]
fn a_generated_config_is_accepted_and_changes_nothing() {
    for (talos, kubernetes) in [("1.12.6", "1.34.2"), ("1.13.9", "1.36.1"), ("1.14.1", "1.37.0")] {
        let mut driver = Driver::new(1, 1, talos, kubernetes);
        for node in 0..2 {
            let (text, version) = config(&mut driver, node);
            assert_eq!(version, "1");
            let answer = applied(&mut driver, node, apply(&text, Mode::Auto));
            assert_eq!(answer.mode(), Mode::NoReboot);
            assert_eq!(config(&mut driver, node), (text, "1".to_owned()));
        }
    }
}

#[test]
fn a_dry_run_shows_the_difference_and_changes_nothing() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let (text, _) = config(&mut driver, 0);
    let new = text.replace("kubelet:v1.36.1", "kubelet:v1.36.3");
    let dry = |text: &str| machine::ApplyConfigurationRequest {
        dry_run: true,
        ..apply(text, Mode::NoReboot)
    };
    let answer = applied(&mut driver, 0, dry(&new));
    assert!(answer.mode_details.contains("skipped in dry-run"), "{}", answer.mode_details);
    assert!(
        answer.mode_details.contains("+        image: ghcr.io/siderolabs/kubelet:v1.36.3"),
        "{}",
        answer.mode_details
    );
    assert_eq!(config(&mut driver, 0).0, text);
    let answer = applied(&mut driver, 0, dry(&text));
    assert!(answer.mode_details.contains("No changes."));
}

#[test]
fn an_image_change_restarts_only_what_uses_it() {
    let mut driver = Driver::new(3, 0, "1.14.1", "1.36.1");
    let before = driver.boot_id(0);
    let (text, _) = config(&mut driver, 0);
    let get = |driver: &mut Driver, id: &str| {
        driver.get(0, "APIServerConfigs.kubernetes.talos.dev", "controlplane", id).unwrap()
    };
    let new = text.replace("kube-apiserver:v1.36.1", "kube-apiserver:v1.37.0");
    applied(&mut driver, 0, apply(&new, Mode::NoReboot));
    for id in ["kube-apiserver", "final-kube-apiserver"] {
        let resource = get(&mut driver, id);
        assert_eq!(resource.metadata.unwrap().version, "2");
        assert!(resource.spec.unwrap().yaml_spec.contains("v1.37.0"));
    }
    let pod = driver.get(0, "StaticPods.kubernetes.talos.dev", "k8s", "kube-apiserver").unwrap();
    let yaml = pod.spec.unwrap().yaml_spec;
    assert!(yaml.contains("talos.dev/config-version: \"2\""), "{yaml}");
    assert!(!driver.is_ready(0));
    let pods = |driver: &Driver| driver.world.kubernetes(NodeIndex(0)).unwrap().pods;
    assert!(pods(&driver).iter().all(|pod| pod.ready == (pod.component != Component::ApiServer)));
    // The image was not there: pull and restart.
    driver.until("ready", 90, |driver| driver.is_ready(0));
    assert_eq!(pods(&driver)[0].config_version, 2);
    assert_eq!(driver.boot_id(0), before);
}

/// Seen on real nodes of 1.13: each control plane lost its API server a second time, when its
/// scheduler was upgraded.
#[test]
fn up_to_1_13_an_api_server_restarts_with_its_scheduler() {
    for (talos, restarts, files) in [("1.13.9", true, "1112"), ("1.14.1", false, "111")] {
        let mut driver = Driver::new(3, 0, talos, "1.35.1");
        let (text, _) = config(&mut driver, 0);
        let new = text.replace("kube-scheduler:v1.35.1", "kube-scheduler:v1.35.2");
        applied(&mut driver, 0, apply(&new, Mode::NoReboot));
        let pods = |driver: &Driver| driver.world.kubernetes(NodeIndex(0)).unwrap().pods;
        let [server, _, scheduler] = &pods(&driver)[..] else { panic!("three static pods") };
        assert!(!scheduler.ready);
        assert_eq!(server.ready, !restarts, "{talos}");
        assert_eq!(server.config_version, 1);
        assert_eq!(server.config_files.unwrap().to_string(), files);
        assert_eq!(driver.world.api_server_runs(NodeIndex(0)), !restarts, "{talos}");
        driver.until("ready", 90, |driver| {
            driver.is_ready(0) && driver.world.api_server_runs(NodeIndex(0))
        });
        assert!(pods(&driver).iter().all(|pod| pod.ready));
    }
}

#[test]
fn a_pod_that_has_not_started_since_the_boot_starts_with_the_new_image() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.35.1");
    let (text, _) = config(&mut driver, 0);
    let call = Request::Reboot(machine::RebootRequest { mode: 2 });
    let _: machine::RebootResponse = driver.unary(0, call);
    let pods = |driver: &Driver| driver.world.kubernetes(NodeIndex(0)).map(|node| node.pods);
    let boots = |driver: &Driver| {
        driver.world.is_reachable(NodeIndex(0)) && pods(driver).is_none_or(|pods| pods.is_empty())
    };
    driver.until("it answers without pods", 200, |driver| boots(driver));
    let new = text.replace("kube-apiserver:v1.35.1", "kube-apiserver:v1.36.1");
    applied(&mut driver, 0, apply(&new, Mode::NoReboot));
    driver.until("ready", 200, |driver| driver.is_ready(0));
    let images: Vec<String> = pods(&driver).into_iter().flatten().map(|pod| pod.image).collect();
    assert!(images.iter().any(|image| image.ends_with("kube-apiserver:v1.36.1")), "{images:?}");
}

#[test]
fn a_kubelet_change_cycles_its_service() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.35.1");
    let (text, _) = config(&mut driver, 1);
    let watch = talos_proto::cosi::resource::WatchRequest {
        namespace: "runtime".to_owned(),
        r#type: "Services.v1alpha1.talos.dev".to_owned(),
        id: Some("kubelet".to_owned()),
        options: None,
        api_version: 1,
    };
    let stream = driver.stream(1, Request::CosiWatch(watch));
    let new = text.replace("kubelet:v1.35.1", "kubelet:v1.36.1");
    applied(&mut driver, 1, apply(&new, Mode::NoReboot));
    driver.secs(100);
    let seen: Vec<talos_proto::cosi::resource::WatchResponse> = driver.items(stream);
    let types: Vec<i32> =
        seen.iter().flat_map(|item| &item.event).map(|event| event.event_type).collect();
    // Created, destroyed, created again and healthy.
    assert_eq!(types[..3], [0, 2, 0]);
    let last = seen.last().unwrap().event[0].resource.clone().unwrap();
    assert!(last.spec.unwrap().yaml_spec.contains("healthy: true"));
    assert!(driver.is_ready(1));
    let node = driver.world.kubernetes(NodeIndex(1)).unwrap();
    assert!(node.ready && node.kubelet_image.ends_with("v1.36.1"));
}

#[test]
fn a_missing_image_never_starts() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let (text, _) = config(&mut driver, 0);
    let new = text.replace("registry.k8s.io/kube-scheduler", "registry.example.com/nothing");
    applied(&mut driver, 0, apply(&new, Mode::NoReboot));
    driver.secs(3600);
    assert!(!driver.is_ready(0));
    applied(&mut driver, 0, apply(&text, Mode::NoReboot));
    driver.until("ready", 30, |driver| driver.is_ready(0));
}

#[test]
fn a_trial_is_reverted_unless_it_is_confirmed() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let (text, _) = config(&mut driver, 0);
    let new = text.replace("debug: false", "debug: true");
    let answer = applied(&mut driver, 0, apply(&new, Mode::Try));
    assert!(answer.mode_details.contains("reverted back in 1m0s"), "{}", answer.mode_details);
    assert_eq!(config(&mut driver, 0).0, new);
    driver.secs(61);
    assert_eq!(config(&mut driver, 0), (text.clone(), "3".to_owned()));
    applied(&mut driver, 0, apply(&new, Mode::Try));
    applied(&mut driver, 0, apply(&new, Mode::NoReboot));
    driver.secs(61);
    assert_eq!(config(&mut driver, 0).0, new);
}

#[test]
fn a_staged_config_waits_for_the_boot() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let (text, _) = config(&mut driver, 0);
    let new = text.replace("debug: false", "debug: true");
    applied(&mut driver, 0, apply(&new, Mode::Staged));
    assert_eq!(config(&mut driver, 0).0, text);
    let call = Request::Reboot(machine::RebootRequest { mode: 2 });
    let _: machine::RebootResponse = driver.unary(0, call);
    driver.until("ready", 200, |driver| driver.is_ready(0));
    assert_eq!(config(&mut driver, 0), (new, "1".to_owned()));
}

#[test]
fn the_error_of_an_invalid_config_names_the_field() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.36.1");
    let (text, _) = config(&mut driver, 0);
    for (from, to, said) in [
        ("version: v1alpha1", "version: v2", "configuration version"),
        ("persist: true", "persist: true\nfoo: 1", "foo"),
        ("    type: controlplane", "    type: controlplane\n    bar: 1", "machine.bar"),
        ("    type: controlplane", "    type: boss", "machine type \"boss\""),
        ("https://10.5.0.2:6443", "http://10.5.0.2:6443", ".cluster.controlPlane.endpoint"),
        ("kubelet:v1.36.1", "kubelet:v1.39.0", "kubelet image is not valid"),
        ("kube-apiserver:v1.36.1", "kube-apiserver:v1.30.0", "too old"),
        ("kind: HostnameConfig", "kind: WhatConfig", "not registered"),
        ("machine:", "machine: [", "decoding"),
    ] {
        let bad = text.replace(from, to);
        assert_ne!(bad, text, "{from}");
        let status = driver.error(0, Request::ApplyConfiguration(apply(&bad, Mode::NoReboot)));
        assert_eq!(status.code, Code::InvalidArgument, "{status}");
        assert!(status.message.contains(said), "{said}: {status}");
    }
    let document = "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: x\n";
    let status = driver.error(0, Request::ApplyConfiguration(apply(document, Mode::NoReboot)));
    assert!(status.message.contains("v1alpha1 config"), "{status}");
    let status = driver.error(0, Request::ApplyConfiguration(apply(&text, Mode::Reboot)));
    assert_eq!(status.code, Code::Unimplemented);
    assert_eq!(config(&mut driver, 0), (text, "1".to_owned()));
}

#[test]
fn documents_of_1_14_win_over_the_large_one_and_need_1_14() {
    let document = "---\napiVersion: v1alpha1\nkind: KubeAPIServerConfig\n\
                    image: registry.k8s.io/kube-apiserver:v1.36.3\n";
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let text = config(&mut driver, 0).0 + document;
    let status = driver.error(0, Request::ApplyConfiguration(apply(&text, Mode::NoReboot)));
    assert_eq!(status.code, Code::InvalidArgument);
    let mut driver = Driver::new(1, 0, "1.14.1", "1.36.1");
    let text = config(&mut driver, 0).0 + document;
    applied(&mut driver, 0, apply(&text, Mode::NoReboot));
    let pods = driver.world.kubernetes(NodeIndex(0)).unwrap().pods;
    assert!(pods[0].image.ends_with("v1.36.3"), "{pods:?}");
}

#[test]
fn a_cluster_with_another_pod_network_has_no_flannel() {
    let mut spec = ClusterSpec::new(1, 0, &"1.13.9".parse().unwrap(), &"1.36.1".parse().unwrap());
    let has_flannel = |spec: &ClusterSpec| {
        let world = World::new(spec, 0, super::driver::START);
        let objects = world.bootstrap_objects(NodeIndex(0));
        objects.iter().any(|object| object["metadata"]["name"] == "kube-flannel")
    };
    assert!(has_flannel(&spec));
    spec.flannel = false;
    assert!(!has_flannel(&spec));
    let mut driver = Driver::with(&spec, 0);
    let (text, _) = config(&mut driver, 0);
    assert!(text.contains("cni:\n            name: none\n"), "{text}");
    // A later configuration can enable it.
    let with = text.replace("name: none", "name: flannel");
    applied(&mut driver, 0, apply(&with, Mode::NoReboot));
    let objects = driver.world.bootstrap_objects(NodeIndex(0));
    assert!(objects.iter().any(|object| object["metadata"]["name"] == "kube-flannel"));
}
