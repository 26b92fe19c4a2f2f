//! Rule 1: one control plane at a time, and only while etcd can spare it.

use super::facts::{Member, Node};
use super::notes::Blow;
use super::{Rule, Scene};
use crate::trace::{Act, Fate, TraceEvent, TraceKind};

pub(super) struct Quorum;

impl Rule for Quorum {
    fn number(&self) -> u8 {
        1
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        writes_beside_one_away(seen, scene, found);
        let Some(blow) = scene.notes.blow(seen).filter(|blow| blow.node.control_plane) else {
            return;
        };
        let (act, name) = (blow.act, &blow.node.name);
        for other in scene.notes.disturbed().filter(|other| *other != name) {
            let Some(node) = scene.notes.facts.node(other).filter(|node| node.control_plane) else {
                continue;
            };
            // A rollback does not wait for API servers: a broken one may be its purpose.
            let waits = !(blow.driver.plan.rollback && node.up.value);
            if waits {
                found.push(format!("{act:?} while {other} is still disrupted by us"));
            }
        }
        etcd_is_well(&blow, scene, found);
        if blow.act.boots() {
            keeps_quorum(&blow, scene, found);
            does_not_lead(&blow, scene, found);
        }
    }
}

/// An installer writes hundreds of megabytes to the disk of etcd's log, so it must not run on one
/// control plane while another is away. A rollback waits only for those that we disrupted.
fn writes_beside_one_away(seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
    let TraceKind::Act { runner, act: act @ Act::Install { node, .. }, fate: Fate::Arrives } =
        &seen.what
    else {
        return;
    };
    let Some(driver) = scene.notes.drivers.get(runner) else { return };
    let facts = &scene.notes.facts;
    if !facts.node(node).is_some_and(|node| node.control_plane) {
        return;
    }
    let asked = driver.basis(act).and_then(|basis| basis.nodes.any);
    for other in facts.control_planes().filter(|other| other.name != *node) {
        let ours = scene.notes.is_disturbed(&other.name);
        let down = other.up.was(&false, asked) && !driver.plan.rollback;
        if ours || down {
            found.push(format!("{act:?} while control plane {} is away", other.name));
        }
    }
}

/// Every member votes, is healthy and has caught up; there is no alarm. A rollback may disrupt the
/// single broken member.
fn etcd_is_well(blow: &Blow<'_>, scene: &Scene<'_>, found: &mut Vec<String>) {
    let asked = blow.basis.and_then(|basis| basis.etcd.any);
    let Blow { act, node, driver, .. } = blow;
    let facts = &scene.notes.facts;
    for other in facts.control_planes() {
        let excused = driver.plan.rollback && other.name == node.name;
        let unwell = other.member.value != Member::Well;
        if unwell && !excused && other.member.was(&other.member.value, asked) {
            let words = other.member.value.words();
            found.push(format!("{act:?} while {} {words}", other.name));
        }
    }
    if facts.alarm.was(&true, asked) {
        found.push(format!("{act:?} while etcd has an alarm"));
    }
}

/// Without the node, the healthy voters are still a majority; or no other order is possible, and
/// the user accepts the outage.
fn keeps_quorum(blow: &Blow<'_>, scene: &Scene<'_>, found: &mut Vec<String>) {
    let lives = |node: &&Node| matches!(node.member.value, Member::Well | Member::Behind);
    let votes = |node: &&Node| !matches!(node.member.value, Member::Absent | Member::Learner);
    let others = || scene.notes.facts.control_planes().filter(|it| it.name != blow.node.name);
    let all = others().filter(votes).count() + 1;
    let Blow { act, node, .. } = blow;
    if all < 3 {
        if !blow.driver.wanted.policy.accept_outage {
            found.push(format!(
                "{act:?} of one of {all} members, and the user has not accepted the outage"
            ));
        }
        return;
    }
    let asked = blow.basis.and_then(|basis| basis.etcd.any);
    let visible = |node: &&Node| node.member.was(&node.member.value, asked);
    let lost = others().filter(votes).filter(|it| !lives(it) && visible(it)).count();
    if all - 1 - lost <= all / 2 {
        found.push(format!("{act:?}: without {} etcd has no quorum", node.name));
    }
}

