//! The one task that owns a world: it takes calls from a queue, advances time, and passes output to
//! the open streams.

use std::collections::HashMap;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

use crate::clock::{self, Clock};
use crate::kubernetes::calls::{ApiAnswer, ApiCall, Watches};
use crate::kubernetes::{Kubernetes, Presences};
use crate::model::{
    Caller, Content, NodeIndex, Output, Reply, Request, Response, Status, StreamId, Time, World,
};
use crate::schedule::Schedule;
use crate::store::{Saved, StateFile};

/// How many messages may wait for a reader before its stream is closed: far more than a node sends
/// at once, and a bound on memory.
const STREAM_CAPACITY: usize = 16_384;

/// Changes are saved together, this long after the first one.
const SAVE_AFTER: Duration = Duration::from_secs(1);

/// If the Kubernetes side is this far behind, nothing advanced it for a while: the process or the
/// machine was suspended, or etcd was down.
const STANDSTILL: Duration = Duration::from_mins(2);

/// Whether a node is reachable, and how often it became unreachable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// Whether it answers connections now.
    pub reachable: bool,
    /// Counts how often it became unreachable: connections from before are gone, even if the node
    /// is back already.
    pub epoch: u64,
}

/// The outcome of a call.
#[derive(Debug)]
pub enum Answer {
    /// The answer of a unary method, or all items of a stream.
    Items(Vec<Response>),
    /// A stream whose items follow.
    Open(Open),
    /// A failure.
    Failed(Status),
    /// The node could not be reached.
    Down,
    /// The node dropped the connection that carried the call.
    Dropped,
    /// The node has accepted the call and never answers.
    Silent,
}

/// What happens to a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Welcome {
    /// It is served.
    Taken,
    /// It is closed at once.
    Dropped,
    /// It stays open without an answer.
    Silent,
}

/// An open stream. Dropping it tells the node that the caller is gone.
#[derive(Debug)]
pub struct Open {
    /// The items to send.
    pub contents: mpsc::Receiver<Content>,
    stream: StreamId,
    commands: mpsc::UnboundedSender<Command>,
}

impl Drop for Open {
    fn drop(&mut self) {
        // A send error means that the driver has stopped; there is nothing left to close.
        let _ = self.commands.send(Command::Close(self.stream));
    }
}

/// A call of a node's method.
#[derive(Debug)]
pub struct Call {
    /// Which node.
    pub node: NodeIndex,
    /// Who calls.
    pub caller: Caller,
    /// The method's name.
    pub method: &'static str,
    /// Its message.
    pub request: Request,
    /// Whether another node's apid forwards it, over its own connection.
    pub forwarded: bool,
    /// The node that received the request, which may have forwarded it.
    pub through: NodeIndex,
}

type Visit = Box<dyn FnOnce(&mut Inside) + Send>;

enum Command {
    Call(Box<Call>, oneshot::Sender<Answer>),
    Api(Box<ApiCall>, oneshot::Sender<ApiAnswer>),
    Connect(NodeIndex, oneshot::Sender<Welcome>),
    Close(StreamId),
    Visit(Visit),
    Stop(oneshot::Sender<()>),
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Call(..) => "Call",
            Self::Api(..) => "Api",
            Self::Connect(..) => "Connect",
            Self::Close(_) => "Close",
            Self::Visit(_) => "Visit",
            Self::Stop(_) => "Stop",
        })
    }
}

/// What the task owns, for closures passed to [visit](Driver::visit).
#[derive(Debug)]
pub struct Inside {
    /// The cluster.
    pub world: World,
    /// Its clock.
    pub clock: Clock,
    /// Faults that are due later.
    pub schedule: Schedule,
    /// Its Kubernetes API.
    pub kubernetes: Kubernetes,
}

/// A handle on the task. Clones share the same task.
#[derive(Clone, Debug)]
pub struct Driver {
    commands: mpsc::UnboundedSender<Command>,
    presence: watch::Receiver<Vec<Presence>>,
    kubernetes_presence: watch::Receiver<Vec<Presence>>,
}

impl Driver {
    /// Starts the task.
    pub fn start(inside: Inside, file: Option<StateFile>) -> (Self, JoinHandle<()>) {
        let (commands, queue) = mpsc::unbounded_channel();
        let (published, presence) = watch::channel(Vec::new());
        let (api_published, kubernetes_presence) = watch::channel(Vec::new());
        let (gone, closed) = mpsc::unbounded_channel();
        let mut task = Task {
            presence: Vec::new(),
            inside,
            commands: commands.clone(),
            published,
            streams: HashMap::new(),
            api_presences: Presences::new(api_published),
            watches: Watches::new(gone),
            file,
            save_at: None,
            saved: None,
        };
        task.publish();
        let driver = Self { commands, presence, kubernetes_presence };
        (driver, tokio::spawn(task.run(queue, closed)))
    }

