//! One cluster out of many objects.
//!
//! The unit is the `TalosControlPlane`: one plan, one lease and one run at a time for it and for
//! everything that refers to it (rules 1, 6 and 9). Its machines are those of its own list, those
//! of every `TalosWorker` of its namespace that names it, and every `TalosMachine` without a
//! controller owner that refers to one of these.
//!
//! A unit with a [`Problem`] is shown with it, and nothing is started: what is contradictory or
//! incomplete is unsafe (rule 10).

mod build;
mod claims;
mod installer;
mod objects;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use spec_api::{IntOrString, ReconcileMode};
use upgrade_core::image::ImageRef;
use upgrade_core::snapshot::Role;
use upgrade_core::version::Version;

pub use build::{Resolution, build};
pub use claims::Claims;
pub use objects::UnitObjects;
pub use problem::{Kind, Place, Problem, ProblemKind};

/// Which control plane a unit is: its identity is the UID, its name is for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitKey {
    /// Of the `TalosControlPlane`.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// One cluster, as its objects describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The control plane that stands for it.
    pub key: UnitKey,
    /// How far the control plane is reconciled.
    pub mode: ReconcileMode,
    /// The Talos of machines that no other field decides on; `None` leaves them alone.
    pub talos: Option<Version>,
    /// The Kubernetes of the whole cluster; `None` leaves it alone.
    pub kubernetes: Option<Version>,
    /// How many control planes the user wants to be away at once.
    pub max_unavailable: Option<IntOrString>,
    /// The pools of workers, by the names of their objects.
    pub pools: BTreeMap<String, Pool>,
    /// The machines: control planes first, then those of each pool, in the order of the lists.
    pub machines: Vec<Machine>,
    /// `TalosMachine` objects whose machine is not in the list of their parent any more. The
    /// machines keep running.
    pub leftover: Vec<String>,
    /// What is wrong with the objects.
    pub problems: Vec<Problem>,
}

/// A pool of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// How many of it may be away at once.
    pub max_unavailable: Option<IntOrString>,
}

/// A machine, and what it is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Where the user lists it.
    pub place: Place,
    /// Its address.
    pub address: Address,
    /// Control plane or worker.
    pub role: Role,
    /// The pool of a worker.
    pub pool: Option<String>,
    /// Its Talos; `None` leaves it alone.
    pub talos: Option<Version>,
    /// Its installer; `None` keeps what the node has (rule 4). Only with a wanted version.
    pub image: Option<ImageRef>,
    /// The object whose reconcile mode keeps the operator away from the machine.
    pub hold: Option<Place>,
    /// The name of its `TalosMachine`, if it exists.
    pub object: Option<String>,
}

/// The address of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Known.
    Known(IpAddr),
    /// Not known: a reference that is not resolved yet, or a text that is no address. A
    /// [`Problem`] says why.
    Unknown,
}

impl Address {
    /// The address, if it is known.
    pub const fn known(&self) -> Option<IpAddr> {
        match self {
            Self::Known(address) => Some(*address),
            Self::Unknown => None,
        }
    }
}

impl Unit {
    /// The addresses of the control planes, in the order of the list. They are the endpoints of
    /// the Talos API.
    pub fn control_planes(&self) -> impl Iterator<Item = IpAddr> {
        let control_planes = self.machines.iter().filter(|it| it.role == Role::ControlPlane);
        control_planes.filter_map(|machine| machine.address.known())
    }
}
