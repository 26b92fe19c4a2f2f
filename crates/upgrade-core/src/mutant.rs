//! Deliberate breakages, to show that the proof notices them.
//!
//! Each takes one guard of one rule away. They are compiled in by the feature
//! `mutants`, which nothing that is shipped switches on; without it [`is`] is a
//! constant and the compiler leaves nothing of them.
//!
//! Which one is alive is the one value of this program that functions read
//! without being given it: a guard that is to vanish must not change the shape
//! of what it guards, and one process tries one mutant at a time.

/// Writes a mutant once: its name in code, the rule that it breaks, its name
/// elsewhere, and what it does.
macro_rules! mutants {
    ($($mutant:ident, $rule:literal, $name:literal, $about:literal;)*) => {
        /// A deliberate breakage.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutant {
            $(#[doc = $about] $mutant,)*
        }

        impl Mutant {
            /// Every mutant, in the order of the rules.
            pub const ALL: &[Self] = &[$(Self::$mutant,)*];

            /// Its name, such as `quorum-gate`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$mutant => $name,)*
                }
            }

            /// The rule of the design that it breaks.
            pub const fn rule(self) -> u8 {
                match self {
                    $(Self::$mutant => $rule,)*
                }
            }

            /// What is broken, in a line.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$mutant => $about,)*
                }
            }
        }
    };
}

mutants! {
    QuorumGate, 1, "quorum-gate", "no state of etcd prevents disrupting a member";
    TwoControlPlanes, 1, "two-control-planes", "the next control plane does not wait for the one before";
    StaticPodsUnchecked, 1, "static-pods-unchecked", "a control plane is up whatever its static pods and its API server say";
    ControlPlaneAhead, 1, "control-plane-ahead", "the next control plane is written while one is away";
    LeaderStays, 1, "leader-stays", "the etcd leader neither goes last nor gives leadership away";
    StaleObservation, 2, "stale-observation", "a disruptive act may start on an observation from before the last one";
    SnapshotSkipped, 3, "snapshot-skipped", "no etcd snapshot is taken, and none is asked for";
    SchematicDropped, 4, "schematic-dropped", "nodes get the plain installer instead of their own";
    PlatformDropped, 4, "platform-dropped", "the installer is for the platform of the machine config, whatever runs";
    SecureBootDropped, 4, "secure-boot-dropped", "the installer has Secure Boot as the machine config says, whatever runs";
    RenamedMissed, 4, "renamed-missed", "an extension that goes by another name counts as lost";
    ContentUnchecked, 4, "content-unchecked", "platform, Secure Boot, schematic and extensions are not compared after the boot";
    BootBackAccepted, 5, "boot-back-accepted", "a node that came back on its old version counts as upgraded";
    BlindRetry, 5, "blind-retry", "a failed install or reboot is tried again by itself";
    InstallerRepeated, 5, "installer-repeated", "an installer that failed counts as one that did not start";
    ArmedForgotten, 5, "armed-forgotten", "an installer is run on a node that is armed already";
    EvictByDelete, 6, "evict-by-delete", "pods are deleted, whatever their budget says";
    WorkerLimit, 6, "worker-limit", "workers are disrupted without counting those that are unavailable";
    DrainDeadline, 6, "drain-deadline", "a drain that timed out continues even if the policy says to halt";
    CordonForgotten, 7, "cordon-forgotten", "our cordon is not lifted";
    FoundCordonLifted, 7, "found-cordon-lifted", "a cordon that we did not set is lifted";
    ActRepeated, 8, "act-repeated", "a reboot in doubt is asked for again without looking";
    LostStreamRepeated, 8, "lost-stream-repeated", "an install whose end was not heard is sent again, whatever the boot loader says";
    FenceOff, 9, "fence-off", "a process that lost the run acts on";
    UnknownIsFine, 10, "unknown-is-fine", "what cannot be seen counts as healthy";
    LessReady, 10, "less-ready", "a node that is less ready than before its reboot counts as back";
    InvisibleNodes, 10, "invisible-nodes", "nodes of Kubernetes without a known machine are passed over";
    SilentPeer, 10, "silent-peer", "one control plane that hangs makes every machine unknown";
    SilentMember, 10, "silent-member", "one member of etcd that hangs makes all of etcd unknown";
    PruneOneList, 10, "prune-one-list", "what the first control plane does not render is pruned";
    PruneMissing, 10, "prune-missing", "manifests that could not be downloaded count as gone";
    PruneAll, 10, "prune-all", "definitions and namespaces are pruned without consent";
    StagedLost, 10, "staged-lost", "a staged machine configuration is overwritten";
    DeadlineRemoved, 11, "deadline-removed", "steps and gates wait without an end";
    WaitUnreported, 11, "wait-untold", "the reason of a wait is not shown";
    PauseIgnored, 12, "pause-ignored", "a pause does not keep the next node from starting";
    PauseAbandons, 12, "pause-abandons", "a pause leaves the node in flight where it is";
    WindowIgnored, 12, "window-ignored", "nodes are begun outside the windows and in freezes";
    HoldIgnored, 12, "hold-ignored", "nodes that the user holds are upgraded";
    KexecAlways, 12, "kexec-always", "nodes reboot by kexec where the policy asks for a power cycle";
    TrialNotAwaited, 12, "trial-not-awaited", "the others of a pool do not wait for the node that is power cycled first";
    RollbackGated, 12, "way-back-gated", "a rollback waits for Kubernetes and for its own member of etcd";
    KubeletsFirst, 13, "kubelets-first", "kubelets move before the API servers";
    OldHostTaken, 13, "old-host-taken", "nodes whose upgrade wipes their data are upgraded";
    ContainerTaken, 13, "container-taken", "nodes in containers are planned for, where nothing can be installed";
    PatchSkipped, 13, "patch-skipped", "the newest patch of the running line is not passed";
    DowngradeSkipped, 13, "downgrade-skipped", "a rollback over a minor of etcd does without etcd's own downgrade";
    MinorSkipped, 13, "minor-skipped", "several minors are passed in one hop";
    SecretShown, 14, "secret-told", "the machine configuration is shown, and nothing is scrubbed";
    FailedRetried, 5, "failed-retried", "the operator begins a run again that failed, without its user";
    ParentForgotten, 7, "parent-forgotten", "a new run of the operator takes over no cordons";
    DoubtUnobserved, 11, "doubt-unobserved", "a node in doubt after a takeover is not observed while other steps run";
    WatchBelieved, 12, "watch-believed", "the operator begins a run by what its watch says, however old that is";
    CancelIgnored, 12, "cancel-ignored", "a run of the operator continues after its target was removed";
}

