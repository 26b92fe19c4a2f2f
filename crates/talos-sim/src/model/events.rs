//! The event stream of a node: a ring of recent events, and the streams that follow it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talos_proto::event::Payload;
use talos_proto::{common, machine};

use super::World;
use super::api::{NodeIndex, Reply, Status, StreamId};
use super::node::Stage;
use super::services::Notice;
use super::streams::Stream;
use super::time::Time;

/// How many events a node can return: a ring of 1000, of which the oldest 10 are never returned,
/// since they may be overwritten while they are read.
const REMEMBERED: usize = 990;

type Name = Cow<'static, str>;

/// An event, in a smaller form than its message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Note {
    SequenceStart(Name),
    SequenceStop(Name),
    /// The sequence, the code and the message.
    SequenceError(Name, i32, String),
    Phase(Name, bool),
    Task(Name, bool),
    Service(Name, Notice),
    Machine {
        stage: Stage,
        unmet: Vec<(Name, String)>,
    },
    Address {
        hostname: String,
        addresses: Vec<String>,
    },
    /// The argument of the reboot system call.
    Restart(i64),
}

/// A published note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Published {
    pub(super) id: Xid,
    pub(super) actor: String,
    pub(super) note: Note,
}

/// The id of an event: seconds, then a counter. It sorts by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Xid {
    seconds: u32,
    machine: u32,
    counter: u32,
}

impl Xid {
    fn bytes(self) -> [u8; 12] {
        let Self { seconds, machine, counter } = self;
        let [.., m1, m2, m3] = machine.to_be_bytes();
        let [.., c1, c2, c3] = counter.to_be_bytes();
        let [s1, s2, s3, s4] = seconds.to_be_bytes();
        [s1, s2, s3, s4, m1, m2, m3, 0, 1, c1, c2, c3]
    }

    /// Twenty characters of base 32.
    fn text(self) -> String {
        const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
        let number =
            self.bytes().iter().fold(0_u128, |number, byte| (number << 8) | u128::from(*byte)) << 4;
        (0..20)
            .rev()
            .map(|place| {
                let digit = (number >> (place * 5)) & 31;
                char::from(ALPHABET[usize::try_from(digit).unwrap_or(0)])
            })
            .collect()
    }

    /// The bytes of an id in text form.
    fn parse(text: &str) -> Option<[u8; 12]> {
        if text.len() != 20 {
            return None;
        }
        let mut number = 0_u128;
        for character in text.chars() {
            number = (number << 5) | u128::from(character.to_digit(32)?);
        }
        let bytes = (number >> 4).to_be_bytes();
        bytes[4..].try_into().ok()
    }
}

/// The recent events of this boot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ring {
    events: VecDeque<Published>,
    counter: u32,
}

impl Ring {
    /// Forgets all events, as a reboot does; ids continue.
    pub(super) fn clear(&mut self) {
        self.events = VecDeque::new();
    }

    fn push(&mut self, time: Time, machine: u32, actor: &str, note: Note) -> Published {
        self.counter = (self.counter + 1) & 0xff_ffff;
        let published = Published {
            id: Xid {
                seconds: u32::try_from(time.as_secs()).unwrap_or(u32::MAX),
                machine,
                counter: self.counter,
            },
            actor: actor.to_owned(),
            note,
        };
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back(published.clone());
        published
    }

    /// The position in the ring where a stream with this request starts.
    fn start(&self, request: &machine::EventsRequest, now: Time) -> Result<usize, Status> {
        let length = self.events.len();
        if request.tail_events < 0 {
            return Ok(0);
        }
        if request.tail_events > 0 {
            let tail = usize::try_from(request.tail_events).unwrap_or(usize::MAX);
            return Ok(length.saturating_sub(tail));
        }
        if !request.tail_id.is_empty() {
            let Some(id) = Xid::parse(&request.tail_id) else {
                return Err(Status::unknown("error parsing tail_id: xid: invalid ID"));
            };
            return Ok(self.events.partition_point(|event| event.id.bytes() <= id));
        }
        if request.tail_seconds > 0 {
            let tail = Duration::from_secs(request.tail_seconds.unsigned_abs().into());
            let since = now.minus(tail).as_secs();
            return Ok(self.events.partition_point(|event| u64::from(event.id.seconds) <= since));
        }
        Ok(length)
    }
}

fn action(start: bool) -> i32 {
    i32::from(!start)
}

