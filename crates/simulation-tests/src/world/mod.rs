//! The world in memory: the simulator's own models of the machines and of the
//! Kubernetes API, without sockets, and the referee that watches them.
//!
//! A [`SharedWorld`] is one cluster. Processes reach it through a
//! [`ProcessIo`](process_io::ProcessIo) each; everything that happens to it goes through
//! [`SharedWorld::at`], which lets time pass first, informs the referee, and wakes
//! all tasks that wait for a change.

pub mod kubernetes;
pub mod objects;
pub mod process_io;
pub mod talos;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use talos_sim::kubernetes::Kubernetes;
use talos_sim::model::{Content, NodeIndex, Output, Reply, Status, StreamId, Time, World};
use tokio::sync::{Notify, mpsc, watch};
use upgrade_core::jiff;
use upgrade_core::snapshot::NodeName;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::Clock as _;

use crate::network::{Delivery, NetworkConditions};
use crate::referee::Referee;
use crate::trace::{TraceEvent, TraceKind, View};
use kube_sim::random::Random;

/// When every world begins: a midnight.
pub const START: Timestamp = Timestamp::constant(1_800_057_600, 0);

/// The shortest time between two looks at what is due.
const SHORTEST: jiff::SignedDuration = jiff::SignedDuration::from_millis(20);

/// How often the history of objects is forgotten.
const COMPACTED_EVERY: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

/// A schematic with an extension in it.
pub const EXTENDED: &str = "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245";

/// The extension.
pub const EXTENSION: &str = "siderolabs/iscsi-tools";

/// One that goes by another name in newer releases.
pub const RENAMED: (&str, &str) = ("siderolabs/i915-ucode", "siderolabs/i915");

/// One cluster, its referee, and what it has been seen doing.
pub struct SharedWorld {
    inner: Mutex<Inside>,
    /// How the wires are, and their chances.
    wires: Mutex<(NetworkConditions, Random)>,
    clock: SystemClock,
    /// Told when something may happen earlier than was thought.
    sooner: Notify,
    /// Told when a rule is broken.
    broken: Notify,
    /// Grows with every change of an object.
    pub(crate) objects: watch::Sender<u64>,
    /// Tells how often a machine has changed, by node.
    pub(crate) machines: Mutex<Vec<watch::Sender<u64>>>,
}

/// What is inside.
pub struct Inside {
    /// The machines.
    pub world: World,
    /// The API of the cluster on them.
    pub kubernetes: Kubernetes,
    /// Who watches.
    pub referee: Referee,
    /// Everything that was seen, if a log was requested.
    pub log: Option<Vec<TraceEvent>>,
    /// What was met, for the coverage.
    pub met: crate::coverage::Met,
    /// Chances of the API servers.
    pub(crate) random: Random,
    /// Whether the node that was asked just now accepts requests and answers none.
    pub(crate) hangs: bool,
    streams: HashMap<StreamId, mpsc::UnboundedSender<Content>>,
    /// How often each node has booted, as far as it was seen.
    boots: Vec<u64>,
    /// How many installers each node has started, as far as it was seen.
    installs: Vec<u64>,
    touched: u64,
    revision: u64,
    now: Timestamp,
    compacted: Timestamp,
}

