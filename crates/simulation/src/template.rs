//! Worlds to begin with. A cluster that has come up takes longer to make than
//! to copy, so those of the same shape are made once.

use std::collections::HashMap;

use serde_json::json;
use talos_sim::kubernetes::Kubernetes;
use talos_sim::model::{ClusterSpec, Schematic, World};

use crate::scenario::Scenario;
use crate::world::{EXTENDED, EXTENSION, START, time};

/// How many shapes are kept; the large ones take some megabytes each.
const KEPT: usize = 400;

/// What makes worlds the same at first.
type Shape = (usize, usize, String, String, bool, crate::scenario::Kit);

/// Worlds of shapes that were met before.
#[derive(Default)]
pub struct Templates(HashMap<Shape, (World, Kubernetes)>);

impl Templates {
    /// The world that a scenario begins in.
    pub fn world(&mut self, scenario: &Scenario) -> (World, Kubernetes) {
        let Scenario { control_planes, workers, talos, kubernetes, extended, kit, .. } = scenario;
        let shape =
            (*control_planes, *workers, talos.to_string(), kubernetes.to_string(), *extended, *kit);
        if self.0.len() >= KEPT && !self.0.contains_key(&shape) {
            self.0.clear();
        }
        let (world, kubernetes) = self.0.entry(shape).or_insert_with(|| make(scenario));
        let (mut world, kubernetes) = (world.clone(), kubernetes.clone());
        world.reseed(scenario.seed);
        (world, kubernetes)
    }
}

fn make(scenario: &Scenario) -> (World, Kubernetes) {
    let Scenario { control_planes, workers, talos, kubernetes, extended, kit, .. } = scenario;
    let mut spec = ClusterSpec::new(*control_planes, *workers, talos, kubernetes);
    let schematic = Schematic {
        yaml: "customization:\n  systemExtensions:\n    officialExtensions:\n      - \
               siderolabs/iscsi-tools\n"
            .to_owned(),
        extensions: vec![EXTENSION.to_owned()],
    };
    spec.registry.schematics.insert(EXTENDED.to_owned(), schematic);
    spec.registry.others.push("registry.example/app:1".to_owned());
    if *extended {
        for node in &mut spec.nodes {
            node.schematic = Some(EXTENDED.to_owned());
        }
    }
    let world = World::new(&spec, 1, time(START));
    let mut kubernetes =
        Kubernetes::brief(&world, 1, &kit.objects()).expect("the kits are made of good objects");
    label_pool(&mut kubernetes, *workers);
    (world, kubernetes)
}

/// Every third worker is in a pool of its own.
fn label_pool(kubernetes: &mut Kubernetes, workers: usize) {
    let write = kube_sim::Write::by("pools");
    for number in (1..=workers).filter(|number| number % 3 == 0) {
        let name = format!("worker-{number}");
        let label = upgrade_engine::observe::POOL_LABEL;
        let labelled = kubernetes.api_mut().store_mut().modify(
            &write,
            &kube_sim::names::NODES,
            "",
            &name,
            |node| kube_sim::object::set(node, &["metadata", "labels", label], json!("gpu")),
        );
        labelled.expect("the node is there");
    }
}
