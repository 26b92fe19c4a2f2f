//! The events of a node, as they happen.
//!
//! Events are for display, not for decisions: the buffer is short and a reboot clears it. Decisions
//! use state.

use talos_proto::event::Payload;
use talos_proto::machine as wire;

use crate::client::Node;
use crate::error::{Error, Failure};
use crate::machine::ActorId;
use crate::reply::carried;
use crate::stream::Incoming;

/// Which past events to send first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Past {
    /// None.
    #[default]
    None,
    /// All that the node still has, several hundred.
    All,
    /// This many of the newest.
    Last(u32),
    /// Those after the event with this ID.
    After(String),
    /// Those of the last seconds.
    Seconds(u32),
}

/// An event of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Later events have greater IDs; use one with [`Past::After`].
    pub id: String,
    /// The request that caused it, if any.
    pub actor: Option<ActorId>,
    /// Its content.
    pub payload: EventPayload,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventPayload {
    /// A known message.
    Known(Payload),
    /// An unknown message; newer nodes may have more.
    Unknown {
        /// Its type URL.
        type_url: String,
    },
}

/// A stream of events. It ends with an error when the connection breaks, or after
/// [`FOLLOW_IDLE`](crate::deadline::FOLLOW_IDLE) of silence; to continue, open another one after
/// the last ID.
#[derive(Debug)]
pub struct Events {
    incoming: Incoming<wire::Event>,
    first: Option<wire::Event>,
}

impl Events {
    /// The next event; `None` if the node ended the stream.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let event = match self.first.take() {
                Some(event) => event,
                None => match self.incoming.next().await? {
                    Some(event) => event,
                    None => return Ok(None),
                },
            };
            let wire::Event { metadata, data, id, actor_id } = event;
            if let Some(failure) = carried(metadata.as_ref()) {
                return Err(self.incoming.failed(failure));
            }
            let Some(data) = data else { continue };
            let payload = match Payload::unpack(&data) {
                Ok(Some(payload)) => EventPayload::Known(payload),
                Ok(None) => EventPayload::Unknown { type_url: data.type_url },
                Err(error) => {
                    let failure = Failure::Malformed(format!("{}: {error}", data.type_url));
                    return Err(self.incoming.failed(failure));
                }
            };
            return Ok(Some(Event {
                id,
                actor: Some(ActorId(actor_id)).filter(|actor| !actor.0.is_empty()),
                payload,
            }));
        }
    }
}

impl Node {
    /// The events of the node, or only those caused by the request `actor`. When this returns, the
    /// node is listening: no event after that is missed.
    pub async fn events(&self, past: Past, actor: Option<&ActorId>) -> Result<Events, Error> {
        const METHOD: &str = "Events";
        let small = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let mut message = wire::EventsRequest {
            with_actor_id: actor.map(|actor| actor.0.clone()).unwrap_or_default(),
            ..wire::EventsRequest::default()
        };
        match past {
            Past::None => {}
            Past::All => message.tail_events = -1,
            Past::Last(count) => message.tail_events = small(count),
            Past::After(id) => message.tail_id = id,
            Past::Seconds(count) => message.tail_seconds = small(count),
        }
        let answer = self
            .read_within(METHOD, self.read_limit(), |line| {
                let request = line.request(message.clone());
                async move { line.machine().events(request).await }
            })
            .await?;
        // The first message; before it, the node may not be listening yet.
        let hello = self.deadlines().attempt;
        let mut incoming = Incoming::new(self, METHOD, answer, hello, None);
        let first = incoming.next().await?;
        if first.is_none() {
            let failure = Failure::Truncated("the event stream ended before its first message");
            return Err(incoming.failed(failure));
        }
        incoming.set_idle(self.deadlines().follow_idle);
        Ok(Events { incoming, first })
    }
}
