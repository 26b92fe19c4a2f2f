//! What happens on a node, as it happens.
//!
//! Events are for showing, not for deciding: the buffer is short, and a node
//! that reboots forgets. Decisions look at states.

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
    /// All that the node remembers, some hundreds.
    All,
    /// So many of the newest.
    Last(u32),
    /// Those after the event of this ID.
    After(String),
    /// Those of the last seconds.
    Seconds(u32),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Later events have greater IDs; [`Past::After`] takes one.
    pub id: String,
    /// The request that caused it, if one did.
    pub actor: Option<ActorId>,
    /// What it is.
    pub payload: EventPayload,
}

/// What an event carries.
#[derive(Clone, Debug, PartialEq)]
pub enum EventPayload {
    /// A message that this program knows.
    Known(Payload),
    /// One that it does not; newer nodes may have more.
    Unknown {
        /// Its type.
        type_url: String,
    },
}

/// Events as they come. Ends with an error when the connection breaks, or after
/// [`FOLLOW_IDLE`](crate::deadline::FOLLOW_IDLE) of silence; whoever wants to go
/// on asks again for what came after the last ID.
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
    /// Events of the node; those that one request caused, if `actor` names it.
    /// When this returns the node is listening: nothing that happens from now
    /// on is missed.
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
        // The hello; until it has come, the node may not be listening yet.
        let hello = self.deadlines().attempt;
        let mut incoming = Incoming::new(self, METHOD, answer, hello, None);
        let first = incoming.next().await?;
        if first.is_none() {
            let failure = Failure::Truncated("the events ended before they began");
            return Err(incoming.failed(failure));
        }
        incoming.set_idle(self.deadlines().follow_idle);
        Ok(Events { incoming, first })
    }
}
