//! The floor: what no program could go below without breaking a rule. It comes
//! from the simulator's own times for each node, never from a run.
//!
//! For Talos that is the longest chain of drain, reboot and rejoin: control
//! planes one after the other (rule 1), workers so many at a time (rule 6). For
//! Kubernetes, which reboots no node, it is the same chain of restarts. Pulls and
//! installs are no part of it, though the first node needs both before anything
//! can begin: they are reported separately.

use crate::case::SLOTS;

/// What a node takes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Takes {
    pub(crate) control_plane: bool,
    /// Its pods leave.
    pub(crate) drain: f64,
    /// From the request to reboot until it is ready again.
    pub(crate) reboot: f64,
    pub(crate) pull: f64,
    pub(crate) install: f64,
    /// A static pod restarts.
    pub(crate) static_pod: f64,
    /// Its kubelet restarts.
    pub(crate) kubelet: f64,
}

/// What an upgrade cannot be faster than.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Floor {
    /// The longest chain that the rules force.
    pub(crate) chain: f64,
    /// What has to happen on the quickest node before the first link of it.
    pub(crate) first: f64,
}

/// Talos: every node is drained, reboots and rejoins.
pub(crate) fn os(nodes: &[Takes]) -> Floor {
    let away = |node: &Takes| node.drain + node.reboot;
    let control_planes: f64 = nodes.iter().filter(|node| node.control_plane).map(away).sum();
    let workers: Vec<f64> = nodes.iter().filter(|node| !node.control_plane).map(away).collect();
    let ready = nodes.iter().filter(|node| node.control_plane);
    let first = ready.map(|node| node.pull + node.install).fold(f64::INFINITY, f64::min);
    Floor { chain: control_planes + side_by_side(&workers, SLOTS), first }
}

/// Kubernetes: API servers, then the other two together, then kubelets, one
/// control plane at a time; then the workers' kubelets, so many at a time.
pub(crate) fn kubernetes(nodes: &[Takes], width: usize) -> Floor {
    let each = |node: &Takes| 2.0 * node.static_pod + node.kubelet;
    let control_planes: f64 = nodes.iter().filter(|node| node.control_plane).map(each).sum();
    let workers = nodes.iter().filter(|node| !node.control_plane);
    let kubelets: Vec<f64> = workers.map(|node| node.kubelet).collect();
    let ready = nodes.iter().filter(|node| node.control_plane);
    let first = ready.map(|node| node.pull).fold(f64::INFINITY, f64::min);
    Floor { chain: control_planes + side_by_side(&kubelets, width), first }
}

/// How long it takes to do all of these in order, so many at a time, each as
/// soon as there is room: how long a node takes is not known beforehand.
fn side_by_side(each: &[f64], slots: usize) -> f64 {
    let mut free = vec![0.0_f64; slots.max(1)];
    for lasts in each {
        free.sort_by(f64::total_cmp);
        free[0] += lasts;
    }
    free.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn room_is_taken_as_it_comes() {
        assert!(close(side_by_side(&[], 2), 0.0));
        assert!(close(side_by_side(&[5.0], 2), 5.0));
        // 9 | 2 3 4 5: the second slot takes all but the last.
        assert!(close(side_by_side(&[9.0, 2.0, 3.0, 4.0, 5.0], 2), 14.0));
        assert!(close(side_by_side(&[1.0, 2.0, 3.0], 0), 6.0));
    }

    #[test]
    fn control_planes_go_one_by_one_and_workers_two_by_two() {
        let node = |control_plane, reboot| Takes {
            control_plane,
            drain: 1.0,
            reboot,
            pull: reboot * 10.0,
            install: 7.0,
            ..Takes::default()
        };
        let nodes = [node(true, 4.0), node(true, 3.0), node(false, 9.0), node(false, 5.0)];
        assert_eq!(os(&nodes), Floor { chain: 5.0 + 4.0 + 10.0, first: 37.0 });
    }

    #[test]
    fn kubernetes_restarts_in_a_chain_too() {
        let node = |control_plane| Takes {
            control_plane,
            pull: 30.0,
            static_pod: 10.0,
            kubelet: 5.0,
            ..Takes::default()
        };
        let nodes = [node(true), node(true), node(false), node(false), node(false)];
        assert_eq!(kubernetes(&nodes, 2), Floor { chain: 50.0 + 10.0, first: 30.0 });
    }
}
