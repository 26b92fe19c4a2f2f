//! Where the image of a component stands.

use upgrade_core::snapshot::Component;

use crate::error::ConfigError;
use crate::tree::{Kind, Node};

/// Its own document's kind (from Talos 1.14), the path in the v1alpha1 document
/// in words, and the same in parts.
pub(crate) struct Place {
    pub(crate) kind: &'static str,
    pub(crate) path: &'static str,
    pub(crate) parts: [&'static str; 3],
}

/// The places of a component.
pub(crate) const fn of(component: Component) -> Place {
    match component {
        Component::KubeApiserver => Place {
            kind: "KubeAPIServerConfig",
            path: "cluster.apiServer.image",
            parts: ["cluster", "apiServer", "image"],
        },
        Component::KubeControllerManager => Place {
            kind: "KubeControllerManagerConfig",
            path: "cluster.controllerManager.image",
            parts: ["cluster", "controllerManager", "image"],
        },
        Component::KubeScheduler => Place {
            kind: "KubeSchedulerConfig",
            path: "cluster.scheduler.image",
            parts: ["cluster", "scheduler", "image"],
        },
        Component::KubeProxy => Place {
            kind: "KubeProxyConfig",
            path: "cluster.proxy.image",
            parts: ["cluster", "proxy", "image"],
        },
        Component::Kubelet => Place {
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

/// The document that counts for a component, and the way in it: the component's
/// own where there is one, else v1alpha1.
pub(crate) fn document<'a>(
    documents: &'a [Node],
    place: &'a Place,
) -> Result<Option<(&'a Node, &'a [&'static str])>, ConfigError> {
    let kind = |node: &Node| node.entry("kind").map(|(_, kind)| kind.text().map(str::to_owned));
    let own = |node: &&Node| kind(node).flatten().as_deref() == Some(place.kind);
    if let Some(found) = only(documents.iter().filter(own), place.kind)? {
        return Ok(Some((found, &place.parts[2..])));
    }
    let main = |node: &&Node| kind(node).is_none() && matches!(node.kind, Kind::Mapping { .. });
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

/// How far a way leads into a document.
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

/// A section on the way that other places stand for.
pub(crate) struct Shared {
    path: String,
    line: usize,
}

impl From<Shared> for ConfigError {
    fn from(Shared { path, line }: Shared) -> Self {
        Self::Shared { path, line }
    }
}

/// Follows a way. What is shared may be read, but not changed.
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
        if matches!(section.kind, Kind::Alias) {
            return Err(ConfigError::Shared { path: path(), line: section.line });
        }
        let Kind::Mapping { flow, .. } = section.kind else {
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
