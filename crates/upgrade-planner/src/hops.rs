//! The path through the support matrix (rule 13).
//!
//! Both products have a *track*: the versions they pass through, one a minor, and
//! for Talos the newest patch of the running line first. A state is a place on each track; a
//! move takes one product forward. A search over this small grid finds the path with the
//! fewest reboots on which every state is supported, or the furthest state and what stands
//! in the way.
//!
//! Where nodes have different Talos targets, each group of them has a track of its own, and
//! the grid's is all of these together, lowest version first: a group takes part in the
//! moves to the versions of its own track, and a move of Kubernetes has to suit the Talos
//! of every group and of every node that stays.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use upgrade_core::catalogue::Catalogue;
use upgrade_core::guard;
use upgrade_core::intent::{Intent, Preference};
use upgrade_core::matrix::Matrix;
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::{Change, Versions};
use upgrade_core::version::{Minor, Version};

use crate::follow::{self, OLDEST_HOST};
use crate::report::{Constraint, Note, Product, Refusal, Report, Warning};
use crate::targets::Start;

/// One move, and what runs after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// What moves.
    pub change: Change,
    /// What runs then; of Talos, the newest that was moved to.
    pub after: Versions,
    /// The Talos targets whose nodes take part, in a move of Talos.
    pub targets: BTreeSet<Version>,
}

/// Finds the legs from what runs to what is wanted. On a refusal, which is put
/// into the report, there are none.
pub fn find(
    start: &Start,
    intent: &Intent,
    matrix: &Matrix,
    catalogue: &Catalogue,
    report: &mut Report,
) -> Option<Vec<Leg>> {
    let tracks = talos_tracks(start, intent, matrix, catalogue, report);
    let kubernetes = kubernetes_track(start, intent, matrix, catalogue, report);
    let grid = Grid::new(start, &tracks?, kubernetes?, intent, matrix);
    if grid.goal() == (0, 0) {
        return Some(Vec::new());
    }
    if let Some(constraint) = grid.pair_constraint(0, 0).or_else(|| grid.left_constraint(0)) {
        report.warn(Warning::StartsUnsupported { constraint });
    }
    for (track, missing) in [(&grid.talos, Product::Talos), (&grid.kubernetes, Product::Kubernetes)]
    {
        if track.is_empty() {
            report.warn(Warning::PairsUnchecked { missing });
        }
    }
    let Some(legs) = grid.path() else {
        report.refuse(grid.no_path());
        return None;
    };
    for leg in &legs {
        let Change::Talos { from, to } = &leg.change else { continue };
        if from.minor().steps_to(to.minor()).is_some_and(|steps| steps > 1) {
            report.warn(Warning::SkipsMinor { from: from.clone(), to: to.clone() });
        }
        if let Some(newest) = own_patch(from, to, matrix, catalogue) {
            report.warn(Warning::SkipsPatch { from: from.clone(), newest, to: to.clone() });
        }
    }
    Some(legs)
}

/// The newest patch of the line that `from` belongs to, where the way to `to` leads
/// out of that line and starts below it: Talos's own guide passes it first, and
/// its etcd is the one that the next line was tested to follow.
fn own_patch(
    from: &Version,
    to: &Version,
    matrix: &Matrix,
    catalogue: &Catalogue,
) -> Option<Version> {
    let line = from.minor();
    if to.minor() <= line {
        return None;
    }
    best_patch(line, matrix, catalogue).filter(|newest| newest > from)
}

/// The newest patch of a line: the catalogue's, or the one that the next line
/// demands.
fn best_patch(line: Minor, matrix: &Matrix, catalogue: &Catalogue) -> Option<Version> {
    let demanded = matrix.row(line.next()).and_then(|row| row.from_at_least.as_ref());
    let demanded = demanded.filter(|version| version.minor() == line);
    catalogue.newest_talos(line).max(demanded).cloned()
}

