//! The rights that the operator uses: those of `deploy/20-rbac.yaml`, verb by verb.

use super::Weight;

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In all that is watched.
    Watched,
    /// Where clusters are: it may be granted in single namespaces.
    Clusters,
    /// In the operator's own namespace.
    Own,
}

/// The role of the shipped manifest that grants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The `ClusterRole` `talos-operator`.
    Operator,
    /// The `ClusterRole` `talos-operator-cluster-access`.
    ClusterAccess,
    /// The `Role` `talos-operator`.
    Own,
}

impl Role {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator | Self::Own => "talos-operator",
            Self::ClusterAccess => "talos-operator-cluster-access",
        }
    }
}

/// Verbs on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The API group.
    pub group: &'static str,
    /// With its subresource, as roles write it.
    pub resource: &'static str,
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// Where it is needed.
    pub scope: Scope,
    /// The role that grants it.
    pub role: Role,
    /// What it means if it is missing.
    pub weight: Weight,
}

impl Right {
    /// Verbs on a resource of a group, where they are needed, and what it means if they are
    /// missing.
    pub const fn new(
        (group, resource): (&'static str, &'static str),
        verbs: &'static [&'static str],
        (scope, role): (Scope, Role),
        weight: Weight,
    ) -> Self {
        Self { group, resource, verbs, scope, role, weight }
    }

    /// Its resource as `kubectl auth can-i` takes it.
    pub fn full_name(&self) -> String {
        let Self { group, resource, .. } = self;
        match resource.split_once('/') {
            _ if group.is_empty() => (*resource).to_owned(),
            Some((kind, sub)) => format!("{kind}.{group}/{sub}"),
            None => format!("{resource}.{group}"),
        }
    }
}

/// What the leases of the operator's own namespace are used with.
pub const LEASES: Right = Right::new(
    ("coordination.k8s.io", "leases"),
    &["get", "list", "create", "update", "patch", "delete"],
    (Scope::Own, Role::Own),
    Weight::Needed,
);

/// For versions that are read from a `ConfigMap`, and only then.
pub const CONFIG_MAPS: Right =
    Right::new(("", "configmaps"), &["get"], (Scope::Own, Role::Own), Weight::Wanted);
