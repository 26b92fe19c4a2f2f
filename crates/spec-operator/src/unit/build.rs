//! From objects to a unit.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use spec_api::reference::ObjectReference;
use spec_api::spec::{MachineEntry, MetalSpec, Mode, RolloutStrategy};
use spec_api::{ReconcileMode, TalosMachine, TalosWorker};
use upgrade_core::snapshot::Role;
use upgrade_core::version::Version;

use super::installer::installer;
use super::objects::{Parent, UnitObjects, controller, name_of};
use super::problem::{Kind, Place, Problem, ProblemKind};
use super::{Address, Machine, Pool, Unit};

/// What a reference to an object with an address leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// A text that should be an address.
    Found(String),
    /// None, and why.
    Missing(String),
}

/// Makes a unit out of its objects. `resolve` says where a `machineRef` leads: the objects that
/// it names are read elsewhere.
pub fn build(objects: &UnitObjects<'_>, resolve: &dyn Fn(&ObjectReference) -> Resolution) -> Unit {
    let mut builder = Builder { objects, resolve, machines: Vec::new(), problems: Vec::new() };
    let object = objects.control_plane;
    let spec = &object.spec;
    let place = |path: &str| Place::new(Kind::TalosControlPlane, name_of(object), path);
    let talos = builder.version(spec.talos(), &place("spec.version"));
    let kubernetes = builder.version(spec.kubernetes(), &place("spec.kubeVersion"));
    let parent = Parent::ControlPlane(object);
    builder.parent(&parent, spec.mode(), &spec.mode, spec.metal_spec.as_ref(), talos.as_ref());
    if builder.machines.is_empty() && builder.problems.is_empty() {
        builder.problem(place("spec.metalSpec.machines"), ProblemKind::NoMachines);
    }
    let mut pools = BTreeMap::new();
    for worker in &objects.workers {
        let limit = limit(worker.spec.rollout_strategy.as_ref());
        pools.insert(name_of(*worker).to_owned(), Pool { max_unavailable: limit });
        builder.worker(worker);
    }
    builder.listed_twice();
    let leftover = builder.leftover();
    let Builder { machines, problems, .. } = builder;
    Unit {
        key: objects.key(),
        mode: object.reconcile_mode(),
        talos,
        kubernetes,
        max_unavailable: limit(spec.rollout_strategy.as_ref()),
        pools,
        machines,
        leftover,
        problems,
    }
}

fn limit(strategy: Option<&RolloutStrategy>) -> Option<spec_api::IntOrString> {
    strategy.and_then(RolloutStrategy::max_unavailable).cloned()
}

struct Builder<'a, 'b> {
    objects: &'b UnitObjects<'a>,
    resolve: &'b dyn Fn(&ObjectReference) -> Resolution,
    machines: Vec<Machine>,
    problems: Vec<Problem>,
}

impl Builder<'_, '_> {
    fn problem(&mut self, place: Place, kind: ProblemKind) {
        self.problems.push(Problem::new(place, kind));
    }

    fn version(&mut self, text: Option<&str>, place: &Place) -> Option<Version> {
        match text?.parse() {
            Ok(version) => Some(version),
            Err(error) => {
                self.problem(place.clone(), ProblemKind::NotAVersion(error));
                None
            }
        }
    }

    fn worker(&mut self, worker: &TalosWorker) {
        let spec = &worker.spec;
        let place = Place::new(Kind::TalosWorker, name_of(worker), "spec.version");
        let talos = self.version(spec.talos(), &place);
        let parent = Parent::Worker(worker);
        self.parent(&parent, spec.mode(), &spec.mode, spec.metal_spec.as_ref(), talos.as_ref());
    }

    /// The machines of a parent: those of its list, then those that only refer to it.
    fn parent(
        &mut self,
        parent: &Parent<'_>,
        mode: Option<Mode>,
        written: &str,
        metal: Option<&MetalSpec>,
        talos: Option<&Version>,
    ) {
        if mode != Some(Mode::Metal) {
            let mode = written.to_owned();
            self.problem(parent.place("spec.mode"), ProblemKind::UnsupportedMode { mode });
            return;
        }
        let empty = MetalSpec::default();
        let MetalSpec { machine_spec, machines } = metal.unwrap_or(&empty);
        let common = machine_spec.image.as_deref();
        for (index, entry) in machines.iter().enumerate() {
            let place = parent.place(&format!("spec.metalSpec.machines[{index}]"));
            self.entry(parent, &place, entry, talos, common);
        }
        for machine in self.objects.machines.iter().filter(|it| controller(it).is_none()) {
            if self.objects.parent_of(machine).is_some_and(|it| it.uid() == parent.uid()) {
                self.single(parent, machine, talos, common);
            }
        }
    }

    /// A machine in the list of its parent.
    fn entry(
        &mut self,
        parent: &Parent<'_>,
        place: &Place,
        entry: &MachineEntry,
        talos: Option<&Version>,
        common: Option<&str>,
    ) {
        let address = self.address(place, entry);
        let own = entry.version.as_deref().filter(|version| !version.is_empty());
        let talos = match own {
            Some(_) => self.version(own, &place.field("version")),
            None => talos.cloned(),
        };
        let (image, image_place) = match filled(entry.image.as_deref()) {
            Some(image) => (Some(image), place.field("image")),
            None => (filled(common), parent.place("spec.metalSpec.machineSpec.image")),
        };
        let image = self.image(image, image_place, talos.as_ref());
        let object = address.known().and_then(|address| self.owned(parent, address));
        let hold = parent.hold().or_else(|| object.and_then(held));
        self.machines.push(Machine {
            place: place.clone(),
            address,
            role: parent.role(),
            pool: parent.pool(),
            talos,
            image,
            hold,
            object: object.map(|object| name_of(object).to_owned()),
        });
    }

