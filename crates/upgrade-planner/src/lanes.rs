//! Lays the lanes of a hop: which node gets which steps, with which images.

use std::borrow::Cow;
use std::collections::BTreeMap;

use upgrade_core::guard;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::{
    Change, Group, Hop, Lane, RebootMode, TalosTarget, Target, UpgradeApi, UpgradeMethod, Wave,
};
use upgrade_core::policy::{Order, RebootChoice};
use upgrade_core::snapshot::{Component, NodeName, Role, TalosFacts};
use upgrade_core::step::{Action, StepName};
use upgrade_core::version::{Minor, Version};

use crate::downgrade;
use crate::hops::Leg;
use crate::installer::{self, lacks_wanted};
use crate::planner::Request;
use crate::report::{Note, Refusal, Report, Warning};
use crate::targets::takes_part;
use crate::waves::{self, Limits};

/// What a node is believed to be once the hops before are done.
struct Believed<'a> {
    talos: Option<Cow<'a, TalosFacts>>,
    images: Cow<'a, BTreeMap<Component, ImageRef>>,
}

/// Lays hop after hop, remembering what each leaves behind.
pub(crate) struct Lanes<'a> {
    request: &'a Request<'a>,
    limits: Limits,
    control_planes: Vec<&'a NodeName>,
    workers: Vec<&'a NodeName>,
    believed: BTreeMap<&'a NodeName, Believed<'a>>,
    report: Report,
}

impl<'a> Lanes<'a> {
    /// Starts from what was observed.
    pub(crate) fn new(request: &'a Request<'a>) -> Self {
        let snapshot = request.snapshot;
        let believed = snapshot
            .nodes
            .iter()
            .map(|(name, node)| {
                let talos = node.talos.known().map(Cow::Borrowed);
                let images = node.images.known().map(Cow::Borrowed).unwrap_or_default();
                (name, Believed { talos, images })
            })
            .collect();
        Self {
            request,
            limits: Limits::new(snapshot, &request.policy.workers),
            control_planes: waves::control_planes(snapshot),
            workers: snapshot.nodes_with(Role::Worker).map(|(name, _)| name).collect(),
            believed,
            report: Report::default(),
        }
    }

    /// Adds what there was to say to the report.
    pub(crate) fn tell(self, report: &mut Report) {
        let Report { refusals, warnings, notes } = self.report;
        report.refusals.extend(refusals);
        report.warnings.extend(warnings);
        report.notes.extend(notes);
    }

    /// The hop for a leg; `None` if no node needs it.
    /// Whether `more` follow decides if its outcome is remembered.
    pub(crate) fn hop(&mut self, number: u32, leg: &Leg, more: bool) -> Option<Hop> {
        let waves = match &leg.change {
            Change::Talos { to, .. } => self.talos(number, leg, to, more),
            Change::Kubernetes { to, .. } => self.kubernetes(number, to, more),
        };
        let (limit, pool_limits) = match &leg.change {
            Change::Talos { .. } => (self.limits.shared, self.limits.pools.clone()),
            Change::Kubernetes { .. } => {
                let width = self.request.policy.kubelets.max_parallel.of(self.workers.len());
                (width.max(1), BTreeMap::new())
            }
        };
        (!waves.is_empty()).then(|| Hop {
            number,
            change: leg.change.clone(),
            versions: leg.after.clone(),
            limit,
            pool_limits,
            waves: number_waves(waves),
        })
    }

