//! The command that would carry a plan out.

use std::path::PathBuf;

use upgrade_core::plan::{Change, Plan};

use super::time;
use crate::args::{
    ClusterArgs, InstallerArgs, NodeArgs, OrderArg, PaceArgs, PlanArgs, PreferArg, PruneArg,
};

/// The upgrade command for the same targets and wishes. What describes a made-up
/// cluster is left out: the command looks for itself.
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
    let mut command = format!("talos-operator upgrade {kind}");
    let mut flag = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            command = format!("{command} --{name} {}", quoted(&value));
        }
    };
    let path = |path: &PathBuf| path.display().to_string();
    let ClusterArgs { profile, talosconfig, context, kubeconfig, state } = &args.cluster;
    flag("profile", profile.as_ref().map(path));
    flag("talosconfig", talosconfig.as_ref().map(path));
    flag("context", context.clone());
    flag("kubeconfig", kubeconfig.as_ref().map(path));
    flag("state", state.as_ref().map(path));
    flag("talos", talos.and(plan.to.talos.as_ref()).map(ToString::to_string));
    flag("kubernetes", kubernetes.map(ToString::to_string));
    // The defaults stand in the arguments; what differs is worth repeating.
    flag("prefer", (args.prefer != PreferArg::KubernetesFirst).then(|| "talos-first".to_owned()));
    let InstallerArgs { schematic, extensions, image, factory, .. } = &args.wanted;
    let InstallerArgs { drop_extensions, keep_extensions, .. } = &args.wanted;
    flag("schematic", schematic.clone());
    flag("extensions", extensions.as_ref().map(|names| names.join(",")));
    flag("image", image.as_ref().map(ToString::to_string));
    flag("factory", factory.clone());
    let PaceArgs {
        max_unavailable,
        order,
        soak,
        drain_timeout,
        accept_outage,
        prune,
        reboot_mode,
        foreign_nodes,
    } = &args.pace;
    flag("max-unavailable", max_unavailable.as_ref().map(ToString::to_string));
    flag(
        "order",
        order.map(|order| match order {
            OrderArg::WorkersFirst => "workers-first".to_owned(),
            OrderArg::ControlPlanesFirst => "control-planes-first".to_owned(),
        }),
    );
    flag("soak", soak.map(time::exact));
    flag("drain-timeout", drain_timeout.map(time::exact));
    flag(
        "prune",
        prune.map(|prune| match prune {
            PruneArg::None => "none".to_owned(),
            PruneArg::Safe => "safe".to_owned(),
            PruneArg::All => "all".to_owned(),
        }),
    );
    flag("reboot-mode", reboot_mode.map(|mode| mode.name().to_owned()));
    for node in foreign_nodes {
        flag("foreign-node", Some(node.clone()));
    }
    let NodeArgs { nodes, hold } = &args.nodes;
    for (name, nodes) in [("node", nodes), ("hold", hold)] {
        for node in nodes {
            flag(name, Some(node.clone()));
        }
    }
    flag("matrix", args.data.matrix.as_ref().map(path));
    flag("catalogue", args.data.catalogue.as_ref().map(path));
    for (name, set) in [
        ("skip-minors", args.skip_minors),
        ("rollback", args.rollback),
        ("drop-extensions", *drop_extensions),
        ("keep-extensions", *keep_extensions),
        ("accept-outage", *accept_outage),
    ] {
        if set {
            command = format!("{command} --{name}");
        }
    }
    command
}

/// The value as a shell reads it back.
pub fn quoted(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:%@+=,".contains(&byte);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_values_back() {
        assert_eq!(quoted("25%"), "25%");
        assert_eq!(quoted("my matrix.toml"), "'my matrix.toml'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
