//! Advice in the words of specs: which field or annotation to change.

use upgrade_api::annotation;
use upgrade_core::advice::{Advice, Choice, Fix, Permission};
use upgrade_core::text;

use crate::keys;

/// How many nodes are named; the rest is a number.
const NAMED: usize = 20;

/// What to do, for a user who writes specs.
pub fn brief(advice: &Advice) -> String {
    match advice {
        Advice::Retry | Advice::RetryJournal => again(),
        Advice::FixThenRetry(fixes) => format!("{}, then {}", joined(fixes), again()),
        Advice::FixThenPlan(fixes) => joined(fixes),
        Advice::ChooseTarget(Choice::Any) => "set spec.version or spec.kubeVersion".to_owned(),
        Advice::ChooseTarget(Choice::Newer) => "write a newer version".to_owned(),
        Advice::ChooseTarget(choice) => choice.to_string(),
        Advice::Allow(permission) => {
            allow(permission).unwrap_or_else(|| "no annotation allows this".to_owned())
        }
        Advice::WithdrawRollback => format!("remove the annotation {}", annotation::ROLLBACK),
        Advice::NameSchematic => {
            "write the installer of its schematic into the `image` of the machine".to_owned()
        }
        Advice::NameInstaller(None) => "write the `image` of the machine".to_owned(),
        Advice::NameInstaller(Some(like)) => {
            format!("write one for it into the `image` of the machine, such as {like}")
        }
        Advice::ReleaseHold(nodes) => format!(
            "remove the annotation {} of {}",
            spec_api::RECONCILE_MODE,
            text::first(nodes, NAMED)
        ),
        Advice::RaiseLimit(None) => format!("raise {}", annotation::MAX_UNAVAILABLE),
        Advice::RaiseLimit(Some(pool)) => {
            format!("raise rollingUpdate.maxUnavailable of the TalosWorker {pool}")
        }
        Advice::CorrectPolicy => {
            "correct the annotations that begin with upgrade.vitistack.io/".to_owned()
        }
        Advice::UpdateProgram => {
            "ask for a newer release of this operator that knows the version".to_owned()
        }
        Advice::AnyOf(several) => {
            let open = |advice: &&Advice| match advice {
                Advice::Allow(permission) => allow(permission).is_some(),
                _ => true,
            };
            several.iter().filter(open).map(brief).collect::<Vec<_>>().join(", or ")
        }
    }
}

/// How a failed upgrade is tried again.
pub fn again() -> String {
    format!("give the annotation {} another value", keys::RETRY)
}

fn joined(fixes: &[Fix]) -> String {
    fixes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn allow(permission: &Permission) -> Option<String> {
    match permission {
        Permission::Outage => {
            Some(format!("accept it with the annotation {}=true", annotation::ACCEPT_OUTAGE))
        }
        Permission::Rollback => Some(format!("set {}=true to go back", annotation::ROLLBACK)),
        Permission::DropExtensions | Permission::KeepExtensions | Permission::LosePods => None,
        Permission::PruneAll => Some(format!("delete them as well with {}=all", annotation::PRUNE)),
        Permission::ForeignNode(node) => Some(format!(
            "if it is not one, list it in the annotation {}={node}",
            annotation::FOREIGN_NODES
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_advice_names_a_flag_or_a_target_annotation() {
        let permissions = Permission::examples().into_iter().map(Advice::Allow);
        let choices = Choice::examples().into_iter().map(Advice::ChooseTarget);
        for advice in Advice::examples().into_iter().chain(permissions).chain(choices) {
            let text = brief(&advice);
            assert!(!text.trim().is_empty(), "{advice:?}");
            for word in ["--", "resume", "talos-operator ", "profile", "-target"] {
                assert!(!text.contains(word), "`{word}` in: {text}");
            }
        }
    }
}
