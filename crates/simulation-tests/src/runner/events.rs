//! Everything that happens to a run from outside, each thing at its time.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::json;
use talos_proto::machine::apply_configuration_request::Mode;
use talos_proto::machine::{ApplyConfigurationRequest, RebootRequest, UpgradeRequest};
use talos_sim::model::{Caller, NodeIndex, NodeRole, NodeSpec, Request, Schematic, World};
use talos_sim::schedule::{fault_text, kind_name};
use tokio::sync::watch;
use upgrade_core::jiff;
use upgrade_core::snapshot::NodeName;
use upgrade_engine::control::Command;
use upgrade_engine::io::Clock as _;

use super::ScenarioRunner;
use super::process::ProcessEnd;
use crate::coverage::Sort;
use crate::network::NetworkConditions;
use crate::scenario::{EDGE, EDGE_ADDRESS, Foreign, OWN, Trouble, TroubleKind};
use crate::trace::{ExternalAction, TraceKind, UserCommand};
use crate::world::process_io::Process;
use crate::world::{EXTENDED, Inside};

/// What the user wants of the run.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each may be wanted on its own")]
pub(super) struct User {
    /// Paused for now.
    pub(super) paused: bool,
    /// Paused, and the user does not come back.
    pub(super) gone: bool,
    /// Something else is wanted.
    pub(super) retarget: bool,
    /// Stopped for now.
    pub(super) stopped: bool,
}

/// Lets every trouble happen.
pub(super) fn direct(runner: &Arc<ScenarioRunner>) {
    for trouble in runner.scenario.troubles.clone() {
        let runner = Arc::clone(runner);
        tokio::spawn(async move {
            runner.seconds(trouble.after).await;
            happen(&runner, trouble).await;
        });
    }
}

impl ScenarioRunner {
    /// Shows the referee what another actor does, then does it.
    fn external(&self, action: ExternalAction, done: impl FnOnce(&mut Inside)) {
        self.shared.at(|inside| {
            inside.show(TraceKind::External { action });
            done(inside);
        });
    }

    fn name(&self, node: usize) -> NodeName {
        let name = self.shared.at(|inside| {
            inside.world.truth(NodeIndex(node)).map(|truth| truth.hostname().to_owned())
        });
        NodeName(name.unwrap_or_default())
    }

    /// The user's command, to every process that drives.
    fn command(&self, user_command: UserCommand, command: &Command) {
        self.shared.at(|inside| inside.show(TraceKind::User { command: user_command }));
        for (_, commands) in &self.state().alive {
            commands.send_replace(command.clone());
        }
    }

    fn processes(&self) -> Vec<Arc<Process>> {
        self.state().alive.iter().map(|(process, _)| Arc::clone(process)).collect()
    }
}

