//! No run is under way: what the specs lead to.

use spec_api::ReconcileMode;
use spec_api::condition::Reason;
use upgrade_api::annotation;
use upgrade_api::run::RunPhase;
use upgrade_controller::front_end::Start;
use upgrade_core::product::Product;
use upgrade_core::snapshot::Role;

use super::facts::{Begin, Decision, NextAction, Process};
use super::show::Situation;
use super::view::View;
use crate::adoption::{Adoption, Record};
use crate::keys;
use crate::path::{self, Below, Path, Stretch};
use crate::policy::policy;
use crate::unit::Problem;

/// Decides without a run.
pub(super) fn idle(view: &View<'_>) -> Decision {
    let facts = view.facts;
    if let Some(problem) = facts.unit.problems.first() {
        return stuck(view, problem);
    }
    let observed = match facts.observed {
        None => return Decision { update: first_words(view), next: NextAction::Observe },
        Some(Err(why)) => {
            let message = format!("The cluster cannot be observed: {why}");
            let situation = Situation::new(Reason::Unreachable, message);
            return view.decision(&situation, NextAction::Idle);
        }
        Some(Ok(observed)) => observed,
    };
    if let Some(problem) = view.matching.problems.first() {
        return stuck(view, problem);
    }
    if let Some(missing) = missing(view) {
        return view.decision(&Situation::new(Reason::NotProvisioned, missing), NextAction::Idle);
    }
    let below = path::below(&view.wanted, &view.matching, observed);
    let rollback = match may_go_back(view, &below) {
        Ok(rollback) => rollback,
        Err(why) => {
            return view.decision(&Situation::new(Reason::Refused, why), NextAction::Idle);
        }
    };
    match path::path(&view.wanted, &view.matching, observed, rollback, facts.releases) {
        Path::Refused(why) => {
            view.decision(&Situation::new(Reason::Refused, why), NextAction::Idle)
        }
        Path::Done => view.decision(&at_rest(view), NextAction::Idle),
        Path::Stretch(stretch) => ahead(view, *stretch),
    }
}

/// The objects cannot be followed as they are.
fn stuck(view: &View<'_>, problem: &Problem) -> Decision {
    let situation = Situation::new(problem.reason(), problem.to_string());
    // What is wrong with the objects may be wrong with nothing else: nodes that show too many
    // addresses are asked again with the next observation.
    view.decision(&situation, NextAction::Idle)
}

/// What is shown before the first observation: the first status of an object, and afterwards only
/// where the old one would not be true any more.
fn first_words(view: &View<'_>) -> Option<super::show::Update> {
    let status = view.facts.objects.control_plane.status.as_ref();
    let known = status.is_some_and(|status| status.observed_generation.is_some());
    let text = "The cluster is being observed".to_owned();
    let situation = Situation::new(Reason::Waiting, text);
    (!known).then(|| view.decision(&situation, NextAction::Observe).update).flatten()
}

/// Machines that run no node. A control plane among them is one that is missing in etcd, so
/// nothing starts (rule 10); workers that are to join later keep nothing from being done.
fn missing(view: &View<'_>) -> Option<String> {
    let machines = &view.facts.unit.machines;
    let absent = |role: Role| {
        let own = view.matching.absent.iter().map(|at| &machines[*at]);
        own.filter(|machine| machine.role == role).collect::<Vec<_>>()
    };
    if view.matching.machine_of.is_empty() && !machines.is_empty() {
        return Some("None of the machines is a node of the cluster yet".to_owned());
    }
    let first = absent(Role::ControlPlane).first().copied()?;
    let address = first.address.known()?;
    Some(format!(
        "{}: no node of the cluster has the address {address}; let the machine join, or remove it \
         from the list",
        first.place
    ))
}

