//! Hops: the whole matrix enumerated, and every way a path can be refused.

use std::collections::{BTreeSet, VecDeque};
use std::sync::LazyLock;

use upgrade_core::advice::{Advice, Choice, Fix};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::{Intent, Preference};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Change, Versions};
use upgrade_core::version::{Minor, Version};
use upgrade_planner::follow::OLDEST_HOST;
use upgrade_planner::hops::{Leg, find};
use upgrade_planner::report::{Constraint, Note, Product, Refusal, Report, Warning};
use upgrade_planner::targets::Start;

use crate::common::{self, version};

fn running(talos: Option<&str>, kubernetes: Option<&str>) -> Versions {
    Versions { talos: talos.map(version), kubernetes: kubernetes.map(version) }
}

static MATRIX: LazyLock<Matrix> = LazyLock::new(Matrix::builtin);
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::builtin);

fn path(from: &Versions, intent: &Intent) -> (Option<Vec<Leg>>, Report) {
    let mut report = Report::default();
    let start = Start::uniform(from.clone(), None, intent);
    let legs = find(&start, intent, &MATRIX, &CATALOGUE, &mut report);
    (legs, report)
}

fn words(legs: &[Leg]) -> Vec<String> {
    legs.iter()
        .map(|leg| {
            let initial = &leg.change.product().as_str()[..1];
            format!("{initial} {}", leg.change.to())
        })
        .collect()
}

fn newest(minors: &[Version], line: Minor) -> Version {
    minors.iter().filter(|version| version.minor() == line).max().unwrap().clone()
}

/// Whether a path exists and how many reboots it needs, found by brute force
/// over minors: no tracks, no preferences, none of the planner's code.
fn reachable(
    matrix: &Matrix,
    from: (Minor, Minor),
    to: (Minor, Minor),
    skip: bool,
) -> Option<usize> {
    let talos = |line| newest(&CATALOGUE.talos, line);
    let kubernetes = |line| newest(&CATALOGUE.kubernetes, line);
    let mut seen = BTreeSet::from([from]);
    // Moves that reboot cost one, others nothing: a 0-1 breadth-first search.
    let mut queue = VecDeque::from([(from, 0)]);
    while let Some((here, reboots)) = queue.pop_front() {
        if here == to {
            return Some(reboots);
        }
        seen.insert(here);
        if here.1 < to.1 {
            let next = (here.0, here.1.next());
            if matrix.supports(&talos(next.0), &kubernetes(next.1)) && !seen.contains(&next) {
                queue.push_front((next, reboots));
            }
        }
        for step in 1..=if skip { 2 } else { 1 } {
            let mut line = here.0;
            for _ in 0..step {
                line = line.next();
            }
            let next = (line, here.1);
            if line <= to.0
                && matrix.accepts(&talos(here.0), &talos(line))
                && matrix.supports(&talos(line), &kubernetes(here.1))
                && !seen.contains(&next)
            {
                queue.push_back((next, reboots + 1));
            }
        }
    }
    None
}

#[test]
fn the_whole_matrix() {
    // Rule 13: every start that is supported, every target, both preferences.
    let (matrix, catalogue) = (&*MATRIX, &*CATALOGUE);
    let mut paths = 0;
    for from in &catalogue.talos {
        for to in catalogue.talos.iter().filter(|to| *to >= from) {
            for k_from in catalogue.kubernetes.iter().filter(|it| matrix.supports(from, it)) {
                for k_to in catalogue.kubernetes.iter().filter(|it| *it >= k_from) {
                    for (skip_minors, prefer) in [
                        (false, Preference::TalosFirst),
                        (false, Preference::KubernetesFirst),
                        (true, Preference::TalosFirst),
                    ] {
                        let intent = Intent {
                            talos: Some(to.clone()),
                            kubernetes: Some(k_to.clone()),
                            skip_minors,
                            prefer,
                            ..Intent::default()
                        };
                        let start = Versions {
                            talos: Some(from.clone()),
                            kubernetes: Some(k_from.clone()),
                        };
                        let (legs, report) = path(&start, &intent);
                        paths += 1;
                        if *from < OLDEST_HOST && to > from {
                            assert_eq!(legs, None, "{from} to {to}");
                            let refusals = &report.refusals[..];
                            assert!(matches!(refusals, [Refusal::HostTooOld { .. }]), "{report:?}");
                            continue;
                        }
                        let lines = |talos: &Version, kubernetes: &Version| {
                            (talos.minor(), kubernetes.minor())
                        };
                        let wanted =
                            reachable(matrix, lines(from, k_from), lines(to, k_to), skip_minors);
                        let found = legs.as_ref().map(|legs| {
                            legs.iter()
                                .filter(|leg| matches!(leg.change, Change::Talos { .. }))
                                .count()
                        });
                        assert_eq!(found, wanted, "{from}/{k_from} to {to}/{k_to}: {report:?}");
                        match legs {
                            Some(legs) => supported(matrix, &start, &legs, skip_minors),
                            None => furthest_is_reachable(&start, &intent, &report),
                        }
                    }
                }
            }
        }
    }
    assert!(paths > 10_000, "{paths}");
}

