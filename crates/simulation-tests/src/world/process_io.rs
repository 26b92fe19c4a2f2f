//! A process's place at the world: everything that it asks or does goes over
//! wires that may fail, and ends with the process.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::io::{Sink, sink};
use tokio::sync::{Notify, watch};
use upgrade_core::call::Class;
use upgrade_core::jiff;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::kubernetes_error::RequestError;
use upgrade_engine::io::roster::Roster;
use upgrade_engine::io::{Clock, Io, IoError, NoExternal, talos_error};
use upgrade_engine::snapshots::{SnapshotStore, StoreError};

use super::{Inside, SharedWorld};
use crate::crash::{Crashes, Point};
use crate::network::{Delivery, MessageFate, PATIENCE};
use crate::trace::{self, Act, ProcessId, Question, TraceKind};

/// A process: alive, standing still, or dead.
pub struct Process {
    runner: AtomicU32,
    dead: AtomicBool,
    /// Told when it has died.
    pub died: Notify,
    /// Whether it is suspended (a stopped process, a machine that was put to
    /// sleep): it notices nothing and does nothing, while time passes.
    pub still: watch::Sender<bool>,
    crashes: Arc<Crashes>,
}

impl Process {
    /// A process that has just started.
    pub fn new(runner: ProcessId, crashes: &Arc<Crashes>) -> Arc<Self> {
        Arc::new(Self {
            runner: AtomicU32::new(runner),
            dead: AtomicBool::new(false),
            died: Notify::new(),
            still: watch::Sender::new(false),
            crashes: Arc::clone(crashes),
        })
    }

    /// Its number.
    pub fn runner(&self) -> ProcessId {
        self.runner.load(Ordering::SeqCst)
    }

    /// A process that drives again after another one is another one for the referee.
    pub fn renumber(&self, runner: ProcessId) {
        self.runner.store(runner, Ordering::SeqCst);
    }

    /// Whether it was killed.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Kills it. From here on nothing of it acts.
    pub fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.died.notify_one();
    }

    /// Returns when the process may continue; never if it is dead.
    pub async fn awake(&self) {
        if *self.still.borrow() {
            let mut still = self.still.subscribe();
            // The process itself holds the other end.
            let _ = still.wait_for(|still| !still).await;
        }
        if self.dead.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
    }

    /// A moment at which the process may be killed.
    pub async fn passes(&self, point: Point) {
        self.awake().await;
        if self.crashes.strikes(point) {
            self.die();
            pending::<()>().await;
        }
    }
}

/// The outside, as one process has it.
pub struct ProcessIo {
    /// The world.
    pub shared: Arc<SharedWorld>,
    /// Whose seat it is.
    pub process: Arc<Process>,
    /// The machines that it knows of.
    pub roster: Mutex<Roster>,
    /// Whether the cluster has stopped accepting its credentials.
    pub revoked: Arc<AtomicBool>,
}

/// How long an answer that does not come is waited for.
const SILENCE: Duration = Duration::from_secs(30);

impl Io for ProcessIo {
    type Machines = Self;
    type Upgrader = Self;
    type External = NoExternal;
    type Etcd = Self;
    type Snapshots = Self;
    type Kubernetes = Self;
    type Clock = Self;

    fn machines(&self) -> &Self {
        self
    }

    fn upgrader(&self) -> &Self {
        self
    }

    fn etcd(&self) -> &Self {
        self
    }

    fn snapshots(&self) -> &Self {
        self
    }

    fn kubernetes(&self) -> &Self {
        self
    }

    fn clock(&self) -> &Self {
        self
    }
}

/// A store that is off the cluster, and out of reach of what goes wrong there; the way to it
/// is not. Nothing reads what is kept in it.
impl SnapshotStore for ProcessIo {
    type Writer = Sink;

    async fn begin(&self, _: &str, _: Timestamp) -> Result<Sink, StoreError> {
        Ok(sink())
    }

    async fn commit(&self, _: Sink) -> Result<String, StoreError> {
        let kept = self.act::<_, IoError>(Act::Snapshot, |_| Ok(())).await;
        kept.map(|()| "etcd.snapshot".to_owned())
            .map_err(|why| StoreError::new(why.failure.kind, why.failure.text()))
    }

    async fn list(&self, _: &str) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn prune(&self, _: &str, _: usize, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Clock for ProcessIo {
    fn now(&self) -> Timestamp {
        self.shared.clock().now()
    }

    async fn sleep(&self, span: SignedDuration) {
        SystemClock::sleep(self.shared.clock(), span).await;
        self.process.awake().await;
    }
}

/// Something that did not work now and may later.
pub(super) fn unavailable(text: &str) -> IoError {
    talos_error::read(Class::NotConnected, text)
}

/// An error of one of both APIs, for a message that the wires took. What it means is
/// said by the code that the live cluster has.
pub(super) trait Taken: Send + 'static {
    /// There was no connection.
    fn not_sent(words: &str) -> Self;
    /// It was sent, and no answer came.
    fn no_answer(words: &str) -> Self;
}

impl Taken for IoError {
    fn not_sent(words: &str) -> Self {
        unavailable(words)
    }

    fn no_answer(words: &str) -> Self {
        talos_error::act(Class::Deadline, Class::Deadline.outcome(), words)
    }
}

impl Taken for RequestError {
    fn not_sent(words: &str) -> Self {
        Self::not_sent(words)
    }