/// The versions of Talos that each group passes through, its own first; `None` if a
/// target is refused.
fn talos_tracks(
    start: &Start,
    intent: &Intent,
    matrix: &Matrix,
    catalogue: &Catalogue,
    report: &mut Report,
) -> Option<Vec<Vec<Version>>> {
    let groups = start.groups.iter();
    let tracks: Vec<_> = groups
        .map(|group| talos_track(&group.from, &group.target, intent, matrix, catalogue, report))
        .collect();
    let moves = tracks.iter().flatten().any(|track| track.len() > 1);
    if moves && start.groups.len() > 1 {
        // Only some are there already, which says nothing of the cluster.
        let there =
            |note: &Note| matches!(note, Note::AlreadyThere { product: Product::Talos, .. });
        report.notes.retain(|note| !there(note));
    }
    tracks.into_iter().collect()
}

/// The versions of Talos that one group passes through.
fn talos_track(
    running: &Version,
    target: &Version,
    intent: &Intent,
    matrix: &Matrix,
    catalogue: &Catalogue,
    report: &mut Report,
) -> Option<Vec<Version>> {
    let Some(row) = matrix.row(target.minor()) else {
        let lines = || matrix.rows().iter().map(|row| row.talos);
        report.refuse(unknown(Product::Talos, target, lines().min(), lines().max()));
        return None;
    };
    if !row.released {
        report.warn(Warning::Unreleased { talos: target.clone() });
    }
    for version in [running, target] {
        if let Some(broken) = catalogue.broken(version) {
            report.warn(Warning::Broken { talos: version.clone(), why: broken.why.clone() });
        }
    }
    let newest = catalogue.newest_talos(target.minor());
    remark(Product::Talos, running, target, newest, report);
    let too_old = running.release() < OLDEST_HOST && matrix.row(running.minor()).is_some();
    if guard!(Mutant::OldHostTaken, too_old && target != running) {
        report.refuse(Refusal::HostTooOld { talos: running.clone() });
        return None;
    }
    if target < running {
        if intent.rollback {
            return Some(vec![running.clone(), target.clone()]);
        }
        report.refuse(Refusal::Downgrade {
            product: Product::Talos,
            from: running.clone(),
            to: target.clone(),
        });
        return None;
    }
    if running.minor().steps_to(target.minor()).is_none() {
        let lines = || matrix.rows().iter().map(|row| row.talos);
        report.refuse(unknown(Product::Talos, running, lines().min(), lines().max()));
        return None;
    }
    upwards(Product::Talos, running, target, intent, report)?;
    let newest = |line| best_patch(line, matrix, catalogue);
    let mut versions = track(Product::Talos, running, target, newest, report);
    let first = own_patch(running, target, matrix, catalogue);
    if let Some(first) = first.filter(|_| guard!(Mutant::PatchSkipped)) {
        versions.insert(1, first);
    }
    Some(versions)
}

/// The versions of Kubernetes to pass through; empty if nothing is known of it.
fn kubernetes_track(
    start: &Start,
    intent: &Intent,
    matrix: &Matrix,
    catalogue: &Catalogue,
    report: &mut Report,
) -> Option<Vec<Version>> {
    let Some(running) = &start.running.kubernetes else {
        return Some(Vec::new());
    };
    let behind = start.behind.as_ref();
    let Some(target) = intent.kubernetes.as_ref() else {
        return Some(vec![running.clone()]);
    };
    let oldest = matrix.rows().iter().map(|row| row.kubernetes_minors().0).min();
    let newest = matrix.rows().iter().map(|row| row.kubernetes_minors().1).max();
    if Some(target.minor()) < oldest || Some(target.minor()) > newest {
        report.refuse(unknown(Product::Kubernetes, target, oldest, newest));
        return None;
    }
    let known = catalogue.newest_kubernetes(target.minor());
    remark(Product::Kubernetes, running, target, known, report);
    if target < running {
        let (from, to) = (running.clone(), target.clone());
        // An older API server reads what the next minor writes, or several of
        // them could not be upgraded one by one; and while part of the cluster
        // is still on the older one, nothing newer is needed anywhere.
        let unfinished = to.minor().next() == from.minor()
            && behind.is_some_and(|behind| behind.minor() == to.minor());
        if intent.rollback && (from.minor() == to.minor() || unfinished) {
            return Some(vec![from, to]);
        }
        report.refuse(if intent.rollback {
            Refusal::KubernetesRollback { from, to }
        } else {
            Refusal::Downgrade { product: Product::Kubernetes, from, to }
        });
        return None;
    }
    if running.minor().steps_to(target.minor()).is_none() {
        report.refuse(unknown(Product::Kubernetes, running, oldest, newest));
        return None;
    }
    upwards(Product::Kubernetes, running, target, intent, report)?;
    Some(track(
        Product::Kubernetes,
        running,
        target,
        |line| catalogue.newest_kubernetes(line).cloned(),
        report,
    ))
}

