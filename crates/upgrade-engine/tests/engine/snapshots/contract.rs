//! What every store of etcd snapshots keeps to (rule 3). The tests of `s3-snapshots` use it too.

use tokio::io::AsyncWriteExt as _;
use upgrade_core::jiff::Timestamp;
use upgrade_engine::snapshots::SnapshotStore;

/// A time.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_763_164_800 + second).unwrap()
}

/// Takes a snapshot with this content.
pub(crate) async fn kept<S: SnapshotStore>(
    store: &S,
    cluster: &str,
    second: i64,
    content: &[u8],
) -> String {
    let mut writer = store.begin(cluster, at(second)).await.unwrap();
    writer.write_all(content).await.unwrap();
    store.commit(writer).await.unwrap()
}

/// Plays the contract; `read` gives back what a location holds.
pub(crate) async fn keeps_snapshots<S: SnapshotStore>(
    store: &S,
    read: impl AsyncFn(&str) -> Vec<u8>,
) {
    assert_eq!(store.list("prod").await.unwrap(), Vec::<String>::new());
    store.prune("prod", 1, "none yet").await.unwrap();

    // What is not committed is not there, whole or not.
    let mut writer = store.begin("prod", at(0)).await.unwrap();
    writer.write_all(b"half").await.unwrap();
    assert_eq!(store.list("prod").await.unwrap(), Vec::<String>::new());
    store.discard(writer).await;
    assert_eq!(store.list("prod").await.unwrap(), Vec::<String>::new());

    // Two within a second are two; the list is in the order of their times.
    let first = kept(store, "prod", 1, b"first").await;
    let second = kept(store, "prod", 1, b"second").await;
    let third = kept(store, "prod", 2, b"third").await;
    let other = kept(store, "prod-west", 0, b"another cluster").await;
    let all = [first.clone(), second.clone(), third.clone()];
    assert_eq!(store.list("prod").await.unwrap(), all);
    assert_eq!(read(&first).await, b"first");
    assert_eq!(read(&second).await, b"second");

    // The oldest go; other clusters' stay.
    store.prune("prod", 2, &third).await.unwrap();
    assert_eq!(store.list("prod").await.unwrap(), [second.clone(), third.clone()]);
    assert_eq!(store.list("prod-west").await.unwrap(), [other]);

    // A clock that went back: the newest is the one that was just taken.
    let late = kept(store, "prod", 0, b"late").await;
    store.prune("prod", 0, &late).await.unwrap();
    assert_eq!(store.list("prod").await.unwrap(), [late]);
}
