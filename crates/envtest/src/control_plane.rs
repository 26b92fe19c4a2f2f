//! A control plane owned by this process.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::error::{About as _, Error};
use crate::folder::{ADMIN, Access, Folder, Lock, Record};
use crate::guard::Guard;
use crate::ports::Ports;
use crate::process::{self, Manner, Process};
use crate::ready::{self, Question};
use crate::{Component, Tools, clock};

/// The default time limit for a component to become ready; see [`Options`]. The API server takes
/// four seconds on two idle cores, and took up to twenty while both were compiling.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// The polling interval of readiness. Each check of a listening component runs kubectl, which keeps
/// a core busy for a tenth of a second.
const PAUSE: Duration = Duration::from_millis(150);

/// How many sets of ports are tried. Another process may take a free port before the
/// component listens on it; three times in a row is not a coincidence.
const PORT_TRIES: usize = 3;

/// How to start a control plane.
pub struct Options {
    /// Its folder: missing, empty, or from an earlier run.
    pub folder: PathBuf,
    /// The programs to run.
    pub tools: Tools,
    /// The first of four ports, the API server's; `None` for free ports.
    pub port_base: Option<u16>,
    /// Additional command line arguments. They come last, so they override earlier flags.
    pub arguments: Vec<(Component, String)>,
    /// The time limit for each component to become ready.
    pub ready_limit: Duration,
    /// When it becomes true, a start in progress stops and cleans up.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Receives the events.
    pub observer: Option<Observer>,
}

/// A callback for events.
pub type Observer = Box<dyn FnMut(Event<'_>) + Send>;

impl Options {
    /// The defaults: free ports, no additional arguments, 90 seconds for each component, and no
    /// observer.
    pub fn new(folder: impl Into<PathBuf>, tools: Tools) -> Self {
        Self {
            folder: folder.into(),
            tools,
            port_base: None,
            arguments: Vec::new(),
            ready_limit: READY_LIMIT,
            interrupt: None,
            observer: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, tools, port_base, arguments, ready_limit, interrupt: _, observer: _ } =
            self;
        formatter
            .debug_struct("Options")
            .field("folder", folder)
            .field("tools", tools)
            .field("port_base", port_base)
            .field("arguments", arguments)
            .field("ready_limit", ready_limit)
            .finish_non_exhaustive()
    }
}

/// An event while a control plane starts or stops.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A component was started.
    Started {
        /// The component.
        component: Component,
        /// Its process ID.
        pid: u32,
    },
    /// A component is not ready; sent once per reason.
    Waiting {
        /// The component.
        component: Component,
        /// What is missing.
        reason: &'a str,
    },
    /// A component is ready.
    Ready {
        /// The component.
        component: Component,
        /// The time it took.
        took: Duration,
    },
    /// Another process took a port before the component listened on it; the start is retried with
    /// other ports.
    PortTaken,
    /// A component is being stopped.
    Stopping {
        /// The component.
        component: Component,
    },
}

/// A running control plane. Dropping it stops it.
#[derive(Debug)]
pub struct ControlPlane {
    options: Options,
    folder: Folder,
    ports: Ports,
    /// By component, in start order.
    processes: BTreeMap<Component, Process>,
    guard: Guard,
    /// Whether dropping it leaves it running.
    detached: bool,
    /// Released after everything else.
    _lock: Lock,
}

impl ControlPlane {
    /// Starts all components, and returns when they are ready.
    pub fn start(options: Options) -> Result<Self, Error> {
        let folder = Folder::claim(&options.folder)?;
        let lock = folder.try_lock()?;
        end_incomplete_run(&folder)?;
        folder.ensure_secrets()?;
        let guard = Guard::start()
            .map_err(|source| Error::Spawn { program: PathBuf::from("/bin/sh"), source })?;
        let ports = match options.port_base {
            Some(base) => Ports::from_base(base)?,
            None => match folder.ports()?.filter(|ports| ports.check_free().is_ok()) {
                Some(ports) => ports,
                None => Ports::choose()?,
            },
        };
        let processes = BTreeMap::new();
        let mut plane =
            Self { options, folder, ports, processes, guard, detached: false, _lock: lock };
        for rest in (0..PORT_TRIES).rev() {
            match plane.start_all() {
                Err(error) if rest > 0 && plane.may_move(&error) => {
                    plane.observe(Event::PortTaken);
                    plane.end_all()?;
                    plane.ports = Ports::choose()?;
                }
                // Dropping `plane` stops the started components.
                result => return result.map(|()| plane),
            }
        }
        unreachable!("the last try returns")
    }

