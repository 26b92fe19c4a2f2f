//! The machines of a cluster, put together from the lists of several machines and remembered from
//! one observation to the next.
//!
//! Discovery is incomplete on healthy clusters: in an air gap each node shows only itself, the
//! Kubernetes registry shows control planes only, and a member that was silent for 30 minutes is
//! gone from every list while it serves. So a known machine stays while any list is missing, and
//! the nodes of Kubernetes lead to the others (rule 10).
//!
//! There is no IO here: the live cluster and the simulated one put their answers into the same
//! roster.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::snapshot::{NodeName, Role};

use super::Machine;

/// A machine as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name in Kubernetes.
    pub name: NodeName,
    /// Its role; `None` if the list does not contain it.
    pub role: Option<Role>,
    /// Its possible addresses, the most likely first.
    pub addresses: Vec<String>,
}

/// What is known about one machine.
#[derive(Clone, Debug)]
struct Entry {
    role: Role,
    /// From discovery, or where it was found.
    addresses: Vec<String>,
    /// From a list that the user keeps.
    listed: Option<String>,
    /// From its Node object. Discovery may not have these addresses: for 30 minutes it shows the
    /// old address of a machine that was recreated.
    internal: Vec<String>,
    /// The address that it last answered at.
    works: Option<String>,
    /// Whether it did not answer at that address the last time.
    doubtful: bool,
    /// Whether it identified itself, and no list shows it.
    introduced: bool,
}

impl Entry {
    fn address(&self) -> String {
        self.works.as_ref().or_else(|| self.candidates().next()).cloned().unwrap_or_default()
    }

    fn has(&self, address: &str) -> bool {
        self.candidates().any(|own| own == address)
    }

    /// Its possible addresses, the most likely first; with duplicates.
    fn candidates(&self) -> impl Iterator<Item = &String> {
        self.listed.iter().chain(&self.internal).chain(&self.addresses)
    }

    fn distinct(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for address in self.candidates() {
            if !all.contains(address) {
                all.push(address.clone());
            }
        }
        all
    }

    /// Whether its address is known from discovery only, which may be outdated.
    fn may_be_stale(&self) -> bool {
        let confirmed = |address: &String| self.addresses.contains(address);
        let named = self.introduced || self.listed.is_some();
        !named && self.works.is_none() && !self.internal.iter().any(confirmed)
    }
}

/// The known machines.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    known: BTreeMap<NodeName, Entry>,
    /// Whether the nodes of Kubernetes are known.
    heard: bool,
}

impl Roster {
    /// Adds the lists of one observation. If all of them came, a machine that none of them shows is
    /// gone, unless it identified itself; otherwise it stays, and is unknown.
    pub fn take(&mut self, lists: &[Vec<Member>], all_came: bool) {
        let mut shown = BTreeSet::new();
        for member in lists.iter().flatten() {
            // An entry that is incomplete in one list may be complete in another, or in Kubernetes.
            let (Some(role), false) = (member.role, member.addresses.is_empty()) else {
                continue;
            };
            let first = shown.insert(member.name.clone());
            self.learn(member, role, first);
        }
        if all_came {
            self.known.retain(|name, entry| entry.introduced || shown.contains(name));
        }
    }

    /// Adds a machine that identified itself at this address.
    pub fn introduce(&mut self, machine: &Machine) {
        let Machine { name, address, role } = machine;
        let addresses = vec![address.clone()];
        let member = Member { name: name.clone(), role: Some(*role), addresses };
        let known = self.known.contains_key(name);
        self.learn(&member, *role, false);
        if let Some(entry) = self.known.get_mut(name) {
            entry.works = Some(address.clone());
            entry.doubtful = false;
            entry.introduced |= !known;
        }
    }