fn supported(matrix: &Matrix, start: &Versions, legs: &[Leg], skip: bool) {
    let mut here = start.clone();
    for leg in legs {
        let steps = leg.change.from().minor().steps_to(leg.change.to().minor()).unwrap();
        match &leg.change {
            Change::Talos { from, to } => {
                assert_eq!(here.talos.as_ref(), Some(from));
                assert!(matrix.accepts(from, to));
                assert!(steps <= if skip { 2 } else { 1 });
                here.talos = Some(to.clone());
            }
            Change::Kubernetes { from, to } => {
                assert_eq!(here.kubernetes.as_ref(), Some(from));
                assert!(steps <= 1);
                here.kubernetes = Some(to.clone());
            }
        }
        assert_eq!(here, leg.after);
        assert!(matrix.supports(here.talos.as_ref().unwrap(), here.kubernetes.as_ref().unwrap()));
    }
}

/// A refusal must name a place that can really be reached.
fn furthest_is_reachable(start: &Versions, intent: &Intent, report: &Report) {
    let [Refusal::NoPath { furthest, .. }] = report.refusals.as_slice() else {
        panic!("{report:?}");
    };
    let nearer = Intent {
        talos: furthest.talos.clone(),
        kubernetes: furthest.kubernetes.clone(),
        ..intent.clone()
    };
    assert!(path(start, &nearer).0.is_some(), "{furthest:?} from {start:?}");
}

#[test]
fn ties_go_to_the_doors_preference() {
    let from = running(Some("1.12.11"), Some("1.33.4"));
    let mut intent = common::intent(Some("1.13.9"), Some("1.35.2"));
    assert_eq!(words(&path(&from, &intent).0.unwrap()), ["T 1.13.9", "K 1.34.13", "K 1.35.2"]);
    intent.prefer = Preference::KubernetesFirst;
    assert_eq!(words(&path(&from, &intent).0.unwrap()), ["K 1.34.13", "K 1.35.2", "T 1.13.9"]);
}

#[test]
fn the_matrix_beats_the_preference() {
    // Kubernetes 1.36 needs Talos 1.13, whatever the door prefers.
    let from = running(Some("1.11.6"), Some("1.33.4"));
    let mut intent = common::intent(Some("1.13.9"), Some("1.36.3"));
    intent.prefer = Preference::KubernetesFirst;
    let legs = path(&from, &intent).0.unwrap();
    assert_eq!(words(&legs), ["K 1.34.13", "T 1.12.11", "K 1.35.10", "T 1.13.9", "K 1.36.3"]);
}

#[test]
fn two_minors_at_once_only_where_asked_and_allowed() {
    let from = running(Some("1.11.6"), Some("1.33.4"));
    let mut intent = common::intent(Some("1.14.1"), None);
    assert_eq!(words(&path(&from, &intent).0.unwrap()), ["T 1.12.11", "T 1.13.12", "T 1.14.1"]);
    intent.skip_minors = true;
    let (legs, report) = path(&from, &intent);
    assert_eq!(words(&legs.unwrap()), ["T 1.12.11", "T 1.14.1"]);
    assert!(matches!(report.warnings[..], [Warning::SkipsMinor { .. }]), "{report:?}");
    // 1.11 installs over 1.9, but brings an etcd that 1.10.9 has to come before.
    let from = running(Some("1.9.6"), Some("1.30.1"));
    let intent = Intent { skip_minors: true, ..common::intent(Some("1.11.6"), None) };
    assert_eq!(words(&path(&from, &intent).0.unwrap()), ["T 1.10.9", "T 1.11.6"]);
}

