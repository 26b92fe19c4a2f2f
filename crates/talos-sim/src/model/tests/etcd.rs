//! etcd: leadership, quorum and the snapshot.

use sha2::{Digest as _, Sha256};
use talos_proto::machine;

use super::super::*;
use super::driver::Driver;

const REBOOT: Request = Request::Reboot(machine::RebootRequest { mode: 0 });

fn status(driver: &mut Driver, node: usize) -> machine::EtcdMemberStatus {
    let response: machine::EtcdStatusResponse = driver.unary(node, Request::EtcdStatus);
    response.messages[0].member_status.clone().unwrap()
}

fn members() -> Request {
    Request::EtcdMemberList(machine::EtcdMemberListRequest::default())
}

fn leader(driver: &mut Driver) -> usize {
    let leader = status(driver, 0).leader;
    (0..3).find(|node| status(driver, *node).member_id == leader).unwrap()
}

#[test]
fn members_agree_and_indexes_grow() {
    let mut driver = Driver::new(3, 1, "1.14.1", "1.37.0");
    let list: machine::EtcdMemberListResponse = driver.unary(0, members());
    assert_eq!(list.messages[0].members.len(), 3);
    assert_eq!(list.messages[0].members[0].peer_urls, ["https://10.5.0.2:2380"]);
    let before = status(&mut driver, 0);
    driver.secs(10);
    let after = status(&mut driver, 1);
    assert!(after.raft_index > before.raft_index);
    assert_eq!(after.raft_index, after.raft_applied_index);
    assert_eq!((before.leader, before.raft_term), (after.leader, after.raft_term));
    assert_eq!(after.storage_version, "3.7.0");
    assert_eq!(driver.error(3, Request::EtcdStatus).code, Code::Unimplemented);
}

#[test]
fn leadership_can_be_forfeited() {
    let mut driver = Driver::new(3, 0, "1.13.9", "1.36.1");
    let old = leader(&mut driver);
    let term = status(&mut driver, old).raft_term;
    let forfeit = || Request::EtcdForfeitLeadership(machine::EtcdForfeitLeadershipRequest {});
    let other: machine::EtcdForfeitLeadershipResponse = driver.unary((old + 1) % 3, forfeit());
    assert_eq!(other.messages[0].member, "");
    let moved: machine::EtcdForfeitLeadershipResponse = driver.unary(old, forfeit());
    let new = leader(&mut driver);
    assert_ne!(new, old);
    assert_eq!(moved.messages[0].member, format!("cp-{}", new + 1));
    assert_eq!(status(&mut driver, old).raft_term, term + 1);
}

#[test]
fn a_reboot_of_the_leader_moves_leadership() {
    let mut driver = Driver::new(3, 0, "1.13.9", "1.36.1");
    let old = leader(&mut driver);
    let _: machine::RebootResponse = driver.unary(old, REBOOT);
    driver.secs(20);
    let other = (old + 1) % 3;
    let now = status(&mut driver, other);
    assert_ne!(now.leader, 0);
    let list: machine::EtcdMemberListResponse = driver.unary(other, members());
    assert_eq!(list.messages[0].members.len(), 3);
    driver.until("ready", 300, |driver| driver.is_ready(old));
    let back = status(&mut driver, old);
    assert_eq!(back.leader, now.leader);
    assert!(back.errors.is_empty());
}

#[test]
fn without_a_quorum_nothing_is_served_and_nothing_is_ready() {
    // From 1.14 on the pod of an API server has probes.
    let mut driver = Driver::new(3, 1, "1.14.1", "1.36.1");
    for node in [1, 2] {
        driver.world.inject(driver.now, Some(NodeIndex(node)), &Fault::NeverReturns);
        let _: machine::RebootResponse = driver.unary(node, REBOOT);
    }
    driver.secs(30);
    assert_eq!(driver.error(0, members()).code, Code::Unavailable);
    assert_eq!(driver.error(0, Request::EtcdAlarmList).code, Code::Unavailable);
    let local = status(&mut driver, 0);
    assert_eq!((local.leader, &local.errors[..]), (0, &["etcdserver: no leader".to_owned()][..]));
    assert!(!driver.is_ready(0));
    assert!(!driver.world.kubernetes_api_is_up());
    let frozen = local.raft_index;
    driver.secs(60);
    assert_eq!(status(&mut driver, 0).raft_index, frozen);
    let machine = driver.get(0, "MachineStatuses.runtime.talos.dev", "runtime", "machine").unwrap();
    let yaml = machine.spec.unwrap().yaml_spec;
    assert!(yaml.contains("etcd not healthy"), "{yaml}");
    assert!(yaml.contains("kube-system/kube-apiserver-cp-1 not ready"), "{yaml}");
    driver.world.clear(driver.now, None, FaultKind::NeverReturns);
    driver.until("ready", 300, |driver| (0..3).all(|node| driver.is_ready(node)));
    assert!(driver.world.kubernetes_api_is_up());
}

