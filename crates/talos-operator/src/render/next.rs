//! The command that carries a plan out.

use upgrade_core::plan::{Change, Plan};

use crate::args::{CommandLine, PlanArgs, PreferArg, TargetArgs};

/// The upgrade command for the same targets and flags. The description of an offline cluster is
/// left out: the command observes the real one.
pub fn next_command(args: &PlanArgs, plan: &Plan) -> String {
    let mut talos = None;
    let mut kubernetes = None;
    for hop in &plan.hops {
        match &hop.change {
            Change::Talos { to, .. } => talos = Some(to),
            Change::Kubernetes { to, .. } => kubernetes = Some(to),
        }
    }
    let kind = match (talos, kubernetes) {
        (Some(_), None) => "os",
        (None, Some(_)) => "k8s",
        _ => "both",
    };
    let mut line = CommandLine::new(&format!("upgrade {kind}"));
    args.cluster.repeat(&mut line);
    // The targets come from the plan: the profile may have named them.
    let TargetArgs { talos: _, kubernetes: _, skip_minors, rollback, prefer } = &args.target;
    line.value("talos", talos.and(plan.to.talos.as_ref()))
        .value("kubernetes", kubernetes)
        .choice("prefer", Some(*prefer).filter(|prefer| *prefer != PreferArg::KubernetesFirst))
        .switch("skip-minors", *skip_minors)
        .switch("rollback", *rollback);
    args.installer_change.repeat(&mut line);
    args.policy.repeat(&mut line);
    args.nodes.repeat(&mut line);
    args.data.repeat(&mut line);
    line.to_string()
}
