//! What objects ask for, as text that changes if and only if the user's word does. It tells
//! whether a run is still wanted, and whether an adopted version was changed.
//!
//! Texts are compared as they were written, since a word that cannot be read is a changed word
//! as well.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use spec_api::spec::{MachineEntry, MetalSpec};
use spec_api::{TalosControlPlane, TalosMachine, TalosWorker};
use upgrade_core::product::PerProduct;

use crate::unit::{Unit, UnitObjects};

/// What one object asks for of each product; `None` if it asks for nothing. A version that stands
/// alone is shown as it is, for people who read it in an annotation.
pub type Asks = PerProduct<Option<String>>;

/// What a control plane asks for.
pub fn of_control_plane(object: &TalosControlPlane) -> Asks {
    let spec = &object.spec;
    Asks {
        talos: talos(spec.talos(), spec.metal_spec.as_ref()),
        kubernetes: spec.kubernetes().map(ToOwned::to_owned),
    }
}

/// What a pool asks for.
pub fn of_worker(object: &TalosWorker) -> Asks {
    let talos = talos(object.spec.talos(), object.spec.metal_spec.as_ref());
    Asks { talos, kubernetes: None }
}

/// What a machine asks for that no parent lists.
pub fn of_machine(object: &TalosMachine) -> Asks {
    let spec = &object.spec;
    let image = spec.machine_spec.as_ref().and_then(|settings| settings.image.as_deref());
    let version = filled(Some(&spec.version));
    let talos = match filled(image) {
        None => version.map(ToOwned::to_owned),
        Some(image) => Some(with_hash(version, &json!(image))),
    };
    Asks { talos, kubernetes: None }
}

fn talos(version: Option<&str>, metal: Option<&MetalSpec>) -> Option<String> {
    let (common, own) = metal.map(own).unwrap_or_default();
    if common.is_none() && own.is_empty() {
        return version.map(ToOwned::to_owned);
    }
    Some(with_hash(version, &json!([common, own])))
}

/// The common image, and the entries with a version or an image of their own.
fn own(metal: &MetalSpec) -> (Option<&str>, Vec<Value>) {
    let entries = metal.machines.iter().filter_map(|entry| {
        let (version, image) = (filled(entry.version.as_deref()), filled(entry.image.as_deref()));
        (version.is_some() || image.is_some()).then(|| json!([identity(entry), version, image]))
    });
    (filled(metal.machine_spec.image.as_deref()), entries.collect())
}

/// Which machine an entry means, whatever its reference leads to at the moment.
fn identity(entry: &MachineEntry) -> Value {
    json!([entry.address, entry.machine_ref])
}

fn with_hash(version: Option<&str>, rest: &Value) -> String {
    format!("{}+{}", version.unwrap_or("none"), hash(rest))
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// Enough digits to tell the words of one cluster apart.
fn hash(value: &Value) -> String {
    let digest: [u8; 32] = Sha256::digest(value.to_string().as_bytes()).into();
    let head = digest.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
    format!("{head:016x}")
}

/// What a user asks for with a whole unit: stored with a run when it begins, compared later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// For each product, what was asked for. Kubernetes does not depend on the wanted Talos, so
    /// that a change of one version does not end a run of the other.
    pub products: PerProduct<String>,
    /// The value of the annotation that lets a failed upgrade be tried again.
    pub retry: Option<String>,
}

impl Asked {
    /// As it is stored with a run.
    pub fn to_text(&self) -> String {
        let Self { products: PerProduct { talos, kubernetes }, retry } = self;
        json!({"talos": talos, "kubernetes": kubernetes, "retry": retry}).to_string()
    }

    /// Reads what was stored; `None` if it cannot be read, which counts as not known.
    pub fn from_text(text: &str) -> Option<Self> {
        let stored: Value = serde_json::from_str(text).ok()?;
        let field = |name: &str| stored.get(name)?.as_str().map(ToOwned::to_owned);
        let products = PerProduct { talos: field("talos")?, kubernetes: field("kubernetes")? };
        Some(Self { products, retry: field("retry") })
    }

