//! The command that would carry a plan out.

use std::path::Path;

use upgrade_core::amount::Amount;
use upgrade_core::plan::{Change, Plan};
use upgrade_core::policy::Policy;

use super::time;
use crate::args::{OrderArg, PlanArgs, PreferArg};

/// The upgrade command for the same targets and wishes. What describes the
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
    let mut flag = |name: &str, value: Option<&str>| {
        command.push_str(" --");
        command.push_str(name);
        if let Some(value) = value {
            command.push(' ');
            command.push_str(&quoted(value));
        }
    };
    if let Some(version) = talos {
        flag("talos", Some(&version.to_string()));
    }
    if let Some(version) = kubernetes {
        flag("kubernetes", Some(&version.to_string()));
    }
    if args.skip_minors {
        flag("skip-minors", None);
    }
    if args.rollback {
        flag("rollback", None);
    }
    // The defaults stand in the arguments; what differs is worth repeating.
    if args.prefer != PreferArg::KubernetesFirst {
        flag("prefer", Some("talos-first"));
    }
    if let Some(schematic) = &args.schematic {
        flag("schematic", Some(schematic));
    }
    if args.drop_extensions {
        flag("drop-extensions", None);
    }
    if args.max_unavailable != Amount::Count(1) {
        flag("max-unavailable", Some(&args.max_unavailable.to_string()));
    }
    if args.order != OrderArg::ControlPlanesFirst {
        flag("order", Some("workers-first"));
    }
    if args.soak != Policy::default().soak {
        flag("soak", Some(&time::exact(args.soak)));
    }
    if args.accept_outage {
        flag("accept-outage", None);
    }
    let path = |path: &Path| path.display().to_string();
    if let Some(file) = &args.data.matrix {
        flag("matrix", Some(&path(file)));
    }
    if let Some(file) = &args.data.catalogue {
        flag("catalogue", Some(&path(file)));
    }
    command
}

/// The value as a shell reads it back.
fn quoted(value: &str) -> String {
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
