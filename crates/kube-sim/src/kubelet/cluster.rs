//! The embedded API server and its kubelets, in step.

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
    /// The revision at which nobody had anything more to say.
    #[serde(skip)]
    settled: Option<u64>,
}

impl Cluster {
    /// A cluster without nodes yet.
    pub fn new(seed: u64, now: Time, timings: Timings) -> Self {
        let (server, kubelets) = (ApiServer::new(seed, now), Kubelets::new(seed, timings));
        Self { server, kubelets, settled: None }
    }

    /// When something happens by itself next.
    pub fn next_event(&self) -> Option<Time> {
        [self.server.next_event(), self.kubelets.next_event()].into_iter().flatten().min()
    }

    /// Takes in what the machines are now. Everything that is due before
    /// happens before.
    pub fn sync(&mut self, now: Time, facts: &[NodeFacts]) {
        self.advance(now);
        self.kubelets.follow(self.server.store());
        self.kubelets.sync(now, self.server.store_mut(), facts);
        self.server.stick_budgets(self.kubelets.stuck());
        self.settle(now);
    }

    /// The same where only some machines have changed, and some have left.
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

    /// Makes everything happen that is due by `now`, each thing at its time.
    pub fn advance(&mut self, now: Time) {
        let nothing_new = self.settled == Some(self.server.store().revision());
        if nothing_new && self.next_event().is_none_or(|at| at > now) {
            return self.server.store_mut().pass(now);
        }
        // What has been written since the last time was written then.
        self.settle(self.server.store().now());
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            // What is overdue happens now: time never goes back.
            let at = at.max(self.server.store().now());
            self.settle(at);
            if self.next_event().is_some_and(|next| next <= at) {
                // Whatever could not be done at its time is for the next look.
                break;
            }
        }
        self.settle(now);
    }

    /// The API server answers again after a time in which it did not: nothing
    /// happened in it meanwhile, and nobody is blamed for silence.
    pub fn resume(&mut self, now: Time) {
        self.settle(now);
    }

    /// Puts away what has not been asked for since the last call, to take less
    /// memory. Nothing but that changes.
    pub fn rest(&mut self) {
        self.server.rest(self.kubelets.seen());
        self.kubelets.rest_pods();
    }

    /// Lets controllers and kubelets answer each other until none has anything
    /// more to say at this moment.
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
