//! What a folder stores about a cluster beside its state, and what can be made from it without
//! starting the cluster.

use std::net::IpAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Options, Shape, StartError};
use crate::address::{APID_PORT, Places};
use crate::kubernetes::remote::RealApi;
use crate::pki::{Authority, Identity, PkiError};
use crate::store::{self, StoreError};
use crate::talosconfig;

/// What a folder stores beside the state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Marker {
    pub(super) shape: Shape,
    pub(super) places: Places,
    /// The real Kubernetes API; `None` if it is the cluster's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) real_api: Option<RealApi>,
}

/// The shape of the cluster in a folder, if there is one.
pub fn stored_shape(folder: &Path) -> Result<Option<Shape>, StoreError> {
    Ok(store::read_marker::<Marker>(folder)?.map(|marker| marker.shape))
}

/// Makes a talosconfig for the cluster in a folder, whether it is running or not.
pub fn mint_talosconfig(folder: &Path, identity: &Identity) -> Result<String, StartError> {
    let missing = || StoreError::Missing(folder.to_owned());
    let marker: Marker = store::read_marker(folder)?.ok_or_else(missing)?;
    let pair = store::read_authority(folder)?.ok_or_else(missing)?;
    let authority = Authority::load(pair)?;
    Ok(mint(&marker.shape, &marker.places, &authority, identity)?)
}

pub(super) fn mint(
    shape: &Shape,
    places: &Places,
    authority: &Authority,
    identity: &Identity,
) -> Result<String, PkiError> {
    let endpoints: Vec<String> = places
        .apid
        .iter()
        .take(shape.control_planes)
        .map(|apid| match apid.port() {
            APID_PORT => apid.ip().to_string(),
            _ => apid.to_string(),
        })
        .collect();
    let first = places.nodes.first().map(IpAddr::to_string);
    Ok(talosconfig::write(
        &shape.name,
        &endpoints,
        &Vec::from_iter(first),
        &authority.pair().certificate,
        &authority.client(identity)?,
    ))
}

/// Refuses to continue a cluster with options that describe a different one.
pub(super) fn compare(folder: &Path, options: &Options, marker: &Marker) -> Result<(), StartError> {
    let Marker { shape: found, real_api, .. } = marker;
    let wanted = options.shape.as_ref().unwrap_or(found);
    let own = "its own Kubernetes API".to_owned();
    let real = "a real one".to_owned();
    let pairs = [
        ("name", wanted.name.clone(), found.name.clone()),
        ("control planes", wanted.control_planes.to_string(), found.control_planes.to_string()),
        ("workers", wanted.workers.to_string(), found.workers.to_string()),
        ("Talos at first", wanted.talos.tag(), found.talos.tag()),
        ("Kubernetes at first", wanted.kubernetes.tag(), found.kubernetes.tag()),
        ("seed", wanted.seed.to_string(), found.seed.to_string()),
        match (&options.real_api, real_api) {
            (Some(_), None) => ("with", real, own),
            // Without the option, the real API of the last start is used again.
            _ => ("with", real.clone(), real),
        },
    ];
    let differences: Vec<String> = pairs
        .into_iter()
        .filter(|(_, wanted, found)| wanted != found)
        .map(|(what, wanted, found)| format!("{what} {found}, not {wanted}"))
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(StartError::Differs { folder: folder.to_owned(), what: differences.join("; ") })
}
