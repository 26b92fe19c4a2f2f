//! What a machine tells of itself: all that a kubelet knows of its node.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A node as the machine under it is at one moment.
#[expect(clippy::struct_excessive_bools, reason = "each is a plain fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// The name that it registers under.
    pub name: String,
    /// Its internal addresses, the main one first.
    pub addresses: Vec<String>,
    /// Whether it is a control plane.
    pub control_plane: bool,
    /// Whether workloads may run on it although it is a control plane.
    pub runs_workloads: bool,
    /// Whether its kubelet runs. If it does not, nothing is reported.
    pub kubelet_up: bool,
    /// Whether the kubelet calls the node ready.
    pub ready: bool,
    /// The version of the kubelet, `v1.35.0`.
    pub kubelet_version: String,
    /// Changes with every boot.
    pub boot_id: String,
    /// The operating system in words.
    pub os_image: String,
    /// The version of the kernel.
    pub kernel: String,
    /// The container runtime, `containerd://2.1.4`.
    pub runtime: String,
    /// The processor's architecture, as Go calls it.
    pub architecture: String,
    /// Thousandths of a processor.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// How many pods fit.
    pub pods: u32,
    /// Labels beyond those of every node.
    pub labels: BTreeMap<String, String>,
    /// Annotations beyond those of every node.
    pub annotations: BTreeMap<String, String>,
    /// Images on the node, by what they are for.
    pub images: BTreeMap<String, String>,
    /// Its static pods.
    pub static_pods: Vec<StaticPod>,
    /// What is wrong with it.
    pub faults: NodeFaults,
}

impl NodeFacts {
    /// A node in good order.
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
    /// Whether it answers.
    pub ready: bool,
    /// The version of the resource it was made from.
    pub config_version: u64,
    /// The versions of the files that it reads, if it reads any.
    #[serde(default)]
    pub config_file_version: Option<String>,
    /// The hash of its definition. A pod with another hash is another pod.
    pub config_hash: String,
}

/// What is wrong with a node. A kubelet that never comes back needs no word of
/// its own: its node never says [`kubelet_up`](NodeFacts::kubelet_up) again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFaults {
    /// Images that cannot be pulled: those that begin so.
    pub unpullable: Vec<String>,
    /// Volumes stay attached for ever.
    pub volumes_stay: bool,
    /// The budgets of its pods allow no eviction. That is the API server's
    /// affair, not the kubelet's, and only the embedded one obeys.
    #[serde(default)]
    pub budgets_stuck: bool,
}

/// How long things take: the shortest and the longest time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// From a bound pod to a running one.
    pub start: (Duration, Duration),
    /// From a running pod to a ready one.
    pub ready: (Duration, Duration),
    /// From the wish to stop to the end, if the pod has no hook and does not
    /// ask for more than the usual half minute: then it takes all it may.
    pub stop: (Duration, Duration),
    /// The work of a job.
    pub work: (Duration, Duration),
    /// Attaching and detaching a volume.
    pub volume: (Duration, Duration),
}

impl Timings {
    /// The same where time passes so many times as fast.
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
