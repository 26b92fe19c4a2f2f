//! What is refused, with what to do next and without anything secret (rule 14).

use testkit::S3Server;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;
use upgrade_engine::snapshots::SnapshotStore as _;

use crate::contract::{at, kept};
use crate::{BUCKET, server, store_at, store_with};

/// Asserts that a store refuses with these words, and whether a retry may help.
async fn refuses(store: s3_snapshots::S3Snapshots, words: &[&str], passes: bool) {
    let listed = store.list("prod").await.expect_err("it cannot be listed");
    let begun = store.begin("prod", at(0)).await.map(|_| ()).expect_err("nothing can begin");
    for error in [listed, begun] {
        assert_eq!(error.kind().may_pass(), passes, "{error}");
        let text = format!("{error} {error:?}");
        for word in words {
            assert!(text.contains(word), "no `{word}` in {text}");
        }
        // Rule 14.
        for secret in [S3Server::SECRET_KEY, "not-the-secret", S3Server::KEY_ID, "Signature="] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    let shown = format!("{store:?}");
    assert!(!shown.contains(S3Server::SECRET_KEY) && !shown.contains(S3Server::KEY_ID), "{shown}");
}

#[tokio::test]
async fn each_kind_of_wrong_credentials_is_named() {
    let server = server();
    let address = format!("s3://{BUCKET}?endpoint={}", server.endpoint());
    let unknown = store_with(&address, "AKIAUNKNOWN", S3Server::SECRET_KEY);
    refuses(unknown, &["does not know the access key", "correct AWS_ACCESS_KEY_ID"], false).await;
    let wrong = store_with(&address, S3Server::KEY_ID, "not-the-secret");
    refuses(wrong, &["SignatureDoesNotMatch", "correct AWS_SECRET_ACCESS_KEY"], false).await;
}

#[tokio::test]
async fn a_missing_bucket_is_named() {
    let server = server();
    let store = store_at(&format!("s3://elsewhere?endpoint={}", server.endpoint()));
    refuses(store, &["s3://elsewhere at http", "the bucket does not exist", "create it"], false)
        .await;
}

#[tokio::test]
async fn a_wrong_region_is_named() {
    let server = server();
    let endpoint = server.endpoint();
    let store = store_at(&format!("s3://{BUCKET}?endpoint={endpoint}&region=eu-north-1"));
    refuses(store, &["correct region in the address"], false).await;
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    // Bound but not listening, so the port stays reserved and refuses connections.
    let closed = TcpSocket::new_v4().expect("a socket");
    closed.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let endpoint = format!("http://{}", closed.local_addr().expect("an address"));
    let store = store_at(&format!("s3://{BUCKET}?endpoint={endpoint}"));
    refuses(store, &["the server cannot be reached", &endpoint, "check endpoint"], true).await;
}

#[tokio::test]
async fn a_server_that_ends_in_the_middle_is_no_snapshot() {
    let server = server();
    let store = store_at(&format!("s3://{BUCKET}?endpoint={}", server.endpoint()));
    let mut writer = store.begin("prod", at(0)).await.expect("a writer");
    writer.write_all(b"half").await.expect("it fits into memory");
    drop(server);
    let refused = store.commit(writer).await.expect_err("there is no server");
    assert!(refused.kind().may_pass(), "{refused}");
}

#[tokio::test]
async fn only_trusted_authorities_are_believed() {
    // Rule 14.
    let server = S3Server::start_with_tls();
    server.bucket(BUCKET);
    let address = format!("s3://{BUCKET}?endpoint={}", server.endpoint());
    let own = store_at(&format!("{address}&ca-file={}", server.authority().display()));
    let location = kept(&own, "prod", 0, b"over TLS").await;
    assert_eq!(server.read(&location), b"over TLS");

    refuses(store_at(&address), &["authority that is not trusted", "ca-file=FILE"], false).await;
    let other = S3Server::start_with_tls();
    let other = store_at(&format!("{address}&ca-file={}", other.authority().display()));
    refuses(other, &["not trusted"], false).await;

    // A certificate for another name, and a server without TLS.
    let name = server.endpoint().replace("127.0.0.1", "localhost");
    let ca = server.authority();
    let store = store_at(&format!("s3://{BUCKET}?endpoint={name}&ca-file={}", ca.display()));
    refuses(store, &["no verified TLS connection"], false).await;
    let plain = crate::server();
    let endpoint = plain.endpoint().replace("http:", "https:");
    let store = store_at(&format!("s3://{BUCKET}?endpoint={endpoint}"));
    refuses(store, &["no verified TLS connection"], false).await;
}
