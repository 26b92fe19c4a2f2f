//! What every run store keeps to, on disk and in memory. `contract` is played on the
//! `UpgradeRun` store as well, by the operator's tests.

use upgrade_engine::journal::{FileStore, Folder, Holder, MemoryStore};

use crate::common::{World, planned, policy};

mod contract;

async fn plans() -> (upgrade_core::plan::Plan, upgrade_core::plan::Plan) {
    let world = World::new(3, 1, "1.13.1");
    let first = planned(&world, "1.13.9", &policy(1)).await;
    let second = planned(&world, "1.13.8", &policy(1)).await;
    let parent = Some(first.hash());
    ((*first).clone(), upgrade_core::plan::Plan { parent, ..(*second).clone() })
}

#[tokio::test(start_paused = true)]
async fn runs_in_memory() {
    let (first, second) = plans().await;
    contract::keeps_runs(&MemoryStore::default(), &first, &second).await;
}

#[tokio::test(start_paused = true)]
async fn runs_on_disk() {
    let (first, second) = plans().await;
    let dir = tempfile::tempdir().unwrap();
    let holder = Holder::this_process("2026-11-15T00:00:00Z".parse().unwrap());
    let store = FileStore { folder: Folder::new(dir.path()), holder };
    contract::keeps_runs(&store, &first, &second).await;
}
