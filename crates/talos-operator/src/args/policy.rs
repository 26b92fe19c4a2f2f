//! How the work is done. A flag that is not given leaves the policy of the profile.

use clap::{Args, ValueEnum};
use upgrade_core::amount::Amount;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::policy::{Order, Policy, Prune, RebootChoice};

use super::{CommandLine, parse};
use crate::render::time;

/// Which role goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    /// Workers first: a bad release hits a worker before it hits etcd
    WorkersFirst,
    /// Control planes first: workers never run a newer version than their control planes
    ControlPlanesFirst,
}

impl From<OrderArg> for Order {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::WorkersFirst => Self::WorkersFirst,
            OrderArg::ControlPlanesFirst => Self::ControlPlanesFirst,
        }
    }
}

/// Which objects are deleted that are no longer in Talos's manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PruneArg {
    /// Nothing
    None,
    /// All but custom resource definitions, namespaces and volumes
    Safe,
    /// Everything that the plan lists
    All,
}

impl From<PruneArg> for Prune {
    fn from(prune: PruneArg) -> Self {
        match prune {
            PruneArg::None => Self::None,
            PruneArg::Safe => Self::Safe,
            PruneArg::All => Self::All,
        }
    }
}

/// How nodes are rebooted into another Talos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RebootArg {
    /// By kexec, without the firmware
    Default,
    /// Through the firmware, where kexec hangs or leaves devices dead
    Powercycle,
    /// First node of each pool through the firmware; the others by kexec once it is verified
    PowercycleFirst,
}

impl From<RebootArg> for RebootChoice {
    fn from(mode: RebootArg) -> Self {
        match mode {
            RebootArg::Default => Self::Default,
            RebootArg::Powercycle => Self::Powercycle,
            RebootArg::PowercycleFirst => Self::PowercycleFirst,
        }
    }
}

/// How the work is done.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Policy")]
pub struct PolicyArgs {
    /// Workers that may be unavailable at once: a number or a percentage [default: 1]
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    pub max_unavailable: Option<Amount>,
    /// Which role goes first when Talos is upgraded [default: control-planes-first]
    #[arg(long, value_name = "ROLE", value_enum)]
    pub order: Option<OrderArg>,
    /// Pause after each verified node [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = parse::span, allow_negative_numbers = true)]
    pub soak: Option<SignedDuration>,
    /// Time limit for the drain of a node [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse::span, allow_negative_numbers = true)]
    pub drain_timeout: Option<SignedDuration>,
    /// Accept an API outage while a control plane reboots; clusters with one or two
    /// control planes need it
    #[arg(long)]
    pub accept_outage: bool,
    /// Which objects a Kubernetes upgrade deletes that are no longer in Talos's
    /// manifests [default: safe]
    #[arg(long, value_name = "WHAT", value_enum)]
    pub prune: Option<PruneArg>,
    /// How nodes are rebooted into another Talos [default: default]
    #[arg(long, value_name = "MODE", value_enum)]
    pub reboot_mode: Option<RebootArg>,
    /// Kubernetes node that is not a Talos machine of this cluster: it is neither
    /// upgraded nor waited for; repeat it for several
    #[arg(long = "foreign-node", value_name = "NODE")]
    pub foreign_nodes: Vec<String>,
}

impl PolicyArgs {
    /// The policy with these flags in place of its own values.
    pub fn over(&self, mut policy: Policy) -> Policy {
        let Self {
            max_unavailable,
            order,
            soak,
            drain_timeout,
            accept_outage,
            prune,
            reboot_mode,
            foreign_nodes,
        } = self;
        if let Some(amount) = max_unavailable {
            policy.workers.max_unavailable = *amount;
        }
        if let Some(order) = order {
            policy.order = (*order).into();
        }
        if let Some(soak) = soak {
            policy.soak = *soak;
        }
        if let Some(timeout) = drain_timeout {
            policy.drain.timeout = *timeout;
        }
        policy.accept_outage |= accept_outage;
        if let Some(prune) = prune {
            policy.manifests.prune = (*prune).into();
        }
        if let Some(mode) = reboot_mode {
            policy.reboot.mode = (*mode).into();
        }
        policy.foreign_nodes.extend(foreign_nodes.iter().map(|name| name.as_str().into()));
        policy
    }

    /// Repeats these flags in another command.
    pub fn repeat(&self, line: &mut CommandLine) {
        let Self {
            max_unavailable,
            order,
            soak,
            drain_timeout,
            accept_outage,
            prune,
            reboot_mode,
            foreign_nodes,
        } = self;
        line.value("max-unavailable", max_unavailable.as_ref())
            .choice("order", *order)
            .value("soak", soak.map(time::exact))
            .value("drain-timeout", drain_timeout.map(time::exact))
            .choice("prune", *prune)
            .choice("reboot-mode", *reboot_mode)
            .values("foreign-node", foreign_nodes)
            .switch("accept-outage", *accept_outage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_before_the_profile() {
        let profile = Policy { soak: SignedDuration::from_secs(5), ..Policy::default() };
        assert_eq!(PolicyArgs::default().over(profile.clone()), profile);
        let flags = PolicyArgs {
            max_unavailable: Some(Amount::Count(3)),
            order: Some(OrderArg::WorkersFirst),
            drain_timeout: Some(SignedDuration::from_secs(9)),
            accept_outage: true,
            prune: Some(PruneArg::All),
            reboot_mode: Some(RebootArg::PowercycleFirst),
            foreign_nodes: vec!["edge-1".to_owned()],
            ..PolicyArgs::default()
        };
        let policy = flags.over(profile);
        assert_eq!(policy.workers.max_unavailable, Amount::Count(3));
        assert_eq!(policy.order, Order::WorkersFirst);
        assert_eq!(policy.soak, SignedDuration::from_secs(5));
        assert_eq!(policy.drain.timeout, SignedDuration::from_secs(9));
        assert!(policy.accept_outage);
        assert_eq!(policy.manifests.prune, Prune::All);
        assert_eq!(policy.reboot.mode, RebootChoice::PowercycleFirst);
        assert!(policy.foreign_nodes.contains(&"edge-1".into()));
    }
}