/// A rollback does not lead upwards.
fn upwards(
    product: Product,
    running: &Version,
    target: &Version,
    intent: &Intent,
    report: &mut Report,
) -> Option<()> {
    if !intent.rollback || target == running {
        return Some(());
    }
    let (from, to) = (running.clone(), target.clone());
    report.refuse(Refusal::NoWayBack { product, from, to });
    None
}

fn unknown(
    product: Product,
    target: &Version,
    oldest: Option<Minor>,
    newest: Option<Minor>,
) -> Refusal {
    let own = target.minor();
    Refusal::UnknownMinor {
        product,
        version: target.clone(),
        oldest: oldest.unwrap_or(own),
        newest: newest.unwrap_or(own),
    }
}

fn remark(
    product: Product,
    running: &Version,
    target: &Version,
    newest: Option<&Version>,
    report: &mut Report,
) {
    if target == running {
        report.note(Note::AlreadyThere { product, version: target.clone() });
    } else if target.is_prerelease() {
        report.warn(Warning::Prerelease { product, version: target.clone() });
    }
    if let Some(newer) = newest.filter(|newest| *newest > target && target > running) {
        report.note(Note::NewerPatch { product, target: target.clone(), newer: newer.clone() });
    }
}

/// Every version passed on the way up: what runs, the newest patch of each line
/// between, the target.
fn track(
    product: Product,
    running: &Version,
    target: &Version,
    newest: impl Fn(Minor) -> Option<Version>,
    report: &mut Report,
) -> Vec<Version> {
    let mut versions = vec![running.clone()];
    let mut line = running.minor().next();
    while guard!(Mutant::MinorSkipped, line < target.minor()) {
        let version = newest(line).unwrap_or_else(|| {
            report.warn(Warning::PatchUnknown { product, version: line.first() });
            line.first()
        });
        versions.push(version);
        line = line.next();
    }
    if target != running {
        versions.push(target.clone());
    }
    versions
}

/// A place on both tracks.
type Place = (usize, usize);

struct Grid<'a> {
    talos: Vec<Version>,
    kubernetes: Vec<Version>,
    groups: Vec<GroupTrack>,
    left: &'a BTreeSet<Version>,
    intent: &'a Intent,
    matrix: &'a Matrix,
}

/// A group's own way along the Talos track.
struct GroupTrack {
    target: Version,
    from: Version,
    /// The places that it moves to, in order.
    places: Vec<usize>,
}

impl<'a> Grid<'a> {
    fn new(
        start: &'a Start,
        tracks: &[Vec<Version>],
        kubernetes: Vec<Version>,
        intent: &'a Intent,
        matrix: &'a Matrix,
    ) -> Self {
        let passed = tracks.iter().flat_map(|track| track.iter().skip(1));
        let mut passed: Vec<Version> = passed.cloned().collect();
        passed.sort();
        passed.dedup();
        if intent.rollback {
            passed.reverse();
        }
        let talos: Vec<Version> = start.running.talos.iter().cloned().chain(passed).collect();
        let place = |version: &Version| {
            let places = talos.iter().enumerate().skip(1);
            places.filter(|(_, it)| *it == version).map(|(place, _)| place).next()
        };
        let groups = start.groups.iter().zip(tracks).map(|(group, track)| GroupTrack {
            target: group.target.clone(),
            from: group.from.clone(),
            places: track.iter().skip(1).filter_map(place).collect(),
        });
        Self { groups: groups.collect(), talos, kubernetes, left: &start.left, intent, matrix }
    }

