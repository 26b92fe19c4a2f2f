//! The end of a run: what happened, how long it took, what was verified, and
//! what to do if that is not all.

use std::path::Path;

use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::{Arming, Proof};
use upgrade_core::plan::Plan;
use upgrade_core::reason::HaltReason;
use upgrade_core::snapshot::NodeName;

use super::layout::{self, hang, remark};
use super::{BAD, CARE, COMMAND, FAINT, HEADING, INFO, paint, time};
use crate::progress::moves;
use crate::story::{Story, rows};

/// What happened, how long it took, what was verified.
pub fn table(plan: &Plan, story: &Story, now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = rows(plan, story, now)
        .into_iter()
        .map(|row| {
            let name = row.node.map_or_else(|| "cluster".to_owned(), |node| node.0);
            vec![name, row.happened, time::took(row.took), row.verified]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut out = layout::table(&["NODE", "WHAT HAPPENED", "TOOK", "VERIFIED"], &rows, &[]);
    for proof in story.snapshots() {
        let Proof::EtcdSnapshot { location: file, sha256, bytes } = proof else { continue };
        let digest = sha256.get(..12).unwrap_or(sha256);
        let text = format!("{file} ({bytes} bytes, sha256 {digest}…)");
        out.push_str(&remark(INFO, "etcd snapshot", &text));
    }
    out
}

/// A run that reached its end.
pub fn completed(plan: &Plan, story: &Story) -> String {
    let took = time::took(story.took());
    format!("{}: {} in {took}\n", paint(HEADING, "done"), moves(&plan.from, &plan.to))
}

/// A halted run is taken up again only to give its nodes back.
pub fn giving_back(cordoned: &[NodeName]) -> String {
    let nodes: Vec<&str> = cordoned.iter().map(|node| node.0.as_str()).collect();
    let text = format!("the last run halted and left {} cordoned", nodes.join(", "));
    remark(CARE, "giving back", &format!("{text}; going on with it to lift that"))
}

/// A run that needs a person: why, what is left, what to do.
pub fn halted(
    why: &HaltReason,
    armed: &[(NodeName, Arming)],
    cordoned: &[NodeName],
    resume: &str,
) -> String {
    let mut out = remark(BAD, "halted", &why.to_string());
    out.push_str(&remark(FAINT, "  next", why.advice()));
    let list =
        |nodes: &[NodeName]| nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    out.push_str(&next_boots(armed));
    if !cordoned.is_empty() {
        let text = format!("{}: not ready, so the cordon stays", list(cordoned));
        out.push_str(&remark(CARE, "cordoned", &text));
    }
    out + &go_on("when that is mended", resume)
}

/// What nodes boot next, where that is not what runs, or not known.
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
        let text = format!("{unsure}: not known; the next boot may be into the new version");
        out.push_str(&remark(CARE, "armed?", &text));
    }
    out
}

/// A run that somebody paused.
pub fn paused(by: &str, resume: &str) -> String {
    let text = format!("by {by}; no node is in flight");
    remark(CARE, "paused", &text) + &go_on("to go on", resume)
}

/// A run that is asked to pause.
pub fn pausing(by: &str, resume: &str) -> String {
    let text = format!("{by} asks for a pause: what is in flight reaches a safe state first");
    remark(CARE, "pausing", &text) + &remark(FAINT, "  then", &format!("go on with `{resume}`"))
}

/// A run that is asked to stop at once.
pub fn stopping(resume: &str) -> String {
    remark(CARE, "stopping", "at once")
        + &remark(FAINT, "  then", &format!("go on with `{resume}`"))
}

/// Where the report lies.
pub fn report(path: &Path) -> String {
    remark(INFO, "report", &path.display().to_string())
}

/// That the profile was written.
pub fn profile(path: &Path) -> String {
    remark(INFO, "profile", &format!("{} says what runs now", path.display()))
}

/// A run that was stopped at once.
pub fn stopped(resume: &str) -> String {
    let text = "what was under way is looked at again before anything else is done";
    remark(CARE, "stopped", text) + &go_on("to go on", resume)
}

/// The command that goes on.
pub fn go_on(when: &str, command: &str) -> String {
    let mut out = hang("", 0, &format!("{}, {when}:", paint(HEADING, "Next")));
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
    use crate::sample;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_run_that_is_done() {
        let plan = sample::plan();
        let story = Story::tell(&sample::whole(&plan));
        let text = table(&plan, &story, sample::time(9999)) + &completed(&plan, &story);
        insta::assert_snapshot!(plain(&text));
    }

    #[test]
    fn a_run_that_halted() {
        let plan = sample::plan();
        let entries = sample::halted(&plan);
        let story = Story::tell(&entries);
        let crate::story::Standing::Halted(why) = &story.standing else { panic!() };
        let resume = "talos-operator resume --profile prod.yaml";
        let text = table(&plan, &story, sample::time(9999))
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
