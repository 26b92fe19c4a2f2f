//! What is kept, and what is not.

use std::time::Duration;

use testkit::{PATIENCE, now};
use tokio::io::AsyncWriteExt as _;
use upgrade_engine::snapshots::SnapshotStore as _;

use crate::contract::{at, keeps_snapshots, kept};
use crate::{BUCKET, server, store, store_at};

/// More than two parts, and not a multiple of one.
const LARGE: usize = (20 << 20) + 12_345;

/// Bytes that repeat nowhere.
fn large() -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(LARGE).collect()
}

#[tokio::test]
async fn snapshots_in_s3() {
    let server = server();
    let store = store(&server);
    keeps_snapshots(&store, async |location| server.read(location)).await;
    let top = store_at(&format!("s3://{BUCKET}?endpoint={}", server.endpoint()));
    let location = kept(&top, "prod", 1, b"without a prefix").await;
    assert_eq!(top.list("prod").await.unwrap(), [location], "not those of other prefixes");
}

#[tokio::test]
async fn a_large_snapshot_comes_back_byte_for_byte() {
    // Rule 3.
    let server = server();
    let store = store(&server);
    let content = large();
    let location = kept(&store, "prod", 0, &content).await;
    assert_eq!(location, format!("s3://{BUCKET}/prod/east/prod-20251115T000000Z.snapshot"));
    assert!(server.read(&location) == content, "it came back differently");
    assert_eq!(server.files(BUCKET).len(), 1, "{:?}", server.files(BUCKET));
}

#[tokio::test]
async fn a_snapshot_of_exactly_two_parts_is_whole() {
    let server = server();
    let store = store(&server);
    let content = &large()[..16 << 20];
    let location = kept(&store, "prod", 0, content).await;
    assert!(server.read(&location) == content, "it came back differently");
}

#[tokio::test]
async fn a_cut_stream_leaves_nothing() {
    let server = server();
    let store = store(&server);
    let content = large();
    let mut writer = store.begin("prod", at(0)).await.unwrap();
    writer.write_all(&content).await.unwrap();
    store.discard(writer).await;
    assert_eq!(server.files(BUCKET), []);

    // A future that is dropped cannot wait.
    let mut writer = store.begin("prod", at(0)).await.unwrap();
    writer.write_all(&content).await.unwrap();
    drop(writer);
    let begun = now();
    while !server.files(BUCKET).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", server.files(BUCKET));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.list("prod").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn two_writers_of_one_name_are_both_kept() {
    let server = server();
    let (one, other) = (store(&server), store(&server));
    let mut first = one.begin("prod", at(0)).await.unwrap();
    let mut second = other.begin("prod", at(0)).await.unwrap();
    first.write_all(b"first").await.unwrap();
    second.write_all(b"second").await.unwrap();
    let first = one.commit(first).await.unwrap();
    let second = other.commit(second).await.unwrap();
    assert!(second.ends_with("prod-20251115T000000Z_2.snapshot"), "{second}");
    assert_eq!(server.read(&first), b"first");
    assert_eq!(server.read(&second), b"second");
    assert_eq!(one.list("prod").await.unwrap(), [first, second]);
}

#[tokio::test]
async fn a_large_snapshot_never_overwrites_another() {
    // Its first parts are gone from memory, so that another snapshot has to be taken.
    let server = server();
    let store = store(&server);
    let mut late = store.begin("prod", at(0)).await.unwrap();
    late.write_all(&large()).await.unwrap();
    let first = kept(&store, "prod", 0, b"first").await;
    let refused = store.commit(late).await.unwrap_err();
    assert!(refused.kind().may_pass(), "the next one gets another name: {refused}");
    assert!(refused.to_string().contains("another snapshot of the same second"), "{refused}");
    assert_eq!(server.read(&first), b"first");
    assert_eq!(server.files(BUCKET).len(), 1, "{:?}", server.files(BUCKET));
    let next = kept(&store, "prod", 0, b"next").await;
    assert!(next.ends_with("_2.snapshot"), "{next}");
}