    fn goal(&self) -> Place {
        (self.talos.len().saturating_sub(1), self.kubernetes.len().saturating_sub(1))
    }

    fn versions(&self, (talos, kubernetes): Place) -> Versions {
        Versions {
            talos: self.talos.get(talos).cloned(),
            kubernetes: self.kubernetes.get(kubernetes).cloned(),
        }
    }

    /// What a group runs once the track was walked up to a place.
    fn runs<'b>(&'b self, group: &'b GroupTrack, place: usize) -> &'b Version {
        let passed = group.places.iter().rev().find(|own| **own <= place);
        passed.map_or(&group.from, |place| &self.talos[*place])
    }

    /// The groups that a move of Talos takes along; `None` if it would leave one out that
    /// has to stop on the way.
    fn movers(&self, from: usize, to: usize) -> Option<Vec<&GroupTrack>> {
        let (movers, others): (Vec<_>, Vec<_>) =
            self.groups.iter().partition(|group| group.places.contains(&to));
        let passes = |group: &GroupTrack| self.runs(group, from) == self.runs(group, to);
        others.into_iter().all(passes).then_some(movers)
    }

    /// What the matrix has against what runs at a place: the lowest and the highest Talos of
    /// the nodes that move.
    fn pair_constraint(&self, talos: usize, kubernetes: usize) -> Option<Constraint> {
        let kubernetes = self.kubernetes.get(kubernetes)?;
        let runs = || self.groups.iter().map(|group| self.runs(group, talos));
        let ends = [runs().min().or_else(|| self.talos.get(talos)), runs().max()];
        ends.into_iter().flatten().find_map(|talos| follow::pair(talos, kubernetes, self.matrix))
    }

    /// The same for the nodes that stay.
    fn left_constraint(&self, kubernetes: usize) -> Option<Constraint> {
        let kubernetes = self.kubernetes.get(kubernetes)?;
        self.left.iter().find_map(|talos| follow::pair(talos, kubernetes, self.matrix))
    }

    /// What a move of Kubernetes does to the nodes that stay: they must not lose support.
    /// What has none already may only come nearer to it.
    fn left_behind(&self, from: usize, to: usize) -> Option<Constraint> {
        let (from, to) = (self.kubernetes.get(from)?, self.kubernetes.get(to)?);
        self.left.iter().find_map(|talos| {
            let constraint = follow::pair(talos, to, self.matrix)?;
            let nearer = self.matrix.row(talos.minor()).is_some_and(|row| {
                let (from, to) = (from.release(), to.release());
                (to > from && to < row.kubernetes_min) || (to < from && to >= row.kubernetes_max)
            });
            (!nearer).then_some(constraint)
        })
    }

    fn move_constraint(&self, from: Place, to: Place) -> Option<Constraint> {
        if from.0 == to.0 {
            return self.pair_constraint(to.0, to.1).or_else(|| self.left_behind(from.1, to.1));
        }
        let target = self.talos.get(to.0)?;
        let movers = self.movers(from.0, to.0).unwrap_or_default();
        let hosts = movers.iter().map(|group| self.runs(group, from.0));
        let host = { hosts }.find_map(|host| follow::host(host, target, self.matrix));
        let pair = || follow::pair(target, self.kubernetes.get(to.1)?, self.matrix);
        host.or_else(pair)
    }

    /// The places one move away, the front end's preference first. Up to two Talos
    /// minors at once come last: they are taken only where they save a reboot.
    fn moves(&self, (talos, kubernetes): Place) -> impl Iterator<Item = Place> {
        let goal = self.goal();
        let next_talos = (talos < goal.0).then_some((talos + 1, kubernetes));
        let next_kubernetes = (kubernetes < goal.1).then_some((talos, kubernetes + 1));
        let near = match self.intent.prefer {
            Preference::TalosFirst => [next_talos, next_kubernetes],
            Preference::KubernetesFirst => [next_kubernetes, next_talos],
        };
        let last = if self.intent.skip_minors { goal.0 } else { talos };
        let far = (talos + 2..=last)
            .filter(move |to| self.minors(talos, *to).is_some_and(|minors| minors <= 2));
        near.into_iter().flatten().chain(far.map(move |to| (to, kubernetes)))
    }

