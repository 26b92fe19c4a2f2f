//! Drives a plan in front of a person: progress while it runs, Ctrl-C and
//! requests to pause on the way, and at the end what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use upgrade_core::intent::NodeIntent;
use upgrade_core::journal::{Entry, State};
use upgrade_core::plan::{Change, Plan, Target};
use upgrade_core::snapshot::NodeName;
use upgrade_engine::control::Word;
use upgrade_engine::drive;
use upgrade_engine::drive::{End, Run};
use upgrade_engine::journal::{Fence, Journal, JournalError};
use upgrade_engine::store::{OpenRun, RunStore as _};

use crate::Exit;
use crate::args::{Output, RunArgs};
use crate::failed::Failed;
use crate::printer::Printer;
use crate::profile::Written;
use crate::progress::Progress;
use crate::render;
use crate::session::Session;
use crate::settings;
use crate::signals::Signals;
use crate::story::Story;

/// How often the picture moves, and requests to pause are looked for.
const TICK: Duration = Duration::from_millis(250);

/// A stop at once may take this long to be one.
const STOP: Duration = Duration::from_secs(10);

/// Begins a plan. A run that did not end is replaced only if that was decided.
pub async fn begin(
    session: &Session,
    plan: Plan,
    replace: bool,
    how: &RunArgs,
    printer: Printer,
) -> Result<Exit, Failed> {
    let store = session.place.store(session.now());
    let open = store.begin(plan, replace).await?;
    run(session, open, Story::tell([]), None, how, printer).await
}

/// Goes on with the last run.
pub async fn resume(session: &Session, how: &RunArgs, printer: Printer) -> Result<Exit, Failed> {
    let runs = session.place.store(session.now());
    let open = runs.resume().await?;
    // Read after the lock is taken: no other process appends to it.
    let past = runs.last().await?;
    let story = Story::tell(past.iter().flat_map(|past| &past.entries));
    run(session, open, story, Some(settings::who()), how, printer).await
}

/// A journal that also tells its entries, for the story of the run.
struct Told<J> {
    journal: J,
    entries: mpsc::UnboundedSender<Entry>,
}