#[test]
fn a_single_control_plane_recovers_alone() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.36.1");
    let _: machine::RebootResponse = driver.unary(0, REBOOT);
    driver.secs(20);
    driver.until("ready", 300, |driver| driver.is_ready(0));
    assert!(driver.is_ready(1));
}

#[test]
fn faults_of_members_show() {
    let mut driver = Driver::new(3, 0, "1.13.9", "1.36.1");
    let leader = leader(&mut driver);
    let follower = (leader + 1) % 3;
    let at = Some(NodeIndex(follower));
    driver.world.inject(driver.now, at, &Fault::EtcdLag { entries: 5000 });
    driver.world.inject(driver.now, at, &Fault::EtcdLearner);
    driver.world.inject(driver.now, at, &Fault::EtcdAlarm { corrupt: false });
    let shown = status(&mut driver, follower);
    assert!(shown.is_learner);
    assert_eq!(shown.raft_index - shown.raft_applied_index, 5000);
    let alarms: machine::EtcdAlarmListResponse = driver.unary(leader, Request::EtcdAlarmList);
    assert_eq!(alarms.messages[0].member_alarms[0].member_id, shown.member_id);
    let _: machine::EtcdAlarmDisarmResponse = driver.unary(leader, Request::EtcdAlarmDisarm);
    let alarms: machine::EtcdAlarmListResponse = driver.unary(leader, Request::EtcdAlarmList);
    assert!(alarms.messages[0].member_alarms.is_empty());
}

#[test]
fn a_partition_hides_the_node_and_costs_its_vote() {
    let mut driver = Driver::new(3, 0, "1.13.9", "1.36.1");
    driver.world.inject(driver.now, Some(NodeIndex(0)), &Fault::Partition);
    assert!(!driver.world.is_reachable(NodeIndex(0)));
    driver.secs(5);
    assert_ne!(status(&mut driver, 1).leader, 0);
    driver.world.inject(driver.now, Some(NodeIndex(1)), &Fault::Partition);
    assert_eq!(driver.error(2, members()).code, Code::Unavailable);
    driver.world.clear(driver.now, None, FaultKind::Partition);
    driver.secs(5);
    assert!(driver.is_ready(0));
}

#[test]
fn the_snapshot_ends_with_its_checksum() {
    let mut driver = Driver::new(3, 4, "1.13.9", "1.36.1");
    let call = Request::EtcdSnapshot(machine::EtcdSnapshotRequest {});
    let Reply::Items(items) = driver.call(0, call) else {
        panic!("no snapshot");
    };
    let mut file = Vec::new();
    for item in items {
        let data: talos_proto::common::Data = item.try_into().unwrap();
        file.extend_from_slice(&data.bytes);
    }
    let sum = file.split_off(file.len() - 32);
    assert_eq!(file.len() % 4096, 0);
    assert_eq!(Sha256::digest(&file).as_slice(), sum);
}

#[test]
fn a_removed_member_rejoins_as_a_new_one() {
    let mut driver = Driver::new(3, 0, "1.13.9", "1.36.1");
    let old = status(&mut driver, 2).member_id;
    let leave = Request::EtcdLeaveCluster(machine::EtcdLeaveClusterRequest {});
    let _: machine::EtcdLeaveClusterResponse = driver.unary(2, leave);
    driver.secs(5);
    let list: machine::EtcdMemberListResponse = driver.unary(0, members());
    assert_eq!(list.messages[0].members.len(), 2);
    assert_eq!(driver.error(2, Request::EtcdStatus).code, Code::DeadlineExceeded);
    let remove =
        Request::EtcdRemoveMemberById(machine::EtcdRemoveMemberByIdRequest { member_id: old });
    assert_eq!(driver.error(0, remove).code, Code::NotFound);
    let _: machine::RebootResponse = driver.unary(2, REBOOT);
    driver.secs(20);
    driver.until("ready", 300, |driver| driver.is_ready(2));
    assert_ne!(status(&mut driver, 2).member_id, old);
}
