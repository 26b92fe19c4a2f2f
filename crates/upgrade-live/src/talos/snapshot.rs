//! Streams etcd's snapshot (rule 3).

use talos_client::Node;
use talos_client::snapshot::SnapshotError;
use tokio::io::AsyncWrite;
use upgrade_core::reason::FailureKind;
use upgrade_core::text::chain;
use upgrade_engine::io::IoError;
use upgrade_engine::snapshots::StoreError;

use crate::talos_error;

pub(super) async fn stream(
    node: &Node,
    mut into: &mut (dyn AsyncWrite + Send + Unpin),
) -> Result<(), IoError> {
    let streamed = node.etcd_snapshot(&mut into).await;
    streamed.map(|_| ()).map_err(|error| {
        let kind = match &error {
            SnapshotError::Call(call) => talos_error::read(call).failure.kind,
            // A store over the network knows whether a retry may help.
            SnapshotError::Write(error) => {
                let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<StoreError>());
                inner.map_or(FailureKind::Refused, StoreError::kind)
            }
            // The stream was cut or changed on its way; another may be whole.
            SnapshotError::Damaged(_) => FailureKind::Unavailable,
        };
        IoError::new(kind, &chain(&error))
    })
}
