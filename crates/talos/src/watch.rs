//! Following resources, through reboots and broken connections.
//!
//! A [`Watch`] keeps the newest state that it knows and reports how it changes.
//! When the stream breaks it says so once, connects again with growing pauses,
//! and goes on: from the last bookmark if the node still knows it, else by
//! listing everything and reporting only what is different. So whoever applies
//! the events in order always has a state that the node was once in, and never
//! sees a creation twice or a change of something that was never created.
//!
//! No task runs in the background: a watch moves while [`Watch::next`] or
//! [`Watch::wait_for`] is awaited, and both may be cancelled at any point.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use talos_proto::cosi::resource as wire;
use talos_proto::cosi::resource::EventType;
use thiserror::Error;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Code;

use crate::address::NodeAddress;
use crate::client::Node;
use crate::cosi::{self, Resource, Single, Spec};
use crate::deadline::from_now;
use crate::error::{Error, Failure};
use crate::recover::{self, Backoff};
use crate::stream::Incoming;

const METHOD: &str = "State.Watch";

/// The first pause after a failure, and the longest: a node that boots should
/// be seen soon, and one that is gone should not be hammered.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// A resource is new.
    Created(Resource<T>),
    /// A resource changed.
    Updated {
        /// What it was.
        old: Resource<T>,
        /// What it is.
        new: Resource<T>,
    },
    /// A resource is gone; this is what was last known of it.
    Destroyed(Resource<T>),
    /// The state is complete: everything that exists has been reported. Comes
    /// first after what existed at the start, and again after an interruption
    /// whenever the state had to be listed anew.
    Synced,
    /// The connection is back, and the changes that were missed follow.
    Resumed,
    /// The connection broke, and the state may be out of date until
    /// [`Synced`](Self::Synced) or [`Resumed`](Self::Resumed).
    Interrupted(Error),
}

/// Why a wait ended without what was waited for.
#[derive(Debug, Error)]
pub enum WaitError {
    /// The watch cannot go on.
    #[error("the watch ended")]
    Ended(#[source] Error),
    /// Time is up.
    #[error("it did not happen within {}s", within.as_secs_f32())]
    Deadline {
        /// How long was waited.
        within: Duration,
        /// What the watch was suffering from at the end, if anything.
        #[source]
        interruption: Option<Error>,
    },
}

struct Known<T> {
    raw: wire::Resource,
    view: Resource<T>,
}

enum Stage<T> {
    /// The state is being listed; what has been seen of it so far.
    Listing(BTreeMap<String, Known<T>>),
    /// Changes come as they happen.
    Live,
}

/// Follows one resource, or all of a kind. See the module's description.
pub struct Watch<T: Spec> {
    node: Node,
    /// Only this ID; `None` for all.
    id: Option<String>,
    known: BTreeMap<String, Known<T>>,
    stage: Stage<T>,
    stream: Option<Incoming<wire::WatchResponse>>,
    bookmark: Option<Bytes>,
    queue: VecDeque<WatchEvent<T>>,
    backoff: Backoff,
    resume_at: Option<Instant>,
    interruption: Option<Error>,
    /// Whether a complete state was ever known.
    synced: bool,
    ended: Option<Error>,
}

impl<T: Spec> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("kind", &T::KIND.resource_type)
            .field("node", &self.node.address())
            .field("known", &self.known.len())
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Follows the one resource of a kind. Nothing is sent until it is awaited.
    pub fn watch<T: Single>(&self) -> Watch<T> {
        Watch::new(self.clone(), Some(T::ID.to_owned()))
    }

    /// Follows a resource by its ID.
    pub fn watch_id<T: Spec>(&self, id: &str) -> Watch<T> {
        Watch::new(self.clone(), Some(id.to_owned()))
    }

    /// Follows all resources of a kind.
    pub fn watch_all<T: Spec>(&self) -> Watch<T> {
        Watch::new(self.clone(), None)
    }
}

fn backoff(node: &Node) -> Backoff {
    let who = node.address().map_or("", NodeAddress::as_str);
    Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, who)
}

impl<T: Spec> Watch<T> {
    fn new(node: Node, id: Option<String>) -> Self {
        Self {
            backoff: backoff(&node),
            node,
            id,
            known: BTreeMap::new(),
            stage: Stage::Live,
            stream: None,
            bookmark: None,
            queue: VecDeque::new(),
            resume_at: None,
            interruption: None,
            synced: false,
            ended: None,
        }
    }

