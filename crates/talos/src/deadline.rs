//! How long anything may take (rule 11).
//!
//! One struct with one field a kind of call; the defaults below argue their
//! values. Nothing in this crate waits without one of them.

use std::time::Duration;

use tokio::time::Instant;

/// Name, socket and TLS. A node on the same continent needs well under a
/// second; an endpoint that drops packets should not hold up the next one.
pub const CONNECT: Duration = Duration::from_secs(5);

/// One try of a call that only reads. Talos answers these from memory; etcd's
/// answers may wait for an election, which takes a few seconds.
pub const ATTEMPT: Duration = Duration::from_secs(10);

/// A call that only reads, with all its tries on all endpoints.
pub const READ: Duration = Duration::from_secs(30);

/// A call that changes something and is acknowledged before the work begins:
/// Reboot, Rollback, `ForfeitLeadership`, `ApplyConfiguration`.
pub const ACT: Duration = Duration::from_mins(1);

/// The legacy upgrade call. It is acknowledged only after the node has pulled
/// the installer, which the Image Factory may first have to build.
pub const LEGACY_UPGRADE: Duration = Duration::from_mins(15);

/// Pulling one image, by either API. The same pull as above, and slow
/// registries; a pull that takes longer had better be looked at by a person.
pub const PULL: Duration = Duration::from_mins(20);

/// The installer's run: it writes some hundred megabytes to a disk.
pub const INSTALL: Duration = Duration::from_mins(15);

/// The installer and a pull report progress all the time; after this long
/// without a word the other side is gone.
pub const PROGRESS_IDLE: Duration = Duration::from_mins(5);

/// Defragmenting one member. It blocks the member; etcd manages about a hundred
/// megabytes a second, and databases end at eight gigabytes.
pub const DEFRAGMENT: Duration = Duration::from_mins(3);

/// An etcd snapshot, at most eight gigabytes.
pub const SNAPSHOT: Duration = Duration::from_mins(20);

/// A stream of bytes that has an end: the longest gap between two pieces.
pub const DATA_IDLE: Duration = Duration::from_secs(30);

/// A stream that follows something (events, logs): the longest silence. A node
/// that died behind a living endpoint is silent for ever, so the stream ends
/// with an error, and whoever follows opens it again.
pub const FOLLOW_IDLE: Duration = Duration::from_mins(5);

/// The longest silence of a watch, which then opens itself again. Doing so
/// costs one small request, and no state is older than this without notice.
pub const WATCH_IDLE: Duration = Duration::from_mins(1);

/// The end of a time that begins now. One too long to be a time at all ends in a
/// year, which nobody has waited for yet.
pub(crate) fn from_now(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + Duration::from_hours(365 * 24))
}

/// All of them, for one client.
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
