//! The facts of a machine: everything that a kubelet knows about its node.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The state of a machine at one moment.
#[expect(clippy::struct_excessive_bools, reason = "each is a plain fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// The name that it registers under.
    pub name: String,
    /// Its internal addresses, the main one first.
    pub addresses: Vec<String>,
    /// Whether it is a control plane.
    pub control_plane: bool,
    /// Whether this control plane also runs workloads.
    pub runs_workloads: bool,
    /// Whether its kubelet runs. If it does not, nothing is reported.
    pub kubelet_up: bool,
    /// Whether the kubelet reports the node as ready.
    pub ready: bool,
    /// The version of the kubelet, `v1.35.0`.
    pub kubelet_version: String,
    /// Changes with every boot.
    pub boot_id: String,
    /// The operating system, as reported in `osImage`.
    pub os_image: String,
    /// The version of the kernel.
    pub kernel: String,
    /// The container runtime, `containerd://2.1.4`.
    pub runtime: String,
    /// The processor's architecture, in Go's notation.
    pub architecture: String,
    /// Thousandths of a processor.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// The maximum number of pods.
    pub pods: u32,
    /// Labels beyond those of every node.
    pub labels: BTreeMap<String, String>,
    /// Annotations beyond those of every node.
    pub annotations: BTreeMap<String, String>,
    /// Images on the node, by purpose.
    pub images: BTreeMap<String, String>,
    /// Its static pods.
    pub static_pods: Vec<StaticPod>,
    /// Its faults.
    pub faults: NodeFaults,
}

impl NodeFacts {
    /// A healthy node.
    pub fn new(name: &str, address: &str, control_plane: bool) -> Self {
        Self {
            name: name.to_owned(),
            addresses: vec![address.to_owned()],
            control_plane,
            runs_workloads: false,
            kubelet_up: true,
            ready: true,
            kubelet_version: "v1.35.0".to_owned(),
            boot_id: "1".to_owned(),
            os_image: "Talos (v1.13.0)".to_owned(),
            kernel: "6.18.0-talos".to_owned(),
            runtime: "containerd://2.1.4".to_owned(),
            architecture: "amd64".to_owned(),
            cpu_millis: 4000,
            memory: 8 << 30,
            pods: 110,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            images: BTreeMap::new(),
            static_pods: Vec::new(),
            faults: NodeFaults::default(),
        }
    }

    /// The main address.
    pub fn address(&self) -> &str {
        self.addresses.first().map_or("", String::as_str)
    }
}

/// A static pod of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticPod {
    /// The component, `kube-apiserver`.
    pub component: String,
    /// Its image.
    pub image: String,
    /// Whether it is ready.
    pub ready: bool,
    /// The version of the resource it was made from.
    pub config_version: u64,
    /// The versions of the files that it reads, if it reads any.
    #[serde(default)]
    pub config_file_version: Option<String>,
    /// The hash of its definition. A pod with another hash is another pod.
    pub config_hash: String,
}

/// The faults of a node. A kubelet that never comes back needs no fault of its own:
/// [`kubelet_up`](NodeFacts::kubelet_up) stays false.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFaults {
    /// Prefixes of images that cannot be pulled.
    pub unpullable: Vec<String>,
    /// Volumes are never detached.
    pub volumes_stay: bool,
    /// The budgets of its pods allow no eviction. This is a fault of the API server, not of the
    /// kubelet, and only the embedded API server implements it.
    #[serde(default)]
    pub budgets_stuck: bool,
}

/// Durations: the shortest and the longest of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// From a bound pod to a running one.
    pub start: (Duration, Duration),
    /// From a running pod to a ready one.
    pub ready: (Duration, Duration),
    /// From deletion to termination, unless the pod has a hook or a longer grace period than the
    /// default 30 seconds: then it uses all of it.
    pub stop: (Duration, Duration),
    /// The work of a job.
    pub work: (Duration, Duration),
    /// Attaching and detaching a volume.
    pub volume: (Duration, Duration),
}

impl Timings {
    /// The same durations divided by `speed`.
    #[must_use]
    pub fn faster(&self, speed: f64) -> Self {
        let range = |(from, to): (Duration, Duration)| (from.div_f64(speed), to.div_f64(speed));
        Self {
            start: range(self.start),
            ready: range(self.ready),
            stop: range(self.stop),
            work: range(self.work),
            volume: range(self.volume),
        }
    }
}

impl Default for Timings {
    fn default() -> Self {
        let range = |from, to| (Duration::from_millis(from), Duration::from_millis(to));
        Self {
            start: range(800, 3000),
            ready: range(500, 2500),
            stop: range(500, 2500),
            work: range(2000, 8000),
            volume: range(500, 2000),
        }
    }
}
