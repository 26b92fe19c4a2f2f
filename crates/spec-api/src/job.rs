//! The Job that upgrades Kubernetes: the argument and variables of its process. The same
//! variables work by hand, without any operator.

/// The argument of the program.
pub const COMMAND: &str = "upgrade-k8s";
/// The variable with the Kubernetes version that is wanted, with its `v`.
pub const TARGET_VERSION: &str = "TARGET_VERSION";
/// The variable with the name of the `TalosControlPlane`.
pub const TCP_NAME: &str = "TCP_NAME";
/// The variable with the namespace of the `TalosControlPlane`.
pub const TCP_NAMESPACE: &str = "TCP_NAMESPACE";

/// The operator's own variable with the image of its Jobs. Without it, Jobs have the image of
/// the operator's pod.
pub const IMAGE: &str = "TALOS_OPERATOR_IMAGE";
/// The operator's own variable with the account of its Jobs. Without it, each control plane
/// has an account of its own, see [`upgrade_account`](crate::names::upgrade_account).
pub const SERVICE_ACCOUNT: &str = "TALOS_OPERATOR_SERVICE_ACCOUNT";