    fn start_all(&mut self) -> Result<(), Error> {
        self.ports.check_free()?;
        self.folder.keep_ports(self.ports)?;
        // From here on, other processes can find the owner.
        self.keep_record()?;
        self.start_together(&[Component::Etcd])?;
        self.start_together(&[Component::ApiServer])?;
        self.start_together(&[Component::ControllerManager, Component::Scheduler])
    }

    /// Whether other ports may fix the failure.
    fn may_move(&self, error: &Error) -> bool {
        if self.options.port_base.is_some() {
            return false;
        }
        match error {
            Error::Port { .. } => true,
            Error::Died { tail, .. } => tail.contains("address already in use"),
            _ => false,
        }
    }

    fn start_together(&mut self, components: &[Component]) -> Result<(), Error> {
        let began = clock::now();
        for component in components {
            self.spawn(*component)?;
        }
        for component in components {
            self.wait_until_ready(*component)?;
            self.observe(Event::Ready { component: *component, took: began.elapsed() });
        }
        Ok(())
    }

    fn spawn(&mut self, component: Component) -> Result<(), Error> {
        let Self { options, folder, ports, .. } = &*self;
        let mut arguments = component.arguments(folder, *ports);
        let more = options.arguments.iter().filter(|(whose, _)| *whose == component);
        arguments.extend(more.map(|(_, argument)| argument.into()));
        let program = options.tools.of(component);
        let process = Process::spawn(component, program, &arguments, folder.log_of(component))?;
        let pid = process.pid();
        self.processes.insert(component, process);
        self.keep_record()?;
        self.observe(Event::Started { component, pid });
        Ok(())
    }

    fn wait_until_ready(&mut self, component: Component) -> Result<(), Error> {
        let began = clock::now();
        let mut reported = String::new();
        loop {
            self.check()?;
            self.check_interrupt()?;
            let Err(reason) = self.question().ask(component) else { return Ok(()) };
            let waited = began.elapsed();
            if waited >= self.options.ready_limit {
                // A dead component is a better reason than a timeout.
                self.check()?;
                let process = self.processes.get(&component);
                return Err(Error::NotReady {
                    component,
                    waited,
                    reason,
                    log: self.folder.log_of(component),
                    tail: process.map(Process::tail).unwrap_or_default(),
                });
            }
            if reason != reported {
                self.observe(Event::Waiting { component, reason: &reason });
                reported = reason;
            }
            thread::sleep(PAUSE);
        }
    }

    fn check_interrupt(&self) -> Result<(), Error> {
        let interrupt = self.options.interrupt.as_ref();
        let interrupted = interrupt.is_some_and(|it| it.load(Ordering::Relaxed));
        if interrupted { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn question(&self) -> Question<'_> {
        let Self { options, folder, ports, .. } = self;
        Question { folder, ports: *ports, kubectl: &options.tools.kubectl }
    }

    fn observe(&mut self, event: Event<'_>) {
        if let Some(observer) = &mut self.options.observer {
            observer(event);
        }
    }

    /// Records the processes for the guard and for other processes.
    fn keep_record(&mut self) -> Result<(), Error> {
        let pids = || self.processes.values().map(Process::pid);
        self.guard.watch(pids()).about("the pipe to the guard")?;
        let processes = self.processes.keys().copied().zip(pids()).collect();
        self.folder.keep_record(&Record { owner: Some(std::process::id()), processes })
    }

    /// Fails if a component ended unexpectedly.
    pub fn check(&mut self) -> Result<(), Error> {
        self.processes.values_mut().try_for_each(Process::check)
    }

    /// The address of the API server.
    pub fn url(&self) -> String {
        Component::ApiServer.url(self.ports)
    }

    /// The credentials of the admin.
    pub fn access(&self) -> Access {
        self.folder.access(self.ports)
    }

    /// The address of etcd, which requires no authentication.
    pub fn etcd_url(&self) -> String {
        Component::Etcd.url(self.ports)
    }

    /// The admin's token.
    pub fn token(&self) -> Result<String, Error> {
        self.folder.token(ADMIN)
    }

    /// The certificate authority of the API server, as PEM.
    pub fn certificate_authority(&self) -> Result<String, Error> {
        self.folder.authority()
    }

    /// The path of the admin's kubeconfig, which references no other file.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.folder.kubeconfig()
    }

