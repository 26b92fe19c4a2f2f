//! etcd: status, members, alarms, leadership, snapshots, and a lost quorum.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use talos_client::etcd::{Alarm, MemberAlarm, MemberView};
use talos_client::resources::EtcdMemberId;
use talos_client::snapshot::SnapshotError;
use talos_client::{Failure, Outcome};
use tokio::time::Instant;

use crate::{SOON, TALOS_1_13, TALOS_1_14, World, all_of, code, each_version, member_ids};

each_version!(status_and_members, snapshots, leadership, alarms, a_lost_quorum);

async fn status_and_members(talos: &'static str) {
    let world = World::shared(talos).await;
    let mut ids = Vec::new();
    let mut leaders = Vec::new();
    for name in ["cp-1", "cp-2", "cp-3"] {
        let node = world.node(name);
        let status = node.etcd_status().await.unwrap();
        assert!(!status.learner && status.errors.is_empty(), "{status:?}");
        assert!(status.applied_index <= status.index && status.term > 0);
        assert!(status.size >= status.size_in_use && status.size_in_use > 0);
        assert!(status.version.starts_with("3."), "{status:?}");
        ids.push(status.member);
        leaders.push(status.leader.expect("a leader"));

        for view in [MemberView::Agreed, MemberView::Local] {
            let members = node.etcd_members(view).await.unwrap();
            assert_eq!(members.len(), 3);
            let own = members.iter().find(|member| member.hostname == name).unwrap();
            assert_eq!(own.id, status.member);
            assert!(!own.learner && own.client_urls.len() == 1);
            let address = world.place(name).address.to_string();
            assert!(own.peer_urls[0].contains(&address), "{own:?}");
        }
    }
    leaders.dedup();
    assert!(leaders.len() == 1 && ids.contains(&leaders[0]));
    ids.sort();
    let mut agreed = member_ids(&world.node("cp-1")).await;
    agreed.sort();
    assert_eq!(agreed, ids);
    assert_eq!(world.node("cp-2").etcd_alarms().await.unwrap(), []);

    let worker = world.node("worker-1");
    let mut nowhere = Vec::new();
    let failures = [
        worker.etcd_status().await.unwrap_err(),
        worker.etcd_members(MemberView::Agreed).await.unwrap_err(),
        worker.etcd_alarms().await.unwrap_err(),
        match worker.etcd_snapshot(&mut nowhere).await.unwrap_err() {
            SnapshotError::Call(error) => error,
            other => panic!("{other:?}"),
        },
    ];
    for error in failures {
        assert!(matches!(error.failure(), Failure::NotSupported(_)), "{error:?}");
    }
}

async fn snapshots(talos: &'static str) {
    let world = World::shared(talos).await;
    let mut bytes = Vec::new();
    let snapshot = world.node("cp-1").etcd_snapshot(&mut bytes).await.unwrap();
    assert_eq!(snapshot.bytes, bytes.len() as u64);
    let (database, sum) = bytes.split_at(bytes.len() - 32);
    assert_eq!(sum, snapshot.sha256);
    assert_eq!(sum, &Sha256::digest(database)[..]);
    // The first page shows that it is a bolt database.
    assert_eq!(database[16..20], 0xED0C_DAED_u32.to_le_bytes());

    // The backup role allows snapshots and nothing else.
    let backup = world.client_as("os:etcd:backup").node(world.place("cp-1").address.into());
    assert!(backup.etcd_snapshot(&mut Vec::new()).await.is_ok());
    let denied = backup.version().await.unwrap_err();
    assert!(matches!(denied.failure(), Failure::NotAuthorised(_)), "{denied:?}");
    let reader = world.client_as("os:reader").node(world.place("cp-1").address.into());
    let denied = reader.etcd_snapshot(&mut Vec::new()).await.unwrap_err();
    let SnapshotError::Call(denied) = denied else { panic!("{denied:?}") };
    assert!(matches!(denied.failure(), Failure::NotAuthorised(_)), "{denied:?}");
}

async fn leadership(talos: &'static str) {
    let world = World::start("leadership", talos, 3, 0).await;
    let (leader, other) = world.leader().await;
    // A member that does not lead cannot move leadership.
    let node = world.node(&other);
    assert_eq!(node.etcd_forfeit_leadership().await.unwrap(), None);
    let before = node.etcd_status().await.unwrap();
    let heir = world.node(&leader).etcd_forfeit_leadership().await.unwrap();
    let heir = heir.expect("the leader moves leadership");
    assert_ne!(heir, leader);
    let after = node.etcd_status().await.unwrap();
    assert!(after.term > before.term);
    let EtcdMemberId(id) = world.node(&heir).get::<EtcdMemberId>().await.unwrap().unwrap().spec;
    assert_eq!(after.leader, Some(id));

    // Defragmenting frees unused space.
    node.etcd_defragment().await.unwrap();
    let small = node.etcd_status().await.unwrap();
    assert_eq!(small.size, small.size_in_use);
    assert!(small.size <= after.size);

    let reader = world.client_as("os:reader").node(world.place(&heir).address.into());
    let denied = reader.etcd_forfeit_leadership().await.unwrap_err();
    assert_eq!(denied.outcome, Outcome::Refused);
    assert_eq!(world.leader().await.0, heir);
}