#[test]
fn the_newest_patch_of_the_running_line_comes_first() {
    // Rule 13.
    let from = running(Some("1.13.4"), Some("1.34.2"));
    let mut intent = common::intent(Some("1.14.1"), None);
    assert_eq!(words(&path(&from, &intent).0.unwrap()), ["T 1.13.12", "T 1.14.1"]);
    // Within the line the target is the way.
    let patch = common::intent(Some("1.13.9"), None);
    assert_eq!(words(&path(&from, &patch).0.unwrap()), ["T 1.13.9"]);
    // What is newer than anything known stays.
    let newer = running(Some("1.13.40"), Some("1.34.2"));
    assert_eq!(words(&path(&newer, &intent).0.unwrap()), ["T 1.14.1"]);
    // Told otherwise, with a warning.
    intent.skip_minors = true;
    let (legs, report) = path(&from, &intent);
    assert_eq!(words(&legs.unwrap()), ["T 1.14.1"]);
    assert!(matches!(report.warnings[..], [Warning::SkipsPatch { .. }]), "{report:?}");
}

#[test]
fn an_early_patch_of_1_10_never_meets_etcd_3_6() {
    // Rules 1 and 13: whatever is asked for, and whatever is known.
    let from = running(Some("1.10.3"), Some("1.33.4"));
    let mut intent = common::intent(Some("1.11.6"), None);
    assert_eq!(words(&path(&from, &intent).0.unwrap()), ["T 1.10.9", "T 1.11.6"]);
    intent.skip_minors = true;
    assert_eq!(words(&path(&from, &intent).0.unwrap()), ["T 1.10.9", "T 1.11.6"]);
    let mut report = Report::default();
    let nothing = Catalogue::default();
    let start = Start::uniform(from, None, &intent);
    let legs = find(&start, &intent, &MATRIX, &nothing, &mut report);
    assert_eq!(words(&legs.unwrap()), ["T 1.10.9", "T 1.11.6"], "the matrix knows it too");
}

#[test]
fn hosts_that_would_lose_their_data_are_refused() {
    // Up to 1.7 the upgrade call wipes EPHEMERAL unless it is asked to preserve it.
    for (from, kubernetes, to, rollback) in [
        ("1.7.7", "1.29.1", "1.8.4", false),
        ("1.6.8", "1.28.1", "1.7.7", false),
        ("1.7.7", "1.29.1", "1.6.8", true),
    ] {
        let intent = Intent { rollback, ..common::intent(Some(to), None) };
        let (legs, report) = path(&running(Some(from), Some(kubernetes)), &intent);
        assert_eq!(legs, None, "{from} to {to}");
        assert!(matches!(report.refusals[..], [Refusal::HostTooOld { .. }]), "{report:?}");
        assert_eq!(report.refusals[0].advice(), Advice::plan_after(Fix::PreserveData));
    }
    let (legs, _) =
        path(&running(Some("1.7.7"), Some("1.29.1")), &common::intent(None, Some("1.30.2")));
    assert!(legs.is_some(), "Kubernetes alone installs nothing");
}

#[test]
fn refusals_name_the_constraint_and_the_way() {
    let (legs, report) = path(
        &running(Some("1.12.4"), Some("1.35.2")),
        &common::intent(Some("1.13.9"), Some("1.37.1")),
    );
    assert_eq!(legs, None);
    let [refusal @ Refusal::NoPath { constraint: Constraint::Pair { .. }, .. }] =
        report.refusals.as_slice()
    else {
        panic!("{report:?}");
    };
    assert_eq!(
        refusal.to_string(),
        "no supported path leads there: Talos 1.13.9 runs Kubernetes 1.31 to 1.36, not 1.37.1"
    );
    let needs = Choice::NeedsTalos { kubernetes: Minor::new(1, 37), talos: Minor::new(1, 14) };
    let furthest = Choice::Furthest(running(Some("1.13.9"), Some("1.36.6")));
    let choices = [needs, furthest].map(Advice::ChooseTarget);
    assert_eq!(refusal.advice(), Advice::AnyOf(choices.to_vec()));
}

