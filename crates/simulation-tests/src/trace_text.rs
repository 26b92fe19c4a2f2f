//! Text output of scenarios and traces.

use std::fmt::Write as _;

use upgrade_core::event::{EventKind, StepProgress};
use upgrade_core::journal::{Outcome, Record};
use upgrade_core::plan::RebootMode;
use upgrade_engine::drive::End;

use crate::scenario::{Scenario, Want};
use crate::trace::{Act, ExternalAction, Fate, TraceEvent, TraceKind, UserCommand};
use crate::world::START;

/// A scenario in a few lines.
pub fn scenario(scenario: &Scenario) -> String {
    let Scenario { control_planes, workers, talos, kubernetes, kit, troubles, wants, .. } =
        scenario;
    let (platform, named) = (scenario.machines.platform.name(), scenario.machines.named.name());
    let secure = if scenario.machines.secure_boot { " with Secure Boot" } else { "" };
    let renamed = if scenario.renames() { ", an extension is renamed" } else { "" };
    let foreign = scenario.foreign.name();
    let mut text = format!(
        "{control_planes} control planes, {workers} workers, {platform}{secure}, {named} in the \
         configurations{renamed}, {foreign}, Talos {talos}, Kubernetes {kubernetes}, workloads \
         {kit:?}\n"
    );
    for want in wants {
        let _ = match want {
            Want::Versions(intent) => {
                let version = |it: &Option<upgrade_core::version::Version>| {
                    it.as_ref().map_or_else(|| "unchanged".to_owned(), ToString::to_string)
                };
                let (talos, kubernetes) = (version(&intent.talos), version(&intent.kubernetes));
                let back = if intent.rollback { " (rollback)" } else { "" };
                for (name, own) in &intent.nodes {
                    let _ = writeln!(text, "of {name}: {own:?}");
                }
                writeln!(text, "wanted: Talos {talos}, Kubernetes {kubernetes}{back}")
            }
            Want::Back(node) => writeln!(text, "wanted: node number {node} rolls back"),
        };
    }
    for trouble in troubles {
        let _ = writeln!(text, "at {:>5} s: {:?}", trouble.after, trouble.kind);
    }
    text
}

/// The trace of a run: one line for each important event.
pub fn story(log: &[TraceEvent]) -> String {
    let mut text = String::new();
    for seen in log {
        if let Some(words) = words(&seen.what) {
            let at = seen.at.duration_since(START);
            let (seconds, millis) = (at.as_secs(), at.subsec_millis());
            let _ = writeln!(text, "{seconds:>7}.{millis:03}  {words}");
        }
    }
    text
}

fn words(what: &TraceKind) -> Option<String> {
    Some(match what {
        TraceKind::Starts { runner, plan, fresh } => {
            let how = if *fresh { "begins" } else { "continues" };
            format!("process {runner} {how} plan {}", plan.hash().short())
        }
        TraceKind::Dies { runner } => format!("process {runner} is killed"),
        TraceKind::Ends { runner, end } => format!("process {runner} ends: {}", end_words(end)),
        TraceKind::Wrote { runner, entry } => {
            format!("process {runner} writes: {}", entry_words(&entry.record))
        }
        TraceKind::Reported { event, .. } => match &event.kind {
            EventKind::Waiting { why, until } => format!("    reports: waits until {until}: {why}"),
            EventKind::StepProgress { step, progress: StepProgress { message, .. } } => {
                format!("    reports: {step}: {message}")
            }
            _ => return None,
        },
        TraceKind::Asked { known: true, .. } => return None,
        TraceKind::Asked { runner, question, .. } => {
            format!("    process {runner} asks {question:?} without an answer")
        }
        TraceKind::Act { runner, act, fate } => {
            let lost = if *fate == Fate::Lost { " (it never arrives)" } else { "" };
            format!("process {runner} {}{lost}", act_words(act))
        }
        TraceKind::Boots { node } => format!("{node} has booted"),
        TraceKind::Installs { node } => format!("an installer starts on {node}"),
        TraceKind::External { action } => match action {
            ExternalAction::Cordon { node, on: true } => format!("someone cordons {node}"),
            ExternalAction::Cordon { node, on: false } => format!("someone uncordons {node}"),
            ExternalAction::Reboot { node } => format!("someone reboots {node}"),
            ExternalAction::Arms { node } => format!("someone runs an installer on {node}"),
            ExternalAction::Stages { node } => format!("someone stages a configuration of {node}"),
            ExternalAction::Wires { bad: true } => {
                "messages get lost, delayed or duplicated".to_owned()
            }
            ExternalAction::Wires { bad: false } => "the network is back to normal".to_owned(),
            ExternalAction::Registers { node } => format!("{node} registers, without Talos"),
            ExternalAction::Join { node } => format!("{node} joins"),
            ExternalAction::Leave { node } => format!("{node} leaves"),
            ExternalAction::Breaks { node, fault } => format!("fault {fault} begins on {node}"),
            ExternalAction::Mends { node, fault } => format!("fault {fault} ends on {node}"),
        },
        TraceKind::User { command } => match command {
            UserCommand::Pause => "the user pauses the run".to_owned(),
            UserCommand::Resume => "the user resumes the run".to_owned(),
            UserCommand::Retarget => "the user sets another target".to_owned(),
            UserCommand::Stop => "the user stops the run".to_owned(),
        },
    })
}

