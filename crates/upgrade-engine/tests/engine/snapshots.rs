//! The stores of etcd snapshots that the engine has (rule 3).

mod contract;

use upgrade_engine::snapshots::{FolderSnapshots, MemorySnapshots, SnapshotStore as _};

use contract::{at, keeps_snapshots};

#[tokio::test]
async fn snapshots_in_memory() {
    let store = MemorySnapshots::default();
    keeps_snapshots(&store, async |location| store.read(location).unwrap()).await;
}

#[tokio::test]
async fn snapshots_in_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("backups");
    let store = FolderSnapshots::new(&folder);
    keeps_snapshots(&store, async |location| std::fs::read(location).unwrap()).await;
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
