//! Initial worlds. Booting a cluster takes longer than copying one, so each shape is created once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use talos_sim::kubernetes::Kubernetes;
use talos_sim::model::{ClusterSpec, FaultKind, NodeIndex, World};

use crate::scenario::{Extras, Kit, Machines, Scenario, Trouble, TroubleKind};
use crate::world::{START, time};

/// The properties that make initial worlds equal.
type Shape = (usize, usize, String, String, [bool; 3], Machines, Extras, Kit);

/// How many worlds are kept: a gigabyte or two. There are tens of thousands of shapes.
const MOST: usize = 2_000;

/// The created worlds, by shape.
type Made = HashMap<Shape, Template>;

/// A created world, and whether it was copied again since the cache was full.
struct Template {
    world: Arc<(World, Kubernetes)>,
    reused: bool,
}

/// A cache of initial worlds. Clones share it.
#[derive(Clone, Default)]
pub struct Templates(Arc<Mutex<Made>>);

impl Templates {
    /// The initial world of a scenario.
    pub fn world(&self, scenario: &Scenario) -> (World, Kubernetes) {
        let Scenario { control_planes, workers, extended, flannel, grub, machines, .. } = scenario;
        let Scenario { extras, kit, .. } = scenario;
        let (talos, kubernetes) = (scenario.talos.to_string(), scenario.kubernetes.to_string());
        let flags = [*extended, *flannel, *grub];
        let shape = (*control_planes, *workers, talos, kubernetes, flags, *machines, *extras, *kit);
        let template = self.known(&shape).unwrap_or_else(|| {
            // Without the lock, so that others need not wait. Creating it twice gives the same world.
            let made = Arc::new(make(scenario));
            self.keep(shape, Arc::clone(&made));
            made
        });
        let (mut world, mut kubernetes) = (*template).clone();
        scenario.foreign.register(&mut kubernetes, &scenario.kubernetes);
        world.reseed(scenario.seed);
        world.discover_by(scenario.discovery);
        for trouble in &scenario.troubles {
            // This fault exists before the run starts.
            if let Trouble { after: 0, kind: TroubleKind::Fault { node, fault, .. } } = trouble
                && fault.kind() == FaultKind::FailingManifest
            {
                world.inject(time(START), Some(NodeIndex(*node)), fault);
            }
        }
        (world, kubernetes)
    }

    fn known(&self, shape: &Shape) -> Option<Arc<(World, Kubernetes)>> {
        let mut made = self.lock();
        let template = made.get_mut(shape)?;
        template.reused = true;
        Some(Arc::clone(&template.world))
    }

    /// Keeps a world. If there are too many, those that were not reused make room for it.
    fn keep(&self, shape: Shape, world: Arc<(World, Kubernetes)>) {
        let mut made = self.lock();
        if made.len() >= MOST {
            made.retain(|_, template| std::mem::take(&mut template.reused));
        }
        made.insert(shape, Template { world, reused: false });
    }

    fn lock(&self) -> MutexGuard<'_, Made> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make(scenario: &Scenario) -> (World, Kubernetes) {
    let Scenario { control_planes, workers, talos, kubernetes, extended, kit, .. } = scenario;
    let mut spec = ClusterSpec::new(*control_planes, *workers, talos, kubernetes);
    spec.flannel = scenario.flannel;
    spec.grub = scenario.grub;
    scenario.extras.name_in(&mut spec, *control_planes);
    spec.registry.others.push("registry.example/app:1".to_owned());
    scenario.machines.make(&mut spec, *extended);
    let world = World::new(&spec, 1, time(START));
    let mut kubernetes =
        Kubernetes::brief(&world, 1, &kit.objects()).expect("the workloads are valid objects");
    label_pool(&mut kubernetes, *workers);
    scenario.extras.leave(&mut kubernetes);
    (world, kubernetes)
}

/// Puts every third worker into its own pool.
fn label_pool(kubernetes: &mut Kubernetes, workers: usize) {
    let write = kube_sim::Write::by("pools");
    for number in (1..=workers).filter(|number| number % 3 == 0) {
        let name = format!("worker-{number}");
        let label = upgrade_core::policy::POOL_LABEL;
        let labelled = kubernetes.api_mut().store_mut().modify(
            &write,
            &kube_sim::names::NODES,
            "",
            &name,
            |node| kube_sim::object::set(node, &["metadata", "labels", label], json!("gpu")),
        );
        labelled.expect("the node exists");
    }
}