    fn learn(&mut self, member: &Member, role: Role, replace: bool) {
        let Member { name, addresses, .. } = member;
        let entry = self.known.entry(name.clone()).or_insert_with(|| Entry {
            role,
            addresses: Vec::new(),
            listed: None,
            internal: Vec::new(),
            works: None,
            doubtful: false,
            introduced: false,
        });
        if replace {
            // A machine that was recreated under the same name has other addresses.
            let still = |own: &String| addresses.contains(own) || entry.works.as_ref() == Some(own);
            let kept: Vec<String> =
                entry.addresses.iter().filter(|own| still(own)).cloned().collect();
            entry.addresses = kept;
            entry.role = role;
        }
        for address in addresses {
            if !entry.addresses.contains(address) {
                entry.addresses.push(address.clone());
            }
        }
    }

    /// Sets the addresses of Kubernetes' nodes: those are tried first, even where another one
    /// answered before they were known. A machine that identified itself and is no node any more is
    /// forgotten.
    pub fn prefer(&mut self, nodes: &BTreeMap<NodeName, Vec<String>>) {
        self.heard = true;
        self.known.retain(|name, entry| !entry.introduced || nodes.contains_key(name));
        for (name, entry) in &mut self.known {
            let internal = nodes.get(name).cloned().unwrap_or_default();
            if entry.internal == internal {
                continue;
            }
            // An endpoint reaches itself in networks that do not lead to it from the other
            // machines.
            let elsewhere = entry.works.as_ref().is_some_and(|works| !internal.contains(works));
            entry.doubtful |= elsewhere && !internal.is_empty();
            entry.internal = internal;
        }
    }

    /// Sets the machines of a list that the user keeps; a machine that only this list shows is
    /// added.
    pub fn list(&mut self, listed: &[Machine]) {
        for entry in self.known.values_mut() {
            entry.listed = None;
        }
        for machine in listed {
            let own = self
                .known
                .iter()
                .find(|(name, entry)| **name == machine.name || entry.has(&machine.address));
            if let Some(name) = own.map(|(name, _)| name.clone()) {
                let Some(entry) = self.known.get_mut(&name) else { continue };
                entry.listed = Some(machine.address.clone());
            } else {
                let Machine { name, address, role } = machine.clone();
                let member = Member { name, role: Some(role), addresses: vec![address] };
                self.learn(&member, role, false);
            }
        }
    }

    /// The nodes of Kubernetes without a machine in this roster.
    pub fn unmatched<'a>(
        &self,
        nodes: &'a BTreeMap<NodeName, Vec<String>>,
    ) -> Vec<(&'a NodeName, &'a [String])> {
        let unmatched = nodes.iter().filter(|(name, _)| !self.known.contains_key(*name));
        unmatched.map(|(name, addresses)| (name, addresses.as_slice())).collect()
    }

    /// Machines with several addresses of which none is known to work, with their addresses, the
    /// most likely first.
    pub fn to_probe(&self) -> Vec<(NodeName, Vec<String>)> {
        let unsure = self.known.iter().filter(|(_, it)| it.works.is_none() || it.doubtful);
        let each = unsure.map(|(name, entry)| (name.clone(), entry.distinct()));
        each.filter(|(_, addresses)| addresses.len() > 1).collect()
    }

    /// Whether discovery may show a machine that left, or the old address of one that was
    /// recreated: it never answered, and Kubernetes does not have this address.
    pub fn may_be_stale(&self, name: &NodeName) -> bool {
        self.heard && self.known.get(name).is_some_and(Entry::may_be_stale)
    }

    /// Records whether the machine answered at this address.
    pub fn tried(&mut self, name: &NodeName, address: &str, answered: bool) {
        let Some(entry) = self.known.get_mut(name) else { return };
        if answered {
            entry.works = Some(address.to_owned());
            entry.doubtful = false;
        } else if entry.works.as_deref().is_none_or(|works| works == address) {
            entry.doubtful = true;
        }
    }

    /// The machine at this address, if it is known.
    pub fn at(&self, address: &str) -> Option<Machine> {
        let mut all = self.known.iter();
        let (name, entry) = all.find(|(_, entry)| entry.has(address))?;
        Some(machine(name, entry))
    }

    /// All machines.
    pub fn machines(&self) -> Vec<Machine> {
        self.known.iter().map(|(name, entry)| machine(name, entry)).collect()
    }
}

