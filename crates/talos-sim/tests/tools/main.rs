//! The real talosctl and kubectl against simulated clusters.
//!
//! Tests whose names begin with `real::` also start a real control plane.

mod bench;
mod kubectl;
mod kubectl_changes;
mod kubectl_door;
mod kubectl_faults;
mod kubectl_nodes;
mod kubectl_objects;
mod kubectl_removes;
mod real;
mod talosctl;
mod talosctl_change;
mod talosctl_drain;
mod talosctl_errors;
mod talosctl_kubernetes;
mod talosctl_read;
mod talosctl_upgrade_k8s;
