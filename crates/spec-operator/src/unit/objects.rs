//! The objects that make up a unit.

use kube::Resource;
use spec_api::reference::ObjectReference;
use spec_api::{TalosControlPlane, TalosMachine, TalosWorker};

use super::UnitKey;

/// The objects of one unit, in the order of their names, so that one state of the hub always
/// gives the same unit.
#[derive(Clone, Debug)]
pub struct UnitObjects<'a> {
    /// The control plane.
    pub control_plane: &'a TalosControlPlane,
    /// Its pools of workers. Those that are being deleted are left out: their machines keep what
    /// they run.
    pub workers: Vec<&'a TalosWorker>,
    /// The machines of both, owned or not.
    pub machines: Vec<&'a TalosMachine>,
}

impl<'a> UnitObjects<'a> {
    /// Chooses the objects of a control plane among those of a hub.
    pub fn of(
        control_plane: &'a TalosControlPlane,
        workers: impl IntoIterator<Item = &'a TalosWorker>,
        machines: impl IntoIterator<Item = &'a TalosMachine>,
    ) -> Self {
        let own = name_of(control_plane);
        let belongs = |worker: &&TalosWorker| {
            same_namespace(*worker, control_plane)
                && worker.control_plane() == Some(own)
                && worker.metadata.deletion_timestamp.is_none()
        };
        let mut workers: Vec<_> = workers.into_iter().filter(belongs).collect();
        workers.sort_by_key(|worker| name_of(*worker));
        let mut unit = Self { control_plane, workers, machines: Vec::new() };
        let mut machines: Vec<_> = machines
            .into_iter()
            .filter(|machine| {
                same_namespace(*machine, control_plane) && unit.parent_of(machine).is_some()
            })
            .collect();
        machines.sort_by_key(|machine| name_of(*machine));
        unit.machines = machines;
        unit
    }

    /// Its key.
    pub fn key(&self) -> UnitKey {
        let meta = &self.control_plane.metadata;
        UnitKey {
            uid: meta.uid.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// Whose machine it is. A controller owner decides, by its UID: a machine whose owner is
    /// another object of an old name belongs to none. Without one its references decide.
    pub(super) fn parent_of(&self, machine: &TalosMachine) -> Option<Parent<'a>> {
        controller(machine).map_or_else(|| self.referred_by(machine), |uid| self.with_uid(uid))
    }

    fn with_uid(&self, uid: &str) -> Option<Parent<'a>> {
        if self.control_plane.metadata.uid.as_deref() == Some(uid) {
            return Some(Parent::ControlPlane(self.control_plane));
        }
        let mut workers = self.workers.iter();
        let worker = workers.find(|worker| worker.metadata.uid.as_deref() == Some(uid))?;
        Some(Parent::Worker(worker))
    }

    fn referred_by(&self, machine: &TalosMachine) -> Option<Parent<'a>> {
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        let refers = |reference: &ObjectReference, name: &str| {
            let local = reference.namespace.is_empty() || reference.namespace == namespace;
            local && reference.name == name
        };
        if let Some(reference) = &machine.spec.control_plane_ref {
            return refers(reference, name_of(self.control_plane))
                .then_some(Parent::ControlPlane(self.control_plane));
        }
        let reference = machine.spec.worker_ref.as_ref()?;
        let worker = self.workers.iter().find(|worker| refers(reference, name_of(**worker)))?;
        Some(Parent::Worker(worker))
    }
}

/// The parent of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parent<'a> {
    /// It is a control plane.
    ControlPlane(&'a TalosControlPlane),
    /// It is a worker of a pool.
    Worker(&'a TalosWorker),
}

impl Parent<'_> {
    pub(super) fn uid(&self) -> Option<&str> {
        match self {
            Self::ControlPlane(object) => object.metadata.uid.as_deref(),
            Self::Worker(object) => object.metadata.uid.as_deref(),
        }
    }
}

/// The UID of the controller owner.
pub(super) fn controller(machine: &TalosMachine) -> Option<&str> {
    let owners = machine.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(&owner.uid)
}

pub(super) fn name_of<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn same_namespace<A: Resource, B: Resource>(one: &A, other: &B) -> bool {
    one.meta().namespace == other.meta().namespace
}
