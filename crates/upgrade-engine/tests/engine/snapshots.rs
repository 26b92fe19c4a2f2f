//! What every store of etcd snapshots keeps to (rule 3).

use tokio::io::AsyncWriteExt as _;
use upgrade_core::jiff::Timestamp;
use upgrade_engine::snapshots::{FolderSnapshots, MemorySnapshots, SnapshotStore};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_763_164_800 + second).unwrap()
}

async fn kept<S: SnapshotStore>(store: &S, cluster: &str, second: i64, content: &[u8]) -> String {
    let mut writer = store.begin(cluster, at(second)).await.unwrap();
    writer.write_all(content).await.unwrap();
    store.commit(writer).await.unwrap()
}

/// Plays the contract; `read` gives back what a location holds.
async fn keeps_snapshots<S: SnapshotStore>(store: &S, read: impl Fn(&str) -> Vec<u8>) {
    assert_eq!(store.list("prod").await.unwrap(), Vec::<String>::new());
    store.prune("prod", 1, "none yet").await.unwrap();

    // What is not committed is not there, whole or not.
    let mut writer = store.begin("prod", at(0)).await.unwrap();
    writer.write_all(b"half").await.unwrap();
    assert_eq!(store.list("prod").await.unwrap(), Vec::<String>::new());
    drop(writer);
    assert_eq!(store.list("prod").await.unwrap(), Vec::<String>::new());

    // Two within a second are two; the list is in the order of their times.
    let first = kept(store, "prod", 1, b"first").await;
    let second = kept(store, "prod", 1, b"second").await;
    let third = kept(store, "prod", 2, b"third").await;
    let other = kept(store, "prod-west", 0, b"another cluster").await;
    let all = [first.clone(), second.clone(), third.clone()];
    assert_eq!(store.list("prod").await.unwrap(), all);
    assert_eq!(read(&first), b"first");
    assert_eq!(read(&second), b"second");

    // The oldest go; other clusters' stay.
    store.prune("prod", 2, &third).await.unwrap();
    assert_eq!(store.list("prod").await.unwrap(), [second.clone(), third.clone()]);
    assert_eq!(store.list("prod-west").await.unwrap(), [other]);

    // A clock that went back: the newest is the one that was just taken.
    let late = kept(store, "prod", 0, b"late").await;
    store.prune("prod", 0, &late).await.unwrap();
    assert_eq!(store.list("prod").await.unwrap(), [late]);
}

#[tokio::test]
async fn snapshots_in_memory() {
    let store = MemorySnapshots::default();
    keeps_snapshots(&store, |location| store.read(location).unwrap()).await;
}

#[tokio::test]
async fn snapshots_in_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("backups");
    let store = FolderSnapshots::new(&folder);
    keeps_snapshots(&store, |location| std::fs::read(location).unwrap()).await;
    let names = |folder| std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let partial = names(&folder).filter(|name| !name.to_string_lossy().ends_with(".snapshot"));
    assert_eq!(partial.count(), 0, "nothing that was not committed is left");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("file");
    std::fs::write(&folder, "in the way").unwrap();
    let refused = FolderSnapshots::new(&folder).begin("prod", at(0)).await.unwrap_err();
    assert!(refused.to_string().contains("cannot be created"), "{refused}");
}
