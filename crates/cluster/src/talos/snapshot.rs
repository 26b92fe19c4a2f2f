//! etcd snapshots, off the cluster (rule 3).
//!
//! A file has its name only once it is whole, verified and on the disk; whoever
//! finds one by name can restore from it. It holds every secret of the cluster,
//! so nobody but its owner may read it.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use talos_client::Node;
use talos_client::snapshot::SnapshotError;
use tokio::fs;
use tokio::io::AsyncWrite;
use upgrade_core::event::{StepProgress, Unit};
use upgrade_core::journal::Proof;
use upgrade_core::reason::FailureKind;
use upgrade_engine::io::{ProgressSink, Trouble};

use crate::trouble::{self, words};

/// How the files end, and how those that are not whole yet do.
const WHOLE: &str = ".snapshot";
const PARTIAL: &str = ".partial";

/// Where a snapshot goes, and how many stay.
pub(super) struct Place<'a> {
    pub(super) folder: &'a Path,
    pub(super) cluster: &'a str,
    pub(super) keep: usize,
}

/// Takes one, and lets go of the oldest.
pub(super) async fn take(
    node: &Node,
    place: &Place<'_>,
    now: Timestamp,
    progress: &dyn ProgressSink,
) -> Result<Proof, Trouble> {
    let failed = |what: &str, error: &io::Error| {
        let folder = place.folder.display();
        let text = format!("the snapshot's folder {folder}: {what}: {}", words(error));
        Trouble::new(FailureKind::Refused, &text)
    };
    fs::create_dir_all(place.folder).await.map_err(|error| failed("it cannot be made", &error))?;
    let stem = format!("{}-{}", plain(place.cluster), now.strftime("%Y%m%dT%H%M%SZ"));
    let name = free(place.folder, &stem);
    let partial = place.folder.join(format!(".{name}{PARTIAL}"));
    let mut leftover = Leftover(Some(partial.clone()));
    let file = private().open(&partial).await;
    let file = file.map_err(|error| failed("it cannot be written to", &error))?;
    let mut writer =
        Counting { file, sha: Sha256::new(), bytes: 0, told: AtomicU64::new(0), progress };
    node.etcd_snapshot(&mut writer).await.map_err(|error| match &error {
        SnapshotError::Call(call) => {
            let kind = trouble::look(call).failure.kind;
            Trouble::new(kind, &words(&error))
        }
        SnapshotError::Write(_) => Trouble::new(FailureKind::Refused, &words(&error)),
        // The stream was cut or damaged on its way; another may be whole.
        SnapshotError::Size { .. } | SnapshotError::Checksum => {
            Trouble::new(FailureKind::Unavailable, &words(&error))
        }
    })?;
    let Counting { file, sha, bytes, .. } = writer;
    file.sync_all().await.map_err(|error| failed("it did not reach the disk", &error))?;
    drop(file);
    let path = place.folder.join(format!("{name}{WHOLE}"));
    fs::rename(&partial, &path).await.map_err(|error| failed("it cannot be named", &error))?;
    leftover.0 = None;
    sync_folder(place.folder).await.map_err(|error| failed("its name was not kept", &error))?;
    let_go(place, &path).await;
    let mut sha256 = String::new();
    for byte in sha.finalize() {
        let _ = write!(sha256, "{byte:02x}");
    }
    Ok(Proof::EtcdSnapshot { file: path.display().to_string(), sha256, bytes })
}

/// A cluster's name as part of a file's name.
fn plain(cluster: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    cluster.chars().map(plain).collect()
}

/// A name that is not taken: two snapshots may be taken within a second. The
/// underscore sorts behind the dot of a name without a number.
fn free(folder: &Path, stem: &str) -> String {
    let taken = |name: &str| folder.join(format!("{name}{WHOLE}")).exists();
    if !taken(stem) {
        return stem.to_owned();
    }
    let mut names = (2_u32..).map(|number| format!("{stem}_{number}"));
    names.find(|name| !taken(name)).expect("numbers do not end")
}

fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    options.mode(0o600);
    options
}

async fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder).await?.sync_all().await
}

/// Keeps the newest, this one among them. What cannot be deleted stays, which
/// hurts nobody but the disk.
async fn let_go(place: &Place<'_>, newest: &Path) {
    let Ok(mut files) = fs::read_dir(place.folder).await else { return };
    let prefix = format!("{}-", plain(place.cluster));
    let mut own = Vec::new();
    while let Ok(Some(file)) = files.next_entry().await {
        let name = file.file_name().to_string_lossy().into_owned();
        let time = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(WHOLE));
        // Other clusters' names may begin with this one's.
        if time.is_some_and(is_time) && file.path() != newest {
            own.push(file.path());
        }
    }
    own.sort();
    let surplus = (own.len() + 1).saturating_sub(place.keep.max(1));
    for path in own.into_iter().take(surplus) {
        if let Err(error) = fs::remove_file(&path).await {
            tracing::warn!(path = %path.display(), %error, "an old snapshot could not be deleted");
        }
    }
}

/// `20260102T030405Z`, perhaps with a number behind it.
fn is_time(text: &str) -> bool {
    let (time, number) = text.split_once('_').unwrap_or((text, "2"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (Some(day), Some(clock)) = (time.get(..8), time.get(9..15)) else { return false };
    let frame = time.len() == 16 && &time[8..9] == "T" && time.ends_with('Z');
    frame && digits(day) && digits(clock) && digits(number)
}

/// Deletes what never became whole, also when nobody waits for it any more.
struct Leftover(Option<PathBuf>);

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Adds up what is written, and tells how much it is.
struct Counting<'a> {
    file: fs::File,
    sha: Sha256,
    bytes: u64,
    told: AtomicU64,
    progress: &'a dyn ProgressSink,
}

impl AsyncWrite for Counting<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = std::task::ready!(Pin::new(&mut this.file).poll_write(context, bytes))?;
        this.sha.update(&bytes[..written]);
        this.bytes += written as u64;
        let megabytes = this.bytes / 1_000_000;
        if megabytes > this.told.swap(megabytes, Ordering::Relaxed) {
            let message = format!("{megabytes} MB");
            this.progress.report(StepProgress::counted(Unit::Bytes, this.bytes, None, message));
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().file).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().file).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_snapshots_are_told_from_others() {
        for (text, is) in [
            ("20260102T030405Z", true),
            ("20260102T030405Z_2", true),
            ("west-20260102T030405Z", false),
            ("20260102T030405", false),
            ("2026010xT030405Z", false),
            ("20260102T030405Z_", false),
            ("", false),
        ] {
            assert_eq!(is_time(text), is, "{text}");
        }
        assert_eq!(plain("a/b c"), "a_b_c");
    }

    #[tokio::test]
    async fn the_newest_of_this_cluster_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [
            "prod-20260101T000000Z.snapshot",
            "prod-20260102T000000Z.snapshot",
            "prod-20260103T000000Z.snapshot",
            "prod-west-20250101T000000Z.snapshot",
            "prod-notes.txt",
        ] {
            std::fs::write(path(name), "x").unwrap();
        }
        let newest = path("prod-20260103T000000Z.snapshot");
        let place = Place { folder: folder.path(), cluster: "prod", keep: 2 };
        let_go(&place, &newest).await;
        assert!(!path("prod-20260101T000000Z.snapshot").exists());
        assert!(path("prod-20260102T000000Z.snapshot").exists());
        assert!(newest.exists());
        assert!(path("prod-west-20250101T000000Z.snapshot").exists(), "another cluster's");
        assert!(path("prod-notes.txt").exists());
        // Rule 3: the one just taken stays whatever the number says.
        let_go(&Place { keep: 0, ..place }, &newest).await;
        assert!(newest.exists());
        assert!(!path("prod-20260102T000000Z.snapshot").exists());
        assert_eq!(free(folder.path(), "prod-20260103T000000Z"), "prod-20260103T000000Z_2");
    }
}
