//! The life of one process: it takes the lease, plans or finds a run, and
//! drives it until it ends, is killed, or loses the lease.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use upgrade_engine::drive;
use upgrade_engine::drive::{End, Run};
use upgrade_engine::io::Clock as _;

use super::{ScenarioRunner, events, planning};
use crate::journal_store::RENEWED_EVERY;
use crate::trace::TraceKind;
use crate::world::process_io::{Process, ProcessIo};

/// How a life ended.
pub(super) enum ProcessEnd {
    /// It was killed; whether it had a run by then.
    Died {
        /// Whether the run was written down.
        begun: bool,
    },
    /// The run was not its own any more.
    GaveUp,
    /// Another process has the run.
    Busy,
    /// There is no plan for what is wanted.
    Refused,
    /// The run came to an end.
    Ended(End),
}

impl ScenarioRunner {
    /// Lives once: with a new plan for a want, or with the run that is there.
    pub(super) async fn live(self: &Arc<Self>, fresh: Option<usize>, resumed: bool) -> ProcessEnd {
        let runner = {
            let mut state = self.state();
            state.processes += 1;
            state.processes
        };
        if !self.store.take(runner) {
            return ProcessEnd::Busy;
        }
        let process = Process::new(runner, &self.crashes);
        let commands = events::first_command(&self.user.borrow());
        let control = commands.subscribe();
        self.state().alive.push((Arc::clone(&process), commands));
        let io = Arc::new(ProcessIo {
            shared: Arc::clone(&self.shared),
            process: Arc::clone(&process),
            roster: Mutex::default(),
            revoked: Arc::default(),
        });
        let renewing = async {
            loop {
                io.sleep(RENEWED_EVERY).await;
                self.store.renew(runner);
            }
        };
        let working = self.work(&io, fresh, resumed, control);
        let life = tokio::select! {
            biased;
            () = process.died.notified() => ProcessEnd::Died { begun: false },
            life = working => life,
            () = renewing => ProcessEnd::GaveUp,
        };
        self.state().alive.retain(|(other, _)| other.runner() != runner);
        match &life {
            ProcessEnd::Died { .. } => {
                self.shared.at(|inside| inside.show(TraceKind::Dies { runner }));
                // Its lease runs out by itself.
                let begun = fresh.is_none_or(|want| self.has_begun(want));
                return ProcessEnd::Died { begun };
            }
            _ => self.store.release(runner),
        }
        life
    }

    /// Whether the plan of a want was written down.
    fn has_begun(&self, want: usize) -> bool {
        self.state().begun == Some(want)
    }

    async fn work(
        self: &Arc<Self>,
        io: &Arc<ProcessIo>,
        fresh: Option<usize>,
        resumed: bool,
        control: upgrade_engine::control::Control,
    ) -> ProcessEnd {
        let runner = io.process.runner();
        if let Some(want) = fresh {
            let Some(plan) = planning::plan(self, io, want).await else {
                return ProcessEnd::Refused;
            };
            let wanted =
                self.shared.at(|inside| super::wanted(&self.scenario, want, &inside.world));
            self.shared.at(|inside| inside.referee.now_wanted(wanted));
            self.store.begin(plan);
            self.state().begun = Some(want);
        }
        let Some(open) = self.store.open(&io.process) else { return ProcessEnd::Refused };
        let plan = Arc::clone(&open.plan);
        self.shared
            .at(|inside| inside.show(TraceKind::Starts { runner, plan, fresh: fresh.is_some() }));
        let (events, mut heard) = mpsc::unbounded_channel();
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            while let Some(event) = heard.recv().await {
                shared.at(|inside| {
                    inside.show(TraceKind::Reported { runner, event: Box::new(event) });
                });
            }
        });
        let driven = drive(Run {
            open,
            io: Arc::clone(io),
            runner: format!("process {runner}"),
            events: Arc::new(events),
            control,
            resumed_by: resumed.then(|| "user".to_owned()),
        })
        .await;
        let end = match &driven {
            Ok(end) => Ok(end.clone()),
            Err(error) => Err(error.to_string()),
        };
        self.shared.at(|inside| inside.show(TraceKind::Ends { runner, end }));
        match driven {
            Ok(end) => ProcessEnd::Ended(end),
            Err(_) => ProcessEnd::GaveUp,
        }
    }
}
