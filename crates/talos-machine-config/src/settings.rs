//! Settings of the Kubernetes components in a configuration: flags, feature gates, admission
//! plugins. Only their names: values may be secrets (rule 14).

use std::collections::BTreeSet;

use serde_json::Value;
use upgrade_core::snapshot::Component;

use crate::error::ConfigError;

/// The settings of one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The component.
    pub component: Component,
    /// Where they are set: a path, or the kind of a document.
    pub place: &'static str,
    /// Flags by name, without dashes.
    pub flags: BTreeSet<String>,
    /// Feature gates by name, switched on or off.
    pub feature_gates: BTreeSet<String>,
    /// Admission plugins by name, switched on or off.
    pub admission_plugins: BTreeSet<String>,
}

/// Where the settings of a component are.
struct Source {
    component: Component,
    kind: &'static str,
    pointer: &'static str,
    place: &'static str,
}

const SOURCES: [Source; 5] = [
    Source {
        component: Component::KubeApiserver,
        kind: "KubeAPIServerConfig",
        pointer: "/cluster/apiServer",
        place: "cluster.apiServer",
    },
    Source {
        component: Component::KubeControllerManager,
        kind: "KubeControllerManagerConfig",
        pointer: "/cluster/controllerManager",
        place: "cluster.controllerManager",
    },
    Source {
        component: Component::KubeScheduler,
        kind: "KubeSchedulerConfig",
        pointer: "/cluster/scheduler",
        place: "cluster.scheduler",
    },
    Source {
        component: Component::KubeProxy,
        kind: "KubeProxyConfig",
        pointer: "/cluster/proxy",
        place: "cluster.proxy",
    },
    Source {
        component: Component::Kubelet,
        kind: "KubeletConfig",
        pointer: "/machine/kubelet",
        place: "machine.kubelet",
    },
];

/// The settings of every component that has any.
pub fn settings(text: &str) -> Result<Vec<Settings>, ConfigError> {
    let options = serde_saphyr::options! { with_snippet: false };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
            // The error may quote the text, which has keys (rule 14).
            let line = error.location().map_or(1, |location| location.line());
            ConfigError::Unreadable { line: usize::try_from(line).unwrap_or(1) }
        })?;
    let mut all = Vec::new();
    for source in &SOURCES {
        for document in &documents {
            let found = match document.get("kind").and_then(Value::as_str) {
                Some(kind) if kind == source.kind => Some((document, source.kind)),
                Some(_) => None,
                None => document.pointer(source.pointer).map(|section| (section, source.place)),
            };
            let Some((section, place)) = found else { continue };
            let settings = of(source.component, place, section);
            let Settings { flags, feature_gates, .. } = &settings;
            if !flags.is_empty() || !feature_gates.is_empty() {
                all.push(settings);
            }
        }
    }
    Ok(all)
}

fn of(component: Component, place: &'static str, section: &Value) -> Settings {
    let args = section.get("extraArgs").and_then(Value::as_object);
    let args = || args.into_iter().flatten();
    let values = |flag: &str| -> Vec<String> {
        let found = args().find(|(name, _)| *name == flag).map(|(_, value)| value);
        let texts = match found {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(text)) => vec![text.as_str()],
            _ => Vec::new(),
        };
        texts.iter().flat_map(|text| text.split(',')).map(|part| part.trim().to_owned()).collect()
    };
    let mut feature_gates: BTreeSet<String> = values("feature-gates")
        .iter()
        .map(|gate| gate.split('=').next().unwrap_or_default().to_owned())
        .collect();
    // The kubelet and kube-proxy have a configuration file beside their flags.
    for file in ["extraConfig", "config"] {
        let gates = section.pointer(&format!("/{file}/featureGates")).and_then(Value::as_object);
        feature_gates.extend(gates.into_iter().flatten().map(|(name, _)| name.clone()));
    }
    feature_gates.retain(|gate| !gate.is_empty());
    let mut admission_plugins = BTreeSet::new();
    for flag in ["enable-admission-plugins", "disable-admission-plugins"] {
        admission_plugins.extend(values(flag).into_iter().filter(|name| !name.is_empty()));
    }
    let flags = args().map(|(name, _)| name.trim_start_matches('-').to_owned()).collect();
    Settings { component, place, flags, feature_gates, admission_plugins }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let text = "\
machine:
  kubelet:
    extraArgs: {feature-gates: 'A=true,B=false', rotate: [x, z]}
    extraConfig: {featureGates: {C: true}}
cluster:
  apiServer:
    extraArgs:
      enable-admission-plugins: NodeRestriction, PodSecurity
      disable-admission-plugins: [Alpha]
  scheduler: {}
---
kind: KubeControllerManagerConfig
extraArgs:
  bind-address: 0.0.0.0
---
kind: KubeProxyConfig
config: {featureGates: {D: false}}
";
        let settings = settings(text).unwrap();
        let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
        let seen: Vec<_> = settings
            .iter()
            .map(|one| {
                let (flags, gates) = (names(&one.flags), names(&one.feature_gates));
                format!("{}|{flags}|{gates}|{}", one.place, names(&one.admission_plugins))
            })
            .collect();
        assert_eq!(
            seen,
            [
                "cluster.apiServer|disable-admission-plugins enable-admission-plugins||\
                 Alpha NodeRestriction PodSecurity",
                "KubeControllerManagerConfig|bind-address||",
                "KubeProxyConfig||D|",
                "machine.kubelet|feature-gates rotate|A B C|",
            ]
        );
    }

    #[test]
    fn an_error_has_the_line_and_no_content() {
        // Rule 14.
        let error = settings("machine:\n  token: s3cr3t\n  ca: [s3cr3t\n").unwrap_err();
        assert!(matches!(error, ConfigError::Unreadable { line: 1.. }));
        assert!(!format!("{error} {error:?}").contains("s3cr3t"));
    }
}