    fn talos(&mut self, number: u32, leg: &Leg, to: &Version, more: bool) -> Vec<Wave> {
        let mut targets: BTreeMap<NodeName, Box<TalosTarget>> = BTreeMap::new();
        let intent = self.request.intent;
        for (name, node) in &mut self.believed {
            let Some(talos) = &mut node.talos else { continue };
            if !takes_part(intent, leg, name) {
                continue;
            }
            let other = talos.version == *to && lacks_wanted(talos, intent.installer_of(name));
            if is_there(&talos.version, to, intent.rollback) && !other {
                self.report.notes.push(Note::Skipped {
                    node: (*name).clone(),
                    hop: number,
                    version: talos.version.clone(),
                });
                continue;
            }
            let choice = installer::choose(name, talos, to, intent, &mut self.report);
            let Some(installer::Choice { image, schematic, extensions }) = choice else {
                continue;
            };
            let target = TalosTarget {
                from: talos.version.clone(),
                method: if intent.external {
                    UpgradeMethod::External
                } else {
                    UpgradeApi::of(&talos.version).into()
                },
                installer: image.clone(),
                schematic: schematic.clone(),
                extensions: extensions.clone(),
                previous: installer::previous(name, talos),
                etcd: None,
                force: false,
                reboot: RebootMode::Default,
                platform: Some(talos.platform.clone()),
                secure_boot: Some(talos.secure_boot),
            };
            // What the next hop starts from; the last one needs no copy.
            if !more {
                targets.insert((*name).clone(), Box::new(target));
                continue;
            }
            let talos = talos.to_mut();
            talos.version = to.clone();
            talos.installer = Some(image);
            talos.schematic = schematic;
            if let Some(kept) = extensions {
                talos.extensions.retain(|extension| kept.contains(&extension.name));
            }
            targets.insert((*name).clone(), Box::new(target));
        }
        if targets.is_empty() {
            return Vec::new();
        }
        let moving = |name: &&&NodeName| targets.contains_key(**name);
        let control_planes: Vec<_> = self.control_planes.iter().filter(moving).copied().collect();
        let workers: Vec<_> = self.workers.iter().filter(moving).copied().collect();
        let mut lowered = self.lower_etcd(&control_planes, to, &mut targets);
        self.forced(&control_planes, &mut targets);
        let firsts = self.reboots(&control_planes, &workers, &mut targets);
        let worker_waves = match self.worker_waves(&workers, &firsts) {
            Ok(waves) => waves,
            Err(refusals) => {
                for refusal in refusals {
                    self.report.refuse(refusal);
                }
                return Vec::new();
            }
        };
        for name in &workers {
            if !self.request.snapshot.nodes[*name].is_up() {
                self.report.warn(Warning::NodeDown { node: (*name).clone() });
            }
        }
        let pulls = targets
            .iter()
            // What comes from outside brings its own image.
            .filter(|(_, target)| target.method != UpgradeMethod::External)
            .map(|(name, target)| pull(name, vec![target.installer.clone()]))
            .collect();
        let mut prepare = prepare(pulls, &[], !control_planes.is_empty());
        prepare.retain(|wave| !wave.lanes.is_empty());
        let first = control_planes.into_iter().map(|name| vec![name.clone()]);
        let first = first.map(|names| (Group::ControlPlane, names));
        let then = worker_waves.into_iter().map(|names| (Group::Workers, names));
        let order: Vec<_> = match self.request.policy.order {
            Order::ControlPlanesFirst => first.chain(then).collect(),
            Order::WorkersFirst => then.chain(first).collect(),
        };
        for (group, names) in order {
            let before = lowered.take_if(|_| group == Group::ControlPlane);
            prepare.extend(before.map(|minor| wave(Group::Cluster, vec![lower(minor)])));
            let lanes = names
                .into_iter()
                .filter_map(|name| Some(self.talos_lane(targets.remove(&name)?, name, group)))
                .collect();
            prepare.push(wave(group, lanes));
        }
        prepare
    }

    /// Marks the control planes that go back to a lower minor of etcd. That minor, if
    /// etcd's own downgrade has to be run before the first of them (rule 13).
    fn lower_etcd(
        &mut self,
        control_planes: &[&NodeName],
        to: &Version,
        targets: &mut BTreeMap<NodeName, Box<TalosTarget>>,
    ) -> Option<Minor> {
        let Request { snapshot, intent, matrix, .. } = *self.request;
        if !intent.rollback {
            return None;
        }
        let mut lower = None;
        for name in control_planes {
            let minor = downgrade::lower_minor(snapshot, name, to, matrix);
            if let (Some(minor), Some(target)) = (minor, targets.get_mut(*name)) {
                target.etcd = Some(minor);
                lower = Some(minor);
            }
        }
        let etcd = lower?;
        match downgrade::is_needed(snapshot, etcd) {
            Ok(needed) => needed.then_some(etcd),
            Err(why) => {
                self.report.refuse(Refusal::EtcdDowngrade { to: to.clone(), etcd, why });
                None
            }
        }
    }

