//! Resource names: an API group and a plural.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A resource without its version, such as `deployments` of `apps`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceName {
    /// Its API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Its plural, as in a path.
    pub plural: Cow<'static, str>,
}

impl ResourceName {
    /// A name known at compile time.
    pub const fn new(group: &'static str, plural: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), plural: Cow::Borrowed(plural) }
    }

    /// A name from a request.
    pub fn owned(group: &str, plural: &str) -> Self {
        Self { group: Cow::Owned(group.to_owned()), plural: Cow::Owned(plural.to_owned()) }
    }
}

/// The form used in messages: `pods`, `deployments.apps`.
impl fmt::Display for ResourceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, plural } = self;
        formatter.write_str(plural)?;
        if group.is_empty() { Ok(()) } else { write!(formatter, ".{group}") }
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $constant:ident = $group:literal, $plural:literal;)*) => {
        $($(#[$doc])* pub const $constant: ResourceName = ResourceName::new($group, $plural);)*
    };
}

names! {
    /// `namespaces`.
    NAMESPACES = "", "namespaces";
    /// `nodes`.
    NODES = "", "nodes";
    /// `pods`.
    PODS = "", "pods";
    /// `configmaps`.
    CONFIG_MAPS = "", "configmaps";
    /// `secrets`.
    SECRETS = "", "secrets";
    /// `services`.
    SERVICES = "", "services";
    /// `serviceaccounts`.
    SERVICE_ACCOUNTS = "", "serviceaccounts";
    /// `endpoints`.
    ENDPOINTS = "", "endpoints";
    /// `events` of the core group; `events.k8s.io` is a view of the same.
    EVENTS = "", "events";
    /// `persistentvolumes`.
    PERSISTENT_VOLUMES = "", "persistentvolumes";
    /// `persistentvolumeclaims`.
    PERSISTENT_VOLUME_CLAIMS = "", "persistentvolumeclaims";
    /// `deployments.apps`.
    DEPLOYMENTS = "apps", "deployments";
    /// `daemonsets.apps`.
    DAEMON_SETS = "apps", "daemonsets";
    /// `replicasets.apps`.
    REPLICA_SETS = "apps", "replicasets";
    /// `statefulsets.apps`.
    STATEFUL_SETS = "apps", "statefulsets";
    /// `controllerrevisions.apps`.
    CONTROLLER_REVISIONS = "apps", "controllerrevisions";
    /// `jobs.batch`.
    JOBS = "batch", "jobs";
    /// `leases.coordination.k8s.io`.
    LEASES = "coordination.k8s.io", "leases";
    /// `endpointslices.discovery.k8s.io`.
    ENDPOINT_SLICES = "discovery.k8s.io", "endpointslices";
    /// `poddisruptionbudgets.policy`.
    POD_DISRUPTION_BUDGETS = "policy", "poddisruptionbudgets";
    /// `volumeattachments.storage.k8s.io`.
    VOLUME_ATTACHMENTS = "storage.k8s.io", "volumeattachments";
    /// `customresourcedefinitions.apiextensions.k8s.io`.
    CUSTOM_RESOURCE_DEFINITIONS = "apiextensions.k8s.io", "customresourcedefinitions";
}
