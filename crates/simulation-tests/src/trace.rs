//! What can be seen of a run from the side of the world: what is asked of it,
//! what is done to it, what it does by itself, and what the user says and is
//! told. The referee knows nothing else.

use talos_sim::kubernetes::Kubernetes;
use talos_sim::model::World;
use upgrade_core::event::Event;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::Entry;
use upgrade_core::plan::{Plan, RebootMode};
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Minor;
use upgrade_core::workload::PodName;
use upgrade_engine::drive::End;

/// A process that drives, by number: each start is another one.
pub type ProcessId = u32;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: TraceKind,
}

/// What happened. Each is shown to the referee together with the world as it
/// was right before: an [`Act`](TraceKind::Act) is shown before it takes effect.
#[derive(Clone, Debug)]
pub enum TraceKind {
    /// A process starts with a plan: the first process of the plan, or one that continues it.
    Starts {
        /// Which process.
        runner: ProcessId,
        /// The plan that it drives.
        plan: std::sync::Arc<Plan>,
        /// Whether it was started for a plan that no process drove before.
        fresh: bool,
    },
    /// A process is gone, killed at this very moment: nothing of it acts any more.
    Dies {
        /// Which process.
        runner: ProcessId,
    },
    /// A process came to an end by itself.
    Ends {
        /// Which process.
        runner: ProcessId,
        /// How; `Err` are the words of a process that had to give up its run
        /// (its journal was taken from it).
        end: Result<End, String>,
    },
    /// A journal entry is safe on disk.
    Wrote {
        /// Which process.
        runner: ProcessId,
        /// The entry.
        entry: Box<Entry>,
    },
    /// An event is reported to the user.
    Reported {
        /// Which process.
        runner: ProcessId,
        /// The event.
        event: Box<Event>,
    },
    /// A question was answered, or not. It is seen when the answer arrives.
    Asked {
        /// Which process.
        runner: ProcessId,
        /// The question.
        question: Question,
        /// When the world answered: the answer is as old as that.
        answered: Timestamp,
        /// Whether the answer came; a question without one leaves what it asked
        /// for unknown.
        known: bool,
    },
    /// Something is done to the world.
    Act {
        /// Which process.
        runner: ProcessId,
        /// What.
        act: Act,
        /// What becomes of it.
        fate: Fate,
    },
    /// A node has booted, regardless of who requested it. The world says what runs on it.
    Boots {
        /// The node.
        node: NodeName,
    },
    /// An installer has started on a node, because a call for it was accepted.
    Installs {
        /// The node.
        node: NodeName,
    },
    /// Another actor changes the world.
    External {
        /// What.
        action: ExternalAction,
    },
    /// The user's command reaches the process that drives.
    User {
        /// The command.
        command: UserCommand,
    },
}

/// What the engine asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which machines there are.
    Machines,
    /// Everything that Talos tells of a node.
    Facts(NodeName),
    /// The images of a node's configuration.
    Images(NodeName),
    /// What a node boots next.
    Slots(NodeName),
    /// etcd, of every member. `known` means that all of them answered.
    Etcd,
    /// Whether a control plane's own API server is ready.
    ApiServer(NodeName),
    /// All nodes of Kubernetes.
    Nodes,
    /// Anything else.
    Other(&'static str),
}

/// What the engine does to the world.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each is the call of the same name")]
pub enum Act {
    Pull {
        node: NodeName,
        image: ImageRef,
    },
    Install {
        node: NodeName,
        image: ImageRef,
    },
    Upgrade {
        node: NodeName,
        image: ImageRef,
        mode: RebootMode,
    },
    Reboot {
        node: NodeName,
        mode: RebootMode,
    },
    Rollback {
        node: NodeName,
    },
    Forfeit {
        node: NodeName,
    },
    /// etcd's downgrade to a minor is enabled.
    Downgrade {
        node: NodeName,
        to: Minor,
    },
    /// An etcd snapshot was read to its end, verified, and is off the cluster.
    Snapshot,
    /// Another machine configuration; the images that it names and that differ
    /// from those before: `(component, image)`.
    Configure {
        node: NodeName,
        images: Vec<(String, String)>,
    },
    Cordon {
        node: NodeName,
        on: bool,
    },
    Evict {
        pod: PodName,
        node: Option<NodeName>,
    },
    /// An object is deleted: kind, namespace, name.
    Delete {
        kind: String,
        namespace: String,
        name: String,
    },
    /// An object is applied.
    Apply {
        kind: String,
        namespace: String,
        name: String,
    },
}

impl Act {
    /// Whether it takes the node down.
    pub fn boots(&self) -> bool {
        matches!(self, Self::Upgrade { .. } | Self::Reboot { .. } | Self::Rollback { .. })
    }

    /// The node that it is done to.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Pull { node, .. }
            | Self::Install { node, .. }
            | Self::Upgrade { node, .. }
            | Self::Reboot { node, .. }
            | Self::Rollback { node }
            | Self::Forfeit { node }
            | Self::Downgrade { node, .. }
            | Self::Configure { node, .. }
            | Self::Cordon { node, .. } => Some(node),
            Self::Evict { node, .. } => node.as_ref(),
            Self::Snapshot | Self::Delete { .. } | Self::Apply { .. } => None,
        }
    }
}

/// What becomes of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It never reaches the world.
    Lost,
    /// It reaches the world. Whether the world does as asked, and whether the
    /// answer arrives, is another matter.
    Arrives,
}

/// What another actor does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalAction {
    /// Cordons a node, or lifts a cordon.
    Cordon {
        /// The node.
        node: NodeName,
        /// Which of both.
        on: bool,
    },
    /// Reboots a node.
    Reboot {
        /// The node.
        node: NodeName,
    },
    /// Runs an installer on a node, and does not reboot it.
    Arms {
        /// The node.
        node: NodeName,
    },
    /// Stages another configuration of a node, for its next boot.
    Stages {
        /// The node.
        node: NodeName,
    },
    /// Messages get lost on the way, or arrive as they should again.
    Wires {
        /// Which of both.
        bad: bool,
    },
    /// A kubelet registers on a machine without Talos.
    Registers {
        /// The name of its node.
        node: NodeName,
    },
    /// A machine joins.
    Join {
        /// Its name.
        node: NodeName,
    },
    /// A machine leaves for good.
    Leave {
        /// Its name.
        node: NodeName,
    },
    /// A fault begins on a node.
    Breaks {
        /// The node.
        node: NodeName,
        /// The fault, in the simulator's words.
        fault: String,
    },
    /// A fault of a node ends.
    Mends {
        /// The node.
        node: NodeName,
        /// The fault, in the simulator's words.
        fault: String,
    },
}

/// What the user commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserCommand {
    /// Pause (also: the target was removed, or Ctrl-C).
    Pause,
    /// Resume the run.
    Resume,
    /// Another target: the run pauses, and a new plan follows.
    Retarget,
    /// Stop at once.
    Stop,
}

/// The world as it is.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The machines.
    pub world: &'a World,
    /// The API of the cluster on them, and its objects.
    pub kubernetes: &'a Kubernetes,
}