    /// Talos up to 1.12 refuses to upgrade one of two members of etcd, whatever the
    /// user accepts. Our own gates have checked etcd by then, so the call skips its own.
    fn forced(
        &mut self,
        control_planes: &[&NodeName],
        targets: &mut BTreeMap<NodeName, Box<TalosTarget>>,
    ) {
        for name in control_planes.iter().filter(|_| self.control_planes.len() == 2) {
            if let Some(target) = targets.get_mut(*name)
                && target.method == UpgradeMethod::Legacy
            {
                target.force = true;
                self.report.warn(Warning::ChecksSkipped { node: (*name).clone() });
            }
        }
    }

    /// Chooses how each node reboots. Comes back with the workers that are power cycled
    /// ahead of the others of their pool.
    fn reboots(
        &self,
        control_planes: &[&'a NodeName],
        workers: &[&'a NodeName],
        targets: &mut BTreeMap<NodeName, Box<TalosTarget>>,
    ) -> Vec<&'a NodeName> {
        let Request { snapshot, intent, policy, .. } = *self.request;
        let mut firsts = Vec::new();
        let cycled: Vec<&NodeName> = match policy.reboot.mode {
            RebootChoice::Default => return firsts,
            RebootChoice::Powercycle => [control_planes, workers].concat(),
            // What runs afterwards has booted through the firmware before.
            RebootChoice::PowercycleFirst if intent.rollback => return firsts,
            RebootChoice::PowercycleFirst => {
                firsts = waves::firsts(snapshot, workers);
                let pool = |name: &NodeName| snapshot.nodes[name].pool.as_deref();
                // Where none is up to go first, all of them go through the firmware.
                let lone = |name: &&&NodeName| !firsts.iter().any(|it| pool(it) == pool(name));
                let first = control_planes.iter().take(1).chain(&firsts);
                first.chain(workers.iter().filter(lone)).copied().collect()
            }
        };
        for name in cycled {
            if let Some(target) = targets.get_mut(name) {
                target.reboot = RebootMode::Powercycle;
            }
        }
        firsts
    }

    /// The waves of the workers, those that go ahead of their pool first.
    fn worker_waves(
        &self,
        workers: &[&'a NodeName],
        firsts: &[&'a NodeName],
    ) -> Result<Vec<Vec<NodeName>>, Vec<Refusal>> {
        let (first, rest): (Vec<_>, Vec<_>) =
            workers.iter().copied().partition(|name| firsts.contains(name));
        let waves =
            |names: &[&NodeName]| waves::workers(self.request.snapshot, &self.limits, names);
        Ok([waves(&first)?, waves(&rest)?].concat())
    }

    fn talos_lane(&mut self, target: Box<TalosTarget>, node: NodeName, group: Group) -> Lane {
        let mut steps = Vec::with_capacity(8);
        if target.method == UpgradeMethod::Lifecycle {
            steps.push(Action::Install);
        }
        if group == Group::ControlPlane && self.control_planes.len() > 1 {
            steps.push(Action::Forfeit);
        }
        steps.push(Action::Cordon);
        if self.believed.len() > 1 {
            steps.push(Action::Drain);
        } else {
            self.report.note(Note::DrainLeftOut { node: node.clone() });
        }
        steps.push(boots(target.method));
        steps.extend([Action::Verify, Action::Uncordon]);
        if self.request.policy.soak > SignedDuration::ZERO {
            steps.push(Action::Soak);
        }
        let pool = self.request.snapshot.nodes[&node].pool.as_deref();
        let pool = self.limits.pool(pool).map(ToOwned::to_owned);
        Lane { node: Some(node), pool, target: Target::Talos(target), steps: names(&steps) }
    }

    fn kubernetes(&mut self, number: u32, to: &Version, more: bool) -> Vec<Wave> {
        let mut moves: BTreeMap<NodeName, Images> = BTreeMap::new();
        let rollback = self.request.intent.rollback;
        for (name, node) in &mut self.believed {
            if self.request.intent.holds(name) {
                continue;
            }
            let role = self.request.snapshot.nodes[*name].role;
            let images = Images::to(to, &node.images, role, rollback);
            if images.next.is_empty() {
                self.report.notes.push(Note::Skipped {
                    node: (*name).clone(),
                    hop: number,
                    version: to.clone(),
                });
                continue;
            }
            if more {
                node.images.to_mut().extend(images.next.clone());
            }
            moves.insert((*name).clone(), images);
        }
        if moves.is_empty() {
            return Vec::new();
        }
        let lane = |name: &NodeName, actions: &[Action]| moves.get(name)?.lane(name, actions);
        let each = |actions: &[Action]| -> Vec<Wave> {
            let lanes = self.control_planes.iter().filter_map(|name| lane(name, actions));
            lanes.map(|lane| wave(Group::ControlPlane, vec![lane])).collect()
        };
        let servers = each(&[Action::SetKubeApiserver]);
        let managers = each(&[Action::SetKubeControllerManager, Action::SetKubeScheduler]);
        let proxies = self.control_planes.iter();
        let proxies: Vec<Lane> =
            proxies.filter_map(|name| lane(name, &[Action::SetKubeProxy])).collect();
        let mut manifests = Vec::new();
        if !rollback || !proxies.is_empty() {
            manifests.push(wave(Group::Cluster, vec![cluster(&[Action::SyncManifests])]));
        }
        if !proxies.is_empty() {
            manifests.insert(0, wave(Group::Cluster, proxies));
        }
        let mut kubelets = each(&[Action::SetKubelet]);
        let workers: Vec<_> =
            self.workers.iter().filter(|name| moves.contains_key(**name)).copied().collect();
        let width = self.request.policy.kubelets.max_parallel;
        for names in waves::kubelets(self.request.snapshot, width, &workers) {
            let lanes = names.iter().filter_map(|name| lane(name, &[Action::SetKubelet])).collect();
            kubelets.push(wave(Group::Workers, lanes));
        }
        if !rollback {
            let pulls = moves.iter().map(|(name, images)| images.pulled(name)).collect();
            let prepare = prepare(pulls, &[Action::CheckRemovals], true);
            if !guard!(Mutant::KubeletsFirst) {
                return [prepare, kubelets, servers, managers, manifests].concat();
            }
            return [prepare, servers, managers, manifests, kubelets].concat();
        }
        // A rollback needs no pulls, which could delay it: what ran before is on the
        // nodes. Nothing may be newer than the API servers, so they go last; unless none of
        // them answers, since all the rest waits for them.
        let prepare = prepare(Vec::new(), &[], true);
        let nodes = &self.request.snapshot.nodes;
        if nodes.values().all(|node| node.kubernetes.why_unknown().is_some()) {
            return [prepare, servers, kubelets, manifests, managers].concat();
        }
        [prepare, kubelets, manifests, managers, servers].concat()
    }
}

/// The step that boots a node into another version.
pub(crate) const fn boots(method: UpgradeMethod) -> Action {
    match method {
        UpgradeMethod::Lifecycle => Action::Reboot,
        UpgradeMethod::Legacy => Action::Upgrade,
        UpgradeMethod::External => Action::ExternalUpgrade,
    }
}

/// Everything that disrupts nothing, side by side: pulls, preflight, and the snapshot that
/// rule 3 requires before a control plane is changed.
pub(crate) fn prepare(pulls: Vec<Lane>, checks: &[Action], control_planes: bool) -> Vec<Wave> {
    let mut lanes: Vec<Lane> = checks.iter().map(|check| cluster(&[*check])).collect();
    if control_planes {
        lanes.push(cluster(&[Action::SnapshotEtcd]));
    }
    lanes.extend(pulls);
    vec![wave(Group::Prepare, lanes)]
}

/// The images that a node has to move, and those it has.
struct Images {
    next: BTreeMap<Component, ImageRef>,
    previous: BTreeMap<Component, ImageRef>,
}

impl Images {
    /// Repository and variant stay as they are on the node (a mirror stays a
    /// mirror, `-fat` stays `-fat`); only the version changes.
    fn to(
        to: &Version,
        running: &BTreeMap<Component, ImageRef>,
        role: Role,
        rollback: bool,
    ) -> Self {
        let mut next = BTreeMap::new();
        let mut previous = BTreeMap::new();
        for (component, image) in running {
            if role == Role::Worker && *component != Component::Kubelet {
                continue;
            }
            // An image without a version in its tag is moved too: "unknown" is
            // not "there already".
            let there = |version: Version| if rollback { version <= *to } else { version >= *to };
            if image.version().is_some_and(there) {
                continue;
            }
            let tag = format!("{}{}", to.tag(), image.variant().unwrap_or_default());
            next.insert(*component, image.with_tag(&tag));
            previous.insert(*component, image.clone());
        }
        Self { next, previous }
    }

    /// The lane that pulls what the node will run.
    fn pulled(&self, name: &NodeName) -> Lane {
        // kube-proxy is a DaemonSet's: its own roll-out pulls it.
        let pulled = self.next.iter().filter(|(part, _)| **part != Component::KubeProxy);
        pull(name, pulled.map(|(_, image)| image.clone()).collect())
    }

    /// The lane that does those of the `actions` that this node needs.
    fn lane(&self, name: &NodeName, actions: &[Action]) -> Option<Lane> {
        let parts: Vec<(Action, Component)> = actions
            .iter()
            .filter_map(|action| Some((*action, action.component()?)))
            .filter(|(_, component)| self.next.contains_key(component))
            .collect();
        let pick = |from: &BTreeMap<Component, ImageRef>| {
            parts
                .iter()
                .filter_map(|(_, component)| Some((*component, from.get(component)?.clone())))
                .collect()
        };
        (!parts.is_empty()).then(|| Lane {
            node: Some(name.clone()),
            pool: None,
            target: Target::Kubernetes { images: pick(&self.next), previous: pick(&self.previous) },
            steps: parts.iter().map(|(action, _)| (*action).into()).collect(),
        })
    }
}

/// Whether nothing is left to do between two versions. Upwards a newer version
/// is fine as it is; on a rollback it has to be the one that was asked for.
fn is_there(running: &Version, target: &Version, rollback: bool) -> bool {
    if rollback { running == target } else { running >= target }
}

pub(crate) fn pull(node: &NodeName, images: Vec<ImageRef>) -> Lane {
    Lane {
        node: Some(node.clone()),
        pool: None,
        target: Target::Pulled { images },
        steps: names(&[Action::Pull]),
    }
}

/// Steps without labels: no lane that is planned here has two of one action.
pub(crate) fn names(actions: &[Action]) -> Vec<StepName> {
    actions.iter().copied().map(Into::into).collect()
}

fn cluster(steps: &[Action]) -> Lane {
    Lane { node: None, pool: None, target: Target::Cluster, steps: names(steps) }
}

/// The lane that runs etcd's own downgrade.
pub(crate) fn lower(minor: Minor) -> Lane {
    Lane { target: Target::Etcd { minor }, ..cluster(&[Action::DowngradeEtcd]) }
}

pub(crate) fn wave(group: Group, lanes: Vec<Lane>) -> Wave {
    Wave { number: 0, group, lanes }
}

pub(crate) fn number_waves(waves: Vec<Wave>) -> Vec<Wave> {
    waves.into_iter().zip(1..).map(|(wave, number)| Wave { number, ..wave }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_and_variants_stay() {
        let running = BTreeMap::from([
            (Component::Kubelet, "mirror.lan/siderolabs/kubelet:v1.34.2-slim".parse().unwrap()),
            (Component::KubeProxy, "registry.k8s.io/kube-proxy:v1.34.2".parse().unwrap()),
        ]);
        let to = Version::new(1, 35, 10);
        let images = Images::to(&to, &running, Role::ControlPlane, false);
        let kubelet = images.next[&Component::Kubelet].to_string();
        assert_eq!(kubelet, "mirror.lan/siderolabs/kubelet:v1.35.10-slim");
        assert_eq!(images.previous, running);
        let worker = Images::to(&to, &running, Role::Worker, false);
        assert_eq!(worker.next.len(), 1);
    }
}
