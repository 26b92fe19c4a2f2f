//! The end of a run: what happened, how long it took, what was verified, and what to do next.

use std::path::Path;

use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::{Arming, Proof};
use upgrade_core::plan::Plan;
use upgrade_core::reason::HaltReason;
use upgrade_core::snapshot::NodeName;
use upgrade_view::{Outcomes, Timeline};

use super::layout::{self, remark};
use super::{BAD, CARE, COMMAND, FAINT, HEADING, INFO, paint, time, words};
use crate::advice;

/// What happened, how long it took, what was verified.
pub fn table(plan: &Plan, timeline: &Timeline, now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = words::rows(&Outcomes::of(plan, timeline, now))
        .into_iter()
        .map(|row| vec![row.name, row.happened, row.took, row.verified])
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut out = layout::table(&["NODE", "WHAT HAPPENED", "TOOK", "VERIFIED"], &rows, &[]);
    for proof in timeline.snapshots() {
        let Proof::EtcdSnapshot { location: file, sha256, bytes } = proof else { continue };
        let digest = sha256.get(..12).unwrap_or(sha256);
        let text = format!("{file} ({bytes} bytes, sha256 {digest}…)");
        out.push_str(&remark(INFO, "etcd snapshot", &text));
    }
    out
}

/// A run that reached its end.
pub fn completed(plan: &Plan, timeline: &Timeline) -> String {
    let took = time::took(timeline.took());
    let changes = words::changes(&plan.from, &plan.to);
    format!("{}: {changes} in {took}\n", paint(HEADING, "done"))
}

/// A halted run is resumed only to uncordon its nodes (rule 7).
pub fn uncordoning(cordoned: &[NodeName]) -> String {
    let text = format!("the last run halted and left {} cordoned", words::list(cordoned));
    remark(CARE, "uncordoning", &format!("{text}; resuming it to uncordon them"))
}

/// A run that needs a person: why, what is left, what to do.
pub fn halted(
    why: &HaltReason,
    armed: &[(NodeName, Arming)],
    cordoned: &[NodeName],
    resume: &str,
) -> String {
    let mut out = remark(BAD, "halted", &why.to_string());
    out.push_str(&remark(FAINT, "  next", &advice::text(&why.advice())));
    out.push_str(&next_boots(armed));
    if !cordoned.is_empty() {
        let text = format!("{}: not ready, so the cordon stays", words::list(cordoned));
        out.push_str(&remark(CARE, "cordoned", &text));
    }
    out + "\n" + &next("Once fixed, continue with", resume)
}

/// What nodes boot next, where that is not what runs, or is unknown (rule 5).
pub fn next_boots(armed: &[(NodeName, Arming)]) -> String {
    let named = |certain: bool| {
        let nodes = armed.iter().filter(|(_, state)| state.is_certain() == certain);
        nodes.map(|(node, _)| node.0.as_str()).collect::<Vec<_>>().join(", ")
    };
    let mut out = String::new();
    let (sure, unsure) = (named(true), named(false));
    if !sure.is_empty() {
        let text = format!("{sure}: the next boot is into the new version");
        out.push_str(&remark(CARE, "armed", &text));
    }
    if !unsure.is_empty() {
        let text = format!("{unsure}: unknown; the next boot may be into the new version");
        out.push_str(&remark(CARE, "armed?", &text));
    }
    out
}

/// A run that is paused.
pub fn paused(by: &str, resume: &str) -> String {
    let text = format!("by {by}; no node is in flight");
    remark(CARE, "paused", &text) + "\n" + &next("Continue with", resume)
}

/// A pause was requested.
pub fn pausing(by: &str, resume: &str) -> String {
    let text = format!("requested by {by}; nodes in flight reach a safe state first");
    remark(CARE, "pausing", &text) + &remark(FAINT, "   then", &format!("continue with `{resume}`"))
}

/// An immediate stop was requested.
pub fn stopping(resume: &str) -> String {
    remark(CARE, "stopping", "now; steps in progress are interrupted")
        + &remark(FAINT, "    then", &format!("continue with `{resume}`"))
}

/// The report was written.
pub fn report(path: &Path) -> String {
    remark(INFO, "report", &path.display().to_string())
}

/// The profile was updated.
pub fn profile(path: &Path) -> String {
    remark(INFO, "profile", &format!("{} updated to the versions that run now", path.display()))
}

/// A run that was stopped at once (rule 8).
pub fn stopped(resume: &str) -> String {
    let text = "interrupted steps are checked first when the run resumes";
    remark(CARE, "stopped", text) + "\n" + &next("Continue with", resume)
}

/// The command to run next.
pub fn next(what: &str, command: &str) -> String {
    let mut out = format!("{}:\n", paint(HEADING, what));
    for line in layout::command(command) {
        out.push_str("  ");
        out.push_str(&paint(COMMAND, &line));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixtures as fixtures;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_run_that_is_done() {
        let plan = fixtures::plan();
        let timeline = Timeline::from_entries(&fixtures::whole(&plan));
        let text = table(&plan, &timeline, fixtures::time(9999)) + &completed(&plan, &timeline);
        insta::assert_snapshot!(plain(&text));
    }

    #[test]
    fn a_run_that_halted() {
        let plan = fixtures::plan();
        let entries = fixtures::halted(&plan);
        let timeline = Timeline::from_entries(&entries);
        let upgrade_view::RunResult::Halted { why } = &timeline.result else { panic!() };
        let resume = "talos-operator resume --profile prod.yaml";
        let text = table(&plan, &timeline, fixtures::time(9999))
            + &halted(
                why,
                &[("cp-2".into(), Arming::Armed), ("cp-3".into(), Arming::Failed)],
                &["cp-2".into()],
                resume,
            )
            + &paused("Ctrl-C", resume)
            + &stopped(resume);
        insta::assert_snapshot!(plain(&text));
    }
}
