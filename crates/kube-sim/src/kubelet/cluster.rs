//! The embedded API server and its kubelets, driven together.

use serde::{Deserialize, Serialize};

use super::{Kubelets, NodeFacts, Timings};
use crate::server::ApiServer;
use crate::time::Time;

/// An API server with the kubelets of its nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cluster {
    /// The API server.
    pub server: ApiServer,
    /// The kubelets.
    pub kubelets: Kubelets,
    /// The revision at which no controller and no kubelet had anything left to do.
    #[serde(skip)]
    settled: Option<u64>,
}

impl Cluster {
    /// A cluster without nodes yet.
    pub fn new(seed: u64, now: Time, timings: Timings) -> Self {
        let (server, kubelets) = (ApiServer::new(seed, now), Kubelets::new(seed, timings));
        Self { server, kubelets, settled: None }
    }

    /// The time of the next event.
    pub fn next_event(&self) -> Option<Time> {
        [self.server.next_event(), self.kubelets.next_event()].into_iter().flatten().min()
    }

    /// Takes the current facts of all machines, after everything that is due before.
    pub fn sync(&mut self, now: Time, facts: &[NodeFacts]) {
        self.advance(now);
        self.kubelets.follow(self.server.store());
        self.kubelets.sync(now, self.server.store_mut(), facts);
        self.server.stick_budgets(self.kubelets.stuck());
        self.settle(now);
    }

    /// The same for changed machines and removed ones only.
    pub fn update(&mut self, now: Time, changed: &[NodeFacts], gone: &[String]) {
        self.advance(now);
        if changed.is_empty() && gone.is_empty() {
            return;
        }
        self.kubelets.follow(self.server.store());
        self.kubelets.forget(self.server.store_mut(), gone);
        self.kubelets.update(now, self.server.store_mut(), changed);
        self.server.stick_budgets(self.kubelets.stuck());
        self.settle(now);
    }

    /// Processes everything that is due by `now`, each event at its time.
    pub fn advance(&mut self, now: Time) {
        let nothing_new = self.settled == Some(self.server.store().revision());
        if nothing_new && self.next_event().is_none_or(|at| at > now) {
            return self.server.store_mut().pass(now);
        }
        // Writes since the last call happened at that time.
        self.settle(self.server.store().now());
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            // Overdue events happen now: time never goes back.
            let at = at.max(self.server.store().now());
            self.settle(at);
            if self.next_event().is_some_and(|next| next <= at) {
                // Events that failed at their time are retried at the next call.
                break;
            }
        }
        self.settle(now);
    }

    /// The API server is available again after an outage: nothing happened in it meanwhile, and no
    /// node is blamed for its silence.
    pub fn resume(&mut self, now: Time) {
        self.settle(now);
    }

    /// Compresses what has not been used since the last call to save memory, without changing
    /// anything else.
    pub fn rest(&mut self) {
        self.server.rest(self.kubelets.seen());
        self.kubelets.rest_pods();
    }

    /// Lets controllers and kubelets react to each other until none has anything left to do at this
    /// moment.
    fn settle(&mut self, now: Time) {
        for _ in 0..100 {
            self.server.advance(now);
            let before = self.server.store().revision();
            self.kubelets.follow(self.server.store());
            self.kubelets.advance(now, self.server.store_mut());
            if self.server.store().revision() == before {
                self.settled = Some(before);
                break;
            }
        }
    }
}
