//! Drives a plan for a person: shows progress, handles Ctrl-C and requests to pause, and sums up
//! the run at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use upgrade_core::intent::NodeIntent;
use upgrade_core::journal::{Entry, State};
use upgrade_core::plan::{Change, Plan, Target};
use upgrade_core::snapshot::NodeName;
use upgrade_engine::control::Command;
use upgrade_engine::drive;
use upgrade_engine::drive::{End, Run};
use upgrade_engine::journal::{Fence, Journal, JournalError};
use upgrade_engine::store::{OpenRun, RunStore as _};
use upgrade_view::Timeline;

use crate::Exit;
use crate::args::{Output, RunArgs};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::profile::Written;
use crate::progress::Progress;
use crate::render;
use crate::session::Session;
use crate::settings;
use crate::signals::Signals;

/// How often the display is redrawn and the request to pause is looked for.
const TICK: Duration = Duration::from_millis(250);

/// How long a stop at once may take before the run is dropped.
const STOP: Duration = Duration::from_secs(10);

/// Starts a plan. `replace` says whether it may replace an unfinished run.
pub async fn begin(
    session: &Session,
    plan: Plan,
    replace: bool,
    how: &RunArgs,
    printer: Printer,
) -> Result<Exit, CommandError> {
    let store = session.config.store(session.now());
    let open = store.begin(plan, replace).await?;
    run(session, open, Timeline::default(), None, how, printer).await
}

/// Continues the last run.
pub async fn resume(
    session: &Session,
    how: &RunArgs,
    printer: Printer,
) -> Result<Exit, CommandError> {
    let runs = session.config.store(session.now());
    let open = runs.resume().await?;
    // Read after the lock is taken: no other process appends to it.
    let past = runs.last().await?;
    let timeline = Timeline::from_entries(past.iter().flat_map(|past| &past.entries));
    run(session, open, timeline, Some(settings::who()), how, printer).await
}

/// A journal that also shows its entries to the timeline.
struct Observed<J> {
    journal: J,
    entries: mpsc::UnboundedSender<Entry>,
}

impl<J: Journal> Journal for Observed<J> {
    async fn append(&mut self, entry: &Entry, state: &State) -> Result<(), JournalError> {
        self.journal.append(entry, state).await?;
        // The receiver is gone only once the run is over.
        let _ = self.entries.send(entry.clone());
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        self.journal.fence()
    }
}

