//! What a node accepts as its configuration.

use serde_json::Value;
use upgrade_core::version::Version;

use super::super::kubernetes::Component;
use super::super::registry::MATRIX;
use super::super::spec::NodeRole;
use super::{Components, image_version};

/// Parses all documents of a configuration. One without `kind` is v1alpha1.
pub(in super::super) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let mut documents = Vec::new();
    for part in split(text) {
        let value: Value = serde_saphyr::from_str(&part)
            .map_err(|error| format!("error decoding configuration: {error}"))?;
        match value {
            Value::Null => {}
            Value::Object(_) => documents.push(value),
            _ => return Err("error decoding configuration: a document is not a mapping".to_owned()),
        }
    }
    Ok(documents)
}

/// Splits at lines that are `---`.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line == "---" || line.starts_with("--- ") {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts.retain(|part| {
        part.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    });
    parts
}

/// The rules that a configuration is checked against.
pub(in super::super) struct Rules<'a> {
    pub(in super::super) role: NodeRole,
    pub(in super::super) talos: &'a Version,
}

const TOP: &[&str] = &["version", "debug", "persist", "machine", "cluster"];

const MACHINE: &[&str] = &[
    "type",
    "token",
    "ca",
    "acceptedCAs",
    "certSANs",
    "controlPlane",
    "kubelet",
    "pods",
    "network",
    "disks",
    "install",
    "files",
    "env",
    "time",
    "sysctls",
    "sysfs",
    "registries",
    "systemDiskEncryption",
    "features",
    "udev",
    "logging",
    "kernel",
    "seccompProfiles",
    "baseRuntimeSpecOverrides",
    "nodeLabels",
    "nodeAnnotations",
    "nodeTaints",
];

const CLUSTER: &[&str] = &[
    "id",
    "secret",
    "controlPlane",
    "clusterName",
    "network",
    "token",
    "aescbcEncryptionSecret",
    "secretboxEncryptionSecret",
    "ca",
    "acceptedCAs",
    "aggregatorCA",
    "serviceAccount",
    "apiServer",
    "controllerManager",
    "proxy",
    "scheduler",
    "discovery",
    "etcd",
    "coreDNS",
    "externalCloudProvider",
    "extraManifests",
    "extraManifestHeaders",
    "inlineManifests",
    "adminKubeconfig",
    "allowSchedulingOnMasters",
    "allowSchedulingOnControlPlanes",
];

/// Kinds of documents new in 1.14.
const SINCE_14: &[&str] = &[
    "KubeAPIServerConfig",
    "KubeControllerManagerConfig",
    "KubeSchedulerConfig",
    "KubeProxyConfig",
    "KubeletConfig",
    "KubeNodeConfig",
    "KubeNetworkConfig",
    "UnattendedInstallConfig",
];

/// Other kinds, whose content the simulator ignores.
const OTHERS: &[&str] = &[
    "HostnameConfig",
    "ExtensionServiceConfig",
    "SideroLinkConfig",
    "EventSinkConfig",
    "KmsgLogConfig",
    "NetworkRuleConfig",
    "NetworkDefaultActionConfig",
    "TrustedRootsConfig",
    "WatchdogTimerConfig",
    "VolumeConfig",
    "UserVolumeConfig",
    "RawVolumeConfig",
    "ExistingVolumeConfig",
    "SwapVolumeConfig",
    "ZswapConfig",
    "ResolverConfig",
    "TimeSyncConfig",
    "StaticHostConfig",
    "LinkConfig",
    "LinkAliasConfig",
    "BondConfig",
    "BridgeConfig",
    "VLANConfig",
    "DHCPv4Config",
    "DHCPv6Config",
    "EthernetConfig",
    "Layer2VIPConfig",
    "WireguardConfig",
    "KubeSpanConfig",
    "KubeSpanEndpointsConfig",
    "OOMConfig",
    "PCIDriverRebindConfig",
    "RegistryMirrorConfig",
    "RegistryAuthConfig",
    "RegistryTLSConfig",
    "EnvironmentConfig",
    "DiscoveryServiceConfig",
    "SysctlConfig",
];

