//! What can be wrong with the objects of a unit: what, where, and what to do about it.

use std::fmt::{self, Display};
use std::net::IpAddr;

use spec_api::condition::Reason;
use thiserror::Error;
use upgrade_core::image::ParseImageError;
use upgrade_core::version::{ParseVersionError, Version};

/// A kind with specs of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names of the kinds")]
pub enum Kind {
    TalosControlPlane,
    TalosWorker,
    TalosMachine,
}

impl Kind {
    /// As it is written in objects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TalosControlPlane => "TalosControlPlane",
            Self::TalosWorker => "TalosWorker",
            Self::TalosMachine => "TalosMachine",
        }
    }
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The kind of the object.
    pub kind: Kind,
    /// Its name; the namespace is that of the unit.
    pub name: String,
    /// The field, like `spec.metalSpec.machines[0].version`.
    pub path: String,
}

impl Place {
    /// A field of an object.
    pub fn new(kind: Kind, name: &str, path: &str) -> Self {
        Self { kind, name: name.to_owned(), path: path.to_owned() }
    }

    /// A field below this one.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        Self { path: format!("{}.{name}", self.path), ..self.clone() }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {}", self.kind.as_str(), self.name, self.path)
    }
}

/// Something that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {kind}")]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What.
    pub kind: ProblemKind,
}

impl Problem {
    /// Something that is wrong at a place.
    pub const fn new(place: Place, kind: ProblemKind) -> Self {
        Self { place, kind }
    }

    /// The reason that conditions give for it.
    pub const fn reason(&self) -> Reason {
        match &self.kind {
            ProblemKind::ListedTwice { .. }
            | ProblemKind::OtherUnit { .. }
            | ProblemKind::OneNodeTwice { .. } => Reason::Conflict,
            ProblemKind::UnsupportedMode { .. } => Reason::UnsupportedMode,
            ProblemKind::NotResolved { .. } | ProblemKind::SeveralNodes { .. } => Reason::Waiting,
            ProblemKind::NoMachines => Reason::NotProvisioned,
            ProblemKind::NotAVersion(_)
            | ProblemKind::NotAnAddress { .. }
            | ProblemKind::NotAnImage(_)
            | ProblemKind::OtherTag { .. }
            | ProblemKind::OtherRole { .. } => Reason::Refused,
        }
    }

    /// Whether it goes away without a change of the spec.
    pub const fn is_passing(&self) -> bool {
        matches!(self.kind, ProblemKind::NotResolved { .. } | ProblemKind::SeveralNodes { .. })
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProblemKind {
    /// A version cannot be read.
    #[error("{0}")]
    NotAVersion(ParseVersionError),
    /// An address cannot be read.
    #[error("`{text}` is not an IP address; write one like 10.0.0.1 or fd00::1")]
    NotAnAddress {
        /// What was written, or what the referenced object has.
        text: String,
    },
    /// An image cannot be read.
    #[error("{0}")]
    NotAnImage(ParseImageError),
    /// An image that names another version than the one that is wanted. Installing it would
    /// make one of both untrue.
    #[error(
        "the image says {tag}, the version {}: remove the tag or change it",
        .wanted.tag()
    )]
    OtherTag {
        /// The tag of the image.
        tag: String,
        /// The version.
        wanted: Version,
    },
    /// The mode is not supported.
    #[error(
        "the mode `{mode}` is not supported: only machines of the mode `metal` are upgraded; Talos \
         in a container is upgraded by its image"
    )]
    UnsupportedMode {
        /// The mode.
        mode: String,
    },
    /// There is no machine.
    #[error("no machine is listed; list the control planes by their addresses")]
    NoMachines,
    /// A reference to an object that has the address leads to none yet.
    #[error("the address of {target} is not known yet: {why}")]
    NotResolved {
        /// The object, by kind and name.
        target: String,
        /// Why there is no address.
        why: String,
    },
    /// Two entries of a unit have one address.
    #[error("{address} is also the address of {other}; remove one of them")]
    ListedTwice {
        /// The address.
        address: IpAddr,
        /// The other entry.
        other: Place,
    },
    /// A machine of another unit has the address.
    #[error(
        "{address} is also the address of a machine of the TalosControlPlane {namespace}/{name}; \
         neither cluster is changed until only one of them lists it"
    )]
    OtherUnit {
        /// The address.
        address: IpAddr,
        /// The namespace of the other unit.
        namespace: String,
        /// The name of the other unit.
        name: String,
    },
    /// Two entries are one node that has both addresses (rule 1).
    #[error("it is the node {node}, and so is {other}; remove one of them")]
    OneNodeTwice {
        /// The node.
        node: String,
        /// The other entry.
        other: Place,
    },
    /// Several nodes show the address.
    #[error("{address} is the address of several nodes: {nodes}; which one is meant is not known")]
    SeveralNodes {
        /// The address.
        address: IpAddr,
        /// Their names, with commas between them.
        nodes: String,
    },
    /// The node has another role than its entry says.
    #[error("the node {node} is a {found}; list it among the {found}s")]
    OtherRole {
        /// The node.
        node: String,
        /// What it is.
        found: &'static str,
    },
}