async fn happen(runner: &Arc<ScenarioRunner>, Trouble { kind, .. }: Trouble) {
    if !matches!(kind, TroubleKind::Crash { .. }) {
        runner.count(Sort::Trouble, kind.name());
    }
    match kind {
        // Happens where it is passed.
        TroubleKind::Crash { .. } => {}
        TroubleKind::Fault { node, fault, lasts } => {
            let (name, text) = (runner.name(node), fault_text(&fault));
            runner.count(Sort::Fault, kind_name(fault.kind()));
            let action = ExternalAction::Breaks { node: name.clone(), fault: text.clone() };
            runner.external(action, |inside| {
                let now = inside.world.now();
                inside.world.inject(now, Some(NodeIndex(node)), &fault);
            });
            runner.seconds(lasts).await;
            runner.external(ExternalAction::Mends { node: name, fault: text }, |inside| {
                let now = inside.world.now();
                inside.world.clear(now, Some(NodeIndex(node)), fault.kind());
            });
        }
        TroubleKind::Wires { weather, lasts } => {
            runner.external(ExternalAction::Wires { bad: true }, |_| ());
            runner.shared.set_network(weather);
            runner.seconds(lasts).await;
            runner.shared.set_network(NetworkConditions::default());
            runner.external(ExternalAction::Wires { bad: false }, |_| ());
        }
        TroubleKind::Still { lasts } => {
            let processes = runner.processes();
            for process in &processes {
                process.still.send_replace(true);
            }
            // Another replica takes over when the lease has run out.
            let replica = Arc::clone(runner);
            tokio::spawn(async move { second_runner(&replica).await });
            runner.seconds(lasts).await;
            for process in &processes {
                process.still.send_replace(false);
            }
        }
        TroubleKind::LeaseLost { lasts } => {
            let lasts = SignedDuration::from_secs(i64::try_from(lasts).unwrap_or(i64::MAX));
            let now = runner.shared.clock().now();
            runner.store.lose_renewals(now.saturating_add(lasts).unwrap_or(now));
        }
        TroubleKind::SecondRunner => {
            second_runner(runner).await;
        }
        TroubleKind::Pause { .. } | TroubleKind::Retarget | TroubleKind::Stop { .. } => {
            user_commands(runner, &kind).await;
        }
        TroubleKind::Cordon { node, lasts } => {
            let name = runner.name(node);
            runner.external(ExternalAction::Cordon { node: name.clone(), on: true }, |inside| {
                cordon(inside, &name, true);
            });
            if let Some(lasts) = lasts {
                runner.seconds(lasts).await;
                runner.external(
                    ExternalAction::Cordon { node: name.clone(), on: false },
                    |inside| {
                        cordon(inside, &name, false);
                    },
                );
            }
        }
        TroubleKind::Reboot { node } => {
            runner.external(ExternalAction::Reboot { node: runner.name(node) }, |inside| {
                let (now, request) = (inside.world.now(), RebootRequest::default());
                let node = NodeIndex(node);
                let _ = inside.world.request(now, node, &Caller::admin(), Request::Reboot(request));
            });
        }
        TroubleKind::Upgraded { node } => {
            let action = ExternalAction::Reboot { node: runner.name(node) };
            with_others_image(runner, node, action, |world, node, image| {
                let request = UpgradeRequest { image, ..UpgradeRequest::default() };
                let (now, request) = (world.now(), Request::Upgrade(request));
                let _ = world.request(now, node, &Caller::admin(), request);
            });
        }
        TroubleKind::Armed { node } => {
            let action = ExternalAction::Arms { node: runner.name(node) };
            with_others_image(runner, node, action, |world, node, image| {
                world.arm(world.now(), node, &image);
            });
        }
        TroubleKind::Staged { node } => stage_config(runner, node),
        TroubleKind::Rebuilt => runner.shared.at(|inside| {
            let schematic = Schematic { yaml: String::new(), extensions: Vec::new() };
            inside.world.add_schematic(EXTENDED.to_owned(), schematic);
            inside.world.strip_own_installers();
        }),
        TroubleKind::Registers { lasts } => register(runner, lasts).await,
        TroubleKind::Join => join(runner),
        TroubleKind::Leave { node } => leave(runner, node),
    }
}

/// A machine leaves the cluster, and its Node is deleted.
fn leave(runner: &ScenarioRunner, node: usize) {
    let name = runner.name(node);
    runner.external(ExternalAction::Leave { node: name.clone() }, |inside| {
        let now = inside.world.now();
        if inside.world.leave(now, NodeIndex(node)) {
            let write = kube_sim::Write::by("somebody");
            let options = kube_sim::store::DeleteOptions::now();
            let store = inside.kubernetes.api_mut().store_mut();
            let _ = store.delete(&write, &kube_sim::names::NODES, "", &name.0, &options);
        }
    });
}

/// Another user stages a configuration that differs in one setting.
fn stage_config(runner: &ScenarioRunner, node: usize) {
    runner.external(ExternalAction::Stages { node: runner.name(node) }, |inside| {
        let (now, node) = (inside.world.now(), NodeIndex(node));
        if !inside.world.is_reachable(node) {
            return;
        }
        let config = inside.world.config_of(node).replace("debug: false", "debug: true");
        let request = ApplyConfigurationRequest {
            data: config.into_bytes(),
            mode: Mode::Staged.into(),
            ..ApplyConfigurationRequest::default()
        };
        let request = Request::ApplyConfiguration(request);
        let _ = inside.world.request(now, node, &Caller::admin(), request);
    });
}

/// An installer of a release that is no target of ours: an early patch of the node's own
/// minor, with everything else unchanged.
fn others_image(inside: &Inside, node: NodeIndex) -> Option<String> {
    let truth = inside.world.truth(node)?;
    let installed = truth.installed();
    let line = installed.version.minor();
    let Some(schematic) = installed.schematic else { return Some(format!("{OWN}:v{line}.3")) };
    let (platform, secure_boot) = truth.flavour();
    let secure = if secure_boot { "-secureboot" } else { "" };
    Some(format!("factory.talos.dev/{platform}-installer{secure}/{schematic}:v{line}.3"))
}

