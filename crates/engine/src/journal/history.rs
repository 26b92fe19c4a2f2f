//! Reads runs from disk: the one at hand and those before it.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, State};
use upgrade_core::plan::{PlanHash, Target, Versions};
use upgrade_core::reason::HaltReason;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};
use upgrade_core::version::Version;
use upgrade_planner::installer::schematic_of;

use super::file::{At as _, FORMAT, FileError, Folder, Header};

/// A run as it was written down.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The first line.
    pub header: Header,
    /// All whole entries.
    pub entries: Vec<Entry>,
    /// How many bytes of the file are whole lines.
    pub(super) whole_bytes: u64,
    path: PathBuf,
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum RunResult {
    /// Everything planned is done.
    Completed,
    /// It needs a person.
    Halted {
        /// Why.
        why: HaltReason,
    },
    /// A person paused it.
    Paused {
        /// Who.
        by: String,
    },
    /// It is under way, or its process is gone.
    Open,
}

impl Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("done"),
            Self::Halted { why } => write!(f, "halted: {why}"),
            Self::Paused { by } => write!(f, "paused by {by}"),
            Self::Open => f.write_str("under way, or broken off"),
        }
    }
}

/// A run in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Its name among the cluster's runs.
    pub name: String,
    /// The cluster.
    pub cluster: String,
    /// Its plan.
    pub plan: PlanHash,
    /// Whether it was an asked-for way back.
    pub rollback: bool,
    /// What ran before.
    pub from: Versions,
    /// What it leads to.
    pub to: Versions,
    /// When it began.
    pub began: Timestamp,
    /// When the last entry was written.
    pub last: Timestamp,
    /// Who wrote it.
    pub runner: Option<String>,
    /// How it stands.
    #[serde(flatten)]
    pub result: RunResult,
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub steps: usize,
}

impl Recorded {
    /// Its name among the cluster's runs: begins with its time, so that names
    /// sort as the runs happened.
    pub fn name(&self) -> String {
        let began = self.header.began.strftime("%Y%m%dT%H%M%SZ");
        format!("{began}-{}", self.header.plan.hash().short())
    }

    /// The fold of its entries.
    pub fn state(&self) -> Result<State, FileError> {
        State::fold(&self.header.plan, &self.entries)
            .map_err(|source| FileError::Fold { path: self.path.clone(), source })
    }

    /// How it stands.
    pub fn result(&self) -> Result<RunResult, FileError> {
        Ok(result(&self.state()?))
    }

    /// It in a line.
    pub fn summary(&self) -> Result<Summary, FileError> {
        let state = self.state()?;
        let (done, steps) = state.progress();
        let plan = &self.header.plan;
        let last = self.entries.last();
        Ok(Summary {
            name: self.name(),
            cluster: plan.cluster.clone(),
            plan: state.plan().clone(),
            rollback: plan.rollback,
            from: plan.from.clone(),
            to: plan.to.clone(),
            began: self.header.began,
            last: last.map_or(self.header.began, |entry| entry.at),
            runner: last.map(|entry| entry.runner.clone()),
            result: result(&state),
            done,
            steps,
        })
    }
}

fn result(state: &State) -> RunResult {
    if state.completed() {
        return RunResult::Completed;
    }
    let halted = state.halted().map(|why| RunResult::Halted { why: why.clone() });
    let paused = state.paused().map(|by| RunResult::Paused { by: by.to_owned() });
    halted.or(paused).unwrap_or(RunResult::Open)
}

/// What a node ran before its last upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Former {
    /// The run that upgraded it.
    pub run: String,
    /// The version, which its other slot holds.
    pub version: Version,
    /// The installer that brings it back, where it is known.
    pub image: Option<ImageRef>,
    /// The schematic that it was made from, where it is known.
    pub schematic: Option<String>,
}

impl Recorded {
    /// What a node ran before this run last booted it anew.
    fn former(&self, node: &NodeName) -> Result<Option<Former>, FileError> {
        let state = self.state()?;
        let hops = self.header.plan.hops.iter().rev();
        let mut lanes = hops.flat_map(|hop| {
            let lanes = hop.waves.iter().flat_map(|wave| &wave.lanes);
            lanes.map(move |lane| (hop.number, lane))
        });
        Ok(lanes.find_map(|(hop, lane)| {
            let (Target::Talos(target), Some(name)) = (&lane.target, &lane.node) else {
                return None;
            };
            let began = |action: &Action| {
                let id = StepId { hop, node: lane.node.clone(), action: *action };
                action.boots() && state.step(&id).is_some_and(|step| step.attempts > 0)
            };
            (name == node && lane.steps.iter().any(began)).then(|| Former {
                run: self.name(),
                version: target.from.clone(),
                image: target.previous.clone(),
                schematic: target.previous.as_ref().and_then(schematic_of).map(ToOwned::to_owned),
            })
        }))
    }
}

impl Folder {
    /// What a node ran before its last upgrade: what a rollback offers.
    pub fn former(&self, node: &NodeName) -> Result<Option<Former>, FileError> {
        if let Some(former) = self.last()?.map(|run| run.former(node)).transpose()?.flatten() {
            return Ok(Some(former));
        }
        for path in self.archived()?.iter().rev() {
            if let Some(former) = read(path)?.former(node)? {
                return Ok(Some(former));
            }
        }
        Ok(None)
    }

    /// The run at hand, or the last one. Reading needs no lock.
    pub fn last(&self) -> Result<Option<Recorded>, FileError> {
        let current = self.current();
        if current.exists() { read(&current).map(Some) } else { Ok(None) }
    }

    /// Every run, the newest first.
    pub fn runs(&self) -> Result<Vec<Summary>, FileError> {
        let mut runs: Vec<Summary> =
            self.last()?.iter().map(Recorded::summary).collect::<Result<_, _>>()?;
        for path in self.archived()?.iter().rev() {
            runs.push(read(path)?.summary()?);
        }
        Ok(runs)
    }

    /// One run by its name.
    pub fn run(&self, name: &str) -> Result<Recorded, FileError> {
        if let Some(last) = self.last()?
            && last.name() == name
        {
            return Ok(last);
        }
        let files = self.archived()?;
        let found = files.iter().find(|path| path.file_stem().is_some_and(|stem| stem == name));
        found.map_or_else(|| Err(FileError::NoRun(self.past().join(name))), |path| read(path))
    }
}

/// Reads a file; a torn last line is left out.
pub(super) fn read(path: &Path) -> Result<Recorded, FileError> {
    let bytes = fs::read(path).at("read", path)?;
    let broken = |line: usize, why: String| FileError::Broken { path: path.to_owned(), line, why };
    // Only a line with its end is whole.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate();
    let Some((_, first)) = lines.next() else {
        return Err(broken(1, "the first line, with the plan, is missing".to_owned()));
    };
    let header: Header =
        serde_json::from_slice(first).map_err(|error| broken(1, error.to_string()))?;
    if header.journal != FORMAT {
        let why = format!("its form is {}, this program reads {FORMAT}", header.journal);
        return Err(broken(1, why));
    }
    let mut entries = Vec::new();
    let mut whole_bytes = first.len();
    for (number, line) in lines {
        match serde_json::from_slice(line) {
            Ok(entry) => entries.push(entry),
            // A disk may keep the end of a line and lose its middle.
            Err(_) if whole_bytes + line.len() == whole => break,
            Err(error) => return Err(broken(number + 1, error.to_string())),
        }
        whole_bytes += line.len();
    }
    let path = path.to_owned();
    Ok(Recorded { header, entries, whole_bytes: whole_bytes as u64, path })
}