impl Inside {
    /// The world as it is.
    pub fn view(&self) -> View<'_> {
        View { world: &self.world, kubernetes: &self.kubernetes }
    }

    /// Shows the referee something.
    pub fn show(&mut self, what: TraceKind) {
        let seen = TraceEvent { at: self.now, what };
        self.met.see(&seen);
        let view = View { world: &self.world, kubernetes: &self.kubernetes };
        self.referee.see(&seen, &view);
        if let Some(log) = &mut self.log {
            log.push(seen);
        }
    }

    /// The time of the world.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The node of this name that has not left.
    pub fn find(&self, name: &NodeName) -> Option<NodeIndex> {
        self.world.truths().find(|truth| truth.hostname() == name.0).map(|truth| truth.index())
    }

    /// Sends a call to a node; a stream's items come by the channel.
    pub(crate) fn call(
        &mut self,
        node: NodeIndex,
        request: talos_sim::model::Request,
    ) -> Result<Answer, Status> {
        let caller = talos_sim::model::Caller::admin();
        let now = self.world.now();
        Ok(match self.world.request(now, node, &caller, request) {
            Reply::Unary(response) => Answer::Items(vec![response]),
            Reply::Items(items) => Answer::Items(items),
            Reply::Error(status) => return Err(status),
            Reply::Stream(stream) => {
                let (sender, contents) = mpsc::unbounded_channel();
                self.streams.insert(stream, sender);
                Answer::Stream(stream, contents)
            }
        })
    }

    fn follow(&mut self, to: Timestamp) {
        let now = time(to);
        self.now = self.now.max(to);
        // Each thing at its time: the kubelets see a machine go before it is back.
        while let Some(at) = next(&self.world, &self.kubernetes).filter(|at| *at <= now) {
            self.world.advance(at);
            self.kubernetes.follow(&mut self.world, at);
            self.observe();
            if next(&self.world, &self.kubernetes).is_some_and(|again| again <= at) {
                break;
            }
        }
        self.world.advance(now);
        self.kubernetes.follow(&mut self.world, now);
        self.observe();
    }

    fn observe(&mut self) {
        for index in 0..self.world.len() {
            let node = NodeIndex(index);
            let Some(truth) = self.world.truth(node) else { continue };
            // Seen when it is on again, on whatever it has booted.
            let boots = if truth.is_on() {
                truth.downs()
            } else {
                self.boots.get(index).copied().unwrap_or(0)
            };
            if index == self.boots.len() {
                self.boots.push(boots);
            } else if self.boots[index] != boots {
                self.boots[index] = boots;
                let name = NodeName(truth.hostname().to_owned());
                self.show(TraceKind::Boots { node: name });
            }
            self.observe_installers(node);
        }
    }

    fn observe_installers(&mut self, node: NodeIndex) {
        let Some(truth) = self.world.truth(node) else { return };
        let installs = truth.installs();
        if node.0 >= self.installs.len() {
            self.installs.resize(node.0 + 1, 0);
        }
        if std::mem::replace(&mut self.installs[node.0], installs) != installs {
            let node = NodeName(truth.hostname().to_owned());
            self.show(TraceKind::Installs { node });
        }
    }

    fn deliver(&mut self) {
        for Output { stream, content } in self.world.outputs() {
            let ends = !matches!(content, Content::Item(_));
            if let Some(sender) = self.streams.get(&stream) {
                let _ = sender.send(content);
            }
            if ends {
                self.streams.remove(&stream);
            }
        }
        // Nothing here watches objects by a stream or reads their older versions.
        let api = self.kubernetes.api_mut();
        api.outputs();
        if self.now.duration_since(self.compacted) > COMPACTED_EVERY {
            self.compacted = self.now;
            self.kubernetes.api_mut().compact();
        }
    }
}

/// What a call to a node got.
pub(crate) enum Answer {
    /// All there is.
    Items(Vec<talos_sim::model::Response>),
    /// More to come.
    Stream(StreamId, mpsc::UnboundedReceiver<Content>),
}

fn next(world: &World, kubernetes: &Kubernetes) -> Option<Time> {
    [world.next_event(), kubernetes.next_event(world)].into_iter().flatten().min()
}

/// The simulator's time.
pub fn time(at: Timestamp) -> Time {
    Time::from_nanos(u64::try_from(at.as_nanosecond()).unwrap_or(0))
}