    fn no_answer(words: &str) -> Self {
        Self::no_answer(words)
    }
}

/// A question that has no answer yet.
pub(super) struct Waiting<'a> {
    io: &'a ProcessIo,
    question: Option<Question>,
}

impl Waiting<'_> {
    /// The question is put in another way from here on.
    pub(super) fn supersede(mut self) {
        self.question = None;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            let runner = self.io.process.runner();
            self.io.shared.at(|inside| {
                let answered = inside.now();
                inside.show(TraceKind::Asked { runner, question, answered, known: false });
            });
        }
    }
}

impl ProcessIo {
    /// The fate of the next message. Nodes refuse a client whose certificate they do not trust
    /// before it can send anything.
    fn passage(&self) -> Delivery {
        let delivery = self.shared.passage();
        let revoked = self.revoked.load(Ordering::SeqCst);
        let fate = if revoked { MessageFate::Refused } else { delivery.fate };
        Delivery { fate, ..delivery }
    }

    /// Begins to ask. If the caller stops waiting, the trace shows that it got no answer.
    pub(super) fn asks(&self, question: Question) -> Waiting<'_> {
        Waiting { io: self, question: Some(question) }
    }

    /// Asks the world something that changes nothing.
    pub(super) async fn ask<T: Send, E: Taken>(
        &self,
        question: Question,
        read: impl FnOnce(&mut Inside) -> Result<T, E> + Send,
    ) -> Result<T, E> {
        self.process.awake().await;
        let mut waiting = self.asks(question.clone());
        let passage = self.passage();
        let late = passage.fate == MessageFate::Late;
        // What is late was read when it arrived there, and is as old as that.
        let before = if late { passage.there } else { passage.there + passage.back };
        tokio::time::sleep(before).await;
        let runner = self.process.runner();
        let lost = match passage.fate {
            MessageFate::Refused => Some("connection refused"),
            MessageFate::Lost | MessageFate::Unanswered => Some("no answer"),
            MessageFate::Well | MessageFate::Late | MessageFate::Doubled => None,
        };
        if passage.fate != MessageFate::Refused && lost.is_some() {
            tokio::time::sleep(PATIENCE).await;
        }
        let (answer, answered, hangs) = self.shared.at(|inside| {
            inside.met.passage(passage.fate);
            let answer = match lost {
                Some(why) => Err(E::not_sent(why)),
                None => read(inside),
            };
            let answered = inside.now();
            let known = answer.is_ok();
            let hangs = std::mem::take(&mut inside.hangs);
            if !late && !hangs {
                inside.show(TraceKind::Asked {
                    runner,
                    question: question.clone(),
                    answered,
                    known,
                });
            }
            (answer, answered, hangs)
        });
        if hangs {
            // If the caller gives up earlier, the trace shows it too.
            tokio::time::sleep(SILENCE).await;
            drop(waiting);
            self.process.awake().await;
            return Err(E::not_sent("no answer"));
        }
        if late {
            tokio::time::sleep(passage.back).await;
            let known = answer.is_ok();
            self.shared.at(|inside| {
                inside.show(TraceKind::Asked { runner, question, answered, known });
            });
        }
        waiting.question = None;
        self.process.awake().await;
        answer
    }

    /// Does something to the world. The message is on its way whatever becomes
    /// of its sender.
    pub(super) async fn act<T: Send + 'static, E: Taken>(
        &self,
        act: Act,
        mut action: impl FnMut(&mut Inside) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        self.process.passes(Point::BeforeAct).await;
        let Delivery { there, back, fate } = self.passage();
        let (shared, runner) = (Arc::clone(&self.shared), self.process.runner());
        let arrives = !matches!(fate, MessageFate::Refused | MessageFate::Lost);
        let disrupts = act.boots() || matches!(act, Act::Install { .. });
        let sent = tokio::spawn(async move {
            tokio::time::sleep(there).await;
            let done = shared.at(|inside| {
                inside.met.passage(fate);
                let seen = if arrives { trace::Fate::Arrives } else { trace::Fate::Lost };
                inside.show(TraceKind::Act { runner, act, fate: seen });
                if !arrives {
                    return None;
                }
                let done = action(inside);
                if fate == MessageFate::Doubled && !disrupts {
                    let _ = action(inside);
                }
                Some((done, std::mem::take(&mut inside.hangs)))
            });
            tokio::time::sleep(back).await;
            done
        });
        self.process.passes(Point::AfterAct).await;
        let answer = sent.await;
        let answer = match fate {
            MessageFate::Refused => Err(E::not_sent("connection refused")),
            MessageFate::Lost | MessageFate::Unanswered => {
                tokio::time::sleep(PATIENCE).await;
                Err(E::no_answer("no answer"))
            }
            MessageFate::Well | MessageFate::Late | MessageFate::Doubled => match answer {
                Ok(Some((_, true))) => {
                    tokio::time::sleep(SILENCE).await;
                    Err(E::no_answer("no answer"))
                }
                Ok(Some((done, false))) => done,
                Ok(None) | Err(_) => Err(E::no_answer("the connection broke")),
            },
        };
        self.process.awake().await;
        answer
    }

    /// Waits for something that takes its time, if the process lives.
    pub(super) async fn waiting<T>(&self, what: impl Future<Output = T>) -> T {
        let done = what.await;
        self.process.awake().await;
        done
    }
}
