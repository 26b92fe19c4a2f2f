//! A scenario: everything that makes one simulated run what it is. It comes
//! from a seed (`draw`), is plain data, and is written down when it fails, so
//! that it stays the same when the drawing changes.

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
use crate::wire::Weather;

/// One simulated run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The seed of the world's own chances and of the wires.
    pub seed: u64,
    /// How many control planes.
    pub control_planes: usize,
    /// How many workers.
    pub workers: usize,
    /// What all nodes run at first.
    pub talos: Version,
    /// What all components run at first.
    pub kubernetes: Version,
    /// Whether the nodes' images have an extension in them.
    pub extended: bool,
    /// Whether Talos brings the network between pods; somebody else does otherwise.
    #[serde(default = "usual")]
    pub flannel: bool,
    /// Whether GRUB boots the nodes, which tells nobody what comes next.
    #[serde(default)]
    pub grub: bool,
    /// What the machines are.
    #[serde(default)]
    pub machines: Machines,
    /// Manifests beside Talos's own.
    #[serde(default)]
    pub extras: Extras,
    /// How the nodes find each other.
    #[serde(default)]
    pub discovery: Discovery,
    /// Whether Kubernetes has a node that is no machine of Talos.
    #[serde(default)]
    pub foreign: Foreign,
    /// What runs on the cluster.
    pub kit: Kit,
    /// How the user wants it done.
    pub policy: Policy,
    /// What the user wants, one after the other.
    pub wants: Vec<Want>,
    /// What goes wrong, and what others do.
    pub troubles: Vec<Trouble>,
}

fn usual() -> bool {
    true
}

/// What a user wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Want {
    /// An upgrade, or the way back of Kubernetes.
    Versions(Intent),
    /// The way back of one node, by number, to its other slot.
    Back(usize),
}

/// Something that goes wrong or that somebody else does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// How many seconds after the beginning.
    pub after: u64,
    /// What.
    pub kind: TroubleKind,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    /// A fault of the simulator, for so many seconds.
    Fault {
        /// The node, by number.
        node: usize,
        /// The fault.
        fault: Fault,
        /// How long.
        lasts: u64,
    },
    /// Bad wires, for so many seconds.
    Wires {
        /// How bad.
        weather: Weather,
        /// How long.
        lasts: u64,
    },
    /// The process is killed at the n-th passing of a point; another one is
    /// started so many seconds later. The time of the trouble does not count.
    Crash {
        /// Where.
        point: Point,
        /// At which passing.
        number: u32,
    },
    /// The process stands still for so many seconds.
    Still {
        /// How long.
        lasts: u64,
    },
    /// The process cannot renew its lease for so many seconds.
    LeaseLost {
        /// How long.
        lasts: u64,
    },
    /// Another process is started for the same run.
    SecondRunner,
    /// The user pauses, and goes on so many seconds later; or not at all.
    Pause {
        /// When it goes on.
        lasts: Option<u64>,
    },
    /// The user wants the next thing, now.
    Retarget,
    /// The user stops it at once, and goes on so many seconds later.
    Stop {
        /// When it goes on.
        lasts: u64,
    },
    /// Somebody cordons a node, and lifts it so many seconds later; or not at all.
    Cordon {
        /// The node, by number.
        node: usize,
        /// How long.
        lasts: Option<u64>,
    },
    /// Somebody reboots a node.
    Reboot {
        /// The node, by number.
        node: usize,
    },
    /// Somebody upgrades a node by hand.
    Upgraded {
        /// The node, by number.
        node: usize,
    },
    /// Somebody runs an installer on a node by hand, and does not reboot it.
    Armed {
        /// The node, by number.
        node: usize,
    },
    /// Somebody stages another configuration of a node, for its next boot.
    Staged {
        /// The node, by number.
        node: usize,
    },
    /// The Image Factory's images lose their extension from here on.
    Rebuilt,
    /// A kubelet registers on a machine without Talos, and goes so many seconds later.
    Registers {
        /// How long.
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
    /// Its name.
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

    /// How many seconds after its beginning it is over.
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
    /// Whether an extension of the nodes goes by another name in what is wanted first.
    pub fn renames(&self) -> bool {
        let leaves = match self.wants.first() {
            Some(Want::Versions(intent)) => {
                intent.talos.as_ref().is_some_and(|wanted| wanted.minor() > self.talos.minor())
            }
            _ => false,
        };
        self.extended && self.machines.renamed && leaves
    }

    /// When all troubles are over, in seconds after the beginning.
    pub fn calm_after(&self) -> u64 {
        let ends = self.troubles.iter().map(|it| it.after + it.kind.lasts());
        ends.max().unwrap_or(0)
    }
}
