//! Watches resources through reboots and broken connections.
//!
//! A [`Watch`] keeps the newest known state and reports its changes. When the stream breaks, it
//! reports that once, reconnects with growing pauses, and continues: from the last bookmark if the
//! node still knows it, otherwise by listing everything and reporting only the differences. So
//! applying the events in order always gives a state that the node once had, without repeated
//! creations or updates of resources that were never created.
//!
//! There is no background task: a watch makes progress while [`Watch::next`] or [`Watch::wait_for`]
//! is awaited, and both are cancel-safe.

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

/// The first pause after a failure, and the longest: short enough to notice a booting node soon,
/// long enough not to overload it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// A resource was created.
    Created(Resource<T>),
    /// A resource was updated.
    Updated {
        /// The previous resource.
        old: Resource<T>,
        /// The new resource.
        new: Resource<T>,
    },
    /// A resource was destroyed; this is its last known state.
    Destroyed(Resource<T>),
    /// The state is complete: everything that exists has been reported. It follows the
    /// initial resources, and every relisting after an interruption.
    Synced,
    /// The connection is restored, and the missed changes follow.
    Resumed,
    /// The connection broke; the state may be out of date until [`Synced`](Self::Synced) or
    /// [`Resumed`](Self::Resumed).
    Interrupted(Error),
}

/// Why a wait ended without success.
#[derive(Debug, Error)]
pub enum WaitError {
    /// The watch cannot continue.
    #[error("the watch ended")]
    Ended(#[source] Error),
    /// The deadline passed.
    #[error("it did not happen within {}s", within.as_secs_f32())]
    Deadline {
        /// The length of the wait.
        within: Duration,
        /// The last error of the watch, if it was interrupted at the end.
        #[source]
        interruption: Option<Error>,
    },
}

struct Known<T> {
    raw: wire::Resource,
    view: Resource<T>,
}

enum Stage<T> {
    /// The state is being listed; this is the part received so far.
    Listing(BTreeMap<String, Known<T>>),
    /// Changes arrive as they happen.
    Live,
}

/// Watches one resource, or all of a kind. See the module documentation.
pub struct Watch<T: Spec> {
    node: Node,
    /// The ID to watch; `None` for all.
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
    /// Watches the single resource of a kind. Nothing is sent until it is awaited.
    pub fn watch<T: Single>(&self) -> Watch<T> {
        Watch::new(self.clone(), Some(T::ID.to_owned()))
    }

    /// Watches a resource by its ID.
    pub fn watch_id<T: Spec>(&self, id: &str) -> Watch<T> {
        Watch::new(self.clone(), Some(id.to_owned()))
    }

    /// Watches all resources of a kind.
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

    /// The newest known state, by ID. It includes the newest message received and may be ahead of
    /// the events returned so far.
    pub fn state(&self) -> impl Iterator<Item = &Resource<T>> {
        self.known.values().map(|known| &known.view)
    }

    /// The newest known state of one resource.
    pub fn get(&self, id: &str) -> Option<&Resource<T>> {
        self.known.get(id).map(|known| &known.view)
    }

    /// Whether the state is complete and the connection is up. Otherwise the state may be out of
    /// date and must not be used for decisions (rule 10).
    pub const fn is_current(&self) -> bool {
        self.synced && self.interruption.is_none()
    }

    /// The error that interrupted the watch, until it has recovered.
    pub const fn interruption(&self) -> Option<&Error> {
        self.interruption.as_ref()
    }

    /// The next event. An error is final: not authorised, not supported or malformed; the watch
    /// waits for everything that may recover.
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
            if !recover::watch_continues(error.failure()) {
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

    /// One step: opens the stream, or receives a message.
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
            // Silence is normal, but a dead node is silent too. Reconnecting tells the two apart,
            // and is not an interruption if it works.
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
                // Not allowed for a single ID, whose state is sent first anyway.
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
            // The node has rebooted, or there were too many changes since.
            Err(error) if bookmark.is_some() && is_stale(error.failure()) => {
                self.bookmark = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a stream and waits for its first message, which confirms that the watch is set up.
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
        let first = first.ok_or_else(|| {
            stream.failed(Failure::Truncated("the watch ended before its first message"))
        })?;
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
                // The node missed changes, so the bookmark is invalid.
                self.bookmark = None;
                let error = error.unwrap_or_default();
                let failure = Failure::Broken(format!("the node aborted the watch: {error}"));
                return Err(self.failed(failure));
            }
            EventType::Noop => {}
        }
        // Without an address two connections may reach two nodes, and the bookmark of one is
        // meaningless to the other.
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

    /// The listing is complete: reports the differences from the previous state.
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
        // A relisting after mere silence is not reported.
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
            // Compare the whole resource: a rebooted node restarts its versions from one.
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

/// Whether a node does not know the bookmark. Nodes return these codes; other codes that reject the
/// request count too, to be safe.
const fn is_stale(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Status {
            code: Code::FailedPrecondition | Code::InvalidArgument | Code::OutOfRange,
            ..
        }
    )
}