#[test]
fn versions_do_not_fall_by_themselves() {
    let from = running(Some("1.13.9"), Some("1.35.2"));
    for (target, product) in [
        (common::intent(Some("1.13.1"), None), Product::Talos),
        (common::intent(None, Some("1.35.0")), Product::Kubernetes),
    ] {
        let (legs, report) = path(&from, &target);
        assert_eq!(legs, None);
        assert!(
            matches!(report.refusals[..], [Refusal::Downgrade { product: of, .. }] if of == product)
        );
        let back = Intent { rollback: true, ..target };
        assert_eq!(path(&from, &back).0.unwrap().len(), 1);
    }
    let back = Intent { rollback: true, ..common::intent(None, Some("1.34.4")) };
    assert!(matches!(path(&from, &back).1.refusals[..], [Refusal::KubernetesRollback { .. }]));
    // Talos 1.12 cannot be put over 1.14: its installer refuses.
    let from = running(Some("1.14.1"), Some("1.35.2"));
    let back = Intent { rollback: true, ..common::intent(Some("1.12.11"), None) };
    let (_, report) = path(&from, &back);
    assert!(
        matches!(
            report.refusals[..],
            [Refusal::NoPath { constraint: Constraint::Host { .. }, .. }]
        ),
        "{report:?}"
    );
}

#[test]
fn unknown_lines_are_refused_and_risky_ones_remarked() {
    let from = running(Some("1.13.2"), Some("1.35.2"));
    let (_, report) = path(&from, &common::intent(Some("1.20.0"), None));
    assert!(report.refusals[0].to_string().contains("covers 1.2 to 1.15"), "{report:?}");
    let (_, report) = path(&from, &common::intent(Some("2.0.0"), None));
    assert!(matches!(report.refusals[..], [Refusal::UnknownMinor { .. }]));
    let (_, report) = path(&from, &common::intent(None, Some("1.50.0")));
    assert!(matches!(
        report.refusals[..],
        [Refusal::UnknownMinor { product: Product::Kubernetes, .. }]
    ));
    let (legs, report) = path(&from, &common::intent(Some("1.13.3"), None));
    assert!(legs.is_some());
    assert!(matches!(report.warnings[..], [Warning::Broken { .. }]), "{report:?}");
    let (_, report) = path(&from, &common::intent(Some("1.14.0-rc.1"), None));
    assert!(matches!(report.warnings[..], [Warning::Prerelease { .. }]), "{report:?}");
    let (_, report) =
        path(&running(Some("1.14.1"), Some("1.35.2")), &common::intent(Some("1.15.0"), None));
    assert!(matches!(report.warnings[..], [Warning::Unreleased { .. }]), "{report:?}");
    let (_, report) = path(&from, &common::intent(Some("1.13.9"), None));
    assert!(matches!(report.notes[..], [Note::NewerPatch { .. }]), "{report:?}");
}

#[test]
fn one_side_alone_is_planned_with_a_warning() {
    let (legs, report) =
        path(&running(Some("1.11.6"), None), &common::intent(Some("1.13.9"), None));
    assert_eq!(words(&legs.unwrap()), ["T 1.12.11", "T 1.13.9"]);
    assert!(matches!(
        report.warnings[..],
        [Warning::PairsUnchecked { missing: Product::Kubernetes }]
    ));
    let (legs, _) = path(&running(None, Some("1.33.4")), &common::intent(None, Some("1.35.2")));
    assert_eq!(words(&legs.unwrap()), ["K 1.34.13", "K 1.35.2"]);
}

#[test]
fn an_unsupported_start_is_reported_and_can_be_left() {
    let (legs, report) =
        path(&running(Some("1.13.1"), Some("1.30.4")), &common::intent(None, Some("1.31.2")));
    assert_eq!(words(&legs.unwrap()), ["K 1.31.2"]);
    assert!(matches!(report.warnings[..], [Warning::StartsUnsupported { .. }]), "{report:?}");
}
