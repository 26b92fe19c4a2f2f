//! The annotations with which users steer upgrades, on the object of a cluster, whichever front
//! end serves it. Those of one front end alone are in its own crates.

/// `true`: nothing new is started; what is in flight reaches a safe state.
pub const PAUSE: &str = "upgrade.vitistack.io/pause";
/// `workers-first` or `control-planes-first`; each front end has its own default.
pub const ORDER: &str = "upgrade.vitistack.io/order";
/// How many workers may be away at once: a number from 1, or `1%` to `100%`.
pub const MAX_UNAVAILABLE: &str = "upgrade.vitistack.io/max-unavailable";
/// `true`: a target that is older than the running version is a rollback, not a mistake.
pub const ROLLBACK: &str = "upgrade.vitistack.io/rollback";
/// `true` accepts that the API is away while a lone control plane reboots. Without it a cluster
/// with one or two control planes is left alone (rule 1).
pub const ACCEPT_OUTAGE: &str = "upgrade.vitistack.io/accept-outage";
/// What is deleted of the objects that left Talos's manifests: `none`, `safe` or `all`.
pub const PRUNE: &str = "upgrade.vitistack.io/prune";
/// How nodes are rebooted into another Talos: `default`, `powercycle` or `powercycle-first`.
pub const REBOOT_MODE: &str = "upgrade.vitistack.io/reboot-mode";
/// Kubernetes nodes that are not Talos machines of the cluster, by name, with commas between
/// them: they are neither waited for nor upgraded (rule 10).
pub const FOREIGN_NODES: &str = "upgrade.vitistack.io/foreign-nodes";
/// When new work may begin, such as `sat,sun 22:00 4h Europe/Oslo`, with semicolons between
/// several.
pub const WINDOWS: &str = "upgrade.vitistack.io/windows";
/// How long pods get to leave a node, such as `10m`.
pub const DRAIN_TIMEOUT: &str = "upgrade.vitistack.io/drain-timeout";
/// What happens then: `halt` or `proceed`.
pub const ON_DRAIN_TIMEOUT: &str = "upgrade.vitistack.io/on-drain-timeout";
