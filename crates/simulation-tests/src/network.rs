//! What lies between a process and the world: questions and acts may be lost,
//! late or doubled on the way there, and answers on the way back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use kube_sim::random::Random;

/// How bad the wires are: times of a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkConditions {
    /// A message never arrives, and its sender knows at once.
    pub refused: u64,
    /// A message never arrives, and its sender gets no error.
    pub lost: u64,
    /// It arrives; the answer does not.
    pub unanswered: u64,
    /// It arrives late.
    pub late: u64,
    /// It arrives twice, if it is one that may: what disrupts goes over a
    /// connection that repeats nothing.
    pub doubled: u64,
}

/// What becomes of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// How long it takes there.
    pub there: Duration,
    /// How long the answer takes.
    pub back: Duration,
    /// What happens to it.
    pub fate: MessageFate,
}

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageFate {
    /// It arrives, and so does the answer.
    Well,
    /// The connection is refused.
    Refused,
    /// It is lost without a word.
    Lost,
    /// The answer is lost.
    Unanswered,
    /// It is late.
    Late,
    /// It arrives twice.
    Doubled,
}

impl MessageFate {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Well, Self::Refused, Self::Lost, Self::Unanswered, Self::Late, Self::Doubled];

    /// In plain words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::Unanswered => "answer lost",
            Self::Late => "late",
            Self::Doubled => "doubled",
        }
    }
}

/// How long a caller waits for an answer that does not come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The latest that a message arrives: a connection that is silent for longer is
/// given up by both sides.
const LATEST: u64 = 10_000;

impl NetworkConditions {
    /// Throws the random for one message.
    pub fn draw(&self, random: &mut Random) -> Delivery {
        let millis = Duration::from_millis;
        let calm = Delivery { there: millis(2), back: millis(3), fate: MessageFate::Well };
        if *self == Self::default() {
            return calm;
        }
        let Self { refused, lost, unanswered, late, doubled } = *self;
        let roll = random.below(1000);
        let mut bound = 0;
        for (share, fate) in [
            (refused, MessageFate::Refused),
            (lost, MessageFate::Lost),
            (unanswered, MessageFate::Unanswered),
            (late, MessageFate::Late),
            (doubled, MessageFate::Doubled),
        ] {
            bound += share;
            if roll < bound {
                let mut passage = Delivery { fate, ..calm };
                if fate == MessageFate::Late {
                    passage.there = millis(random.between(1, LATEST));
                    passage.back = millis(random.between(1, LATEST));
                }
                return passage;
            }
        }
        Delivery {
            there: millis(random.between(1, 200)),
            back: millis(random.between(1, 200)),
            ..calm
        }
    }
}
