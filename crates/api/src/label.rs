//! Labels and annotations by which the platform's machines are found.

/// On a `Machine`: the cluster it belongs to, `spec.data.clusterId`.
pub const CLUSTER_ID: &str = "vitistack.io/clusterid";
/// On a `Machine`: [`CONTROL_PLANE`] or [`WORKER`].
pub const NODE_ROLE: &str = "vitistack.io/node-role";
/// A value of [`NODE_ROLE`].
pub const CONTROL_PLANE: &str = "control-plane";
/// A value of [`NODE_ROLE`].
pub const WORKER: &str = "worker";
/// An annotation of a `Machine`: the pool that a worker belongs to.
pub const NODE_POOL: &str = "vitistack.io/nodepool";
/// On an `UpgradeRun`: the name of its cluster.
pub const RUN_CLUSTER: &str = "upgrade.vitistack.io/cluster";