impl SharedWorld {
    /// A place that begins now; inside of a runtime whose clock is paused.
    pub fn new(
        (world, kubernetes): (World, Kubernetes),
        referee: impl FnOnce(Timestamp, &View<'_>) -> Referee,
        mut random: Random,
        log: bool,
    ) -> Arc<Self> {
        let start = world.now().to_jiff();
        let referee = referee(start, &View { world: &world, kubernetes: &kubernetes });
        let count = world.len();
        let mut inner = Inside {
            touched: world.touched(),
            revision: kubernetes.api().store().revision_to_keep(),
            world,
            kubernetes,
            referee,
            log: log.then(Vec::new),
            met: crate::coverage::Met::default(),
            random: random.split(),
            hangs: false,
            streams: HashMap::new(),
            boots: Vec::new(),
            installs: Vec::new(),
            now: start,
            compacted: start,
        };
        inner.observe();
        Arc::new(Self {
            inner: Mutex::new(inner),
            wires: Mutex::new((NetworkConditions::default(), random)),
            clock: SystemClock::starting_at(start),
            sooner: Notify::new(),
            broken: Notify::new(),
            objects: watch::Sender::new(0),
            machines: Mutex::new((0..count).map(|_| watch::Sender::new(0)).collect()),
        })
    }

    /// How the wires are from now on.
    pub fn set_network(&self, weather: NetworkConditions) {
        self.wires.lock().unwrap_or_else(PoisonError::into_inner).0 = weather;
    }

    /// What becomes of the next message.
    pub(crate) fn passage(&self) -> Delivery {
        let mut wires = self.wires.lock().unwrap_or_else(PoisonError::into_inner);
        let (weather, random) = &mut *wires;
        weather.draw(random)
    }

    /// A rule was broken that the referee does not judge.
    pub fn breaks(&self) {
        self.broken.notify_one();
    }

    /// Comes back when a rule was broken.
    pub async fn until_broken(&self) {
        self.broken.notified().await;
    }

    /// Its clock.
    pub fn clock(&self) -> &SystemClock {
        &self.clock
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something now: what is due happens before, and who waits for a
    /// change learns of it.
    pub fn at<T>(&self, action: impl FnOnce(&mut Inside) -> T) -> T {
        let mut inside = self.lock();
        let before = next(&inside.world, &inside.kubernetes);
        inside.follow(self.clock.now());
        let done = action(&mut inside);
        let now = inside.world.now();
        let Inside { world, kubernetes, .. } = &mut *inside;
        kubernetes.follow(world, now);
        inside.observe();
        inside.deliver();
        self.announce(&mut inside);
        if !inside.referee.breaches().is_empty() {
            self.broken.notify_one();
        }
        if next(&inside.world, &inside.kubernetes) != before {
            self.sooner.notify_one();
        }
        done
    }

    fn announce(&self, inside: &mut Inside) {
        let touched = inside.world.touched();
        if std::mem::replace(&mut inside.touched, touched) != touched {
            let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
            machines.resize_with(inside.world.len(), || watch::Sender::new(0));
            for (index, sender) in machines.iter().enumerate() {
                let touched = inside.world.touched_of(NodeIndex(index));
                sender.send_if_modified(|known| std::mem::replace(known, touched) != touched);
            }
        }
        let revision = inside.kubernetes.api().store().revision_to_keep();
        if std::mem::replace(&mut inside.revision, revision) != revision {
            self.objects.send_modify(|number| *number += 1);
        }
    }

    /// Lets time pass for ever.
    pub async fn live(self: Arc<Self>) {
        loop {
            let next = {
                let inside = self.lock();
                next(&inside.world, &inside.kubernetes)
            };
            match next {
                Some(at) => {
                    let left = at.to_jiff().duration_since(self.clock.now());
                    // What stays due is checked again after a pause: without one, this would spin.
                    let left = left.max(SHORTEST);
                    tokio::select! {
                        () = self.clock.sleep(left) => self.at(|_| ()),
                        () = self.sooner.notified() => {}
                    }
                }
                None => self.sooner.notified().await,
            }
        }
    }
}