    /// The newest state that is known, by ID. It is that of the newest message
    /// received, and may be ahead of the events returned so far.
    pub fn state(&self) -> impl Iterator<Item = &Resource<T>> {
        self.known.values().map(|known| &known.view)
    }

    /// The newest state that is known of one resource.
    pub fn get(&self, id: &str) -> Option<&Resource<T>> {
        self.known.get(id).map(|known| &known.view)
    }

    /// Whether the state is complete and the connection stands. Otherwise what
    /// is known may be out of date, and is nothing to decide by (rule 10).
    pub const fn is_current(&self) -> bool {
        self.synced && self.interruption.is_none()
    }

    /// What the watch is suffering from, while it does.
    pub const fn interruption(&self) -> Option<&Error> {
        self.interruption.as_ref()
    }

    /// What happened next. An error is final: not allowed, not supported, or
    /// not understood; everything that may pass is waited for.
    pub async fn next(&mut self) -> Result<WatchEvent<T>, Error> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(event);
            }
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            let Err(error) = self.advance().await else {
                continue;
            };
            self.stream = None;
            if !recover::watch_goes_on(error.failure()) {
                self.ended = Some(error);
                continue;
            }
            self.resume_at = Some(from_now(self.backoff.pause()));
            if self.interruption.is_none() {
                tracing::debug!(kind = T::KIND.resource_type, %error, "a watch broke");
                self.queue.push_back(WatchEvent::Interrupted(error.clone()));
            }
            self.interruption = Some(error);
        }
    }

    /// Waits until the state is current and `done` accepts it.
    pub async fn wait_for(
        &mut self,
        within: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<(), WaitError> {
        let until = from_now(within);
        loop {
            if self.is_current() && done(self) {
                return Ok(());
            }
            match timeout_at(until, self.next()).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(WaitError::Ended(error)),
                Err(_) => {
                    return Err(WaitError::Deadline {
                        within,
                        interruption: self.interruption.clone(),
                    });
                }
            }
        }
    }

    /// One step: opens the stream, or takes a message from it.
    async fn advance(&mut self) -> Result<(), Error> {
        let Some(stream) = &mut self.stream else {
            if let Some(at) = self.resume_at {
                sleep_until(at).await;
                self.resume_at = None;
            }
            return self.open().await;
        };
        match stream.next().await {
            Ok(Some(response)) => self.take(response),
            Ok(None) => Err(stream.failed(Failure::Truncated("the node ended the watch"))),
            // Silence is normal, and is also how a dead node sounds. Asking
            // again tells them apart, and is no interruption if it works.
            Err(error)
                if matches!(error.failure(), Failure::Idle(_))
                    && matches!(self.stage, Stage::Live) =>
            {
                self.stream = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn request(&self, bookmark: Option<&Bytes>) -> wire::WatchRequest {
        let all = self.id.is_none();
        wire::WatchRequest {
            namespace: T::KIND.namespace.to_owned(),
            r#type: T::KIND.resource_type.to_owned(),
            id: self.id.clone(),
            options: Some(wire::WatchOptions {
                // Refused for a single ID, whose state comes first anyhow.
                bootstrap_contents: all && bookmark.is_none(),
                aggregated: all,
                start_from_bookmark: bookmark.cloned(),
                ..wire::WatchOptions::default()
            }),
            api_version: 1,
        }
    }

    async fn open(&mut self) -> Result<(), Error> {
        let bookmark = self.bookmark.clone();
        let message = self.request(bookmark.as_ref());
        match self.connect(message).await {
            Ok((stream, first)) => {
                self.stream = Some(stream);
                self.backoff = backoff(&self.node);
                if bookmark.is_some() {
                    self.stage = Stage::Live;
                    if self.interruption.take().is_some() {
                        self.queue.push_back(WatchEvent::Resumed);
                    }
                } else {
                    self.stage = Stage::Listing(BTreeMap::new());
                }
                self.take(first)
            }
            // The node was rebooted, or too much has happened since.
            Err(error) if bookmark.is_some() && is_stale(error.failure()) => {
                self.bookmark = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a stream and waits for its first message, which says that the
    /// watch is set up.
    async fn connect(
        &self,
        message: wire::WatchRequest,
    ) -> Result<(Incoming<wire::WatchResponse>, wire::WatchResponse), Error> {
        let answer = self
            .node
            .read_within(METHOD, self.node.read_limit(), |line| {
                let request = line.request(message.clone());
                async move { line.state().watch(request).await }
            })
            .await?;
        let deadlines = self.node.deadlines();
        let mut stream = Incoming::new(&self.node, METHOD, answer, deadlines.attempt, None);
        let first = stream.next().await?;
        let first = first
            .ok_or_else(|| stream.failed(Failure::Truncated("the watch ended before it began")))?;
        stream.set_idle(deadlines.watch_idle);
        Ok((stream, first))
    }

    fn failed(&self, failure: Failure) -> Error {
        match &self.stream {
            Some(stream) => stream.failed(failure),
            None => self.node.call(METHOD, None).failed(failure),
        }
    }

    fn take(&mut self, response: wire::WatchResponse) -> Result<(), Error> {
        for event in response.event {
            self.take_event(event)?;
        }
        Ok(())
    }

    fn take_event(&mut self, event: wire::Event) -> Result<(), Error> {
        let kind = event.event_type();
        let wire::Event { resource, error, bookmark, .. } = event;
        match kind {
            EventType::Created | EventType::Updated => {
                let (id, known) = self.known(resource)?;
                match &mut self.stage {
                    Stage::Listing(seen) => {
                        seen.insert(id, known);
                        if self.id.is_some() {
                            self.listed();
                        }
                    }
                    Stage::Live => self.put(id, known),
                }
            }
            EventType::Destroyed => {
                let id = resource
                    .as_ref()
                    .ok_or_else(|| Failure::Malformed("an event without a resource".to_owned()))
                    .and_then(cosi::metadata::<T>)
                    .map_err(|failure| self.failed(failure))?
                    .id;
                match &mut self.stage {
                    Stage::Listing(seen) => {
                        seen.remove(&id);
                        if self.id.is_some() {
                            self.listed();
                        }
                    }
                    Stage::Live => self.remove(&id),
                }
            }
            EventType::Bootstrapped => self.listed(),
            EventType::Errored => {
                // It missed something, so the bookmark is worth nothing.
                self.bookmark = None;
                let error = error.unwrap_or_default();
                let failure = Failure::Broken(format!("the node gave the watch up: {error}"));
                return Err(self.failed(failure));
            }
            EventType::Noop => {}
        }
        // Without an address two connections may reach two nodes, and a
        // bookmark of the one means nothing to the other.
        if let Some(bookmark) = bookmark
            && self.node.address().is_some()
            && matches!(self.stage, Stage::Live)
        {
            self.bookmark = Some(bookmark);
        }
        Ok(())
    }

    fn known(&self, resource: Option<wire::Resource>) -> Result<(String, Known<T>), Error> {
        let known = resource
            .ok_or_else(|| Failure::Malformed("an event without a resource".to_owned()))
            .and_then(|raw| {
                let view = cosi::view::<T>(&raw)?;
                Ok((view.metadata.id.clone(), Known { raw, view }))
            });
        known.map_err(|failure| self.failed(failure))
    }

    /// The listing is complete: what is different from before is reported.
    fn listed(&mut self) {
        let Stage::Listing(seen) = std::mem::replace(&mut self.stage, Stage::Live) else {
            return;
        };
        let gone: Vec<_> =
            self.known.keys().filter(|id| !seen.contains_key(*id)).cloned().collect();
        for id in gone {
            self.remove(&id);
        }
        for (id, known) in seen {
            self.put(id, known);
        }
        // A listing that only followed a silence is nobody's business.
        let interrupted = self.interruption.take().is_some();
        if interrupted || !self.synced {
            self.queue.push_back(WatchEvent::Synced);
        }
        self.synced = true;
    }

    fn put(&mut self, id: String, known: Known<T>) {
        let new = known.view.clone();
        let raw = known.raw.clone();
        let event = match self.known.insert(id, known) {
            None => WatchEvent::Created(new),
            // The whole resource is compared: a node that was rebooted counts
            // its versions from the start again.
            Some(old) if old.raw == raw => return,
            Some(old) => WatchEvent::Updated { old: old.view, new },
        };
        self.queue.push_back(event);
    }

    fn remove(&mut self, id: &str) {
        if let Some(known) = self.known.remove(id) {
            self.queue.push_back(WatchEvent::Destroyed(known.view));
        }
    }
}

/// Whether a node does not know our bookmark. Nodes answer so; anything else
/// that refuses the request as such is taken the same way, to be safe.
const fn is_stale(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Status {
            code: Code::FailedPrecondition | Code::InvalidArgument | Code::OutOfRange,
            ..
        }
    )
}