    /// A machine that is in no list and refers to its parent. Its own version counts only where
    /// the parent has none.
    fn single(
        &mut self,
        parent: &Parent<'_>,
        machine: &TalosMachine,
        talos: Option<&Version>,
        common: Option<&str>,
    ) {
        let name = name_of(machine);
        let place = Place::new(Kind::TalosMachine, name, "spec");
        let spec = &machine.spec;
        let address = self.parsed(&spec.endpoint, &place.field("endpoint"));
        let own = Some(spec.version.as_str()).filter(|version| !version.is_empty());
        let talos = match talos {
            Some(talos) => Some(talos.clone()),
            None => self.version(own, &place.field("version")),
        };
        let image = spec.machine_spec.as_ref().and_then(|settings| settings.image.as_deref());
        let (image, image_place) = match filled(image) {
            Some(image) => (Some(image), place.field("machineSpec.image")),
            None => (filled(common), parent.place("spec.metalSpec.machineSpec.image")),
        };
        let image = self.image(image, image_place, talos.as_ref());
        self.machines.push(Machine {
            place,
            address,
            role: parent.role(),
            pool: parent.pool(),
            talos,
            image,
            hold: parent.hold().or_else(|| held(machine)),
            object: Some(name.to_owned()),
        });
    }

    fn address(&mut self, place: &Place, entry: &MachineEntry) -> Address {
        let place = match (&entry.address, &entry.machine_ref) {
            (Some(text), _) => return self.parsed(text, &place.field("address")),
            (None, Some(reference)) => {
                let place = place.field("machineRef");
                match (self.resolve)(reference) {
                    Resolution::Found(text) => return self.parsed(&text, &place),
                    Resolution::Missing(why) => {
                        let target = format!("{} {}", reference.kind, reference.name);
                        self.problem(place, ProblemKind::NotResolved { target, why });
                    }
                }
                return Address::Unknown;
            }
            (None, None) => place.field("address"),
        };
        self.parsed("", &place)
    }

    fn parsed(&mut self, text: &str, place: &Place) -> Address {
        if let Ok(address) = text.trim().parse::<IpAddr>() {
            return Address::Known(address);
        }
        self.problem(place.clone(), ProblemKind::NotAnAddress { text: text.to_owned() });
        Address::Unknown
    }

    fn image(
        &mut self,
        image: Option<&str>,
        place: Place,
        talos: Option<&Version>,
    ) -> Option<upgrade_core::image::ImageRef> {
        // Without a version nothing is installed.
        let (image, talos) = image.zip(talos)?;
        match installer(image, talos) {
            Ok(image) => Some(image),
            Err(kind) => {
                // The image of a whole list is wrong once, not once for each machine.
                let problem = Problem::new(place, kind);
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
                None
            }
        }
    }

    /// The object of a listed machine: the parent made it, for this address.
    fn owned(&self, parent: &Parent<'_>, address: IpAddr) -> Option<&TalosMachine> {
        let machines = self.objects.machines.iter().copied();
        machines.filter(|machine| controller(machine).is_some()).find(|machine| {
            machine.spec.endpoint.trim().parse() == Ok(address)
                && controller(machine) == parent.uid()
        })
    }

    /// Objects that a parent made for machines that it does not list any more.
    fn leftover(&self) -> Vec<String> {
        let listed: BTreeSet<_> =
            self.machines.iter().filter_map(|it| it.object.as_deref()).collect();
        let machines = self.objects.machines.iter().filter(|it| controller(it).is_some());
        let names = machines.map(|machine| name_of(*machine));
        names.filter(|name| !listed.contains(name)).map(ToOwned::to_owned).collect()
    }

    fn listed_twice(&mut self) {
        let mut first: BTreeMap<IpAddr, &Place> = BTreeMap::new();
        let mut problems = Vec::new();
        for machine in &self.machines {
            let Some(address) = machine.address.known() else { continue };
            let Some(other) = first.get(&address) else {
                first.insert(address, &machine.place);
                continue;
            };
            let kind = ProblemKind::ListedTwice { address, other: (*other).clone() };
            problems.push(Problem::new(machine.place.clone(), kind));
        }
        self.problems.append(&mut problems);
    }
}

impl Parent<'_> {
    fn place(&self, path: &str) -> Place {
        match self {
            Self::ControlPlane(it) => Place::new(Kind::TalosControlPlane, name_of(*it), path),
            Self::Worker(it) => Place::new(Kind::TalosWorker, name_of(*it), path),
        }
    }

    const fn role(&self) -> Role {
        match self {
            Self::ControlPlane(_) => Role::ControlPlane,
            Self::Worker(_) => Role::Worker,
        }
    }

    fn pool(&self) -> Option<String> {
        match self {
            Self::ControlPlane(_) => None,
            Self::Worker(worker) => Some(name_of(*worker).to_owned()),
        }
    }

    /// The mode of the control plane concerns the whole unit and is decided on there.
    fn hold(&self) -> Option<Place> {
        match self {
            Self::ControlPlane(_) => None,
            Self::Worker(worker) => {
                holds(worker.reconcile_mode()).then(|| self.place("metadata.annotations"))
            }
        }
    }
}

fn held(machine: &TalosMachine) -> Option<Place> {
    let place = Place::new(Kind::TalosMachine, name_of(machine), "metadata.annotations");
    holds(machine.reconcile_mode()).then_some(place)
}

/// Whether a pool or a machine with this mode is left alone. A dry run changes nothing, and the
/// rest of the cluster is not one.
const fn holds(mode: ReconcileMode) -> bool {
    match mode {
        ReconcileMode::Disable | ReconcileMode::DryRun => true,
        ReconcileMode::Reconcile | ReconcileMode::Import => false,
    }
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