fn machine(name: &NodeName, entry: &Entry) -> Machine {
    Machine { name: name.clone(), address: entry.address(), role: entry.role }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, role: Role, addresses: &[&str]) -> Member {
        let addresses = addresses.iter().map(ToString::to_string).collect();
        Member { name: name.into(), role: Some(role), addresses }
    }

    fn worker(name: &str, address: &str) -> Machine {
        Machine { name: name.into(), address: address.to_owned(), role: Role::Worker }
    }

    fn shown(roster: &Roster) -> Vec<String> {
        let machines = roster.machines();
        machines.iter().map(|it| format!("{}@{}", it.name, it.address)).collect()
    }

    fn nodes(nodes: &[(&str, &str)]) -> BTreeMap<NodeName, Vec<String>> {
        nodes.iter().map(|(name, at)| ((*name).into(), vec![(*at).to_owned()])).collect()
    }

    #[test]
    fn what_was_known_stays_while_a_machine_does_not_answer() {
        // Rule 10: unknown, not gone.
        let mut roster = Roster::default();
        let first = member("cp-1", Role::ControlPlane, &["10.0.0.1"]);
        let second = member("w-1", Role::Worker, &["10.0.0.2"]);
        roster.take(&[vec![first.clone()], vec![second]], true);
        assert_eq!(shown(&roster), ["cp-1@10.0.0.1", "w-1@10.0.0.2"]);
        roster.take(&[vec![first.clone()]], false);
        assert_eq!(shown(&roster), ["cp-1@10.0.0.1", "w-1@10.0.0.2"]);
        roster.take(&[vec![first]], true);
        assert_eq!(shown(&roster), ["cp-1@10.0.0.1"]);
    }

    #[test]
    fn who_introduced_itself_stays_as_long_as_kubernetes_knows_it() {
        // Rule 10: in an air gap no list shows it, and it reboots like any other.
        let mut roster = Roster::default();
        let own = vec![member("cp-1", Role::ControlPlane, &["10.0.0.1"])];
        roster.take(std::slice::from_ref(&own), true);
        let all = nodes(&[("cp-1", "10.0.0.1"), ("w-1", "10.0.0.2")]);
        let unmatched = roster.unmatched(&all);
        assert_eq!(unmatched.len(), 1);
        assert_eq!(unmatched[0].0.0, "w-1");
        roster.introduce(&worker("w-1", "10.0.0.2"));
        roster.take(&[own], true);
        roster.prefer(&all);
        assert_eq!(shown(&roster), ["cp-1@10.0.0.1", "w-1@10.0.0.2"]);
        assert!(roster.unmatched(&all).is_empty());
        roster.prefer(&nodes(&[("cp-1", "10.0.0.1")]));
        assert_eq!(shown(&roster), ["cp-1@10.0.0.1"]);
    }

    #[test]
    fn the_address_that_works_is_remembered() {
        let mut roster = Roster::default();
        let both = vec![member("w-1", Role::Worker, &["192.168.0.2", "10.0.0.2"])];
        roster.take(std::slice::from_ref(&both), true);
        assert_eq!(roster.to_probe().len(), 1);
        // The address of Kubernetes comes first, until another one is known to work.
        roster.prefer(&nodes(&[("w-1", "10.0.0.2")]));
        assert_eq!(shown(&roster), ["w-1@10.0.0.2"]);
        roster.tried(&"w-1".into(), "192.168.0.2", true);
        roster.take(std::slice::from_ref(&both), true);
        assert_eq!(shown(&roster), ["w-1@192.168.0.2"]);
        assert!(roster.to_probe().is_empty());
        roster.tried(&"w-1".into(), "192.168.0.2", false);
        assert_eq!(
            roster.to_probe(),
            [("w-1".into(), both[0].addresses.clone().into_iter().rev().collect::<Vec<_>>())]
        );
    }

    #[test]
    fn kubernetes_own_address_is_tried_once_more_where_another_answered() {
        // A control plane reaches itself in a storage network; the others do not.
        let mut roster = Roster::default();
        let both = vec![member("cp-1", Role::ControlPlane, &["192.168.0.1", "10.0.0.1"])];
        roster.take(std::slice::from_ref(&both), true);
        roster.tried(&"cp-1".into(), "192.168.0.1", true);
        assert!(roster.to_probe().is_empty());
        let all = nodes(&[("cp-1", "10.0.0.1")]);
        roster.prefer(&all);
        assert_eq!(roster.to_probe()[0].1, ["10.0.0.1", "192.168.0.1"]);
        // It does not answer there: this is not probed on every observation.
        roster.tried(&"cp-1".into(), "192.168.0.1", true);
        roster.prefer(&all);
        assert!(roster.to_probe().is_empty());
    }

    #[test]
    fn a_machine_made_again_is_searched_for_where_kubernetes_has_it() {
        // Finding 19: discovery shows the old address for 30 minutes.
        let mut roster = Roster::default();
        let old = [vec![member("w-1", Role::Worker, &["10.0.0.1"])]];
        roster.take(&old, true);
        assert!(!roster.may_be_stale(&"w-1".into()), "Kubernetes was not asked yet");
        roster.prefer(&nodes(&[]));
        assert!(roster.may_be_stale(&"w-1".into()), "it may have left");
        roster.prefer(&nodes(&[("w-1", "10.0.0.1")]));
        assert!(!roster.may_be_stale(&"w-1".into()), "Kubernetes has it there, too");
        roster.prefer(&nodes(&[("w-1", "10.0.0.8")]));
        roster.take(&old, true);
        assert!(roster.may_be_stale(&"w-1".into()));
        assert_eq!(roster.to_probe(), [("w-1".into(), vec!["10.0.0.8".into(), "10.0.0.1".into()])]);
        roster.tried(&"w-1".into(), "10.0.0.8", true);
        assert_eq!(shown(&roster), ["w-1@10.0.0.8"]);
        assert!(!roster.may_be_stale(&"w-1".into()));
    }

    #[test]
    fn a_machine_is_one_machine_whichever_address_names_it() {
        // Rule 10: what is listed is never left out, and never counted twice.
        let mut roster = Roster::default();
        let known = [
            member("a", Role::Worker, &["10.0.0.1"]),
            member("b", Role::Worker, &["192.168.0.2", "10.0.0.2"]),
        ];
        roster.take(&[known.to_vec()], true);
        roster.list(&[
            worker("a", "10.0.0.9"),
            worker("platform-b", "10.0.0.2"),
            worker("down", "10.0.0.3"),
        ]);
        assert_eq!(shown(&roster), ["a@10.0.0.9", "b@10.0.0.2", "down@10.0.0.3"]);
    }

    #[test]
    fn one_odd_member_hides_no_other() {
        let mut roster = Roster::default();
        let odd = Member { role: None, ..member("odd", Role::Worker, &["10.0.0.7"]) };
        let nowhere = member("nowhere", Role::Worker, &[]);
        roster.take(&[vec![odd, nowhere, member("a", Role::Worker, &["10.0.0.1"])]], true);
        assert_eq!(shown(&roster), ["a@10.0.0.1"]);
    }

    #[test]
    fn a_machine_that_was_made_again_is_found_at_its_new_address() {
        let mut roster = Roster::default();
        roster.take(&[vec![member("a", Role::Worker, &["10.0.0.1"])]], true);
        roster.take(&[vec![member("a", Role::Worker, &["10.0.0.8"])]], true);
        assert_eq!(shown(&roster), ["a@10.0.0.8"]);
    }
}