/// Another user changes a node by hand, with that installer.
fn with_others_image(
    runner: &ScenarioRunner,
    node: usize,
    action: ExternalAction,
    act: impl FnOnce(&mut World, NodeIndex, String),
) {
    runner.external(action, |inside| {
        if let Some(image) = others_image(inside, NodeIndex(node)) {
            act(&mut inside.world, NodeIndex(node), image);
        }
    });
}

/// A kubelet registers where no Talos is, unless there is one already, and goes again.
async fn register(runner: &ScenarioRunner, lasts: u64) {
    if runner.scenario.foreign != Foreign::None {
        return;
    }
    let node = NodeName(EDGE.to_owned());
    runner.external(ExternalAction::Registers { node: node.clone() }, |inside| {
        let (now, version) = (inside.world.now(), &runner.scenario.kubernetes);
        inside.kubernetes.join_foreign(now, EDGE, EDGE_ADDRESS, version);
    });
    runner.seconds(lasts).await;
    runner.external(ExternalAction::Leave { node }, |inside| {
        inside.kubernetes.leave_foreign(inside.world.now(), EDGE);
    });
}

/// One that waits for the lease, and drives if it gets it.
async fn second_runner(runner: &Arc<ScenarioRunner>) {
    for _ in 0..60 {
        match runner.live(None, false).await {
            ProcessEnd::Busy => runner.seconds(5).await,
            _ => break,
        }
    }
}

/// The user's command.
async fn user_commands(runner: &ScenarioRunner, kind: &TroubleKind) {
    let pause = |by: &str| Command::Pause { by: by.to_owned() };
    match kind {
        TroubleKind::Pause { lasts } => {
            let lasts = *lasts;
            runner.user.send_modify(|user| {
                user.paused = true;
                user.gone = lasts.is_none();
            });
            runner.command(UserCommand::Pause, &pause("user"));
            let Some(lasts) = lasts else { return };
            runner.seconds(lasts).await;
            runner.user.send_modify(|user| user.paused = user.gone);
            if !runner.user.borrow().gone {
                runner.command(UserCommand::Resume, &Command::Continue);
            }
        }
        TroubleKind::Retarget => {
            runner.user.send_modify(|user| user.retarget = true);
            runner.command(UserCommand::Retarget, &pause("another target"));
        }
        TroubleKind::Stop { lasts } => {
            runner.user.send_modify(|user| user.stopped = true);
            runner.command(UserCommand::Stop, &Command::Stop);
            runner.seconds(*lasts).await;
            runner.user.send_modify(|user| user.stopped = false);
        }
        _ => {}
    }
}

fn cordon(inside: &mut Inside, node: &NodeName, on: bool) {
    let write = kube_sim::Write::by("somebody");
    let store = inside.kubernetes.api_mut().store_mut();
    // A node that has left has nothing to be cordoned.
    let _ = store.modify(&write, &kube_sim::names::NODES, "", &node.0, |object| {
        if on {
            kube_sim::object::set(object, &["spec", "unschedulable"], json!(true));
        } else {
            kube_sim::object::remove(object, &["spec", "unschedulable"]);
        }
    });
}

fn join(runner: &ScenarioRunner) {
    let number = runner.shared.at(|inside| inside.world.len());
    let name = format!("worker-new-{number}");
    runner.external(ExternalAction::Join { node: NodeName(name.clone()) }, |inside| {
        let now = inside.world.now();
        let spec = inside.world.spec();
        let like = &spec.nodes[0];
        let address = std::net::Ipv4Addr::new(10, 5, 1, u8::try_from(number).unwrap_or(u8::MAX));
        let spec = NodeSpec {
            hostname: name,
            role: NodeRole::Worker,
            addresses: vec![address.into()],
            talos: like.talos.clone(),
            kubernetes: like.kubernetes.clone(),
            schematic: like.schematic.clone(),
            platform: like.platform.clone(),
            secure_boot: like.secure_boot,
            install_image: like.install_image.clone(),
        };
        inside.world.join(now, spec);
    });
}

/// The user's command at the start of a process.
pub(super) fn first_command(user: &User) -> watch::Sender<Command> {
    let command = if user.stopped {
        Command::Stop
    } else if user.paused || user.gone {
        Command::Pause { by: "user".to_owned() }
    } else if user.retarget {
        // A replica that takes over reads what is wanted now.
        Command::Pause { by: "another target".to_owned() }
    } else {
        Command::Continue
    };
    watch::Sender::new(command)
}
