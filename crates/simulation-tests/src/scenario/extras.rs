//! Manifests in machine configurations besides Talos's own, and objects left from earlier ones.

use kube_sim::names::{CONFIG_MAPS, NAMESPACES};
use kube_sim::object;
use serde::{Deserialize, Serialize};
use serde_json::json;
use talos_sim::kubernetes::Kubernetes;
use talos_sim::model::{ClusterSpec, ExtraManifest};

use kube_sim::random::Random;

/// The additional manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extras {
    /// None.
    #[default]
    None,
    /// A file that every control plane downloads; an object and a namespace are left from one that
    /// was removed.
    Shared,
    /// The same, and the last control plane has one that the others do not.
    Differing,
}

const URL: &str = "https://manifests.example/extra.yaml";

/// One object of each relevant kind, the last one without a namespace.
const FILE: &str = "apiVersion: v1
kind: Namespace
metadata:
  name: extra
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: extra
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: plain
";

const ONLY_HERE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: only-here
  namespace: kube-system
";

const INVENTORY: &str = "talos-bootstrap-manifests-inventory";

impl Extras {
    pub(super) fn draw(random: &mut Random) -> Self {
        match random.below(100) {
            0..70 => Self::None,
            70..84 => Self::Shared,
            _ => Self::Differing,
        }
    }

    /// Adds them to the machine configurations.
    pub(crate) fn name_in(self, spec: &mut ClusterSpec, control_planes: usize) {
        if self == Self::None {
            return;
        }
        let extra = |name: &str, text: Option<&str>, only| ExtraManifest {
            name: name.to_owned(),
            text: text.map(str::to_owned),
            only,
        };
        spec.files.insert(URL.to_owned(), FILE.to_owned());
        spec.extra_manifests.push(extra(URL, None, None));
        if self == Self::Differing {
            let last = Some(control_planes - 1);
            spec.extra_manifests.push(extra("only-here", Some(ONLY_HERE), last));
        }
    }

    /// Adds the leftovers of a removed manifest, if nodes keep an inventory.
    pub(crate) fn leave(self, kubernetes: &mut Kubernetes) {
        let store = kubernetes.api_mut().store_mut();
        if self == Self::None || store.get(&CONFIG_MAPS, "kube-system", INVENTORY).is_none() {
            return;
        }
        let write = kube_sim::Write::by("talos");
        let annotations = json!({"config.k8s.io/owning-inventory": INVENTORY});
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "left-over", "annotations": annotations},
        });
        let settings = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "left-over", "namespace": "kube-system", "annotations": annotations},
        });
        store.create(&write, &NAMESPACES, namespace).expect("a valid object");
        store.create(&write, &CONFIG_MAPS, settings).expect("a valid object");
        let named = store.modify(&write, &CONFIG_MAPS, "kube-system", INVENTORY, |inventory| {
            for key in ["_left-over__Namespace", "kube-system_left-over__ConfigMap"] {
                object::set(inventory, &["data", key], json!(""));
            }
        });
        named.expect("the inventory exists");
    }
}