    /// The content of that kubeconfig.
    pub fn kubeconfig(&self) -> Result<String, Error> {
        let path = self.folder.kubeconfig();
        std::fs::read_to_string(&path).about(path)
    }

    /// kubectl for this cluster.
    pub fn kubectl(&self) -> Command {
        ready::kubectl(&self.options.tools.kubectl, &self.folder)
    }

    /// Applies manifests, and waits until the kinds they define are served.
    pub fn install(&self, manifests: &[PathBuf]) -> Result<(), Error> {
        let mut apply = self.kubectl();
        apply.args(["apply", "--server-side"]);
        for manifest in manifests {
            apply.arg("-f").arg(manifest);
        }
        let mut wait = self.kubectl();
        wait.args(["wait", "--for=condition=Established", "crd", "--all", "--timeout=300s"]);
        for mut command in [apply, wait] {
            let program = PathBuf::from(command.get_program());
            let ran = command.stdin(Stdio::null()).output();
            let ran = ran.map_err(|source| Error::Spawn { program, source })?;
            if !ran.status.success() {
                let output = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
                return Err(Error::Manifests { output });
            }
        }
        Ok(())
    }

    /// The folder of the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of a component's log.
    pub fn log(&self, component: Component) -> PathBuf {
        self.folder.log_of(component)
    }

    /// The process of a component, unless it was killed.
    pub fn pid(&self, component: Component) -> Option<u32> {
        self.processes.get(&component).map(Process::pid)
    }

    /// Kills a component like a crash or a power failure, and returns when it is gone.
    /// [`restart`](Self::restart) starts it again.
    pub fn kill(&mut self, component: Component) -> Result<(), Error> {
        self.end(component, Manner::Force)
    }

    /// Stops a component if it runs, and starts it again.
    pub fn restart(&mut self, component: Component) -> Result<(), Error> {
        let manner = self.manner(component);
        self.end(component, manner)?;
        self.start_together(&[component])
    }

    /// Stops the API server and starts it again, with the same objects.
    pub fn restart_apiserver(&mut self) -> Result<(), Error> {
        self.restart(Component::ApiServer)
    }

    /// Stops all components in reverse start order. The data stays.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end_all()
    }

    /// Leaves all components running without this process. From now on, use
    /// [`inspect`](crate::inspect) and [`take_down`](crate::take_down).
    pub fn detach(mut self) -> Result<(), Error> {
        self.check()?;
        let processes = self.processes.iter().map(|(it, process)| (*it, process.pid())).collect();
        self.folder.keep_record(&Record { owner: None, processes })?;
        self.detached = true;
        Ok(())
    }

    fn manner(&mut self, component: Component) -> Manner {
        let etcd = self.processes.get_mut(&Component::Etcd);
        Manner::suits(component, etcd.is_some_and(|etcd| etcd.check().is_ok()))
    }

    fn end(&mut self, component: Component, manner: Manner) -> Result<(), Error> {
        let Some(process) = self.processes.get_mut(&component) else { return Ok(()) };
        process.end(manner)?;
        self.processes.remove(&component);
        self.keep_record()
    }

    /// Continues after a failure, so that one process that does not end keeps no other alive.
    fn end_all(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        for component in Component::ALL.into_iter().rev() {
            if self.processes.contains_key(&component) {
                self.observe(Event::Stopping { component });
                let manner = self.manner(component);
                result = result.and(self.end(component, manner));
            }
        }
        if result.is_ok() {
            self.folder.keep_record(&Record::default())?;
        }
        result
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if !self.detached {
            self.end_all().ok();
        }
        self.guard.release();
    }
}

/// Cleans up after an earlier run. A complete control plane is in use by its owner; a partial one
/// is the remainder of a crash.
fn end_incomplete_run(folder: &Folder) -> Result<(), Error> {
    let record = folder.record()?;
    let alive = |it: &(Component, u32)| process::is_alive(folder, it.0, it.1);
    if record.processes.len() == Component::ALL.len() && record.processes.iter().all(alive) {
        return Err(Error::AlreadyRunning { folder: folder.path().to_owned() });
    }
    crate::inspect::end_recorded(folder, &record).map(drop)
}