    /// Calls a method; [`Answer::Down`] while the simulator is stopping.
    pub async fn call(&self, call: Call) -> Answer {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Call(Box::new(call), reply));
        answer.await.unwrap_or(Answer::Down)
    }

    /// Sends a request to the Kubernetes API; [`ApiAnswer::Gone`] while the simulator is stopping.
    pub async fn api(&self, call: ApiCall) -> ApiAnswer {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Api(Box::new(call), reply));
        answer.await.unwrap_or(ApiAnswer::Gone)
    }

    /// Decides what happens to a new connection to a node.
    pub async fn accepts(&self, node: NodeIndex) -> Welcome {
        let (reply, accepted) = oneshot::channel();
        let _ = self.commands.send(Command::Connect(node, reply));
        accepted.await.unwrap_or(Welcome::Dropped)
    }

    /// Which nodes are reachable, and changes of that.
    pub fn presence(&self) -> watch::Receiver<Vec<Presence>> {
        self.presence.clone()
    }

    /// Where the Kubernetes API is reachable: at the address that the control planes share, then at
    /// each node's.
    pub(crate) fn kubernetes_presence(&self) -> watch::Receiver<Vec<Presence>> {
        self.kubernetes_presence.clone()
    }

    /// Reads or changes what the task owns; `None` once it has stopped.
    pub async fn visit<T: Send + 'static>(
        &self,
        visit: impl FnOnce(&mut Inside) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let visit: Visit = Box::new(move |inside| {
            let _ = reply.send(visit(inside));
        });
        let _ = self.commands.send(Command::Visit(visit));
        answer.await.ok()
    }

    /// Saves the state and ends the task.
    pub async fn stop(&self) {
        let (reply, stopped) = oneshot::channel();
        let _ = self.commands.send(Command::Stop(reply));
        let _ = stopped.await;
    }
}

struct Task {
    inside: Inside,
    commands: mpsc::UnboundedSender<Command>,
    published: watch::Sender<Vec<Presence>>,
    presence: Vec<Presence>,
    streams: HashMap<StreamId, mpsc::Sender<Content>>,
    api_presences: Presences,
    watches: Watches,
    file: Option<StateFile>,
    save_at: Option<Instant>,
    /// The [worth](Task::worth) of the last saved state.
    saved: Option<(u64, u64)>,
}

impl Task {
    async fn run(
        mut self,
        mut queue: mpsc::UnboundedReceiver<Command>,
        mut closed: mpsc::UnboundedReceiver<kube_sim::StreamId>,
    ) {
        loop {
            let wake = self.next().map(|time| self.inside.clock.instant_of(time));
            let save_at = self.save_at;
            tokio::select! {
                command = queue.recv() => match command {
                    Some(Command::Stop(reply)) => {
                        self.save();
                        let _ = reply.send(());
                        return;
                    }
                    Some(command) => self.handle(command),
                    None => return,
                },
                Some(stream) = closed.recv() => {
                    self.watches.close(&mut self.inside.kubernetes, stream);
                }
                () = sleep_until(wake) => {
                    self.settle();
                }
                () = sleep_until(save_at) => self.save(),
            }
        }
    }

    fn next(&self) -> Option<Time> {
        let Inside { world, kubernetes, .. } = &self.inside;
        [self.next_of_nodes(), kubernetes.next_event(world)].into_iter().flatten().min()
    }

    fn next_of_nodes(&self) -> Option<Time> {
        let Inside { world, schedule, .. } = &self.inside;
        [world.next_event(), schedule.next()].into_iter().flatten().min()
    }

    /// Processes everything that is due, one event after the other: a node that went down and came
    /// back in between still drops its connections.
    fn settle(&mut self) -> Time {
        let now = self.inside.clock.now();
        let stood_still = now.since(self.inside.kubernetes.now()) > STANDSTILL;
        let next: fn(&Self) -> Option<Time> =
            if stood_still { Self::next_of_nodes } else { Self::next };
        while let Some(at) = next(self).filter(|at| *at <= now) {
            let Inside { world, schedule, kubernetes, .. } = &mut self.inside;
            world.advance(at);
            schedule.advance(world, at);
            if !stood_still {
                kubernetes.follow(world, at);
            }
            self.changed();
            if next(self) == Some(at) {
                // No progress; continuing would loop forever.
                break;
            }
        }
        let Inside { world, kubernetes, .. } = &mut self.inside;
        world.advance(now);
        if stood_still {
            kubernetes.resume(world, now);
        } else {
            kubernetes.advance(world, now);
        }
        self.after();
        now
    }

