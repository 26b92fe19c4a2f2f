//! Deadlines of all calls (rule 11).
//!
//! One struct with one field per kind of call; the constants below give reasons for the defaults.
//! Nothing in this crate waits without one of them.

use std::time::Duration;

use tokio::time::Instant;

/// Name, socket and TLS. A node on the same continent needs well under a second; an endpoint that
/// drops packets should not delay the next one.
pub const CONNECT: Duration = Duration::from_secs(5);

/// One attempt of a read-only call. Talos answers from memory; etcd replies may wait for an
/// election, which takes a few seconds.
pub const ATTEMPT: Duration = Duration::from_secs(10);

/// A read-only call with all attempts on all endpoints.
pub const READ: Duration = Duration::from_secs(30);

/// A call that changes something and is acknowledged before the work starts: Reboot, Rollback,
/// `ForfeitLeadership`, `ApplyConfiguration`.
pub const ACT: Duration = Duration::from_mins(1);

/// The legacy upgrade call. It is acknowledged only after the node has pulled
/// the installer, which the Image Factory may first have to build.
pub const LEGACY_UPGRADE: Duration = Duration::from_mins(15);

/// Pulling one image, with either API. The same pull as above, plus slow registries; a pull that
/// takes longer needs a human.
pub const PULL: Duration = Duration::from_mins(20);

/// The installer's run: it writes several hundred megabytes to a disk.
pub const INSTALL: Duration = Duration::from_mins(15);

/// The installer and a pull report progress all the time; after this long without a message the
/// other side is gone.
pub const PROGRESS_IDLE: Duration = Duration::from_mins(5);

/// Defragmenting one member. It blocks the member; etcd processes about one hundred megabytes per
/// second, and databases are limited to eight gigabytes.
pub const DEFRAGMENT: Duration = Duration::from_mins(3);

/// An etcd snapshot, at most eight gigabytes.
pub const SNAPSHOT: Duration = Duration::from_mins(20);

/// A byte stream with an end: the longest gap between two chunks.
pub const DATA_IDLE: Duration = Duration::from_secs(30);

/// A stream that follows something (events, logs): the longest silence. A node that died behind a
/// live endpoint stays silent for ever, so the stream ends with an error and the caller opens it
/// again.
pub const FOLLOW_IDLE: Duration = Duration::from_mins(5);

/// The longest silence of a watch, which then reconnects by itself. That costs one small request,
/// and stale state never goes unnoticed for longer.
pub const WATCH_IDLE: Duration = Duration::from_mins(1);

/// The instant after this time. A duration that overflows counts as one year.
pub(crate) fn from_now(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + Duration::from_hours(365 * 24))
}

/// The deadlines of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// See [`CONNECT`].
    pub connect: Duration,
    /// See [`ATTEMPT`].
    pub attempt: Duration,
    /// See [`READ`].
    pub read: Duration,
    /// See [`ACT`].
    pub act: Duration,
    /// See [`LEGACY_UPGRADE`].
    pub legacy_upgrade: Duration,
    /// See [`PULL`].
    pub pull: Duration,
    /// See [`INSTALL`].
    pub install: Duration,
    /// See [`PROGRESS_IDLE`].
    pub progress_idle: Duration,
    /// See [`DEFRAGMENT`].
    pub defragment: Duration,
    /// See [`SNAPSHOT`].
    pub snapshot: Duration,
    /// See [`DATA_IDLE`].
    pub data_idle: Duration,
    /// See [`FOLLOW_IDLE`].
    pub follow_idle: Duration,
    /// See [`WATCH_IDLE`].
    pub watch_idle: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: CONNECT,
            attempt: ATTEMPT,
            read: READ,
            act: ACT,
            legacy_upgrade: LEGACY_UPGRADE,
            pull: PULL,
            install: INSTALL,
            progress_idle: PROGRESS_IDLE,
            defragment: DEFRAGMENT,
            snapshot: SNAPSHOT,
            data_idle: DATA_IDLE,
            follow_idle: FOLLOW_IDLE,
            watch_idle: WATCH_IDLE,
        }
    }
}
