//! What holds for every cluster, every version and every policy.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::RngSeed;
use upgrade_core::amount::Amount;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::{Intent, NodeIntent, Preference};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Change, Group, Target};
use upgrade_core::policy::{Order, Policy};
use upgrade_core::snapshot::{MemberId, NodeName, Role, Snapshot};
use upgrade_core::version::Version;
use upgrade_planner::check;
use upgrade_planner::check::Severity;
use upgrade_planner::follow::OLDEST_HOST;

use crate::common::world::{End, World};
use crate::common::{cluster, etcd, kubernetes, plan_for, report_text, sketch, talos};

/// The same cases in every run, so that a red test stays red until it is
/// fixed. `PROPTEST_RNG_SEED` and `PROPTEST_CASES` look further.
fn config(cases: u32) -> ProptestConfig {
    let given = ProptestConfig::default();
    let standard = ProptestConfig { cases: 256, ..ProptestConfig::default() };
    ProptestConfig {
        cases: if given.cases == standard.cases { cases } else { given.cases },
        rng_seed: match given.rng_seed {
            RngSeed::Random => RngSeed::Fixed(20_261_115),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        failure_persistence: None,
        ..given
    }
}

/// A release that runs and one that is wanted, mostly not older.
fn releases(of: fn(&Catalogue) -> &Vec<Version>) -> impl Strategy<Value = (Version, Version)> {
    let newest = of(&Catalogue::builtin()).clone();
    let last = newest.len() - 1;
    (0..=last, 0_usize..4, 0_u64..=20, 0_u64..=20, 0_u8..20).prop_map(
        move |(from, up, patch, to_patch, swap)| {
            let release = |at: usize, patch: u64| -> Version {
                let newest: &Version = &newest[at.min(last)];
                format!("{}.{}", newest.minor(), patch.min(newest.patch())).parse().unwrap()
            };
            let (from, to) = (release(from, patch), release(from + up, to_patch));
            if swap == 0 { (to, from) } else { (from, to) }
        },
    )
}

/// Versions that run and that are wanted; what runs is mostly a supported pair.
fn versions() -> impl Strategy<Value = ((Version, Version), (Version, Version))> {
    (releases(|it| &it.talos), releases(|it| &it.kubernetes)).prop_filter(
        "one in many starts outside the matrix",
        |((talos, _), (kubernetes, _))| {
            // Hosts before 1.8 are refused; a few of them are enough to see that.
            let taken = *talos >= OLDEST_HOST || talos.patch() == 4;
            taken && (Matrix::builtin().supports(talos, kubernetes) || talos.patch() == 3)
        },
    )
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![(1_usize..6).prop_map(Amount::Count), (1_u8..=100).prop_map(Amount::Percent)]
}

fn policy() -> impl Strategy<Value = Policy> {
    (amount(), prop::option::of(amount()), amount(), any::<bool>(), any::<bool>()).prop_map(
        |(shared, gpu, kubelets, workers_first, accept_outage)| {
            let mut policy = Policy { accept_outage, ..Policy::default() };
            policy.workers.max_unavailable = shared;
            policy.workers.pools.extend(gpu.map(|amount| ("gpu".to_owned(), amount)));
            policy.kubelets.max_parallel = kubelets;
            policy.order =
                if workers_first { Order::WorkersFirst } else { Order::ControlPlanesFirst };
            policy
        },
    )
}

/// A cluster somewhere between healthy and half upgraded.
fn snapshot(version: Version, k8s: Version) -> impl Strategy<Value = Snapshot> {
    let size = (prop::sample::select(vec![1_usize, 2, 3, 4, 5, 7]), 0_usize..12);
    (size, prop::collection::vec(any::<(u8, bool)>(), 20), any::<prop::sample::Index>()).prop_map(
        move |((control_planes, workers), noise, leader)| {
            let mut snapshot =
                cluster(control_planes, workers, &version.to_string(), &k8s.to_string());
            let names: Vec<String> = snapshot.nodes.keys().map(|name| name.0.clone()).collect();
            for (name, (dice, gpu)) in names.iter().zip(noise) {
                let node = snapshot.nodes.get_mut(&name.as_str().into()).unwrap();
                let worker = node.role == Role::Worker;
                node.pool = (worker && gpu).then(|| "gpu".to_owned());
                if worker && dice < 20 {
                    kubernetes(&mut snapshot, name).ready = false;
                } else if dice > 230 {
                    let newer = Version::new(1, 0, 0);
                    let patch = version.patch() + 1;
                    let minor = version.minor().first();
                    let next: Version = format!("{}.{patch}", minor.minor()).parse().unwrap();
                    talos(&mut snapshot, name).version = next.max(newer);
                }
            }
            let leader = MemberId(leader.index(control_planes) as u64 + 1);
            for member in &mut etcd(&mut snapshot).members {
                if let upgrade_core::snapshot::Fact::Known(status) = &mut member.status {
                    status.leader = Some(leader);
                }
            }
            snapshot
        },
    )
}

fn intent(talos: Version, kubernetes: Version) -> impl Strategy<Value = Intent> {
    any::<(bool, bool, u8)>().prop_map(move |(skip_minors, talos_first, leave)| Intent {
        talos: (leave > 40).then(|| talos.clone()),
        kubernetes: (leave < 215).then(|| kubernetes.clone()),
        skip_minors,
        prefer: if talos_first { Preference::TalosFirst } else { Preference::KubernetesFirst },
        ..Intent::default()
    })
}

/// Wishes for some of the nodes, one of three dice each: mostly none at all.
fn nodes(
    snapshot: Snapshot,
    talos: Version,
) -> impl Strategy<Value = (Snapshot, BTreeMap<NodeName, NodeIntent>)> {
    let dice = prop::collection::vec((any::<u8>(), 0_u64..12), snapshot.nodes.len());
    (any::<u8>(), dice).prop_map(move |(some, dice)| {
        let own = snapshot.nodes.keys().zip(dice).filter(|_| some > 120);
        let own = own.filter_map(|(name, (dice, patch))| {
            let pin: Version = format!("{}.{patch}", talos.minor()).parse().unwrap();
            let own = match dice {
                0..40 => NodeIntent { hold: true, ..NodeIntent::default() },
                40..80 => NodeIntent { talos: Some(pin), ..NodeIntent::default() },
                _ => return None,
            };
            Some((name.clone(), own))
        });
        let own = own.collect();
        (snapshot.clone(), own)
    })
}

fn case() -> impl Strategy<Value = (Snapshot, Intent, Policy)> {
    versions().prop_flat_map(|((talos, to), (kubernetes, kubernetes_to))| {
        let snapshot = snapshot(talos, kubernetes);
        let line = to.clone();
        let nodes = snapshot.prop_flat_map(move |snapshot| nodes(snapshot, line.clone()));
        (nodes, intent(to, kubernetes_to), policy()).prop_map(
            |((snapshot, nodes), intent, policy)| (snapshot, Intent { nodes, ..intent }, policy),
        )
    })
}

proptest! {
    #![proptest_config(config(1500))]

    /// Rules 1, 3, 4, 6, 7, 11 and 13, by code that shares nothing with the
    /// planner, and by `check`.
    #[test]
    fn every_plan_keeps_the_rules((snapshot, intent, policy) in case()) {
        let matrix = Matrix::builtin();
        let Ok(planned) = plan_for(&snapshot, &intent, &policy) else { return Ok(()) };
        let mut runs: BTreeMap<&NodeName, Version> = snapshot.nodes.iter()
            .map(|(name, node)| (name, node.talos.known().unwrap().version.clone())).collect();
        for hop in &planned.plan.hops {
            for lane in hop.lanes() {
                let Some(name) = &lane.node else { continue };
                let own = intent.nodes.get(name).cloned().unwrap_or_default();
                prop_assert!(!own.hold, "rule 12: {name} is held");
                if let Target::Talos(target) = &lane.target {
                    let to = hop.change.to();
                    prop_assert!(matrix.accepts(&runs[name], to), "rule 13: {name} {to}");
                    prop_assert_eq!(&runs[name], &target.from);
                    runs.insert(name, to.clone());
                }
            }
            if let (Some(talos), Some(kubernetes)) = (&hop.versions.talos, &hop.versions.kubernetes) {
                prop_assert!(matrix.supports(talos, kubernetes), "rule 13: {talos} {kubernetes}");
            }
            let is_os = matches!(hop.change, Change::Talos { .. });
            let snapshot = &snapshot;
            for wave in hop.waves.iter().filter(|wave| wave.group != Group::Prepare) {
                let role = |role| wave.lanes.iter().filter_map(|lane| lane.node.as_ref())
                    .filter(move |name| snapshot.nodes[*name].role == role);
                let disrupted = wave.group != Group::Cluster;
                prop_assert!(!disrupted || role(Role::ControlPlane).count() <= 1, "rule 1");
                let mut pools: BTreeMap<Option<&str>, usize> = BTreeMap::new();
                let own = |pool: Option<&str>| pool.filter(|pool| policy.workers.pools.contains_key(*pool)).map(|_| "gpu");
                for name in role(Role::Worker) {
                    *pools.entry(own(snapshot.nodes[name].pool.as_deref())).or_default() += 1;
                }
                for (pool, count) in pools {
                    if !is_os {
                        continue;
                    }
                    let members: Vec<_> = snapshot.nodes_with(Role::Worker)
                        .filter(|(_, node)| own(node.pool.as_deref()) == pool).collect();
                    let amount = pool.map_or(policy.workers.max_unavailable, |_| policy.workers.pools["gpu"]);
                    let down = members.iter().filter(|(_, node)| !node.is_up()).count();
                    let moving_down = wave.lanes.iter().filter_map(|lane| lane.node.as_ref())
                        .filter(|name| {
                            let node = &snapshot.nodes[*name];
                            !node.is_up() && own(node.pool.as_deref()) == pool
                        }).count();
                    let away = count + down - moving_down;
                    prop_assert!(away <= amount.of(members.len()) || moving_down == count,
                        "rule 6: {away} away of {}", members.len());
                }
            }
        }
        for (name, runs) in &runs {
            let own = intent.nodes.get(*name).filter(|own| !own.hold).and_then(|own| own.talos.as_ref());
            prop_assert!(own.is_none_or(|own| own == runs), "{name} ends on {runs}");
        }
        let fatal: Vec<_> = check(&planned.plan, &snapshot, &matrix).into_iter()
            .filter(|finding| finding.severity == Severity::Fatal).collect();
        prop_assert!(fatal.is_empty(), "{fatal:?}");
    }

    /// The same input gives the same plan and the same hash, through JSON too.
    #[test]
    fn same_input_same_hash((snapshot, intent, policy) in case()) {
        let first = plan_for(&snapshot, &intent, &policy);
        prop_assert_eq!(&first, &plan_for(&snapshot, &intent, &policy));
        if let Ok(planned) = first {
            let json = serde_json::to_string(&planned.plan).unwrap();
            let read: upgrade_core::plan::Plan = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(read.hash(), planned.plan.hash());
        }
    }
}

/// Properties that hold because nothing is ever planned would be worthless.
#[test]
fn most_cases_are_planned() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut planned, mut with_nodes) = (0, 0);
    for _ in 0..400 {
        let (snapshot, intent, policy) = case().new_tree(&mut runner).unwrap().current();
        if plan_for(&snapshot, &intent, &policy).is_ok_and(|planned| !planned.plan.is_empty()) {
            planned += 1;
            with_nodes += usize::from(!intent.nodes.is_empty());
        }
    }
    assert!(with_nodes > 20, "{with_nodes} of 400");
    assert!(planned > 120, "{planned} of 400");
}

proptest! {
    #![proptest_config(config(120))]

    /// A plan, run to its end, leaves nothing to do; the world's own referee
    /// watches the rules on the way.
    #[test]
    fn what_a_plan_reached_needs_no_plan((snapshot, intent, policy) in case()) {
        let Ok(planned) = plan_for(&snapshot, &intent, &policy) else { return Ok(()) };
        let healthy = snapshot.nodes.values().all(upgrade_core::snapshot::Node::is_up);
        prop_assume!(healthy);
        let mut world = World::new(snapshot, planned.plan);
        prop_assert_eq!(world.run(), End::Done);
        let again = plan_for(&world.truth, &intent, &policy);
        let again = again.map_err(|report| TestCaseError::fail(report_text(&report)))?;
        prop_assert!(again.plan.is_empty(), "{}", sketch(&again));
    }
}