    fn handle(&mut self, command: Command) {
        let now = self.settle();
        match command {
            Command::Call(call, reply) => {
                let answer = self.call(now, *call);
                let Inside { world, kubernetes, .. } = &mut self.inside;
                kubernetes.follow(world, now);
                let _ = reply.send(answer);
                self.changed();
            }
            Command::Api(call, reply) => {
                let node = call.node.or(self.api_presences.holder());
                let Inside { world, kubernetes, .. } = &mut self.inside;
                let answer = match self.watches.call(kubernetes, world, now, node, &call) {
                    ApiAnswer::Late(wait, reply) => {
                        ApiAnswer::Late(wait.div_f64(self.inside.clock.speed()), reply)
                    }
                    answer => answer,
                };
                let Inside { world, kubernetes, .. } = &mut self.inside;
                kubernetes.advance(world, now);
                let _ = reply.send(answer);
                self.changed();
            }
            Command::Connect(node, reply) => {
                let world = &mut self.inside.world;
                let welcome = match (world.is_silent(node), world.drops_connection(node)) {
                    (true, _) => Welcome::Silent,
                    (false, true) => Welcome::Dropped,
                    (false, false) => Welcome::Taken,
                };
                let _ = reply.send(welcome);
            }
            Command::Close(stream) => {
                self.streams.remove(&stream);
                self.inside.world.close_stream(now, stream);
                self.after();
            }
            Command::Visit(visit) => {
                visit(&mut self.inside);
                let Inside { world, kubernetes, .. } = &mut self.inside;
                kubernetes.follow(world, now);
                // The visitor may have changed anything.
                self.saved = None;
                self.changed();
            }
            Command::Stop(_) => {}
        }
    }

    fn call(&mut self, now: Time, call: Call) -> Answer {
        let Call { node, caller, method, request, forwarded, through } = call;
        let Inside { world, schedule, .. } = &mut self.inside;
        if world.is_silent(node) || world.is_silent(through) {
            return Answer::Silent;
        }
        if !world.is_reachable(node) {
            return Answer::Down;
        }
        if world.drops_call(node, &request, forwarded) {
            return Answer::Dropped;
        }
        schedule.called(world, now, node, method);
        match world.request(now, node, &caller, request) {
            Reply::Unary(response) => Answer::Items(vec![response]),
            Reply::Items(items) => Answer::Items(items),
            Reply::Error(status) => Answer::Failed(status),
            Reply::Stream(stream) => {
                let (sender, contents) = mpsc::channel(STREAM_CAPACITY);
                self.streams.insert(stream, sender);
                Answer::Open(Open { contents, stream, commands: self.commands.clone() })
            }
        }
    }

    fn changed(&mut self) {
        self.after();
        if self.file.is_some() && self.save_at.is_none() && self.saved != Some(self.worth()) {
            self.save_at = Some(clock::real_after(SAVE_AFTER));
        }
    }

    /// Changes as soon as there is something to save; a mere renewal of leases does not count.
    fn worth(&self) -> (u64, u64) {
        let Inside { world, kubernetes, .. } = &self.inside;
        (world.touched(), kubernetes.api().store().revision_to_keep())
    }

    fn after(&mut self) {
        for Output { stream, content } in self.inside.world.outputs() {
            let ends = !matches!(content, Content::Item(_));
            let Some(sender) = self.streams.get(&stream) else {
                continue;
            };
            // A reader that does not keep up loses its stream: dropping the sender ends it.
            if sender.try_send(content).is_err() || ends {
                self.streams.remove(&stream);
            }
        }
        self.watches.deliver(&mut self.inside.kubernetes);
        self.publish();
    }

    fn publish(&mut self) {
        let world = &self.inside.world;
        self.api_presences.publish(world);
        self.presence.resize_with(world.len(), || Presence { reachable: true, epoch: 0 });
        let mut changed = false;
        for (index, presence) in self.presence.iter_mut().enumerate() {
            let node = NodeIndex(index);
            // A node that hangs accepts connections and keeps the open ones.
            let reachable = world.is_reachable(node) || world.is_silent(node);
            if presence.reachable != reachable {
                presence.reachable = reachable;
                presence.epoch += u64::from(!reachable);
                changed = true;
            }
        }
        if changed || self.published.borrow().len() != self.presence.len() {
            self.published.send_replace(self.presence.clone());
        }
    }

    fn save(&mut self) {
        self.save_at = None;
        let worth = self.worth();
        let Some(file) = &mut self.file else {
            return;
        };
        let Inside { world, schedule, kubernetes, .. } = &self.inside;
        // A full disk must not stop the cluster; the next change retries.
        match file.save(&Saved { world, schedule, kubernetes }) {
            Ok(()) => self.saved = Some(worth),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "could not save the state"
                );
            }
        }
    }
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
