//! Advice in the words of annotations. There is no flag and no resume: a failed upgrade
//! stays failed until its target is removed or changed, or its state is reset.

use upgrade_core::advice::{Advice, Choice, Fix, Permission};
use upgrade_core::product::Product;
use upgrade_core::text;
use vitistack_api::annotation;

use crate::keys;

/// How many nodes are named; the rest is a number.
const NAMED: usize = 20;

/// What to do, for a user who writes annotations.
pub fn text(advice: &Advice, product: Product) -> String {
    let again = again(product);
    match advice {
        Advice::Retry => {
            format!("{again}; the state of the node is checked before a request is repeated")
        }
        Advice::FixThenRetry(_) | Advice::FixThenPlan(_) => {
            format!("{}, then {again}", brief(advice, product))
        }
        _ => brief(advice, product),
    }
}

/// The same, without how to try again, for lists that say it once at their end.
pub fn brief(advice: &Advice, product: Product) -> String {
    match advice {
        Advice::Retry | Advice::RetryJournal => again(product),
        Advice::FixThenRetry(fixes) | Advice::FixThenPlan(fixes) => joined(fixes),
        Advice::ChooseTarget(Choice::Any) => {
            format!("set {}", keys::PRODUCTS.map(keys::target).join(" or "))
        }
        Advice::ChooseTarget(Choice::Newer) => {
            format!("set {} to a newer version", keys::target(product))
        }
        Advice::ChooseTarget(choice) => choice.to_string(),
        Advice::Allow(permission) => {
            allow(permission).unwrap_or_else(|| "no annotation allows this".to_owned())
        }
        Advice::WithdrawRollback => {
            format!("remove the annotation {}", annotation::ROLLBACK)
        }
        Advice::NameSchematic => "set machine.install.image in the machine config of the node to \
             the installer of its schematic"
            .to_owned(),
        Advice::NameInstaller(None) => {
            "set machine.install.image in the machine config of the node".to_owned()
        }
        Advice::NameInstaller(Some(like)) => format!(
            "set machine.install.image in the machine config of the node to one for it, such as \
             {like}"
        ),
        Advice::ReleaseHold(nodes) => format!("release {}", text::first(nodes, NAMED)),
        Advice::RaiseLimit(None) => format!("raise {}", annotation::MAX_UNAVAILABLE),
        Advice::RaiseLimit(Some(pool)) => format!("raise the limit of pool {pool}"),
        Advice::CorrectPolicy => {
            format!("correct the annotations that begin with {}", annotation::PREFIX)
        }
        Advice::UpdateProgram => {
            "ask for a newer release of this operator that knows the version".to_owned()
        }
        Advice::AnyOf(several) => {
            let ways = several.iter().filter(|advice| {
                !matches!(advice, Advice::Allow(permission) if allow(permission).is_none())
            });
            ways.map(|advice| brief(advice, product)).collect::<Vec<_>>().join(", or ")
        }
    }
}

/// How a failed upgrade is started once more.
pub fn again(product: Product) -> String {
    format!("remove the annotation {} and set it again", keys::target(product))
}

fn joined(fixes: &[Fix]) -> String {
    fixes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The annotation that gives a permission, where there is one.
fn allow(permission: &Permission) -> Option<String> {
    match permission {
        Permission::Outage => {
            Some(format!("accept it with the annotation {}=true", keys::ACCEPT_OUTAGE))
        }
        Permission::Rollback => Some(format!("set {}=true to go back", annotation::ROLLBACK)),
        Permission::DropExtensions | Permission::KeepExtensions | Permission::LosePods => None,
        Permission::PruneAll => Some(format!("delete them as well with {}=all", keys::PRUNE)),
        Permission::ForeignNode(node) => Some(format!(
            "if it is not one, list it in the annotation {}={node}",
            keys::FOREIGN_NODES
        )),
    }
}

#[cfg(test)]
mod tests {
    use upgrade_controller::run::halted;
    use upgrade_core::reason::{Failure, FailureKind, HaltReason};
    use upgrade_core::step::{Action, StepId};

    use super::*;

    fn every_advice() -> Vec<Advice> {
        let permissions = Permission::examples().into_iter().map(Advice::Allow);
        let choices = Choice::examples().into_iter().map(Advice::ChooseTarget);
        let fixes = Fix::examples();
        let fixes = fixes
            .into_iter()
            .flat_map(|fix| [Advice::retry_after(fix.clone()), Advice::plan_after(fix)]);
        Advice::examples().into_iter().chain(permissions).chain(choices).chain(fixes).collect()
    }

    #[track_caller]
    fn is_for_annotations(text: &str) {
        assert!(!text.trim().is_empty());
        // Commands of talosctl act on nodes, whatever started the upgrade.
        let parts = text.split('`').enumerate();
        let kept = parts.filter(|(place, part)| place % 2 == 0 || !part.starts_with("talosctl "));
        let ours = kept.map(|(_, part)| part).collect::<Vec<_>>().join("`");
        for word in ["--", "resume", "talos-operator ", "profile"] {
            assert!(!ours.contains(word), "`{word}` in: {text}");
        }
    }

    #[test]
    fn no_advice_names_a_flag_or_a_command_of_the_command_line() {
        for product in Product::ALL {
            for advice in every_advice() {
                is_for_annotations(&text(&advice, product));
                is_for_annotations(&brief(&advice, product));
            }
        }
    }

    #[test]
    fn no_failed_run_tells_the_user_to_resume() {
        for advice in every_advice() {
            let step = StepId::new(1, Some("cp-1".into()), Action::Drain);
            let failure = Failure::new(FailureKind::Drain, "pods stay").advise(advice);
            let reason = HaltReason::StepFailed { step, attempt: 1, failure };
            let advice = text(&reason.advice(), Product::Kubernetes);
            is_for_annotations(&halted(&reason, &advice));
        }
    }

    #[test]
    fn a_failed_run_says_how_to_try_again() {
        let advice = Advice::retry_after(Fix::Drain);
        assert_eq!(
            text(&advice, Product::Talos),
            "make room for the pods named, or relax their disruption budget, then remove the \
             annotation upgrade.vitistack.io/talos-target and set it again"
        );
        assert_eq!(
            text(&Advice::Allow(Permission::PruneAll), Product::Talos),
            "delete them as well with upgrade.vitistack.io/prune=all"
        );
    }

    #[test]
    fn what_no_annotation_allows_is_not_offered() {
        let ways = [Permission::KeepExtensions, Permission::DropExtensions].map(Advice::Allow);
        let advice = Advice::AnyOf([Advice::NameSchematic].into_iter().chain(ways).collect());
        let text = text(&advice, Product::Talos);
        assert!(text.ends_with("the installer of its schematic"), "{text}");
    }
}
