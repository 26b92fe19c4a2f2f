//! The life of one process: it takes the lease, plans or finds a run, and
//! drives it until it ends, is killed, or loses the lease.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use upgrade_engine::drive;
use upgrade_engine::drive::{End, Run};
use upgrade_engine::io::Clock as _;

use super::{Stage, director, planning};
use crate::ledger::RENEWED_EVERY;
use crate::seen::What;
use crate::world::seat::{Process, Seat};

/// How a life ended.
pub(super) enum Life {
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

impl Stage {
    /// Lives once: with a new plan for a want, or with the run that is there.
    pub(super) async fn live(self: &Arc<Self>, fresh: Option<usize>, resumed: bool) -> Life {
        let runner = {
            let mut cast = self.cast();
            cast.runners += 1;
            cast.runners
        };
        if !self.ledger.take(runner) {
            return Life::Busy;
        }
        let process = Process::new(runner, &self.crashes);
        let ears = director::first_word(&self.user.borrow());
        let control = ears.subscribe();
        self.cast().alive.push((Arc::clone(&process), ears));
        let seat = Arc::new(Seat {
            place: Arc::clone(&self.place),
            process: Arc::clone(&process),
            roster: Mutex::default(),
        });
        let renewing = async {
            loop {
                seat.sleep(RENEWED_EVERY).await;
                self.ledger.renew(runner);
            }
        };
        let working = self.work(&seat, fresh, resumed, control);
        let life = tokio::select! {
            biased;
            () = process.died.notified() => Life::Died { begun: false },
            life = working => life,
            () = renewing => Life::GaveUp,
        };
        self.cast().alive.retain(|(other, _)| other.runner != runner);
        match &life {
            Life::Died { .. } => {
                self.place.at(|inside| inside.show(What::Dies { runner }));
                // Its lease runs out by itself.
                let begun = fresh.is_none_or(|want| self.has_begun(want));
                return Life::Died { begun };
            }
            _ => self.ledger.release(runner),
        }
        life
    }

    /// Whether the plan of a want was written down.
    fn has_begun(&self, want: usize) -> bool {
        self.cast().begun == Some(want)
    }

    async fn work(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        fresh: Option<usize>,
        resumed: bool,
        control: upgrade_engine::control::Control,
    ) -> Life {
        let runner = seat.process.runner;
        if let Some(want) = fresh {
            let Some(plan) = planning::plan(self, seat, want).await else {
                return Life::Refused;
            };
            let wanted = self.place.at(|inside| super::wanted(&self.scenario, want, &inside.world));
            self.place.at(|inside| inside.referee.now_wanted(wanted));
            self.ledger.begin(plan);
            self.cast().begun = Some(want);
        }
        let Some(open) = self.ledger.open(&seat.process) else { return Life::Refused };
        let plan = Arc::clone(&open.plan);
        self.place.at(|inside| inside.show(What::Starts { runner, plan, fresh: fresh.is_some() }));
        let (events, mut heard) = mpsc::unbounded_channel();
        let place = Arc::clone(&self.place);
        tokio::spawn(async move {
            while let Some(event) = heard.recv().await {
                place.at(|inside| inside.show(What::Told { runner, event: Box::new(event) }));
            }
        });
        let driven = drive(Run {
            open,
            io: Arc::clone(seat),
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
        self.place.at(|inside| inside.show(What::Ends { runner, end }));
        match driven {
            Ok(end) => Life::Ended(end),
            Err(_) => Life::GaveUp,
        }
    }
}