/// Whether this is a rollback. A version below what runs needs the annotation `rollback`, unless an
/// unfinished run came from it: then the change of the spec is the request (rule 12).
fn may_go_back(view: &View<'_>, below: &[Below]) -> Result<bool, String> {
    let Some(first) = below.first() else { return Ok(false) };
    if view.facts.steering.rollback {
        return Ok(true);
    }
    let unfinished =
        view.facts.run.filter(|run| matches!(run.phase, RunPhase::Cancelled | RunPhase::Halted));
    let returns = |it: &Below| {
        unfinished.is_some_and(|run| {
            run.product == it.product && run.from.of(it.product).as_ref() == Some(&it.wanted)
        })
    };
    if below.iter().all(returns) {
        return Ok(true);
    }
    let Below { product, node, wanted, runs } = first;
    let at = node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    Err(format!(
        "{product} {wanted} is older than {runs}, which runs{at}; write {runs} or newer, or set \
         {}=true to go back",
        annotation::ROLLBACK
    ))
}

/// Nothing is left to do, for the versions that count.
fn at_rest(view: &View<'_>) -> Situation<'static> {
    let held = |it: &Adoption| it.held.talos || it.held.kubernetes;
    if let Some(((kind, name), adopted)) = view.adoptions.iter().find(|(_, it)| held(it)) {
        let asks = adopted_asks(adopted);
        let message = format!(
            "{}, and {} {name} has {asks} since another operator managed it; change the version, \
             or set {}=true",
            runs(view),
            kind.as_str(),
            keys::ADOPT
        );
        return Situation::new(Reason::Adopted, message);
    }
    Situation::new(Reason::Reconciled, runs(view))
}

/// The recorded versions, for people: without the hash of what belongs to them.
fn adopted_asks(adopted: &Adoption) -> String {
    let Record { talos, kubernetes } = &adopted.record;
    let plain = |product: Product, text: &Option<String>| {
        let text = text.as_deref()?;
        Some(format!("{product} {}", text.split_once('+').map_or(text, |(version, _)| version)))
    };
    let both = [plain(Product::Talos, talos), plain(Product::Kubernetes, kubernetes)];
    both.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

fn runs(view: &View<'_>) -> String {
    let Some(observed) = view.observed() else { return String::new() };
    let talos: std::collections::BTreeSet<_> =
        observed.nodes.values().map(|node| &node.talos).collect();
    let talos: Vec<_> = talos.into_iter().map(upgrade_core::version::Version::tag).collect();
    format!("Talos {} and Kubernetes {} run", talos.join(", "), observed.kubernetes.lowest.tag())
}

/// There is something to do: it begins, unless the user says to wait.
fn ahead(view: &View<'_>, stretch: Stretch) -> Decision {
    let facts = view.facts;
    let Stretch { product, to, intent, more: _ } = stretch;
    if let Some(by) = &facts.steering.pause {
        let message = format!(
            "The {product} upgrade to {to} is held by {by}; remove the annotation {} to begin it",
            annotation::PAUSE
        );
        return view.decision(&Situation::new(Reason::Paused, message), NextAction::Idle);
    }
    if facts.process == Process::Job && !facts.process.drives(product) {
        let message = format!("{product} is upgraded to {to} first, by the operator");
        return view.decision(&Situation::new(Reason::Refused, message), NextAction::Idle);
    }
    let policy = policy(&view.wanted, facts.steering, facts.base);
    let policy = policy.map(|it| it.policy).map_err(|error| error.to_string());
    if let Err(why) = &policy {
        return view.decision(&Situation::new(Reason::Refused, why.clone()), NextAction::Idle);
    }
    let begin = Box::new(Begin {
        product,
        to: to.clone(),
        start: Start { intent, policy },
        asked: view.asked.clone(),
        by_job: product == Product::Kubernetes && !facts.process.drives(product),
    });
    if facts.unit.mode == ReconcileMode::DryRun {
        let message = format!("Dry run: {product} would be upgraded to {to}");
        return view.decision(&Situation::new(Reason::Paused, message), NextAction::Preview(begin));
    }
    let message = format!("Planning the {product} upgrade to {to}");
    let situation = Situation::new(Reason::Waiting, message);
    let next = if facts.settled { NextAction::Begin(begin) } else { NextAction::Settle };
    view.decision(&situation, next)
}
