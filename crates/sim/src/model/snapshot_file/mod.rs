//! An etcd database file.

/// What the database says.
pub(super) struct Content {
    pub(super) cluster_id: u64,
    pub(super) term: u64,
    pub(super) index: u64,
    pub(super) storage_version: String,
    pub(super) members: Vec<Member>,
    /// Keys and values, in any order.
    pub(super) keys: Vec<(String, Vec<u8>)>,
}

/// A member as the database has it.
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) peer_urls: Vec<String>,
    pub(super) client_urls: Vec<String>,
    pub(super) learner: bool,
}

pub(super) fn write(_content: &Content) -> Vec<u8> {
    Vec::new()
}
