//! Labels and annotations by which the platform's machines are found.

pub use upgrade_api::label::{CONTROL_PLANE, WORKER};

/// On a `Machine`: the cluster it belongs to, `spec.data.clusterId`.
pub const CLUSTER_ID: &str = "vitistack.io/clusterid";
/// On a `Machine`: [`CONTROL_PLANE`] or [`WORKER`].
pub const NODE_ROLE: &str = "vitistack.io/node-role";
/// An annotation of a `Machine`: the pool that a worker belongs to.
pub const NODE_POOL: &str = "vitistack.io/nodepool";
