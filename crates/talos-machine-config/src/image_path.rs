//! The path of a component's image in a configuration.

use upgrade_core::snapshot::Component;

use crate::error::ConfigError;
use crate::yaml::{Node, Value};

/// The kind of the component's own document (from Talos 1.14), and the path in the v1alpha1
/// document, whole and in parts.
pub(crate) struct ImagePath {
    pub(crate) kind: &'static str,
    pub(crate) path: &'static str,
    pub(crate) parts: [&'static str; 3],
}

/// The path of a component's image.
pub(crate) const fn of(component: Component) -> ImagePath {
    match component {
        Component::KubeApiserver => ImagePath {
            kind: "KubeAPIServerConfig",
            path: "cluster.apiServer.image",
            parts: ["cluster", "apiServer", "image"],
        },
        Component::KubeControllerManager => ImagePath {
            kind: "KubeControllerManagerConfig",
            path: "cluster.controllerManager.image",
            parts: ["cluster", "controllerManager", "image"],
        },
        Component::KubeScheduler => ImagePath {
            kind: "KubeSchedulerConfig",
            path: "cluster.scheduler.image",
            parts: ["cluster", "scheduler", "image"],
        },
        Component::KubeProxy => ImagePath {
            kind: "KubeProxyConfig",
            path: "cluster.proxy.image",
            parts: ["cluster", "proxy", "image"],
        },
        Component::Kubelet => ImagePath {
            kind: "KubeletConfig",
            path: "machine.kubelet.image",
            parts: ["machine", "kubelet", "image"],
        },
    }
}

/// Every component that a configuration can name an image for.
pub(crate) const COMPONENTS: [Component; 5] = [
    Component::KubeApiserver,
    Component::KubeControllerManager,
    Component::KubeScheduler,
    Component::KubeProxy,
    Component::Kubelet,
];

/// The document that configures a component, and the path in it: the component's own
/// document where there is one, else v1alpha1.
pub(crate) fn document<'a>(
    documents: &'a [Node],
    place: &'a ImagePath,
) -> Result<Option<(&'a Node, &'a [&'static str])>, ConfigError> {
    let kind = |node: &Node| node.entry("kind").map(|(_, kind)| kind.text().map(str::to_owned));
    let own = |node: &&Node| kind(node).flatten().as_deref() == Some(place.kind);
    if let Some(found) = only(documents.iter().filter(own), place.kind)? {
        return Ok(Some((found, &place.parts[2..])));
    }
    let main = |node: &&Node| kind(node).is_none() && matches!(node.value, Value::Mapping { .. });
    let found = only(documents.iter().filter(main), "the v1alpha1 document")?;
    Ok(found.map(|found| (found, &place.parts[..])))
}

fn only<'a>(
    mut found: impl Iterator<Item = &'a Node>,
    what: &str,
) -> Result<Option<&'a Node>, ConfigError> {
    let first = found.next();
    match found.next() {
        Some(second) => Err(ConfigError::Twice { what: what.to_owned(), line: second.line }),
        None => Ok(first),
    }
}

/// How far a path leads into a document.
pub(crate) enum Reached<'a> {
    /// To its end.
    End {
        /// The key of the last part.
        key: &'a Node,
        /// Its value.
        value: &'a Node,
        /// Whether the mapping around it is in flow style.
        in_flow: bool,
    },
    /// Into `section`, which lacks the parts that are left.
    Short {
        /// The key of the section, unless it is the whole document.
        key: Option<&'a Node>,
        /// The section: a mapping, or nothing.
        section: &'a Node,
        /// Whether the mapping around the section is in flow style.
        in_flow: bool,
        /// What is missing.
        rest: &'a [&'static str],
    },
}

/// A section on the path that aliases elsewhere may refer to.
pub(crate) struct Shared {
    path: String,
    line: usize,
}

impl From<Shared> for ConfigError {
    fn from(Shared { path, line }: Shared) -> Self {
        Self::Shared { path, line }
    }
}

/// Follows a path. What is shared may be read, but not changed.
pub(crate) fn follow<'a>(
    document: &'a Node,
    way: &'a [&'static str],
) -> Result<(Reached<'a>, Option<Shared>), ConfigError> {
    let mut shared = None;
    let mut section = document;
    let mut section_key: Option<&Node> = None;
    let mut in_flow = false;
    for (depth, part) in way.iter().enumerate() {
        let path = || way[..depth].join(".");
        if matches!(section.value, Value::Alias) {
            return Err(ConfigError::Shared { path: path(), line: section.line });
        }
        let Value::Mapping { flow, .. } = section.value else {
            if section.is_null() {
                let rest = &way[depth..];
                return Ok((Reached::Short { key: section_key, section, in_flow, rest }, shared));
            }
            return Err(ConfigError::NotASection { path: path(), line: section.line });
        };
        if section.anchored && shared.is_none() {
            shared = Some(Shared { path: path(), line: section.line });
        }
        let Some((key, value)) = section.entry(part) else {
            if let Some((merge, _)) = section.entry("<<") {
                return Err(ConfigError::Shared { path: path(), line: merge.line });
            }
            let rest = &way[depth..];
            return Ok((Reached::Short { key: section_key, section, in_flow, rest }, shared));
        };
        in_flow = flow;
        if depth + 1 == way.len() {
            if value.anchored && shared.is_none() {
                shared = Some(Shared { path: way.join("."), line: value.line });
            }
            return Ok((Reached::End { key, value, in_flow }, shared));
        }
        section_key = Some(key);
        section = value;
    }
    Ok((Reached::Short { key: section_key, section, in_flow, rest: &[] }, shared))
}