    /// What is asked for now. Holds are a part of it: a machine that the user takes away has to
    /// leave a run that goes on (rule 12). The lists of machines are, too.
    pub fn of(
        objects: &UnitObjects<'_>,
        unit: &Unit,
        rollback: bool,
        retry: Option<String>,
    ) -> Self {
        let control_plane = of_control_plane(objects.control_plane);
        let lists = |metal: Option<&MetalSpec>| -> Vec<Value> {
            metal.map(|metal| metal.machines.iter().map(identity).collect()).unwrap_or_default()
        };
        let workers: Vec<Value> = objects
            .workers
            .iter()
            .map(|worker| {
                let name = worker.metadata.name.as_deref();
                json!([name, of_worker(worker).talos, lists(worker.spec.metal_spec.as_ref())])
            })
            .collect();
        let single =
            unit.machines.iter().filter(|it| it.place.kind == crate::unit::Kind::TalosMachine);
        let names: Vec<_> = single.map(|machine| machine.place.name.as_str()).collect();
        let machines: Vec<Value> = objects
            .machines
            .iter()
            .filter(|it| it.metadata.name.as_deref().is_some_and(|name| names.contains(&name)))
            .map(|machine| json!([machine.metadata.name, of_machine(machine).talos]))
            .collect();
        let holds: Vec<_> = unit
            .machines
            .iter()
            .filter_map(|it| it.hold.as_ref())
            .map(ToString::to_string)
            .collect();
        let own = lists(objects.control_plane.spec.metal_spec.as_ref());
        let talos = json!([control_plane.talos, own, workers, machines, holds, rollback]);
        let kubernetes = json!([control_plane.kubernetes, holds, rollback]);
        Self { products: PerProduct { talos: hash(&talos), kubernetes: hash(&kubernetes) }, retry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::{Hub, control_plane, machines, single, worker};

    fn asked(hub: &Hub) -> Asked {
        Asked::of(&hub.objects(), &hub.unit(), false, None)
    }

    /// Which products a change concerns.
    fn changed(change: impl FnOnce(&mut Hub)) -> (bool, bool) {
        let mut hub = Hub::usual();
        let before = asked(&hub).products;
        change(&mut hub);
        let after = asked(&hub).products;
        (before.talos != after.talos, before.kubernetes != after.kubernetes)
    }

    #[test]
    fn a_changed_word_concerns_its_product() {
        let version = || Some("v1.13.8".to_owned());
        assert_eq!(changed(|_| {}), (false, false));
        assert_eq!(changed(|hub| hub.control_planes[0].spec.version = version()), (true, false));
        assert_eq!(changed(|hub| hub.workers[0].spec.version = version()), (true, false));
        assert_eq!(
            changed(|hub| hub.control_planes[0].spec.kube_version = Some("v1.36.0".to_owned())),
            (false, true)
        );
        assert_eq!(changed(|hub| hub.hold_worker(0)), (true, true));
        let list = |hub: &mut Hub| hub.workers[0].spec.metal_spec = None;
        assert_eq!(changed(list), (true, false));
        let entry = |hub: &mut Hub| {
            let metal = hub.workers[0].spec.metal_spec.as_mut().expect("machines");
            metal.machines[0].version = version();
        };
        assert_eq!(changed(entry), (true, false));
        let image = |hub: &mut Hub| {
            let metal = hub.control_planes[0].spec.metal_spec.as_mut().expect("machines");
            metal.machine_spec.image = Some("ghcr.io/a/installer".to_owned());
        };
        assert_eq!(changed(image), (true, false));
        let lone = json!({"endpoint": "10.0.0.9", "workerRef": {"name": "blue"}});
        assert_eq!(changed(|hub| hub.machines.push(single("lone", lone))), (true, false));
    }

    #[test]
    fn a_word_is_stored_and_read_again() {
        let asked = asked(&Hub::usual());
        for retry in [None, Some("1".to_owned())] {
            let asked = Asked { retry, ..asked.clone() };
            assert_eq!(Asked::from_text(&asked.to_text()), Some(asked));
        }
        for wrong in ["", "{}", r#"{"talos": "a"}"#, "v1.13.9"] {
            assert_eq!(Asked::from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_word_changes_nothing() {
        let other = |hub: &mut Hub| {
            let object = &mut hub.control_planes[0];
            object.metadata.generation = Some(7);
            object.spec.endpoint = Some("https://10.0.0.1:6443".to_owned());
            object.spec.deletion_policy = Some("preserve".to_owned());
            hub.workers.push(worker("red", json!({"metalSpec": machines(&[])})));
            hub.workers.pop();
        };
        assert_eq!(changed(other), (false, false));
    }

    #[test]
    fn a_version_that_stands_alone_can_be_read() {
        let asks = |spec| of_control_plane(&control_plane("prod", spec));
        let plain = asks(json!({"version": "v1.13.9", "kubeVersion": "v1.35.0",
            "metalSpec": machines(&["10.0.0.1"])}));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(plain, Asks { talos: text("v1.13.9"), kubernetes: text("v1.35.0") });
        assert_eq!(asks(json!({"version": ""})), Asks::default());
        let pinned = json!({"machines": [{"address": "10.0.0.1", "version": "v1.13.8"}]});
        let pinned = asks(json!({"version": "v1.13.9", "metalSpec": pinned})).talos;
        assert!(pinned.expect("asked for").starts_with("v1.13.9+"));
        let only = json!({"machines": [{"address": "10.0.0.1", "image": "a"}]});
        assert!(asks(json!({"metalSpec": only})).talos.expect("asked for").starts_with("none+"));
    }

    #[test]
    fn a_machine_asks_with_version_and_image() {
        let asks = |spec| of_machine(&single("a", spec)).talos;
        let plain = json!({"endpoint": "10.0.0.1", "version": "v1.13.9"});
        assert_eq!(asks(plain).as_deref(), Some("v1.13.9"));
        let image = json!({"endpoint": "10.0.0.1", "version": "v1.13.9",
            "machineSpec": {"image": "a"}});
        assert!(asks(image).expect("asked for").starts_with("v1.13.9+"));
        assert_eq!(asks(json!({"endpoint": "10.0.0.1"})), None);
    }
}