fn end_words(end: &Result<End, String>) -> String {
    match end {
        Ok(End::Done) => "done".to_owned(),
        Ok(End::Halted { reason, armed, cordoned }) => {
            format!("halted: {reason} (armed {armed:?}, cordoned {cordoned:?})")
        }
        Ok(End::Paused { by }) => format!("paused by {by}"),
        Ok(End::Stopped) => "stopped".to_owned(),
        Err(why) => format!("fails: {why}"),
    }
}

fn entry_words(record: &Record) -> String {
    match record {
        Record::Began => "began".to_owned(),
        Record::Inherited { cordons, armed } => {
            let armed: Vec<_> = armed.keys().collect();
            format!("adopts the cordons of {cordons:?}, armed {armed:?}")
        }
        Record::Lifted { node } => format!("uncordoned {node}"),
        Record::Started { step, attempt, evidence } => {
            let evidence = evidence.as_ref().map(|it| format!(", {it:?}")).unwrap_or_default();
            format!("started {step} (attempt {attempt}{evidence})")
        }
        Record::Finished { step, outcome, .. } => match outcome {
            Outcome::Done { .. } => format!("done {step}"),
            Outcome::Skipped { why } => format!("skipped {step}: {why}"),
            Outcome::Failed { failure } => format!("failed {step}: {failure}"),
        },
        Record::Waiting { key } => format!("waiting for {key}"),
        Record::Paused { by } => format!("paused by {by}"),
        Record::Resumed { by } => format!("resumed by {by}"),
        Record::Halted { why } => format!("halted: {why}"),
        Record::Completed => "completed".to_owned(),
    }
}

fn by(mode: RebootMode) -> &'static str {
    match mode {
        RebootMode::Default => "",
        RebootMode::Powercycle => " by power cycle",
    }
}

fn act_words(act: &Act) -> String {
    match act {
        Act::Pull { node, image } => format!("pulls {image} on {node}"),
        Act::Install { node, image } => format!("installs {image} on {node}"),
        Act::Upgrade { node, image, mode } => {
            format!("upgrades {node} to {image}{}", by(*mode))
        }
        Act::Reboot { node, mode } => format!("reboots {node}{}", by(*mode)),
        Act::Rollback { node } => format!("rolls {node} back"),
        Act::Downgrade { node, to } => format!("enables the downgrade of etcd to {to} on {node}"),
        Act::Forfeit { node } => format!("moves etcd's leadership away from {node}"),
        Act::Snapshot => "has an etcd snapshot".to_owned(),
        Act::Configure { node, images } => format!("configures {node}: {images:?}"),
        Act::Cordon { node, on: true } => format!("cordons {node}"),
        Act::Cordon { node, on: false } => format!("uncordons {node}"),
        Act::Evict { pod, node } => {
            format!("evicts {pod} from {}", node.as_ref().map_or("nowhere", |node| &node.0))
        }
        Act::Delete { kind, namespace, name } => format!("deletes {kind} {namespace}/{name}"),
        Act::Apply { kind, namespace, name } => format!("applies {kind} {namespace}/{name}"),
    }
}
