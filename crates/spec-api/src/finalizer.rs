//! The finalizer of each kind. The names are those that stored objects carry, whichever
//! operator added them.

/// Of a `TalosCluster`.
pub const CLUSTER: &str = "taloscluster.talos.alperen.cloud/finalizer";
/// Of a `TalosControlPlane`: a run in flight reaches a safe state before the object goes.
pub const CONTROL_PLANE: &str = "taloscontrolplane.talos.alperen.cloud/finalizer";
/// Of a `TalosWorker`: as for the control plane.
pub const WORKER: &str = "talosworker.talos.alperen.cloud/finalizer";
/// Of a `TalosMachine`: as for the control plane.
pub const MACHINE: &str = "talosmachine.talos.alperen.cloud/finalizer";
/// Of a `TalosEtcdBackup`: its files go before the object does.
pub const ETCD_BACKUP: &str = "talosetcdbackup.talos.alperen.cloud/finalizer";
/// Of a `TalosEtcdBackupSchedule`: its backups go before the object does.
pub const ETCD_BACKUP_SCHEDULE: &str = "talosetcdbackupschedule.talos.alperen.cloud/finalizer";
/// Of a `TalosClusterAddon`. Only removed, so that a deleted object can go.
pub const CLUSTER_ADDON: &str = "talosclusteraddon.talos.alperen.cloud/finalizer";
/// Of a `TalosClusterAddonRelease`. Only removed; the release stays in its cluster.
pub const CLUSTER_ADDON_RELEASE: &str = "talosclusteraddonrelease.talos.alperen.cloud/finalizer";

#[cfg(test)]
mod tests {
    use kube::Resource;

    use super::*;
    use crate::{
        TalosCluster, TalosClusterAddon, TalosClusterAddonRelease, TalosControlPlane,
        TalosEtcdBackup, TalosEtcdBackupSchedule, TalosMachine, TalosWorker,
    };

    fn of<K: Resource<DynamicType = ()>>() -> String {
        format!("{}.{}/finalizer", K::kind(&()).to_lowercase(), K::group(&()))
    }

    #[test]
    fn each_is_the_kind_in_lower_case() {
        for (finalizer, expected) in [
            (CLUSTER, of::<TalosCluster>()),
            (CONTROL_PLANE, of::<TalosControlPlane>()),
            (WORKER, of::<TalosWorker>()),
            (MACHINE, of::<TalosMachine>()),
            (ETCD_BACKUP, of::<TalosEtcdBackup>()),
            (ETCD_BACKUP_SCHEDULE, of::<TalosEtcdBackupSchedule>()),
            (CLUSTER_ADDON, of::<TalosClusterAddon>()),
            (CLUSTER_ADDON_RELEASE, of::<TalosClusterAddonRelease>()),
        ] {
            assert_eq!(finalizer, expected);
        }
    }
}
