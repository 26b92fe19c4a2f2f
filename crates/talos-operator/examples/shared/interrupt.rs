//! When a benchmark has to end before its time.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// Returns when a signal asks the process to end, or when its parent is gone.
pub(crate) async fn interrupted() {
    let mut interrupt = signal(SignalKind::interrupt()).expect("signals");
    let mut terminate = signal(SignalKind::terminate()).expect("signals");
    let parent = std::os::unix::process::parent_id();
    let orphaned = async {
        while std::os::unix::process::parent_id() == parent {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = orphaned => {}
    }
}