    /// The most minors that a node passes between two places of Talos; `None` for a way
    /// back, and for a move that cannot be.
    fn minors(&self, from: usize, to: usize) -> Option<u64> {
        let target = self.talos.get(to)?.minor();
        let movers = self.movers(from, to)?;
        let steps = movers.iter().map(|group| self.runs(group, from).minor().steps_to(target));
        steps.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    fn allowed(&self, from: Place) -> impl Iterator<Item = Place> {
        self.moves(from).filter(move |to| self.move_constraint(from, *to).is_none())
    }

    /// The path with the fewest reboots; among those, the preferred one.
    fn path(&self) -> Option<Vec<Leg>> {
        let goal = self.goal();
        // Reboots still ahead of each place, from the goal backwards. Moves only
        // go up, so every place is finished before it is asked for.
        let mut ahead = vec![vec![None::<usize>; goal.1 + 1]; goal.0 + 1];
        for talos in (0..=goal.0).rev() {
            for kubernetes in (0..=goal.1).rev() {
                let here = (talos, kubernetes);
                ahead[talos][kubernetes] = if here == goal {
                    Some(0)
                } else {
                    self.allowed(here)
                        .filter_map(|to| Some(ahead[to.0][to.1]? + usize::from(to.0 != talos)))
                        .min()
                };
            }
        }
        let mut legs = Vec::new();
        let mut here = (0, 0);
        let mut left = ahead[0][0]?;
        while here != goal {
            let next = self.allowed(here).find(|to| {
                ahead[to.0][to.1].map(|more| more + usize::from(to.0 != here.0)) == Some(left)
            })?;
            left = ahead[next.0][next.1]?;
            legs.push(self.leg(here, next));
            here = next;
        }
        Some(legs)
    }

    fn leg(&self, from: Place, to: Place) -> Leg {
        let after = self.versions(to);
        if from.0 == to.0 {
            let (from, to) = (self.kubernetes[from.1].clone(), self.kubernetes[to.1].clone());
            return Leg {
                change: Change::Kubernetes { from, to },
                after,
                targets: BTreeSet::new(),
            };
        }
        let movers = self.movers(from.0, to.0).unwrap_or_default();
        let hosts = movers.iter().map(|group| self.runs(group, from.0));
        let host = if self.intent.rollback { hosts.max() } else { hosts.min() };
        let from = host.unwrap_or(&self.talos[from.0]).clone();
        let targets = movers.iter().map(|group| group.target.clone()).collect();
        Leg { change: Change::Talos { from, to: self.talos[to.0].clone() }, after, targets }
    }

    /// Why the goal is out of reach, and how far one gets.
    fn no_path(&self) -> Refusal {
        let goal = self.goal();
        let mut reached = vec![vec![false; goal.1 + 1]; goal.0 + 1];
        reached[0][0] = true;
        let mut furthest = (0, 0);
        for talos in 0..=goal.0 {
            for kubernetes in 0..=goal.1 {
                let here = (talos, kubernetes);
                if !reached[talos][kubernetes] {
                    continue;
                }
                furthest = [furthest, here]
                    .into_iter()
                    .max_by_key(|(talos, kubernetes)| {
                        let preferred = match self.intent.prefer {
                            Preference::TalosFirst => *talos,
                            Preference::KubernetesFirst => *kubernetes,
                        };
                        (talos + kubernetes, preferred, Reverse(*talos))
                    })
                    .unwrap_or(here);
                for to in self.allowed(here) {
                    reached[to.0][to.1] = true;
                }
            }
        }
        // The target itself, if that is what cannot be; else the next move.
        let constraint = self
            .pair_constraint(goal.0, goal.1)
            .or_else(|| self.moves(furthest).find_map(|to| self.move_constraint(furthest, to)));
        match constraint {
            Some(constraint) => Refusal::NoPath {
                constraint,
                running: self.versions((0, 0)),
                furthest: self.versions(furthest),
            },
            // A search without a path always has a constraint; should that ever
            // be wrong, nothing is planned.
            None => Refusal::NoTarget,
        }
    }
}
