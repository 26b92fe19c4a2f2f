//! A long journal: packed into blocks, which move into parts.
//!
//! The newest entries are plain in the status. When they grow they are packed
//! into a block beside it, and when the blocks grow they move into a part:
//! another object of the same kind, owned by the run, that never changes again.
//! So no object comes near what etcd takes (1.5 MB), however long the run, and
//! what is sent with an entry stays small.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _};
use serde_json::json;
use upgrade_api::UpgradeRun;
use upgrade_api::run::{RunPhase, RunSpec, RunStatus};

use super::compress::{self, CompressedError};
use super::object::{AGAIN, RunObject, RunObjectError, may_pass};
use crate::api_call::within;
use crate::lease::CALL;

/// When the blocks move into a part: the server reads and writes the whole object
/// with every entry. With a plan of a thousand nodes beside them it has about
/// 300 KB then.
const BLOCKS: usize = 64 * 1024;

impl RunObject {
    /// Packs the entries of the status into a block, and moves the blocks into
    /// a part once there are many.
    pub(super) async fn rotate(&self, status: &mut RunStatus) -> Result<(), RunObjectError> {
        let mut text = status.journal.join("\n");
        text.push('\n');
        status.sealed.push(compress::gzip(&text));
        status.journal.clear();
        if status.sealed.iter().map(String::len).sum::<usize>() <= BLOCKS {
            return Ok(());
        }
        self.part(status).await?;
        status.parts += 1;
        status.sealed.clear();
        Ok(())
    }

    /// Makes a part. One that is there already is from a process that came no
    /// further, and holds the same.
    async fn part(&self, status: &RunStatus) -> Result<(), RunObjectError> {
        let name = part_name(&self.name, status.parts);
        let spec = RunSpec { plan: String::new(), ..self.spec.clone() };
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            owner_references: Some(vec![OwnerReference {
                api_version: UpgradeRun::api_version(&()).into_owned(),
                kind: UpgradeRun::kind(&()).into_owned(),
                name: self.name.clone(),
                uid: self.uid.clone(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        };
        let part = UpgradeRun::new(metadata, spec);
        let message = format!("a part of the journal of {}", self.name);
        let body = json!({"status": {
            "phase": RunPhase::Completed, "message": message, "sealed": status.sealed,
        }});
        let api: Api<UpgradeRun> = Api::namespaced(self.client.clone(), &self.namespace);
        loop {
            if let Err(lost) = self.fence.holds() {
                return Err(RunObjectError::Late { name: self.name.clone(), why: lost.0 });
            }
            let made = async {
                match api.create(&PostParams::default(), &part).await {
                    Err(kube::Error::Api(answer)) if answer.code == 409 => {}
                    other => drop(other?),
                }
                api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&body)).await
            };
            match within(CALL, made).await {
                Ok(_) => return Ok(()),
                Err(error) if !may_pass(&error) => {
                    return Err(RunObjectError::Api { name, error });
                }
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}

/// The packed beginning of a journal, oldest entry first.
pub(super) async fn beginning(
    client: &Client,
    namespace: &str,
    run: &str,
    status: &RunStatus,
) -> Result<Vec<String>, RunObjectError> {
    let api: Api<UpgradeRun> = Api::namespaced(client.clone(), namespace);
    let mut blocks = Vec::new();
    for number in 0..status.parts {
        let name = part_name(run, number);
        let part = api.get(&name).await;
        let part = part.map_err(|error| RunObjectError::Api { name, error: error.into() })?;
        blocks.extend(part.status.unwrap_or_default().sealed);
    }
    blocks.extend(status.sealed.iter().cloned());
    let mut lines = Vec::new();
    for block in blocks {
        let broken = |error: CompressedError| RunObjectError::Broken {
            name: run.to_owned(),
            why: error.to_string(),
        };
        lines.extend(compress::decompress(&block).map_err(broken)?.lines().map(ToOwned::to_owned));
    }
    Ok(lines)
}

fn part_name(run: &str, number: u32) -> String {
    format!("{run}-part-{number}")
}