async fn run<J: Journal>(
    session: &Session,
    open: OpenRun<J>,
    mut timeline: Timeline,
    resumed_by: Option<String>,
    how: &RunArgs,
    printer: Printer,
) -> Result<Exit, CommandError> {
    let OpenRun { plan, state, journal, inherited } = open;
    let request = session.config.pause_request();
    // A request from before is not for this run.
    let _ = std::fs::remove_file(&request);
    let mut signals = Signals::listen();
    let (events, mut heard) = mpsc::unbounded_channel();
    let (commands, control) = watch::channel(Command::Continue);
    let mut progress = Progress::new(&plan, &state, how.output.output, printer);
    let (entries, mut written) = mpsc::unbounded_channel();
    let journal = Observed { journal, entries };
    let mut driven = Box::pin(drive(Run {
        open: OpenRun { plan: Arc::clone(&plan), state, journal, inherited },
        io: Arc::clone(&session.live),
        runner: format!("{}/{}", settings::who(), std::process::id()),
        events: Arc::new(events),
        control,
        resumed_by,
    }));
    let resume = session.config.command("resume");
    let mut tick = tokio::time::interval(TICK);
    let mut stop_at = None;
    let ended = loop {
        tokio::select! {
            ended = &mut driven => break Some(ended),
            Some(event) = heard.recv() => progress.event(&event),
            count = signals.next() => {
                let (next, text) = interrupted(count, &resume);
                progress.note(&text);
                if next == Command::Stop {
                    stop_at.get_or_insert(tokio::time::Instant::now() + STOP);
                }
                // The receiver is gone only once the run is over.
                let _ = commands.send(next);
            }
            _ = tick.tick() => {
                progress.tick(session.now());
                if let Some(by) = asked_to_pause(&request) {
                    progress.note(&render::summary::pausing(&by, &resume));
                    let _ = commands.send(Command::Pause { by });
                }
            }
            () = sleep_until(stop_at) => break None,
        }
    };
    drop(driven);
    while let Ok(event) = heard.try_recv() {
        progress.event(&event);
    }
    while let Ok(entry) = written.try_recv() {
        timeline.push(&entry);
    }
    progress.end(session.now());
    let _ = std::fs::remove_file(&request);
    let end = match ended {
        Some(Ok(end)) => end,
        Some(Err(error)) => {
            let next = format!("correct the cause, then continue with `{resume}`");
            return Err(CommandError::caused_by(&error, next));
        }
        None => End::Stopped,
    };
    finish(session, &plan, &timeline, &end, how, printer).await
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn interrupted(count: usize, resume: &str) -> (Command, String) {
    if count == 1 {
        let by = "Ctrl-C".to_owned();
        (Command::Pause { by: by.clone() }, render::summary::pausing(&by, resume))
    } else {
        (Command::Stop, render::summary::stopping(resume))
    }
}

/// The author of a request to pause, if there is one. The request is removed.
fn asked_to_pause(request: &Path) -> Option<String> {
    let by = std::fs::read_to_string(request).ok()?;
    let _ = std::fs::remove_file(request);
    let by: String = by.lines().next().unwrap_or_default().chars().take(200).collect();
    Some(if by.is_empty() { "another process".to_owned() } else { by })
}

/// Sums up the run, writes the report and updates the profile.
async fn finish(
    session: &Session,
    plan: &Plan,
    timeline: &Timeline,
    end: &End,
    how: &RunArgs,
    printer: Printer,
) -> Result<Exit, CommandError> {
    if how.output.output == Output::Text {
        printer.stdout(&render::summary::table(plan, timeline, session.now()));
    }
    let resume = session.config.command("resume");
    let (text, exit) = match end {
        End::Done => (render::summary::completed(plan, timeline), Exit::Done),
        End::Halted { reason, armed, cordoned } => {
            (render::summary::halted(reason, armed, cordoned, &resume), Exit::Refused)
        }
        End::Paused { by } => (render::summary::paused(by, &resume), Exit::Interrupted),
        End::Stopped => (render::summary::stopped(&resume), Exit::Interrupted),
    };
    printer.stderr(&text);
    if let Some(path) = &how.report {
        let page = render::html_report::page(plan, timeline);
        std::fs::write(path, page).map_err(|error| {
            let message = format!("cannot write the report {}: {error}", path.display());
            CommandError::refused(message, "name another file with --report")
        })?;
        printer.stderr(&render::summary::report(path));
    }
    if *end == End::Done {
        write_back(session, plan, printer).await?;
    }
    Ok(exit)
}

/// Updates the versions in the profile.
pub async fn write_back(
    session: &Session,
    plan: &Plan,
    printer: Printer,
) -> Result<(), CommandError> {
    let Some(profile) = &session.config.profile else {
        return Ok(());
    };
    // A plan may be for some nodes only. The profile names what every node runs, except for
    // nodes with an entry of their own.
    let some = plan.rollback || !plan.nodes.is_empty();
    if some && !everywhere(session, plan, &profile.nodes).await {
        return Ok(());
    }
    if profile.write_back(&written(plan))? {
        printer.stderr(&render::summary::profile(&profile.path));
    }
    Ok(())
}

/// What a plan changes, for the profile. The rest of the profile stays: it may be a target that
/// has not been reached yet.
pub fn written(plan: &Plan) -> Written {
    let mut written = Written::default();
    let mut schematics = BTreeSet::new();
    for hop in &plan.hops {
        match &hop.change {
            Change::Talos { .. } => written.talos.clone_from(&plan.to.talos),
            Change::Kubernetes { to, .. } => written.kubernetes = Some(to.clone()),
        }
        let alike = |node: &NodeName| !plan.nodes.contains_key(node);
        for lane in hop.lanes().filter(|lane| lane.node.as_ref().is_some_and(alike)) {
            if let Target::Talos(target) = &lane.target {
                // A target without extensions means that the user chose the installer.
                let chosen = target.extensions.is_none() && !plan.rollback;
                schematics.insert(target.schematic.clone().filter(|_| chosen));
            }
        }
    }
    if schematics.len() == 1 {
        written.schematic = schematics.pop_first().flatten();
    }
    written
}

async fn everywhere(session: &Session, plan: &Plan, but: &BTreeMap<NodeName, NodeIntent>) -> bool {
    let Ok(snapshot) = session.snapshot().await else {
        return false;
    };
    let runs = |name: &NodeName| {
        let facts = snapshot.nodes.get(name).and_then(|node| node.talos.known());
        facts.map(|facts| facts.version.clone()) == plan.to.talos
    };
    let mut others = snapshot.nodes.keys().filter(|name| !but.contains_key(*name));
    others.all(runs) && snapshot.kubernetes.known() == plan.to.kubernetes.as_ref()
}

#[cfg(test)]
mod tests {
    use upgrade_core::version::Version;

    use super::*;
    use crate::test_fixtures as fixtures;

    #[test]
    fn only_what_changed_is_written_back() {
        let plan = fixtures::plan();
        let all = written(&plan);
        assert_eq!(all.talos, Some(Version::new(1, 13, 9)));
        assert_eq!(all.kubernetes, Some(Version::new(1, 36, 3)));
        assert_eq!(all.schematic, None, "the nodes kept their own");
        let mut os = plan;
        os.hops.retain(|hop| matches!(hop.change, Change::Talos { .. }));
        for lane in
            os.hops.iter_mut().flat_map(|hop| &mut hop.waves).flat_map(|wave| &mut wave.lanes)
        {
            if let Target::Talos(target) = &mut lane.target {
                target.extensions = None;
                target.schematic = Some("ab".repeat(32));
            }
        }
        let os = written(&os);
        assert_eq!(os.kubernetes, None);
        assert_eq!(os.schematic, Some("ab".repeat(32)));
    }

    #[test]
    fn a_request_to_pause_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let request = folder.path().join("pause");
        assert_eq!(asked_to_pause(&request), None);
        std::fs::write(&request, "anna@desk\n").unwrap();
        assert_eq!(asked_to_pause(&request).as_deref(), Some("anna@desk"));
        assert_eq!(asked_to_pause(&request), None);
    }

    #[test]
    fn the_second_interruption_stops_at_once() {
        assert!(matches!(interrupted(1, "r").0, Command::Pause { .. }));
        assert_eq!(interrupted(2, "r").0, Command::Stop);
        assert_eq!(interrupted(3, "r").0, Command::Stop);
    }
}
