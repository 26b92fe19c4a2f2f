//! Labels of our objects, and the words for roles in them.

/// On an `UpgradeRun`: the name of its cluster.
pub const RUN_CLUSTER: &str = "upgrade.vitistack.io/cluster";
/// The role of a node with etcd and the Kubernetes control plane.
pub const CONTROL_PLANE: &str = "control-plane";
/// The role of a node that runs workloads only.
pub const WORKER: &str = "worker";
