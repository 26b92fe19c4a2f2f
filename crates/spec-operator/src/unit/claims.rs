//! Which unit claims which address. A machine that two units list would have two drivers, since
//! each unit has a lease of its own (rule 9).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::problem::{Problem, ProblemKind};
use super::{Unit, UnitKey};

/// The addresses of all units of a hub.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    by_address: BTreeMap<IpAddr, BTreeSet<UnitKey>>,
    by_unit: BTreeMap<UnitKey, BTreeSet<IpAddr>>,
}

impl Claims {
    /// Replaces what a unit claims. Returns the other units that this concerns: they have to be
    /// decided on again.
    pub fn set(&mut self, unit: &Unit) -> BTreeSet<UnitKey> {
        let now = unit.machines.iter().filter_map(|machine| machine.address.known()).collect();
        self.replace(&unit.key, now)
    }

    /// Forgets a unit that is gone.
    pub fn remove(&mut self, unit: &UnitKey) -> BTreeSet<UnitKey> {
        self.replace(unit, BTreeSet::new())
    }

    fn replace(&mut self, unit: &UnitKey, now: BTreeSet<IpAddr>) -> BTreeSet<UnitKey> {
        let before = self.by_unit.remove(unit).unwrap_or_default();
        let mut concerned = BTreeSet::new();
        for address in before.symmetric_difference(&now) {
            let claims = self.by_address.entry(*address).or_default();
            claims.remove(unit);
            concerned.extend(claims.iter().cloned());
            if now.contains(address) {
                claims.insert(unit.clone());
            }
            if claims.is_empty() {
                self.by_address.remove(address);
            }
        }
        if !now.is_empty() {
            self.by_unit.insert(unit.clone(), now);
        }
        concerned
    }

    /// The machines of a unit that another unit claims as well.
    pub fn conflicts(&self, unit: &Unit) -> Vec<Problem> {
        let machines = unit.machines.iter();
        let known = machines.filter_map(|machine| Some((machine, machine.address.known()?)));
        known
            .filter_map(|(machine, address)| {
                let claims = self.by_address.get(&address)?;
                let UnitKey { namespace, name, .. } =
                    claims.iter().find(|other| **other != unit.key)?.clone();
                let kind = ProblemKind::OtherUnit { address, namespace, name };
                Some(Problem::new(machine.place.clone(), kind))
            })
            .collect()
    }
}
