//! Streams etcd's snapshot (rule 3).

use talos_client::Node;
use talos_client::snapshot::SnapshotError;
use tokio::io::AsyncWrite;
use upgrade_core::reason::FailureKind;
use upgrade_core::text::chain;
use upgrade_engine::io::Trouble;

use crate::trouble;

pub(super) async fn stream(
    node: &Node,
    mut into: &mut (dyn AsyncWrite + Send + Unpin),
) -> Result<(), Trouble> {
    let streamed = node.etcd_snapshot(&mut into).await;
    streamed.map(|_| ()).map_err(|error| {
        let kind = match &error {
            SnapshotError::Call(call) => trouble::look(call).failure.kind,
            SnapshotError::Write(_) => FailureKind::Refused,
            // The stream was cut or changed on its way; another may be whole.
            SnapshotError::Damaged(_) => FailureKind::Unavailable,
        };
        Trouble::new(kind, &chain(&error))
    })
}