fn payload(note: &Note) -> Payload {
    use machine::machine_status_event::{MachineStatus, machine_status::UnmetCondition};
    use machine::sequence_event::Action;
    match note {
        Note::SequenceStart(sequence) => Payload::Sequence(machine::SequenceEvent {
            sequence: sequence.to_string(),
            action: Action::Start.into(),
            error: None,
        }),
        Note::SequenceStop(sequence) => Payload::Sequence(machine::SequenceEvent {
            sequence: sequence.to_string(),
            action: Action::Stop.into(),
            error: None,
        }),
        Note::SequenceError(sequence, code, message) => Payload::Sequence(machine::SequenceEvent {
            sequence: sequence.to_string(),
            action: Action::Noop.into(),
            error: Some(common::Error {
                code: *code,
                message: message.clone(),
                details: Vec::new(),
            }),
        }),
        Note::Phase(phase, start) => {
            Payload::Phase(machine::PhaseEvent { phase: phase.to_string(), action: action(*start) })
        }
        Note::Task(task, start) => {
            Payload::Task(machine::TaskEvent { task: task.to_string(), action: action(*start) })
        }
        Note::Service(id, notice) => Payload::ServiceState(machine::ServiceStateEvent {
            service: id.to_string(),
            action: notice.state as i32,
            message: notice.message.to_string(),
            health: Some(notice.health()),
        }),
        Note::Machine { stage, unmet } => Payload::MachineStatus(machine::MachineStatusEvent {
            stage: *stage as i32,
            status: Some(MachineStatus {
                ready: unmet.is_empty(),
                unmet_conditions: unmet
                    .iter()
                    .map(|(name, reason)| UnmetCondition {
                        name: name.to_string(),
                        reason: reason.clone(),
                    })
                    .collect(),
            }),
        }),
        Note::Address { hostname, addresses } => Payload::Address(machine::AddressEvent {
            hostname: hostname.clone(),
            addresses: addresses.clone(),
        }),
        Note::Restart(cmd) => Payload::Restart(machine::RestartEvent { cmd: *cmd }),
    }
}

fn message(published: &Published) -> machine::Event {
    machine::Event {
        metadata: None,
        data: Some(payload(&published.note).pack()),
        id: published.id.text(),
        actor_id: published.actor.clone(),
    }
}

impl World {
    /// Publishes a note of a node; `actor` is empty if no client caused it.
    pub(super) fn publish(&mut self, node: NodeIndex, actor: &str, what: Note) {
        let time = self.node_time(node);
        let machine = u32::try_from(node.0 + 1).unwrap_or(u32::MAX);
        let published = self.nodes[node.0].events.push(time, machine, actor, what);
        let readers: Vec<StreamId> = self
            .streams
            .iter()
            .filter(|(_, open)| open.node == node)
            .filter_map(|(id, open)| match &open.stream {
                Stream::Events { actor } if actor.is_empty() || *actor == published.actor => {
                    Some(*id)
                }
                _ => None,
            })
            .collect();
        for reader in readers {
            self.send(reader, message(&published));
        }
    }

    /// `Events`: an empty first message, then past events as requested, then new ones.
    pub(super) fn events(&mut self, node: NodeIndex, request: &machine::EventsRequest) -> Reply {
        let now = self.node_time(node);
        let start = match self.nodes[node.0].events.start(request, now) {
            Ok(start) => start,
            Err(status) => return status.into(),
        };
        let actor = &request.with_actor_id;
        let past: Vec<machine::Event> = self.nodes[node.0]
            .events
            .events
            .range(start..)
            .filter(|event| actor.is_empty() || event.actor == *actor)
            .map(message)
            .collect();
        let stream = self.open(node, Stream::Events { actor: actor.clone() });
        self.send(stream, machine::Event::default());
        for event in past {
            self.send(stream, event);
        }
        Reply::Stream(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_twenty_characters_and_sort_by_time() {
        let early = Xid { seconds: 1, machine: 9, counter: 7 };
        let late = Xid { seconds: 2, machine: 1, counter: 1 };
        assert!(early.text() < late.text());
        assert_eq!(early.text().len(), 20);
        assert_eq!(Xid::parse(&late.text()), Some(late.bytes()));
        assert_eq!(Xid::parse("short"), None);
        assert_eq!(Xid::parse("zzzzzzzzzzzzzzzzzzzz"), None);
    }
}
