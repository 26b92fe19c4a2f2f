//! Output for people and programs: pure functions from answers to text.
//!
//! Colours never carry information of their own: the printer removes them where they would
//! not be seen.

pub mod health;
pub mod html_report;
pub(crate) mod layout;
pub mod matrix;
mod next;
mod phases;
mod plan_json;
mod plan_text;
pub mod status;
pub mod summary;
pub(crate) mod time;
mod timeline;
pub(crate) mod words;

use anstyle::{AnsiColor, Style};
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_planner::check::Finding;
use upgrade_planner::estimate::Estimate;
use upgrade_planner::report::Report;

use crate::args::quoted;
use crate::error::CommandError;
use crate::usage::Usage;

pub use next::next_command;
pub use plan_json::plan_json;
pub use plan_text::plan_text;

/// The result of planning.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// There is a plan.
    Planned {
        /// Its content hash.
        hash: PlanHash,
        /// The plan.
        plan: Box<Plan>,
        /// How long it takes.
        estimate: Estimate,
        /// The command that runs it, unless this one does.
        next: Option<String>,
    },
    /// Everything already runs the target versions.
    NothingToDo,
    /// There is no plan; the report says why.
    Refused,
}

/// What there is to show.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The result of planning.
    pub outcome: Outcome,
    /// Refusals, warnings and notes.
    pub report: Report,
    /// The findings of the plan's check.
    pub findings: Vec<Finding>,
    /// Whether Talos runs CoreDNS, as far as is known.
    pub core_dns: bool,
}

pub(crate) const HEADING: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const INFO: Style = AnsiColor::Cyan.on_default();
pub(crate) const COMMAND: Style = AnsiColor::Green.on_default();

pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// The error of a command.
pub fn error(error: &CommandError) -> String {
    error.remarks.iter().map(usage).collect()
}

/// A warning.
pub fn warning(text: &str) -> String {
    layout::remark(CARE, "warning", text)
}

/// A command line that is run as if the user had typed it.
pub fn typed(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let mut out = String::from("\n");
    for line in layout::command(&format!("$ talos-operator {}", words.join(" "))) {
        out.push_str(&paint(COMMAND, &line));
        out.push('\n');
    }
    out.push('\n');
    out
}

/// The user did not confirm.
pub fn nothing_done() -> String {
    "nothing was done\n".to_owned()
}

/// An error, and what to do about it.
pub fn usage(usage: &Usage) -> String {
    let Usage { message, next } = usage;
    layout::remark(BAD, "error", message) + &layout::remark(FAINT, "  next", next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do() {
        let text = usage(&Usage::new("it is wrong", "make it right"));
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "error: it is wrong\n  next: make it right\n"
        );
    }
}