/// The leader goes last, or moves its leadership first.
fn does_not_lead(blow: &Blow<'_>, scene: &Scene<'_>, found: &mut Vec<String>) {
    let asked = blow.basis.and_then(|basis| basis.etcd.any);
    let others = scene.notes.facts.control_planes().filter(|it| it.name != blow.node.name);
    let heirs = others.filter(|it| it.member.value == Member::Well).count();
    // A rollback does not wait for an etcd that does not answer (rule 12).
    let blind = blow.basis.is_some_and(|basis| basis.etcd.observation != basis.observation);
    if blow.driver.plan.rollback && blind {
        return;
    }
    if heirs > 0 && blow.node.leads.was(&true, asked) {
        found.push(format!("{:?} of the leader of etcd", blow.act));
    }
}

#[cfg(test)]
mod tests {
    use talos_sim::model::Fault;

    use super::super::testing::{Bench, wanted};
    use crate::trace::Act;

    #[test]
    fn two_control_planes_at_once() {
        let mut bench = Bench::new(3, 0);
        bench.ready(1);
        let names = bench.control_planes();
        bench.take(1, &names[0]);
        bench.assert_broken(&[]);
        bench.take(1, &names[1]);
        bench.assert_broken(&[1]);
    }

    #[test]
    fn a_control_plane_without_its_api_server_is_not_back() {
        // Talos and Kubernetes report it ready before any static pod exists.
        for waits in [false, true] {
            let mut bench = Bench::new(3, 0);
            bench.ready(1);
            let names = bench.control_planes();
            bench.take(1, &names[0]);
            bench.drain(1, &names[0]);
            if waits {
                bench.boot(1, &names[0]);
            } else {
                bench.boot_until_ready(1, &names[0]);
            }
            bench.verify_and_uncordon(1, &names[0]);
            bench.assert_broken(&[]);
            bench.take(1, &names[1]);
            bench.assert_broken(if waits { &[] } else { &[1] });
        }
    }

    #[test]
    fn nothing_is_written_to_a_control_plane_while_another_is_away() {
        for rollback in [false, true] {
            let install = |node: &str| {
                let image = super::super::testing::installer();
                Some(Act::Install { node: node.into(), image })
            };
            let mut wanted = wanted();
            wanted.rollback = rollback;
            let mut bench = Bench::with(3, 1, wanted);
            bench.ready(1);
            let names = bench.control_planes();
            bench.step(1, &format!("1/{}/install", names[0]), install(&names[0]));
            bench.assert_broken(&[]);
            bench.take(1, &names[0]);
            bench.step(1, "1/worker-1/install", install("worker-1"));
            bench.assert_broken(&[]);
            bench.step(1, &format!("1/{}/install", names[1]), install(&names[1]));
            bench.assert_broken(&[1]);
        }
    }

    #[test]
    fn an_unhealthy_etcd_blocks_disruption() {
        for fault in [
            Fault::EtcdLearner,
            Fault::EtcdAlarm { corrupt: false },
            Fault::EtcdLag { entries: 50_000 },
            Fault::Partition,
        ] {
            let mut bench = Bench::new(5, 0);
            bench.ready(1);
            let names = bench.control_planes();
            bench.inject(&names[1], &fault);
            bench.observe(1);
            bench.wait(30);
            bench.take(1, &names[0]);
            assert!(bench.broken().contains(&1), "{fault:?}");
        }
    }

    #[test]
    fn a_failure_after_the_observation_is_no_breach() {
        let mut bench = Bench::new(3, 0);
        bench.ready(1);
        let names = bench.control_planes();
        bench.wait(1);
        bench.observe(1);
        bench.begins(1, &format!("1/{}/cordon", names[0]));
        bench.inject(&names[1], &Fault::EtcdLearner);
        bench.wait(5);
        bench.act(1, Act::Cordon { node: names[0].as_str().into(), on: true });
        bench.assert_broken(&[]);
    }

    #[test]
    fn the_user_has_to_accept_an_outage() {
        for accepts in [false, true] {
            let mut wanted = wanted();
            wanted.policy.accept_outage = accepts;
            let mut bench = Bench::with(1, 1, wanted);
            bench.ready(1);
            bench.take(1, "cp-1");
            bench.drain(1, "cp-1");
            bench.boot(1, "cp-1");
            bench.assert_broken(if accepts { &[] } else { &[1] });
        }
    }

    #[test]
    fn the_leader_moves_its_leadership_first() {
        let mut bench = Bench::new(3, 1);
        bench.ready(1);
        let leader = bench.control_planes().pop().unwrap();
        bench.take(1, &leader);
        bench.drain(1, &leader);
        bench.boot(1, &leader);
        bench.assert_broken(&[1]);
    }
}
