//! Advice in the words of the command line: its flags, its commands, its profile.

use upgrade_core::advice::{Advice, Choice, Fix, Permission};
use upgrade_core::text;

/// How many nodes are named; the rest is a number.
const NAMED: usize = 20;

/// What to do, for a user of the command line.
pub fn text(advice: &Advice) -> String {
    match advice {
        Advice::Retry => {
            "resume; the state of the node is checked before the request is repeated".to_owned()
        }
        Advice::FixThenRetry(fixes) => format!("{}, then resume", joined(fixes)),
        Advice::FixThenPlan(fixes) => format!("{}, then plan again", joined(fixes)),
        Advice::RetryJournal => {
            "resume the run with the plan that the journal names, or plan again".to_owned()
        }
        Advice::ChooseTarget(Choice::Newer) => {
            "choose a newer target; `talos-operator matrix` shows the known releases".to_owned()
        }
        Advice::ChooseTarget(choice) => choice.to_string(),
        Advice::Allow(permission) => allow(permission),
        Advice::WithdrawRollback => "leave out --rollback".to_owned(),
        Advice::NameSchematic => "name the node's schematic with --schematic".to_owned(),
        Advice::NameInstaller(None) => "name the installer image with --image".to_owned(),
        Advice::NameInstaller(Some(like)) => format!("name the image for it, such as {like}"),
        Advice::ReleaseHold(nodes) => format!(
            "release {}: leave out --hold, name nodes with --node, or remove `hold` from the profile",
            text::first(nodes, NAMED)
        ),
        Advice::RaiseLimit(None) => "raise --max-unavailable".to_owned(),
        Advice::RaiseLimit(Some(pool)) => {
            format!("raise the limit of pool {pool} in the profile's `workers.pools`")
        }
        Advice::CorrectPolicy => "correct the policy".to_owned(),
        Advice::UpdateProgram => "use a newer talos-operator that knows the release".to_owned(),
        Advice::AnyOf(several) => several.iter().map(text).collect::<Vec<_>>().join(", or "),
    }
}

fn joined(fixes: &[Fix]) -> String {
    fixes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn allow(permission: &Permission) -> String {
    match permission {
        Permission::Outage => "accept the outage with --accept-outage".to_owned(),
        Permission::Rollback => "add --rollback if you want to go back".to_owned(),
        Permission::DropExtensions => "let the extensions go with --drop-extensions".to_owned(),
        Permission::KeepExtensions => {
            "add --keep-extensions if the image brings the extensions".to_owned()
        }
        Permission::LosePods => "set `drain.bare_pods` and `drain.empty_dir` in the profile's \
             policy to `evict` or `leave`"
            .to_owned(),
        Permission::PruneAll => "delete them as well with --prune all".to_owned(),
        Permission::ForeignNode(node) => {
            format!("if it is not one, list it as foreign with --foreign-node {node}")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn every_text() -> Vec<String> {
        let permissions = Permission::examples().into_iter().map(Advice::Allow);
        let choices = Choice::examples().into_iter().map(Advice::ChooseTarget);
        let fixes = Fix::examples();
        let fixes = fixes
            .into_iter()
            .flat_map(|fix| [Advice::retry_after(fix.clone()), Advice::plan_after(fix)]);
        let all = Advice::examples().into_iter().chain(permissions).chain(choices).chain(fixes);
        all.map(|advice| text(&advice)).collect()
    }

    /// The command line and all its subcommands.
    fn commands(command: &clap::Command) -> Vec<&clap::Command> {
        let below = command.get_subcommands().flat_map(commands);
        std::iter::once(command).chain(below).collect()
    }

    /// A text without the commands of talosctl in it, which have flags of their own.
    fn ours(text: &str) -> String {
        let parts = text.split('`').enumerate();
        let kept = parts.filter(|(place, part)| place % 2 == 0 || !part.starts_with("talosctl "));
        kept.map(|(_, part)| part).collect::<Vec<_>>().join("`")
    }

    #[test]
    fn every_flag_in_advice_is_one_that_clap_knows() {
        let cli = Cli::command();
        let flags: BTreeSet<String> = commands(&cli)
            .into_iter()
            .flat_map(clap::Command::get_arguments)
            .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
            .collect();
        let mut named = 0;
        for text in every_text() {
            assert!(!text.trim().is_empty());
            let ours = ours(&text);
            let words = ours.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            for flag in words.filter(|word| word.starts_with("--")) {
                assert!(flags.contains(flag), "there is no {flag}: {text}");
                named += 1;
            }
        }
        assert!(named > 5, "the texts do name flags");
    }

    #[test]
    fn every_command_in_advice_is_one_that_clap_knows() {
        let cli = Cli::command();
        for text in every_text() {
            for command in text.split("`talos-operator ").skip(1) {
                let name = command.split([' ', '`']).next().unwrap_or_default();
                assert!(cli.find_subcommand(name).is_some(), "{text}");
            }
            assert!(!text.contains("annotation"), "{text}");
        }
    }
}
