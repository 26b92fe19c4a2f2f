//! The generated configuration of a node.

use std::fmt::Write as _;

use super::super::kubernetes::Component;
use super::super::platform;
use super::super::spec::{ClusterSpec, Discovery, ExtraManifest, NodeRole, NodeSpec, Secrets};
use super::default_image;
use kube_sim::random::Random;

/// Generates the secrets that are not given: they have the right form but give no access.
pub(in super::super) fn fill(secrets: &Secrets, random: &mut Random) -> Secrets {
    let mut pem = |given: &str, what: &str| {
        if given.is_empty() {
            let body = random.token(64);
            base64(format!("-----BEGIN {what}-----\n{body}\n-----END {what}-----\n").as_bytes())
        } else {
            given.to_owned()
        }
    };
    let machine_ca_crt = pem(&secrets.machine_ca_crt, "CERTIFICATE");
    let machine_ca_key = pem(&secrets.machine_ca_key, "ED25519 PRIVATE KEY");
    let cluster_ca_crt = pem(&secrets.cluster_ca_crt, "CERTIFICATE");
    let cluster_ca_key = pem(&secrets.cluster_ca_key, "EC PRIVATE KEY");
    let etcd_ca_crt = pem(&secrets.etcd_ca_crt, "CERTIFICATE");
    let etcd_ca_key = pem(&secrets.etcd_ca_key, "EC PRIVATE KEY");
    let mut token = |given: &str| {
        if given.is_empty() {
            format!("{}.{}", random.token(6), random.token(16))
        } else {
            given.to_owned()
        }
    };
    Secrets {
        machine_ca_crt,
        machine_ca_key,
        cluster_ca_crt,
        cluster_ca_key,
        etcd_ca_crt,
        etcd_ca_key,
        machine_token: token(&secrets.machine_token),
        cluster_token: token(&secrets.cluster_token),
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let number = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for place in 0..4 {
            if place <= chunk.len() {
                let digit = (number >> (18 - 6 * place)) & 63;
                text.push(char::from(ALPHABET[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The configuration of a node. `secrets` must be complete.
pub(in super::super) fn generate(spec: &ClusterSpec, node: &NodeSpec, secrets: &Secrets) -> String {
    let control_plane = node.role == NodeRole::ControlPlane;
    let image = |component| default_image(component, &node.kubernetes);
    let installer = match (&node.install_image, &node.schematic) {
        (Some(image), _) => image.clone(),
        (None, Some(id)) => {
            let kind = platform::kind(&node.platform, node.secure_boot);
            let url = &spec.registry.factory;
            let factory = url.split_once("://").map_or(url.as_str(), |(_, place)| place);
            format!("{factory}/{kind}/{id}:{}", node.talos.tag())
        }
        (None, None) => format!("ghcr.io/siderolabs/installer:{}", node.talos.tag()),
    };
    let role = if control_plane { "controlplane" } else { "worker" };
    let machine_key = if control_plane { &secrets.machine_ca_key } else { "" };
    let cluster_key = if control_plane { &secrets.cluster_ca_key } else { "" };
    let mut text = format!(
        "version: v1alpha1
debug: false
persist: true
machine:
    type: {role}
    token: {machine_token}
    ca:
        crt: {machine_ca_crt}
        key: {machine_key:?}
    certSANs: []
    kubelet:
        image: {kubelet}
        defaultRuntimeSeccompProfileEnabled: true
        disableManifestsDirectory: true
    network: {{}}
    install:
        disk: /dev/sda
        image: {installer}
        wipe: false
    features:
        diskQuotaSupport: true
        kubePrism:
            enabled: true
            port: 7445
        hostDNS:
            enabled: true
            forwardKubeDNSToHost: true
cluster:
    id: {cluster_id}
    secret: {cluster_secret}
    controlPlane:
        endpoint: {endpoint}
    clusterName: {name}
    network:
        {cni}dnsDomain: cluster.local
        podSubnets:
            - 10.244.0.0/16
        serviceSubnets:
            - 10.96.0.0/12
    token: {cluster_token}
    ca:
        crt: {cluster_ca_crt}
        key: {cluster_key:?}
    discovery:
        enabled: {discovery}
",
        discovery = discovery(spec),
        machine_token = secrets.machine_token,
        machine_ca_crt = secrets.machine_ca_crt,
        kubelet = image(Component::Kubelet),
        // No entry means flannel.
        cni = if spec.flannel { "" } else { "cni:\n            name: none\n        " },
        cluster_id = base64(format!("{}-cluster-id-simulated-32b", spec.name).as_bytes()),
        cluster_secret = base64(secrets.cluster_token.as_bytes()),
        endpoint = spec.endpoint,
        name = spec.name,
        cluster_token = secrets.cluster_token,
        cluster_ca_crt = secrets.cluster_ca_crt,
    );
    if control_plane {
        text.push_str(&control_plane_part(node, secrets));
        text.push_str(&extra_manifests(spec, node));
    }
    let _ = write!(
        text,
        "---
apiVersion: v1alpha1
kind: HostnameConfig
hostname: {}
",
        node.hostname
    );
    text
}

/// The part that only a control plane has.
fn control_plane_part(node: &NodeSpec, secrets: &Secrets) -> String {
    let image = |component| default_image(component, &node.kubernetes);
    format!(
        "    apiServer:
        image: {api_server}
        certSANs:
            - {address}
        disablePodSecurityPolicy: true
    controllerManager:
        image: {controller_manager}
    proxy:
        image: {proxy}
    scheduler:
        image: {scheduler}
    etcd:
        ca:
            crt: {etcd_ca_crt}
            key: {etcd_ca_key}
",
        api_server = image(Component::ApiServer),
        address = node.addresses.first().map(ToString::to_string).unwrap_or_default(),
        controller_manager = image(Component::ControllerManager),
        proxy = image(Component::Proxy),
        scheduler = image(Component::Scheduler),
        etcd_ca_crt = secrets.etcd_ca_crt,
        etcd_ca_key = secrets.etcd_ca_key,
    )
}

/// The manifests in this control plane's configuration, beside Talos's own.
fn extra_manifests(spec: &ClusterSpec, node: &NodeSpec) -> String {
    let number = spec.nodes.iter().position(|other| other.hostname == node.hostname);
    let here = |extra: &&ExtraManifest| extra.only.is_none_or(|only| Some(only) == number);
    let all: Vec<&ExtraManifest> = spec.extra_manifests.iter().filter(here).collect();
    let mut text = String::new();
    if all.iter().any(|extra| extra.text.is_none()) {
        text.push_str("    extraManifests:\n");
    }
    for extra in all.iter().filter(|extra| extra.text.is_none()) {
        let _ = writeln!(text, "        - {}", extra.name);
    }
    if all.iter().any(|extra| extra.text.is_some()) {
        text.push_str("    inlineManifests:\n");
    }
    for extra in all {
        let Some(contents) = &extra.text else { continue };
        let _ = writeln!(text, "        - name: {}\n          contents: |-", extra.name);
        for line in contents.lines() {
            let _ = writeln!(text, "            {line}");
        }
    }
    text
}

/// The discovery settings: whether it is enabled, and the registries if they are not the default.
fn discovery(spec: &ClusterSpec) -> &'static str {
    match spec.discovery {
        Discovery::Off => "false",
        Discovery::Service | Discovery::AirGap => "true",
        Discovery::Kubernetes => {
            "true\n        registries:\n            kubernetes:\n                disabled: false\n\
             \x20           service:\n                disabled: true"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_usual_one() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foo"), "Zm9v");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }
}
