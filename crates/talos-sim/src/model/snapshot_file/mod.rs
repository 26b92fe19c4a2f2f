//! An etcd database file, as streamed by `EtcdSnapshot`, in a form that etcd's own tools accept.
//!
//! [`bolt`] implements the file format (pages, buckets), this file etcd's content in it.

mod bolt;

use prost::Message;

/// The content of the database.
pub(super) struct Content {
    pub(super) term: u64,
    pub(super) index: u64,
    pub(super) storage_version: String,
    pub(super) members: Vec<Member>,
    /// Keys and values, in any order.
    pub(super) keys: Vec<(String, Vec<u8>)>,
}

/// A member in the database.
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) peer_urls: Vec<String>,
    pub(super) client_urls: Vec<String>,
    pub(super) learner: bool,
}

/// A key with the last entry of its history, as etcd encodes it.
#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "2")]
    create_revision: i64,
    #[prost(int64, tag = "3")]
    mod_revision: i64,
    #[prost(int64, tag = "4")]
    version: i64,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

/// Keys and values of a bucket.
type Bucket = Vec<(Vec<u8>, Vec<u8>)>;

/// The file, without the trailing checksum.
pub(super) fn write(content: &Content) -> Vec<u8> {
    let Content { term, index, storage_version, members, keys } = content;
    // Revisions lag behind the log: elections and memberships are not writes.
    let first = (index / 2).max(2);
    let keys = keys.iter().zip(first..).map(|((key, value), revision)| {
        let number = i64::try_from(revision).unwrap_or(i64::MAX);
        let stored = KeyValue {
            key: key.clone().into_bytes(),
            create_revision: number,
            mod_revision: number,
            version: 1,
            value: value.clone(),
        };
        (revision_key(revision), stored.encode_to_vec())
    });
    let text = |key: &str, value: &str| (key.into(), value.into());
    let number = |key: &str, value: u64| (key.into(), value.to_be_bytes().to_vec());
    let voters: Vec<u64> =
        members.iter().filter(|member| !member.learner).map(|member| member.id).collect();
    let learners: Vec<u64> =
        members.iter().filter(|member| member.learner).map(|member| member.id).collect();
    let state = serde_json::json!({
        "voters": voters,
        "learners": learners,
        "auto_leave": false,
    });
    let buckets: Vec<(&str, Bucket)> = vec![
        ("alarm", Vec::new()),
        ("auth", Vec::new()),
        ("authRoles", Vec::new()),
        ("authUsers", Vec::new()),
        ("cluster", vec![text("clusterVersion", storage_version)]),
        ("key", keys.collect()),
        ("lease", Vec::new()),
        ("members", members.iter().map(member).collect()),
        ("members_removed", Vec::new()),
        (
            "meta",
            vec![
                text("confState", &state.to_string()),
                number("consistent_index", *index),
                text("storageVersion", storage_version),
                number("term", *term),
            ],
        ),
    ];
    bolt::write(buckets)
}

/// Main and sub revision, so that they sort.
fn revision_key(main: u64) -> Vec<u8> {
    let mut key = main.to_be_bytes().to_vec();
    key.push(b'_');
    key.extend_from_slice(&0_u64.to_be_bytes());
    key
}

fn member(member: &Member) -> (Vec<u8>, Vec<u8>) {
    let Member { id, name, peer_urls, client_urls, learner } = member;
    let mut json = serde_json::json!({
        "id": id,
        "peerURLs": peer_urls,
        "name": name,
        "clientURLs": client_urls,
    });
    if *learner {
        json["isLearner"] = true.into();
    }
    (format!("{id:x}").into_bytes(), json.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn content(members: u64, keys: usize) -> Content {
        Content {
            term: 3,
            index: 123_456,
            storage_version: "3.6.0".to_owned(),
            members: (1..=members)
                .map(|id| Member {
                    id,
                    name: format!("cp-{id}"),
                    peer_urls: vec![format!("https://10.5.0.{id}:2380")],
                    client_urls: vec![format!("https://10.5.0.{id}:2379")],
                    learner: false,
                })
                .collect(),
            keys: (0..keys)
                .map(|number| (format!("/registry/minions/node-{number}"), vec![b'x'; 100]))
                .collect(),
        }
    }

    #[test]
    fn the_file_is_whole_pages_and_the_same_every_time() {
        let file = write(&content(3, 10));
        assert_eq!(file.len() % 4096, 0);
        assert_eq!(file, write(&content(3, 10)));
        assert_ne!(file, write(&content(3, 11)));
    }
}