/// The mutants that the simulation of the operator meets, and that of the engine hardly ever.
const OF_OPERATOR: [Mutant; 5] = [
    Mutant::FailedRetried,
    Mutant::ParentForgotten,
    Mutant::DoubtUnobserved,
    Mutant::WatchBelieved,
    Mutant::CancelIgnored,
];

impl Mutant {
    /// Whether it is for the simulation of the operator.
    pub fn is_of_operator(self) -> bool {
        OF_OPERATOR.contains(&self)
    }
}

/// A guard of a rule: whether its condition holds, unless the mutant has taken the guard
/// away. Without a condition: whether the guard stands.
#[macro_export]
macro_rules! guard {
    ($mutant:expr) => {
        !$crate::mutant::is($mutant)
    };
    ($mutant:expr, $condition:expr) => {
        ($condition) && $crate::guard!($mutant)
    };
}

#[cfg(feature = "mutants")]
mod alive {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Mutant;

    /// Its place among all, from 1; 0 for none.
    static ALIVE: AtomicU8 = AtomicU8::new(0);

    /// Lets this mutant live, in the whole process, or none.
    pub fn set(mutant: Option<Mutant>) {
        ALIVE.store(mutant.map_or(0, |mutant| mutant as u8 + 1), Ordering::Relaxed);
    }

    /// Whether this mutant lives.
    pub fn is(mutant: Mutant) -> bool {
        ALIVE.load(Ordering::Relaxed) == mutant as u8 + 1
    }
}

#[cfg(feature = "mutants")]
pub use alive::{is, set};

/// Whether this mutant lives: none does in what is shipped.
#[cfg(not(feature = "mutants"))]
pub const fn is(_: Mutant) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_mutant() {
        let rules: BTreeSet<u8> = Mutant::ALL.iter().map(|mutant| mutant.rule()).collect();
        assert_eq!(rules, (1..=14).collect());
    }

    #[test]
    fn names_tell_mutants_apart() {
        let names: BTreeSet<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        assert_eq!(names.len(), Mutant::ALL.len());
        let kebab = |c: char| c.is_ascii_lowercase() || c == '-';
        for mutant in Mutant::ALL {
            assert!(mutant.name().chars().all(kebab), "{mutant:?}");
            assert!(!mutant.about().is_empty(), "{mutant:?}");
        }
    }

    #[test]
    fn none_lives_unless_it_is_let() {
        assert!(!Mutant::ALL.iter().any(|mutant| is(*mutant)));
    }
}