/// Checks a configuration; the error names the invalid fields.
pub(super) fn validate(documents: &[Value], rules: &Rules<'_>) -> Result<(), String> {
    let minor = rules.talos.minor();
    let new_documents = minor >= Version::new(1, 14, 0).minor();
    for document in documents {
        let Some(kind) = document.get("kind") else {
            continue;
        };
        let kind = kind.as_str().unwrap_or_default();
        let known = OTHERS.contains(&kind) || (new_documents && SINCE_14.contains(&kind));
        if !known {
            let version = document["apiVersion"].as_str().unwrap_or_default();
            return Err(format!(
                "error decoding document /{kind}/: {kind:?} {version:?}: not registered"
            ));
        }
    }
    let Some(main) = documents.iter().find(|document| document.get("kind").is_none()) else {
        return Err(
            "the applied machine configuration doesn't contain v1alpha1 config, did you mean to \
             patch the machine config instead?"
                .to_owned(),
        );
    };
    if main["version"] != "v1alpha1" {
        return Err(format!("unsupported configuration version {}", main["version"]));
    }
    let mut unknown = Vec::new();
    unknown_keys(main, "", TOP, &mut unknown);
    unknown_keys(&main["machine"], "machine.", MACHINE, &mut unknown);
    unknown_keys(&main["cluster"], "cluster.", CLUSTER, &mut unknown);
    if !unknown.is_empty() {
        return Err(format!("unknown keys found during decoding: {}", unknown.join(", ")));
    }
    let mut problems = Vec::new();
    check_machine(main, rules, &mut problems);
    problems.extend(check_images(|minor| Components::read(documents, minor), rules));
    if problems.is_empty() {
        return Ok(());
    }
    let count = problems.len();
    let plural = if count == 1 { "error" } else { "errors" };
    let lines: Vec<String> = problems.iter().map(|problem| format!("\t* {problem}\n")).collect();
    Err(format!("{count} {plural} occurred:\n{}\n", lines.concat()))
}

fn unknown_keys(value: &Value, path: &str, known: &[&str], unknown: &mut Vec<String>) {
    if let Some(map) = value.as_object() {
        let keys = map.keys().filter(|key| !known.contains(&key.as_str()));
        unknown.extend(keys.map(|key| format!("{path}{key}")));
    }
}

fn check_machine(main: &Value, rules: &Rules<'_>, problems: &mut Vec<String>) {
    let Some(machine) = main["machine"].as_object() else {
        problems.push("machine instructions are required".to_owned());
        return;
    };
    let kind = machine.get("type").and_then(Value::as_str).unwrap_or_default();
    match (kind, rules.role) {
        ("controlplane" | "init", NodeRole::ControlPlane) | ("worker", NodeRole::Worker) => {}
        ("controlplane" | "init" | "worker", _) => problems.push(format!(
            "the machine type of a simulated node cannot change to {kind:?} (.machine.type)"
        )),
        _ => problems.push(format!("unknown machine type {kind:?}")),
    }
    let has = |path: &str| {
        main.pointer(path).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
    };
    if main.pointer("/cluster/controlPlane/endpoint").is_none() {
        problems
            .push("cluster instructions are required (.cluster.controlPlane.endpoint)".to_owned());
    } else if !main["cluster"]["controlPlane"]["endpoint"]
        .as_str()
        .is_some_and(|endpoint| endpoint.starts_with("https://"))
    {
        problems.push(
            "control plane endpoint must use https (.cluster.controlPlane.endpoint)".to_owned(),
        );
    }
    match rules.role {
        NodeRole::ControlPlane => {
            if !has("/machine/ca/crt") {
                problems.push("issuing CA is required (.machine.ca)".to_owned());
            } else if !has("/machine/ca/key") {
                problems.push(
                    "issuing CA key is required for controlplane nodes (.machine.ca.key)"
                        .to_owned(),
                );
            }
        }
        NodeRole::Worker => {
            if has("/machine/ca/key") {
                problems.push(
                    "issuing Talos API CA key is not allowed on non-controlplane nodes (.machine.ca)"
                        .to_owned(),
                );
            }
        }
    }
}

/// Checks the Kubernetes versions in image tags against the matrix of a Talos version (rule 13).
/// Tags that are not versions are skipped. The images are those that the version's line reads.
pub(in super::super) fn check_images(
    images: impl FnOnce(u64) -> Components,
    rules: &Rules<'_>,
) -> Vec<String> {
    let Rules { role, talos } = rules;
    let minor = Version::new(1, 0, 0).minor().steps_to(talos.minor()).unwrap_or(0);
    let components = images(minor);
    let mut judged = vec![(Component::Kubelet, "kubelet")];
    if *role == NodeRole::ControlPlane {
        judged.extend([
            (Component::ApiServer, "kube-apiserver"),
            (Component::ControllerManager, "kube-controller-manager"),
            (Component::Scheduler, "kube-scheduler"),
            (Component::Proxy, "kube-proxy"),
        ]);
    }
    let Some(row) = MATRIX.row(talos.minor()) else {
        return vec![format!("compatibility with version {talos} is not supported")];
    };
    judged
        .into_iter()
        .filter_map(|(component, what)| {
            let version = image_version(components.image(component))?;
            if row.runs(&version) {
                return None;
            }
            let how = if version.release() < row.kubernetes_min { "old" } else { "new" };
            Some(format!(
                "{what} image is not valid: version of Kubernetes {version} is too {how} to be \
                 used with Talos {talos}"
            ))
        })
        .collect()
}
