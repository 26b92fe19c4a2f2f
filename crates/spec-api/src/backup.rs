//! `TalosEtcdBackup`: one backup of a cluster's etcd in a bucket.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use upgrade_api::resource;

use crate::condition::{Condition, ConditionType};
use crate::reference::{KeyReference, NameReference, is_false};
use crate::words::words;
use crate::{GROUP, VERSION};

/// A backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosEtcdBackup {
    /// The group and version of its kind.
    #[serde(default = "TalosEtcdBackup::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "TalosEtcdBackup::own_kind")]
    pub kind: String,
    /// Its name, owner and labels.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: BackupSpec,
    /// What was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<BackupStatus>,
}

resource!(TalosEtcdBackup, GROUP, VERSION, "talosetcdbackups");

impl TalosEtcdBackup {
    /// A backup that is to be created.
    pub fn new(metadata: ObjectMeta, spec: BackupSpec) -> Self {
        let (api_version, kind) = (Self::own_api_version(), Self::own_kind());
        Self { api_version, kind, metadata, spec, status: None }
    }

    /// The condition of a type.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        Condition::find(&self.status.as_ref()?.conditions, kind)
    }
}

/// What is backed up, and how. Complete: the template of a schedule becomes the spec of its
/// backups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackupSpec {
    /// Whose etcd.
    pub talos_control_plane_ref: NameReference,
    /// Where to.
    pub backup_storage: BackupStorage,
    /// What happens to the files before they leave the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// See [`Verify`]; if absent, it depends on the retention of the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// See [`DeletionPolicy`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
}

impl BackupSpec {
    /// What happens to the files when the object is deleted. An unknown word keeps them: what
    /// was deleted does not come back.
    pub fn deletion_policy(&self) -> DeletionPolicy {
        self.deletion_policy.as_deref().map_or(DeletionPolicy::Delete, |word| {
            DeletionPolicy::parse(word).unwrap_or(DeletionPolicy::Retain)
        })
    }
}

words! {
    /// How a finished upload is verified.
    pub enum Verify {
        /// By the size and checksum that the server reports.
        Checksum = "Checksum",
        /// By reading the file back, in addition.
        ReadBack = "ReadBack",
    }
}

words! {
    /// What happens to the files of a backup that is deleted.
    pub enum DeletionPolicy {
        /// They are deleted, both of them. The default.
        Delete = "Delete",
        /// They stay, unless the retention of a schedule removes them.
        Retain = "Retain",
    }
}

words! {
    /// How a server encrypts what it stores.
    pub enum EncryptionType {
        /// With keys of its own.
        Aes256 = "AES256",
        /// With keys of its key management.
        AwsKms = "aws:kms",
    }
}

/// Where a backup goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupStorage {
    /// The only storage there is.
    pub s3: S3,
}

/// A bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct S3 {
    /// Its name.
    pub bucket: String,
    /// Its region, which is part of every signature.
    pub region: String,
    /// The URL of the server; `None` is Amazon's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The Secret with the ID of the access key.
    #[serde(rename = "accessKeyID")]
    pub access_key_id: KeyReference,
    /// The Secret with the access key.
    pub secret_access_key: KeyReference,
    /// The Secret with the certificate authorities of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<KeyReference>,
    /// Asks for TLS without verification, which is refused unless the operator allows it
    /// (rule 14).
    #[serde(rename = "insecureSkipTLSVerify", skip_serializing_if = "is_false")]
    pub insecure_skip_tls_verify: bool,
    /// How the server encrypts what it stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_encryption: Option<ServerSideEncryption>,
}

/// How a server encrypts what it stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerSideEncryption {
    /// See [`EncryptionType`].
    #[serde(rename = "type")]
    pub kind: String,
    /// The key of `aws:kms`; `None` is the server's default.
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
}

/// What happens to files before they leave the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Encryption {
    /// The only encryption there is.
    pub age: Age,
}

/// Encryption by age.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Age {
    /// Public keys. An empty list would be no encryption; the schema refuses it.
    pub recipients: Vec<String>,
}

/// What was stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackupStatus {
    /// The key of the snapshot. Chosen once, before the upload, so that a retry overwrites
    /// the same file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The key of the cluster's secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_filename: Option<String>,
    /// The hash of the snapshot before encryption, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The size of the snapshot before encryption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// The revision of etcd in the snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_revision: Option<i64>,
    /// When the stored file was verified, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<String>,
    /// The state in a sentence.
    pub message: String,
    /// The newest generation that the status takes into account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, other writers' included.
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spec_survives_its_own_writing() {
        let key = |name: &str, key: &str| json!({"name": name, "key": key});
        let spec = json!({
            "talosControlPlaneRef": {"name": "prod"},
            "backupStorage": {"s3": {
                "bucket": "b", "region": "eu-1", "endpoint": "https://s3.example.org",
                "accessKeyID": key("s3", "id"), "secretAccessKey": key("s3", "key"),
                "caSecretRef": key("ca", "ca.crt"), "insecureSkipTLSVerify": true,
                "serverSideEncryption": {"type": "aws:kms", "kmsKeyID": "k"},
            }},
            "encryption": {"age": {"recipients": ["age1x"]}},
            "verify": "ReadBack",
            "deletionPolicy": "Retain",
        });
        let read: BackupSpec = serde_json::from_value(spec.clone()).expect("readable");
        assert_eq!(serde_json::to_value(&read).expect("writable"), spec);
        assert_eq!(read.deletion_policy(), DeletionPolicy::Retain);
    }

    #[test]
    fn files_are_deleted_only_on_a_known_word() {
        for (policy, expected) in [
            (None, DeletionPolicy::Delete),
            (Some("Delete"), DeletionPolicy::Delete),
            (Some("Retain"), DeletionPolicy::Retain),
            (Some("delete"), DeletionPolicy::Retain),
        ] {
            let deletion_policy = policy.map(str::to_owned);
            let spec = BackupSpec { deletion_policy, ..BackupSpec::default() };
            assert_eq!(spec.deletion_policy(), expected, "{policy:?}");
        }
    }
}
