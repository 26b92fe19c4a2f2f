//! A scenario: everything that defines one simulated run. `draw` creates it from a seed; it is
//! plain data and is saved when it fails, so that it stays the same when the drawing changes.

mod draw;
mod extras;
mod foreign;
mod machines;
mod nodes;
mod policy;
mod troubles;
pub mod workloads;

use serde::{Deserialize, Serialize};
use talos_sim::model::{Discovery, Fault};
use upgrade_core::intent::Intent;
use upgrade_core::policy::Policy;
use upgrade_core::version::Version;

pub use draw::draw;
pub use extras::Extras;
pub use foreign::Foreign;
pub use machines::{Machines, Named, Platform};
pub use workloads::Kit;

pub(crate) use foreign::{EDGE, EDGE_ADDRESS};
pub(crate) use machines::OWN;

use crate::crash::Point;
use crate::network::NetworkConditions;

/// One simulated run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The seed of the world's randomness and of the network.
    pub seed: u64,
    /// The number of control planes.
    pub control_planes: usize,
    /// The number of workers.
    pub workers: usize,
    /// The initial Talos version of all nodes.
    pub talos: Version,
    /// The initial version of all Kubernetes components.
    pub kubernetes: Version,
    /// Whether the nodes' images contain an extension.
    pub extended: bool,
    /// Whether Talos installs the pod network; otherwise someone else does.
    #[serde(default = "usual")]
    pub flannel: bool,
    /// Whether GRUB boots the nodes, which does not report the next boot.
    #[serde(default)]
    pub grub: bool,
    /// The properties of the machines.
    #[serde(default)]
    pub machines: Machines,
    /// Manifests besides Talos's own.
    #[serde(default)]
    pub extras: Extras,
    /// How the nodes discover each other.
    #[serde(default)]
    pub discovery: Discovery,
    /// Whether Kubernetes has a node that is not a Talos machine.
    #[serde(default)]
    pub foreign: Foreign,
    /// The workloads of the cluster.
    pub kit: Kit,
    /// The user's policy.
    pub policy: Policy,
    /// The user's targets, one after the other.
    pub wants: Vec<Want>,
    /// What goes wrong, and what others do.
    pub troubles: Vec<Trouble>,
}

fn usual() -> bool {
    true
}

/// A target of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Want {
    /// An upgrade, or a rollback of all nodes or of Kubernetes.
    Versions(Intent),
    /// The rollback of one node, by number, to its other slot.
    Back(usize),
}

/// An event that disturbs the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// Seconds after the start.
    pub after: u64,
    /// The kind of event.
    pub kind: TroubleKind,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    /// A fault of the simulator, for a number of seconds.
    Fault {
        /// The node, by number.
        node: usize,
        /// The fault.
        fault: Fault,
        /// Its duration in seconds.
        lasts: u64,
    },
    /// A bad network, for a number of seconds.
    Wires {
        /// How bad.
        weather: NetworkConditions,
        /// Its duration in seconds.
        lasts: u64,
    },
    /// The process is killed at the nth pass of a point; another one starts a number of seconds
    /// later. The trouble's own time is ignored.
    Crash {
        /// The point.
        point: Point,
        /// Which pass.
        number: u32,
    },
    /// The process is suspended for a number of seconds.
    Still {
        /// Its duration in seconds.
        lasts: u64,
    },
    /// The process cannot renew its lease for a number of seconds.
    LeaseLost {
        /// Its duration in seconds.
        lasts: u64,
    },
    /// Another process is started for the same run.
    SecondRunner,
    /// The user pauses, and resumes a number of seconds later, or not at all.
    Pause {
        /// Seconds until the run resumes.
        lasts: Option<u64>,
    },
    /// The user sets the next target now.
    Retarget,
    /// The user stops the run, and resumes it a number of seconds later.
    Stop {
        /// Seconds until the run resumes.
        lasts: u64,
    },
    /// Someone cordons a node, and uncordons it a number of seconds later, or not at all.
    Cordon {
        /// The node, by number.
        node: usize,
        /// Its duration in seconds.
        lasts: Option<u64>,
    },
    /// Someone reboots a node.
    Reboot {
        /// The node, by number.
        node: usize,
    },
    /// Someone upgrades a node by hand.
    Upgraded {
        /// The node, by number.
        node: usize,
    },
    /// Someone runs an installer on a node by hand without rebooting it.
    Armed {
        /// The node, by number.
        node: usize,
    },
    /// Someone stages another configuration of a node for its next boot.
    Staged {
        /// The node, by number.
        node: usize,
    },
    /// The Image Factory's images lose their extension from now on.
    Rebuilt,
    /// A kubelet registers on a machine without Talos, and leaves a number of seconds later.
    Registers {
        /// Its duration in seconds.
        lasts: u64,
    },
    /// A worker joins.
    Join,
    /// A worker leaves.
    Leave {
        /// The node, by number.
        node: usize,
    },
}

impl TroubleKind {
    /// Its name in statistics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fault { .. } => "fault",
            Self::Wires { .. } => "wires",
            Self::Crash { .. } => "crash",
            Self::Still { .. } => "still",
            Self::LeaseLost { .. } => "lease-lost",
            Self::SecondRunner => "second-runner",
            Self::Pause { .. } => "pause",
            Self::Retarget => "retarget",
            Self::Stop { .. } => "stop",
            Self::Cordon { .. } => "cordon",
            Self::Reboot { .. } => "reboot",
            Self::Upgraded { .. } => "upgraded",
            Self::Armed { .. } => "armed",
            Self::Staged { .. } => "staged",
            Self::Rebuilt => "rebuilt",
            Self::Registers { .. } => "registers",
            Self::Join => "join",
            Self::Leave { .. } => "leave",
        }
    }

    /// All names.
    pub const NAMES: [&'static str; 18] = [
        "fault",
        "wires",
        "crash",
        "still",
        "lease-lost",
        "second-runner",
        "pause",
        "retarget",
        "stop",
        "cordon",
        "reboot",
        "upgraded",
        "armed",
        "staged",
        "rebuilt",
        "registers",
        "join",
        "leave",
    ];

    /// How many seconds after its start it is over.
    pub const fn lasts(&self) -> u64 {
        match self {
            Self::Fault { lasts, .. }
            | Self::Wires { lasts, .. }
            | Self::Still { lasts }
            | Self::LeaseLost { lasts }
            | Self::Stop { lasts }
            | Self::Registers { lasts }
            | Self::Pause { lasts: Some(lasts) }
            | Self::Cordon { lasts: Some(lasts), .. } => *lasts,
            _ => 0,
        }
    }
}

impl Scenario {
    /// Whether an extension of the nodes has another name in the first target.
    pub fn renames(&self) -> bool {
        let leaves = match self.wants.first() {
            Some(Want::Versions(intent)) => {
                intent.talos.as_ref().is_some_and(|wanted| wanted.minor() > self.talos.minor())
            }
            _ => false,
        };
        self.extended && self.machines.renamed && leaves
    }

    /// When all troubles are over, in seconds after the start.
    pub fn calm_after(&self) -> u64 {
        let ends = self.troubles.iter().map(|it| it.after + it.kind.lasts());
        ends.max().unwrap_or(0)
    }
}