impl<J: Journal> Journal for Told<J> {
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
    mut story: Story,
    resumed_by: Option<String>,
    how: &RunArgs,
    printer: Printer,
) -> Result<Exit, Failed> {
    let OpenRun { plan, state, journal, inherited } = open;
    let request = session.place.pause_request();
    // A request that nobody was there to hear is not for this run.
    let _ = std::fs::remove_file(&request);
    let mut signals = Signals::listen();
    let (events, mut heard) = mpsc::unbounded_channel();
    let (word, control) = watch::channel(Word::Go);
    let mut progress = Progress::new(&plan, &state, how.output.output, printer);
    let (entries, mut written) = mpsc::unbounded_channel();
    let journal = Told { journal, entries };
    let mut driven = Box::pin(drive(Run {
        open: OpenRun { plan: Arc::clone(&plan), state, journal, inherited },
        io: Arc::clone(&session.live),
        runner: format!("{}/{}", settings::who(), std::process::id()),
        events: Arc::new(events),
        control,
        resumed_by,
    }));
    let resume = session.place.command("resume");
    let mut tick = tokio::time::interval(TICK);
    let mut stop_at = None;
    let ended = loop {
        tokio::select! {
            ended = &mut driven => break Some(ended),
            Some(event) = heard.recv() => progress.event(&event),
            count = signals.next() => {
                let (next, text) = interrupted(count, &resume);
                progress.note(&text);
                if next == Word::Stop {
                    stop_at.get_or_insert(tokio::time::Instant::now() + STOP);
                }
                // The receiver is gone only once the run is over.
                let _ = word.send(next);
            }
            _ = tick.tick() => {
                progress.tick(session.now());
                if let Some(by) = asked_to_pause(&request) {
                    progress.note(&render::summary::pausing(&by, &resume));
                    let _ = word.send(Word::Pause { by });
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
        story.take(&entry);
    }
    progress.end(session.now());
    let _ = std::fs::remove_file(&request);
    let end = match ended {
        Some(Ok(end)) => end,
        Some(Err(error)) => {
            let next = format!("see why, then go on with `{resume}`");
            return Err(Failed::of(&error, next));
        }
        None => End::Stopped,
    };
    finish(session, &plan, &story, &end, how, printer).await
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn interrupted(count: usize, resume: &str) -> (Word, String) {
    if count == 1 {
        let by = "Ctrl-C".to_owned();
        (Word::Pause { by: by.clone() }, render::summary::pausing(&by, resume))
    } else {
        (Word::Stop, render::summary::stopping(resume))
    }
}

/// Who left a request to pause, if anybody did. It is taken away: it was heard.
fn asked_to_pause(request: &Path) -> Option<String> {
    let by = std::fs::read_to_string(request).ok()?;
    let _ = std::fs::remove_file(request);
    let by: String = by.lines().next().unwrap_or_default().chars().take(200).collect();
    Some(if by.is_empty() { "somebody".to_owned() } else { by })
}

/// Tells how it ended, and leaves behind what was asked for.
async fn finish(
    session: &Session,
    plan: &Plan,
    story: &Story,
    end: &End,
    how: &RunArgs,
    printer: Printer,
) -> Result<Exit, Failed> {
    if how.output.output == Output::Text {
        printer.stdout(&render::summary::table(plan, story, session.now()));
    }
    let resume = session.place.command("resume");
    let (text, exit) = match end {
        End::Done => (render::summary::completed(plan, story), Exit::Done),
        End::Halted { reason, armed, cordoned } => {
            (render::summary::halted(reason, armed, cordoned, &resume), Exit::Refused)
        }
        End::Paused { by } => (render::summary::paused(by, &resume), Exit::Interrupted),
        End::Stopped => (render::summary::stopped(&resume), Exit::Interrupted),
    };
    printer.stderr(&text);
    if let Some(path) = &how.report {
        let page = render::page::page(plan, story);
        std::fs::write(path, page).map_err(|error| {
            let message = format!("cannot write the report {}: {error}", path.display());
            Failed::refused(message, "name another file with --report")
        })?;
        printer.stderr(&render::summary::report(path));
    }
    if *end == End::Done {
        write_back(session, plan, printer).await?;
    }
    Ok(exit)
}

/// Writes into the profile what the run brought.
pub async fn write_back(session: &Session, plan: &Plan, printer: Printer) -> Result<(), Failed> {
    let Some(profile) = &session.place.profile else {
        return Ok(());
    };
    // A plan may be for some nodes only; what all run belongs there, but for those that
    // the profile itself speaks of.
    let some = plan.rollback || !plan.nodes.is_empty();
    if some && !everywhere(session, plan, &profile.nodes).await {
        return Ok(());
    }
    if profile.write_back(&written(plan))? {
        printer.stderr(&render::summary::profile(&profile.path));
    }
    Ok(())
}

/// What a plan changes, for the profile. What it leaves alone stays there too:
/// it may be a wish that has not been granted yet.
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
                // Without a word on extensions the user chose the installer.
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
    use crate::sample;

    #[test]
    fn only_what_changed_is_written_back() {
        let plan = sample::plan();
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
    fn a_request_to_pause_is_heard_once() {
        let folder = tempfile::tempdir().unwrap();
        let request = folder.path().join("pause");
        assert_eq!(asked_to_pause(&request), None);
        std::fs::write(&request, "anna@desk\n").unwrap();
        assert_eq!(asked_to_pause(&request).as_deref(), Some("anna@desk"));
        assert_eq!(asked_to_pause(&request), None);
    }

    #[test]
    fn the_second_interruption_stops_at_once() {
        assert!(matches!(interrupted(1, "r").0, Word::Pause { .. }));
        assert_eq!(interrupted(2, "r").0, Word::Stop);
        assert_eq!(interrupted(3, "r").0, Word::Stop);
    }
}
