//! What follows from the facts, whatever is decided.

use std::collections::BTreeMap;

use spec_api::ReconcileMode;
use upgrade_core::product::PerProduct;
use upgrade_core::snapshot::NodeName;

use super::facts::{Decision, Facts, NextAction, Run};
use super::show::{Situation, Update, update};
use crate::adoption::{Adoptable, Adoption, adoption};
use crate::asks::{self, Asked};
use crate::nodes::Matching;
use crate::path::Observed;
use crate::unit::{Kind, Machine, Unit};

/// An object with versions: its kind and its name.
pub(super) type Object = (Kind, String);

/// The facts, and what follows from them.
pub(super) struct View<'a> {
    pub(super) facts: &'a Facts<'a>,
    /// Which machine is which node; nothing before the first observation.
    pub(super) matching: Matching,
    /// What adoption makes of each object.
    pub(super) adoptions: BTreeMap<Object, Adoption>,
    /// The unit without the versions that do not count.
    pub(super) wanted: Unit,
    /// What the user asks for now.
    pub(super) asked: Asked,
}

impl<'a> View<'a> {
    pub(super) fn of(facts: &'a Facts<'a>) -> Self {
        let Facts { objects, unit, steering, retry, .. } = *facts;
        let observed = facts.observed.and_then(Result::ok);
        let matching =
            observed.map(|observed| Matching::of(unit, &observed.identities())).unwrap_or_default();
        let adoptions = adoptions(facts, &matching);
        let wanted = counted(unit, &adoptions);
        let retry = retry.map(ToOwned::to_owned);
        let asked = Asked::of(objects, unit, steering.rollback, retry);
        Self { facts, matching, adoptions, wanted, asked }
    }

    /// The run, if it is under way.
    pub(super) fn active(&self) -> Option<&'a Run> {
        self.facts.run.filter(|run| run.is_active())
    }

    pub(super) fn observed(&self) -> Option<&'a Observed> {
        self.facts.observed.and_then(Result::ok)
    }

    /// The node of a machine.
    pub(super) fn node_of(&self, index: usize) -> Option<&NodeName> {
        self.matching.machine_of.iter().find(|(_, at)| **at == index).map(|(name, _)| name)
    }

    /// Whether the machine runs what is wanted of it; false if that is not known.
    pub(super) fn fits(&self, index: usize) -> bool {
        let wanted = &self.wanted.machines[index];
        fits(wanted, self.node_of(index), self.observed())
    }

    pub(super) fn decision(&self, situation: &Situation, next: NextAction) -> Decision {
        let update: Update = update(self, situation);
        Decision { update: Some(update), next }
    }
}

fn fits(machine: &Machine, node: Option<&NodeName>, observed: Option<&Observed>) -> bool {
    let runs = node.zip(observed).and_then(|(node, observed)| observed.nodes.get(node));
    runs.is_some_and(|runs| machine.talos.as_ref().is_none_or(|wanted| runs.talos == *wanted))
}

fn adoptions(facts: &Facts<'_>, matching: &Matching) -> BTreeMap<Object, Adoption> {
    let Facts { objects, unit, .. } = *facts;
    let observed = facts.observed.and_then(Result::ok);
    let nodes: BTreeMap<usize, &NodeName> =
        matching.machine_of.iter().map(|(name, at)| (*at, name)).collect();
    let all_fit = |own: &dyn Fn(&Machine) -> bool| {
        let mut machines = unit.machines.iter().enumerate().filter(|(_, machine)| own(machine));
        observed.is_some() && machines.all(|(at, it)| fits(it, nodes.get(&at).copied(), observed))
    };
    let kubernetes = observed.zip(unit.kubernetes.as_ref()).is_some_and(|(observed, wanted)| {
        observed.kubernetes.lowest == *wanted && observed.kubernetes.newest == *wanted
    });
    let mut all = BTreeMap::new();
    let mut adopt_all = false;
    {
        let object = objects.control_plane;
        let status = object.status.as_ref();
        let state = status.map_or("", |status| status.state.as_str());
        let generation = status.and_then(|status| status.observed_generation);
        let asks = asks::of_control_plane(object);
        let adoptable = Adoptable::of(&object.metadata, asks, state, generation);
        adopt_all |= adoptable.adopt;
        let talos = all_fit(&|machine| machine.pool.is_none());
        let name = object.metadata.name.clone().unwrap_or_default();
        let adopted = adoption(&adoptable, PerProduct { talos, kubernetes });
        all.insert((Kind::TalosControlPlane, name), adopted);
    }
    for worker in &objects.workers {
        let status = worker.status.as_ref();
        let state = status.map_or("", |status| status.state.as_str());
        let generation = status.and_then(|status| status.observed_generation);
        let asks = asks::of_worker(worker);
        let mut adoptable = Adoptable::of(&worker.metadata, asks, state, generation);
        adoptable.adopt |= adopt_all;
        let name = worker.metadata.name.clone().unwrap_or_default();
        let talos = all_fit(&|machine| machine.pool.as_ref() == Some(&name));
        let adopted = adoption(&adoptable, PerProduct { talos, kubernetes: true });
        all.insert((Kind::TalosWorker, name), adopted);
    }
    for machine in &objects.machines {
        let name = machine.metadata.name.clone().unwrap_or_default();
        let single = |it: &Machine| it.place.kind == Kind::TalosMachine && it.place.name == name;
        if !unit.machines.iter().any(single) {
            continue;
        }
        let status = machine.status.as_ref();
        let state = status.map_or("", |status| status.state.as_str());
        let generation = status.and_then(|status| status.observed_generation);
        let asks = asks::of_machine(machine);
        let mut adoptable = Adoptable::of(&machine.metadata, asks, state, generation);
        adoptable.adopt |= adopt_all;
        let talos = all_fit(&single);
        let adopted = adoption(&adoptable, PerProduct { talos, kubernetes: true });
        all.insert((Kind::TalosMachine, name), adopted);
    }
    all
}

/// The unit without the versions that do not count.
fn counted(unit: &Unit, adoptions: &BTreeMap<Object, Adoption>) -> Unit {
    let held = |kind, name: &str| {
        adoptions.get(&(kind, name.to_owned())).map(|it| it.held).unwrap_or_default()
    };
    let own = held(Kind::TalosControlPlane, &unit.key.name);
    let mut wanted = unit.clone();
    wanted.kubernetes = wanted.kubernetes.filter(|_| !own.kubernetes);
    wanted.talos = wanted.talos.filter(|_| !own.talos);
    for machine in &mut wanted.machines {
        let parent = match &machine.pool {
            None => own.talos,
            Some(pool) => held(Kind::TalosWorker, pool).talos,
        };
        let single = machine.place.kind == Kind::TalosMachine
            && held(Kind::TalosMachine, &machine.place.name).talos;
        if parent || single {
            (machine.talos, machine.image) = (None, None);
        }
    }
    wanted
}

impl View<'_> {
    /// Whether the control plane is taken over as it is.
    pub(super) fn is_imported(&self) -> bool {
        let object = self.facts.objects.control_plane;
        let status = object.status.as_ref();
        self.facts.unit.mode == ReconcileMode::Import || status.is_some_and(|it| it.imported)
    }
}
