//! Which machine of a unit is which node. Specs have addresses, the engine knows nodes by name.
//!
//! A node is matched by any of its addresses: one that is listed by its second address is the
//! same node, and listed by both it would be changed twice at once (rule 1).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use upgrade_core::snapshot::{NodeName, Role, Snapshot};

use crate::unit::{Machine, Problem, ProblemKind, Unit};

/// What the specs have to know of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// What it is for.
    pub role: Role,
    /// All its addresses, as far as they are known.
    pub addresses: BTreeSet<IpAddr>,
}

/// The nodes of an observed cluster.
pub fn identities(snapshot: &Snapshot) -> BTreeMap<NodeName, NodeIdentity> {
    let nodes = snapshot.nodes.iter().map(|(name, node)| {
        let reported = node.kubernetes.known().map(|facts| facts.addresses.as_slice());
        let texts = std::iter::once(&node.address).chain(reported.unwrap_or_default());
        let addresses = texts.filter_map(|text| address(text)).collect();
        (name.clone(), NodeIdentity { role: node.role, addresses })
    });
    nodes.collect()
}

/// An address, with a port or without.
fn address(text: &str) -> Option<IpAddr> {
    let socket = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    text.parse().ok().or_else(socket)
}

/// The machines of a unit among the nodes of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// The index of a node's machine in the list of the unit.
    pub machine_of: BTreeMap<NodeName, usize>,
    /// Machines that are no node: they do not answer, or did not join yet.
    pub absent: BTreeSet<usize>,
    /// Nodes that no object lists. Their Talos is left alone.
    pub unlisted: BTreeSet<NodeName>,
    /// What does not fit.
    pub problems: Vec<Problem>,
}

impl Matching {
    /// Matches machines and nodes.
    pub fn of(unit: &Unit, nodes: &BTreeMap<NodeName, NodeIdentity>) -> Self {
        let mut matching = Self::default();
        for (index, machine) in unit.machines.iter().enumerate() {
            let Some(address) = machine.address.known() else { continue };
            let mut found = nodes.iter().filter(|(_, node)| node.addresses.contains(&address));
            match (found.next(), found.next()) {
                (None, _) => drop(matching.absent.insert(index)),
                (Some((name, node)), None) => matching.take(unit, index, name, node),
                (Some((first, _)), Some((second, _))) => {
                    let rest = found.map(|(name, _)| name);
                    let names: Vec<_> =
                        [first, second].into_iter().chain(rest).map(ToString::to_string).collect();
                    let nodes = names.join(", ");
                    let kind = ProblemKind::SeveralNodes { address, nodes };
                    matching.problem(machine, kind);
                }
            }
        }
        let unlisted = nodes.keys().filter(|name| !matching.machine_of.contains_key(*name));
        matching.unlisted = unlisted.cloned().collect();
        matching
    }

    fn take(&mut self, unit: &Unit, index: usize, name: &NodeName, node: &NodeIdentity) {
        let machine = &unit.machines[index];
        if let Some(other) = self.machine_of.get(name) {
            let other = unit.machines[*other].place.clone();
            self.problem(machine, ProblemKind::OneNodeTwice { node: name.to_string(), other });
            return;
        }
        if node.role != machine.role {
            let found = match node.role {
                Role::ControlPlane => "control plane",
                Role::Worker => "worker",
            };
            self.problem(machine, ProblemKind::OtherRole { node: name.to_string(), found });
        }
        self.machine_of.insert(name.clone(), index);
    }

    fn problem(&mut self, machine: &Machine, kind: ProblemKind) {
        self.problems.push(Problem::new(machine.place.clone(), kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::{Hub, node, nodes};

    #[test]
    fn every_machine_finds_its_node() {
        let unit = Hub::usual().unit();
        let mut all = nodes();
        assert_eq!(Matching::of(&unit, &all).machine_of.len(), 5);
        all.insert("edge".into(), node(Role::Worker, &["10.0.0.99"]));
        all.remove(&NodeName::from("blue-2"));
        let matching = Matching::of(&unit, &all);
        assert_eq!(matching.machine_of[&"cp-3".into()], 2);
        assert_eq!(matching.absent, [4].into());
        assert_eq!(matching.unlisted, ["edge".into()].into());
        assert_eq!(matching.problems, []);
    }

    #[test]
    fn a_node_is_found_by_any_of_its_addresses() {
        let unit = Hub::usual().unit();
        let mut all = nodes();
        all.insert("cp-1".into(), node(Role::ControlPlane, &["192.168.7.1", "10.0.0.1"]));
        let matching = Matching::of(&unit, &all);
        assert_eq!((matching.machine_of.len(), matching.absent.len()), (5, 0));
    }

    #[test]
    fn a_node_in_two_entries_is_a_conflict() {
        // Rule 1.
        let unit = Hub::usual().unit();
        let mut all = nodes();
        all.remove(&NodeName::from("cp-2"));
        all.insert("cp-1".into(), node(Role::ControlPlane, &["10.0.0.1", "10.0.0.2"]));
        let [problem] = Matching::of(&unit, &all).problems.try_into().expect("one problem");
        assert_eq!(problem.place.path, "spec.metalSpec.machines[1]");
        let ProblemKind::OneNodeTwice { node, other } = problem.kind else { panic!("{problem}") };
        assert_eq!((node.as_str(), other.path.as_str()), ("cp-1", "spec.metalSpec.machines[0]"));
    }

    #[test]
    fn contradictory_nodes_are_not_guessed() {
        // Rule 10.
        let unit = Hub::usual().unit();
        let mut all = nodes();
        all.insert("ghost".into(), node(Role::ControlPlane, &["10.0.0.1"]));
        let [problem] = Matching::of(&unit, &all).problems.try_into().expect("one problem");
        assert!(matches!(problem.kind, ProblemKind::SeveralNodes { .. }), "{problem}");
        let mut all = nodes();
        all.insert("cp-1".into(), node(Role::Worker, &["10.0.0.1"]));
        let [problem] = Matching::of(&unit, &all).problems.try_into().expect("one problem");
        assert!(matches!(problem.kind, ProblemKind::OtherRole { .. }), "{problem}");
    }

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        let of = |text| address(text).map(|it| it.to_string());
        for (text, expected) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("10.0.0.1:50000", Some("10.0.0.1")),
            ("fd00::1", Some("fd00::1")),
            ("[fd00::1]:50000", Some("fd00::1")),
            ("cp-1", None),
        ] {
            assert_eq!(of(text).as_deref(), expected, "{text}");
        }
    }
}
