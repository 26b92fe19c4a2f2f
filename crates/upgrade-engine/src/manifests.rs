//! Objects that left Talos's manifests, as every control plane renders them (rule 10).

use std::collections::BTreeSet;

use futures_util::future::join_all;
use upgrade_core::guard;
use upgrade_core::manifests::{Manifests, ObjectKey};
use upgrade_core::mutant::Mutant;
use upgrade_core::snapshot::{Fact, Role};

use crate::inventory;
use crate::io::machines::Rendered;
use crate::io::{Io, IoError, Kubernetes as _, Machine, Machines as _};
use crate::observe::{find_missing, limited};

/// Reads the manifests of every control plane and Talos's inventory, for a plan that lists what it
/// deletes.
pub async fn observe_manifests<I: Io>(io: &I) -> Fact<Manifests> {
    read_manifests(io).await.map_or_else(|error| Fact::Unknown(error.to_string()), Fact::Known)
}

async fn read_manifests<I: Io>(io: &I) -> Result<Manifests, IoError> {
    let (_, mut machines) = limited(io, io.machines().list()).await?;
    let nodes = limited(io, io.kubernetes().nodes()).await?;
    let (found, _) = find_missing(io, &machines, &nodes).await;
    machines.extend(found);
    let control_planes: Vec<Machine> =
        machines.into_iter().filter(|machine| machine.role == Role::ControlPlane).collect();
    let asked = all_of(&control_planes);
    let each = asked.iter().map(|machine| limited(io, io.machines().manifests(machine)));
    let each = join_all(each).await;
    let mut manifests = Manifests::default();
    let mut rendered = BTreeSet::new();
    for (machine, found) in asked.iter().zip(each) {
        match found {
            Ok(found) => {
                manifests.gaps.extend(gap(machine, &found));
                rendered.extend(found.objects.iter().map(inventory::key_of));
            }
            Err(error) => {
                manifests.gaps.push(format!("the manifests of {}: {error}", machine.name));
            }
        }
    }
    let dns = |key: &ObjectKey| key.kind == "Deployment" && key.name == "coredns";
    manifests.core_dns = rendered.iter().any(dns);
    let name = inventory::object_name();
    let found = limited(io, io.kubernetes().object(&name)).await?;
    let entries = inventory::entries(found.as_ref());
    for entry in inventory::left(&entries, &rendered) {
        if is_ours(io, &entry).await? {
            manifests.left.insert(entry);
        }
    }
    Ok(manifests)
}

/// The control planes whose manifests count: all of them, since one with another configuration may
/// want objects that the others do not (rule 10).
pub(crate) fn all_of(control_planes: &[Machine]) -> &[Machine] {
    if !guard!(Mutant::PruneOneList) {
        return control_planes.get(..1).unwrap_or_default();
    }
    control_planes
}

/// What is missing from the manifests of a control plane.
pub(crate) fn gap(machine: &Machine, found: &Rendered) -> Option<String> {
    let missing = found.missing.join(", ");
    let text = || format!("{} has not rendered or downloaded {missing}", machine.name);
    (!found.missing.is_empty()).then(text)
}

/// Whether an object exists and still belongs to Talos.
async fn is_ours<I: Io>(io: &I, entry: &ObjectKey) -> Result<bool, IoError> {
    let version = limited(io, io.kubernetes().preferred(&entry.group)).await?;
    let Some(version) = version else { return Ok(false) };
    let name = inventory::in_version(entry, version);
    let object = limited(io, io.kubernetes().object(&name)).await?;
    Ok(object.is_some_and(|it| inventory::owner(&it).is_none_or(|it| it == inventory::NAME)))
}