async fn alarms(talos: &'static str) {
    let world = World::start("alarms", talos, 3, 0).await;
    world.inject("cp-2", "etcd-alarm").await;
    world.inject("cp-3", "etcd-alarm=corrupt").await;
    let member = |name: &'static str| {
        let node = world.node(name);
        async move { node.etcd_status().await.unwrap().member }
    };
    let expected = [
        MemberAlarm { member: member("cp-2").await, alarm: Alarm::NoSpace },
        MemberAlarm { member: member("cp-3").await, alarm: Alarm::Corrupt },
    ];
    // Every member lists all alarms.
    for name in ["cp-1", "cp-2", "cp-3"] {
        assert_eq!(world.node(name).etcd_alarms().await.unwrap(), expected);
    }
    let errors = world.node("cp-1").etcd_status().await.unwrap().errors;
    assert!(errors.iter().any(|error| error.contains("NOSPACE")), "{errors:?}");
    let reader = world.client_as("os:reader").node(world.place("cp-1").address.into());
    let denied = reader.etcd_disarm().await.unwrap_err();
    assert!(matches!(denied.failure(), Failure::NotAuthorised(_)), "{denied:?}");
    assert_eq!(world.node("cp-1").etcd_disarm().await.unwrap(), expected);
    assert_eq!(world.node("cp-2").etcd_alarms().await.unwrap(), []);
    assert_eq!(world.node("cp-1").etcd_disarm().await.unwrap(), []);
}

async fn a_lost_quorum(talos: &'static str) {
    let world = World::start("quorum", talos, 3, 0).await;
    for name in ["cp-2", "cp-3"] {
        world.inject(name, "partition").await;
    }
    let node = world.node("cp-1");
    let began = Instant::now();
    for view in [MemberView::Agreed, MemberView::Local] {
        let error = node.etcd_members(view).await.unwrap_err();
        assert_eq!(code(error.failure()), Some(tonic::Code::Unavailable), "{error:?}");
        assert!(all_of(&error).contains("no leader"), "{error:?}");
    }
    assert!(node.etcd_alarms().await.is_err());
    assert!(began.elapsed() < node.client().deadlines().read, "{:?}", began.elapsed());
    // Its own member still reports its status: it has no leader.
    let status = node.etcd_status().await.unwrap();
    assert_eq!(status.leader, None);
    assert!(!status.errors.is_empty());
    let forfeit = node.etcd_forfeit_leadership().await.unwrap_err();
    assert!(!forfeit.outcome.nothing_happened(), "a proxy returns the same error: {forfeit:?}");

    for name in ["cp-2", "cp-3"] {
        world.clear(name, "partition").await;
    }
    let until = Instant::now() + SOON;
    while node.etcd_status().await.unwrap().leader.is_none() {
        assert!(Instant::now() < until, "no leader");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(member_ids(&node).await.len(), 3);
}

#[tokio::test]
async fn learners_and_lagging_members_are_visible() {
    let world = World::start("laggards", TALOS_1_14, 3, 0).await;
    world.inject("cp-3", "etcd-learner").await;
    world.inject("cp-2", "etcd-lag=5000").await;
    assert!(world.node("cp-3").etcd_status().await.unwrap().learner);
    let members = world.node("cp-1").etcd_members(MemberView::Agreed).await.unwrap();
    let learners: Vec<_> = members.iter().filter(|member| member.learner).collect();
    assert_eq!(learners.len(), 1);
    assert_eq!(learners[0].hostname, "cp-3");
    // A learner serves only its status, like a real one.
    let refused = world.node("cp-3").etcd_members(MemberView::Local).await.unwrap_err();
    assert_eq!(code(refused.failure()), Some(tonic::Code::Unknown), "{refused:?}");
    assert!(format!("{refused:?}").contains("rpc not supported for learner"), "{refused:?}");
    let status = world.node("cp-2").etcd_status().await.unwrap();
    assert!(status.index - status.applied_index >= 5000, "{status:?}");
}

#[tokio::test]
async fn a_single_member_keeps_leading() {
    let world = World::start("single", TALOS_1_13, 1, 0).await;
    let refused = world.node("cp-1").etcd_forfeit_leadership().await.unwrap_err();
    assert!(all_of(&refused).contains("only one member"), "{refused:?}");
    let status = world.node("cp-1").etcd_status().await.unwrap();
    assert_eq!(status.leader, Some(status.member));
}
