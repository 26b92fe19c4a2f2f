//! Looks at the whole cluster once.

use upgrade_core::snapshot::Snapshot;

use crate::io::{Io, Trouble};

/// Looks at everything, all machines side by side. A fact that cannot be had is
/// unknown, with the reason (rule 10); only the list of machines must be there.
pub async fn observe<I: Io>(io: &I) -> Result<Snapshot, Trouble> {
    let _ = io;
    todo!()
}
