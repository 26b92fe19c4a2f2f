//! `status.state` of each kind. Objects that another operator drove may have other words;
//! they are never written, and `parse` has no answer for them.

use crate::words::words;

words! {
    /// The state of a control plane.
    pub enum ControlPlaneState {
        /// There are no credentials yet, or not all machines are known.
        Pending = "Pending",
        /// Imported, and not observed yet.
        Bootstrapped = "Bootstrapped",
        /// Everything is as wanted, or nothing can be done and a condition says why.
        Ready = "Ready",
        /// Talos is being upgraded on a control plane.
        Upgrading = "Upgrading",
        /// Kubernetes is being upgraded: from before the Job exists until its outcome is
        /// recorded.
        UpgradingKubernetes = "UpgradingKubernetes",
        /// The upgrade of Kubernetes halted, was refused, or its Job never started.
        KubernetesUpgradeFailed = "KubernetesUpgradeFailed",
    }
}

words! {
    /// The state of a pool of workers.
    pub enum WorkerState {
        /// The control plane is not ready to tell, or not all machines are known.
        Pending = "Pending",
        /// Talos is being upgraded on one of them.
        Upgrading = "Upgrading",
        /// All of them are as wanted, or nothing can be done and a condition says why.
        Ready = "Ready",
    }
}

words! {
    /// The state of one machine.
    pub enum MachineState {
        /// It runs no cluster yet: Talos waits for a configuration.
        Pending = "Pending",
        /// It is a node of the cluster.
        Available = "Available",
        /// Its lane has started and not ended.
        Upgrading = "Upgrading",
        /// The run halted on it, a boot fallback included.
        Failed = "Failed",
        /// Its parent is gone. The machine keeps running.
        Orphaned = "Orphaned",
    }
}
