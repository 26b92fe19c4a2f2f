//! What people and programs read: pure functions from answers to text.
//!
//! Colours are laid over words, never in their place: the printer takes them
//! away where they would not be seen.

pub(crate) mod layout;
pub mod matrix;
mod next;
pub mod page;
mod phases;
mod plan_json;
mod plan_text;
pub mod status;
pub mod summary;
pub(crate) mod time;
mod timeline;

use anstyle::{AnsiColor, Style};
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_planner::check::Finding;
use upgrade_planner::estimate::Estimate;
use upgrade_planner::report::Report;

use crate::usage::Usage;

pub use next::next_command;
pub use plan_json::plan_json;
pub use plan_text::plan_text;

/// What came of planning.
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
        /// The command that would carry it out.
        next: String,
    },
    /// Everything is where it should be.
    NothingToDo,
    /// There is no plan; the report says why.
    Refused,
}

/// What there is to show.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What came of planning.
    pub outcome: Outcome,
    /// What the planner has to say about it.
    pub report: Report,
    /// What a second look at the plan found.
    pub findings: Vec<Finding>,
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

/// A command line that makes no sense.
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
