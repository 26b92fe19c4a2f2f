//! The built-in kinds.

use super::ResourceType;
use crate::names::ResourceName;

/// A built-in kind in compact form.
struct BuiltIn {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
    flags: &'static [Flag],
}

#[derive(Clone, Copy, PartialEq)]
enum Flag {
    Namespaced,
    Status,
    Scale,
    Generation,
    /// Part of `kubectl get all`.
    All,
    /// Only answered, never stored.
    Review,
}

use Flag::{All, Generation, Namespaced, Review, Scale, Status};

const fn of(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
    flags: &'static [Flag],
) -> BuiltIn {
    BuiltIn { group, version, plural, kind, short_names, flags }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const WORKLOAD: &[Flag] = &[Namespaced, Status, Scale, Generation, All];

#[rustfmt::skip]
const KINDS: &[BuiltIn] = &[
    of("", "v1", "namespaces", "Namespace", &["ns"], &[Status]),
    of("", "v1", "nodes", "Node", &["no"], &[Status]),
    of("", "v1", "pods", "Pod", &["po"], &[Namespaced, Status, Generation, All]),
    of("", "v1", "configmaps", "ConfigMap", &["cm"], &[Namespaced]),
    of("", "v1", "secrets", "Secret", &[], &[Namespaced]),
    of("", "v1", "services", "Service", &["svc"], &[Namespaced, Status, All]),
    of("", "v1", "serviceaccounts", "ServiceAccount", &["sa"], &[Namespaced]),
    of("", "v1", "endpoints", "Endpoints", &["ep"], &[Namespaced]),
    of("", "v1", "events", "Event", &["ev"], &[Namespaced]),
    of("", "v1", "limitranges", "LimitRange", &["limits"], &[Namespaced]),
    of("", "v1", "resourcequotas", "ResourceQuota", &["quota"], &[Namespaced, Status]),
    of("", "v1", "podtemplates", "PodTemplate", &[], &[Namespaced]),
    of("", "v1", "replicationcontrollers", "ReplicationController", &["rc"], WORKLOAD),
    of("", "v1", "persistentvolumes", "PersistentVolume", &["pv"], &[Status]),
    of("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", &["pvc"], &[Namespaced, Status]),
    of("apps", "v1", "deployments", "Deployment", &["deploy"], WORKLOAD),
    of("apps", "v1", "daemonsets", "DaemonSet", &["ds"], &[Namespaced, Status, Generation, All]),
    of("apps", "v1", "replicasets", "ReplicaSet", &["rs"], WORKLOAD),
    of("apps", "v1", "statefulsets", "StatefulSet", &["sts"], WORKLOAD),
    of("apps", "v1", "controllerrevisions", "ControllerRevision", &[], &[Namespaced]),
    of("batch", "v1", "jobs", "Job", &[], &[Namespaced, Status, Generation, All]),
    of("batch", "v1", "cronjobs", "CronJob", &["cj"], &[Namespaced, Status, Generation, All]),
    of("coordination.k8s.io", "v1", "leases", "Lease", &[], &[Namespaced]),
    of("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", &[], &[Namespaced, Generation]),
    of("events.k8s.io", "v1", "events", "Event", &["ev"], &[Namespaced]),
    of("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", &["pdb"], &[Namespaced, Status, Generation]),
    of("storage.k8s.io", "v1", "storageclasses", "StorageClass", &["sc"], &[]),
    of("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", &[], &[Status]),
    of("storage.k8s.io", "v1", "csidrivers", "CSIDriver", &[], &[]),
    of("storage.k8s.io", "v1", "csinodes", "CSINode", &[], &[]),
    of("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", &["pc"], &[Generation]),
    of("networking.k8s.io", "v1", "ingresses", "Ingress", &["ing"], &[Namespaced, Status, Generation]),
    of("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", &["netpol"], &[Namespaced, Generation]),
    of(RBAC, "v1", "roles", "Role", &[], &[Namespaced]),
    of(RBAC, "v1", "rolebindings", "RoleBinding", &[], &[Namespaced]),
    of(RBAC, "v1", "clusterroles", "ClusterRole", &[], &[]),
    of(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", &[], &[]),
    of(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", &[], &[Status, Generation]),
    of(ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", &[], &[Generation]),
    of(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", &[], &[Generation]),
    of(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", &[], &[Generation]),
    of("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", &["crd", "crds"], &[Status, Generation]),
    of("apiregistration.k8s.io", "v1", "apiservices", "APIService", &[], &[Status]),
    of("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", &[], &[Review]),
    of("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", &[], &[Review]),
    of("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", &[], &[Review]),
    of("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", &[], &[Review]),
    of("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", &[], &[Review]),
    of("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", &[], &[Namespaced, Review]),
];

pub(super) fn all() -> impl Iterator<Item = ResourceType> {
    KINDS.iter().map(|BuiltIn { group, version, plural, kind, short_names, flags }| {
        let has = |flag: Flag| flags.contains(&flag);
        let mut categories = Vec::new();
        if has(All) {
            categories.push("all".to_owned());
        }
        if *plural == "customresourcedefinitions" || *group == ADMISSION {
            categories.push("api-extensions".to_owned());
        }
        ResourceType {
            name: ResourceName::new(group, plural),
            version: (*version).to_owned(),
            served: vec![(*version).to_owned()],
            kind: (*kind).to_owned(),
            list_kind: format!("{kind}List"),
            singular: kind.to_lowercase(),
            short_names: short_names.iter().map(|name| (*name).to_owned()).collect(),
            categories,
            namespaced: has(Namespaced),
            status: has(Status),
            scale: has(Scale),
            generation: has(Generation),
            stored: !has(Review),
            definition: None,
        }
    })
}
