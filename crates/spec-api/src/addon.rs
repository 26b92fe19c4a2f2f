//! `TalosClusterAddon` and `TalosClusterAddonRelease`: Helm charts in clusters.
//!
//! No controller here installs charts. The definitions exist so that stored objects stay, and
//! the types so that their finalizers can be removed when a user deletes them: nothing but the
//! metadata is read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use upgrade_api::resource;

use crate::{GROUP, VERSION};

/// A chart for several clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosClusterAddon {
    /// The group and version of its kind.
    #[serde(default = "TalosClusterAddon::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "TalosClusterAddon::own_kind")]
    pub kind: String,
    /// Its name and finalizers.
    pub metadata: ObjectMeta,
}

resource!(TalosClusterAddon, GROUP, VERSION, "talosclusteraddons");

/// A chart in one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosClusterAddonRelease {
    /// The group and version of its kind.
    #[serde(default = "TalosClusterAddonRelease::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "TalosClusterAddonRelease::own_kind")]
    pub kind: String,
    /// Its name and finalizers.
    pub metadata: ObjectMeta,
}

resource!(TalosClusterAddonRelease, GROUP, VERSION, "talosclusteraddonreleases");
