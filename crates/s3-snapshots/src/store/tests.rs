//! What needs no server: names, retention, reading back.

#[path = "../../../upgrade-engine/tests/engine/snapshots/contract.rs"]
mod contract;

use object_store::memory::InMemory;
use object_store::{ObjectStoreExt as _, PutPayload};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use self::contract::{at, keeps_snapshots, kept};
use super::*;

fn in_memory(prefix: &str) -> (S3Snapshots, Arc<InMemory>) {
    let memory = Arc::new(InMemory::new());
    let store = Arc::clone(&memory) as Arc<dyn ObjectStore>;
    (S3Snapshots::over(store, "backups", prefix, "s3://backups"), memory)
}

async fn read(memory: &InMemory, location: &str) -> Vec<u8> {
    let key = location.strip_prefix("s3://backups/").expect("in the bucket");
    let object = memory.get(&Path::from(key)).await.expect("an object");
    object.bytes().await.expect("bytes").to_vec()
}

#[tokio::test]
async fn names_and_retention() {
    for prefix in ["", "prod/east"] {
        let (store, memory) = in_memory(prefix);
        keeps_snapshots(&store, async |location| read(&memory, location).await).await;
    }
}

#[tokio::test]
async fn what_others_keep_in_the_bucket_stays() {
    // Rule 10: only what is ours for sure is deleted.
    let (store, memory) = in_memory("prod");
    let others = [
        "prod/prod-notes.txt",
        "prod/prod-west-20200101T000000Z.snapshot",
        "prod/deeper/prod-20200101T000000Z.snapshot",
        "prod-20200101T000000Z.snapshot",
    ];
    for key in others {
        memory.put(&Path::from(key), PutPayload::from_static(b"x")).await.unwrap();
    }
    let newest = kept(&store, "prod", 0, b"newest").await;
    store.prune("prod", 1, &newest).await.unwrap();
    assert_eq!(store.list("prod").await.unwrap(), [newest]);
    for key in others {
        memory.head(&Path::from(key)).await.unwrap_or_else(|error| panic!("{key}: {error}"));
    }
}

#[tokio::test]
async fn what_is_read_back_differently_does_not_count() {
    // Rule 3.
    let (store, memory) = in_memory("");
    let path = Path::from("prod-20260102T030405Z.snapshot");
    memory.put(&path, PutPayload::from_static(b"damaged")).await.unwrap();
    let sum = |content: &[u8]| (content.len() as u64, Sha256::digest(content).into());
    store.verify(&path, sum(b"damaged")).await.unwrap();
    for sent in [&b"damageD"[..], b"damage", b"damaged!"] {
        let error = store.verify(&path, sum(sent)).await.unwrap_err();
        assert_eq!(error.problem, Problem::Damaged, "{error}");
    }
}

#[tokio::test]
async fn an_unverified_snapshot_is_deleted_only_if_it_is_ours() {
    let (store, memory) = in_memory("");
    let mut writer = store.begin("prod", at(0)).await.unwrap();
    writer.write_all(b"ours").await.unwrap();
    let marker = writer.marker.clone();
    let location = store.commit(writer).await.unwrap();
    let path = Path::from(location.strip_prefix("s3://backups/").unwrap());
    store.remove_ours(&path, "another writer's").await;
    memory.head(&path).await.unwrap();
    store.remove_ours(&path, &marker).await;
    memory.head(&path).await.unwrap_err();
}

#[test]
fn markers_differ() {
    assert_ne!(marker(), marker());
    assert_eq!(marker().len(), 32);
}
