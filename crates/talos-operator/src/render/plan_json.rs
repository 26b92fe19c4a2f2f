//! The plan for programs. `docs/plan-json.md` documents every field; a change
//! that a reader of the old form would misunderstand raises [`FORMAT`].

use serde::Serialize;
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_planner::check::Finding;
use upgrade_planner::estimate::Estimate;
use upgrade_planner::report::{Note, Refusal, Warning};

use super::{Answer, Outcome};
use crate::advice;

/// The version of the form.
pub(super) const FORMAT: u32 = 1;

#[derive(Serialize)]
struct View<'a> {
    format: u32,
    outcome: &'static str,
    hash: Option<&'a PlanHash>,
    plan: Option<&'a Plan>,
    report: ReportView<'a>,
    findings: &'a [Finding],
    estimate: Option<&'a Estimate>,
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct ReportView<'a> {
    refusals: Vec<Item<'a, Refusal>>,
    warnings: Vec<Item<'a, Warning>>,
    notes: Vec<Item<'a, Note>>,
}

/// A typed reason beside the words a person would read.
#[derive(Serialize)]
struct Item<'a, T> {
    #[serde(flatten)]
    reason: &'a T,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl<'a, T: ToString> Item<'a, T> {
    fn new(reason: &'a T) -> Self {
        Self { reason, message: reason.to_string(), advice: None }
    }
}

/// The answer as one JSON object.
pub fn plan_json(answer: &Answer) -> String {
    let Answer { outcome, report, findings, .. } = answer;
    let report = ReportView {
        refusals: report
            .refusals
            .iter()
            .map(|refusal| Item {
                advice: Some(advice::text(&refusal.advice())),
                ..Item::new(refusal)
            })
            .collect(),
        warnings: report
            .warnings
            .iter()
            .map(|warning| {
                let advice = warning.advice().as_ref().map(advice::text);
                Item { advice, ..Item::new(warning) }
            })
            .collect(),
        notes: report.notes.iter().map(Item::new).collect(),
    };
    let nothing = |outcome, report| View {
        format: FORMAT,
        outcome,
        hash: None,
        plan: None,
        report,
        findings,
        estimate: None,
        next: None,
    };
    let view = match outcome {
        Outcome::Planned { hash, plan, estimate, next } => View {
            hash: Some(hash),
            plan: Some(plan),
            estimate: Some(estimate),
            next: next.as_deref(),
            ..nothing("planned", report)
        },
        Outcome::NothingToDo => nothing("nothing-to-do", report),
        Outcome::Refused => nothing("refused", report),
    };
    pretty(&view)
}

/// Two spaces deep, with a line break at the end, as every tool prints it.
pub(super) fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("only strings are keys here") + "\n"
}
