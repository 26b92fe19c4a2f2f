//! Labels of the objects around a control plane.

/// On a Secret: what it is for. The value is [`TYPE_STATE`] or absent.
pub const TYPE: &str = "talos.alperen.cloud/type";
/// The value of [`TYPE`] on the state Secret of a control plane.
pub const TYPE_STATE: &str = "state";
/// On a scheduled `TalosEtcdBackup`: the name of its schedule. Retention counts by it.
pub const BACKUP_SCHEDULE: &str = "talos.alperen.cloud/etcd-backup-schedule";
/// On a Job: which program made it. The Jobs of a hub are watched by it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGED_BY_US: &str = "talos-operator";
/// On a Job: the `UpgradeRun` that it drives.
pub const RUN: &str = "upgrade.vitistack.io/run";
