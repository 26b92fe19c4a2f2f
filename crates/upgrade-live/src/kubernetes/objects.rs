//! Objects of any kind, found by asking the API server what it has.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::core::GroupVersion;
use kube::discovery::{self, Scope};
use kube::error::DiscoveryError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use upgrade_core::reason::FailureKind;
use upgrade_engine::io::IoError;
use upgrade_engine::io::kubernetes::{Apply, ObjectName};

use super::access::Access;

/// What a path shows as it is. `kube` encodes queries, and takes names as they are; that
/// of a role, for one, may have a question mark in it.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// A name as part of a path.
fn segment(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}

/// A kind that the API server has, and whether its objects are in namespaces.
#[derive(Clone)]
struct Kind {
    resource: ApiResource,
    namespaced: bool,
}

/// What is known of each kind, by group and version, and name. A kind that is
/// missing here is requested again each time: definitions come and go.
#[derive(Default)]
pub(super) struct Kinds(Mutex<HashMap<(String, String), Kind>>);

impl Kinds {
    /// An object, if it is there.
    pub(super) async fn get(
        &self,
        access: &Access,
        name: &ObjectName,
    ) -> Result<Option<Value>, IoError> {
        let Some(kind) = self.kind(access, name).await? else {
            return Ok(None);
        };
        let (kind, object) = (&kind, &segment(&name.name));
        let get = |client| async move { kind.api(client, name).get(object).await };
        match access.call(get).await {
            Ok(object) => Ok(Some(plain(&object))),
            Err(refused) if refused.is_not_found() => Ok(None),
            Err(refused) => Err(refused.on_read(&format!("{name} could not be read"))),
        }
    }

    /// Server-side apply.
    pub(super) async fn apply(
        &self,
        access: &Access,
        object: &Value,
        manager: &str,
        how: Apply,
    ) -> Result<Value, IoError> {
        let name = &named(object)?;
        let Some(kind) = self.kind(access, name).await? else {
            let (kind, version) = (&name.kind, &name.api_version);
            let text = format!("{name} cannot be applied: there is no {kind} in {version}");
            return Err(IoError::new(FailureKind::Refused, &text));
        };
        let Apply { force, dry_run } = how;
        let how = &PatchParams { force, dry_run, ..PatchParams::apply(manager) };
        let (kind, at) = (&kind, &segment(&name.name));
        let apply = |client| async move {
            kind.api(client, name).patch(at, how, &Patch::Apply(object)).await
        };
        match access.call(apply).await {
            Ok(applied) => Ok(plain(&applied)),
            Err(refused) => Err(refused.on_change(&format!("{name} could not be applied"))),
        }
    }

    /// Deletes an object. What belongs to it goes after it.
    pub(super) async fn delete(&self, access: &Access, name: &ObjectName) -> Result<(), IoError> {
        let Some(kind) = self.kind(access, name).await? else {
            return Ok(());
        };
        let (kind, object) = (&kind, &segment(&name.name));
        let how = &DeleteParams::background();
        let delete = |client| async move { kind.api(client, name).delete(object, how).await };
        match access.call(delete).await {
            Ok(_) => Ok(()),
            Err(refused) if refused.is_not_found() => Ok(()),
            Err(refused) => Err(refused.on_change(&format!("{name} could not be deleted"))),
        }
    }

    /// The kind of an object; `None` if the API server has no such kind.
    async fn kind(&self, access: &Access, of: &ObjectName) -> Result<Option<Kind>, IoError> {
        let key = (of.api_version.clone(), of.kind.clone());
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = known().get(&key) {
            return Ok(Some(kind.clone()));
        }
        let found = found(access, of).await?;
        if let Some(kind) = &found {
            known().insert(key, kind.clone());
        }
        Ok(found)
    }
}

impl Kind {
    fn api(&self, client: kube::Client, of: &ObjectName) -> Api<DynamicObject> {
        match (self.namespaced, of.namespace.as_str()) {
            (false, _) => Api::all_with(client, &self.resource),
            (true, "") => Api::namespaced_with(client, "default", &self.resource),
            (true, namespace) => Api::namespaced_with(client, &segment(namespace), &self.resource),
        }
    }
}

/// Asks for a kind.
async fn found(access: &Access, of: &ObjectName) -> Result<Option<Kind>, IoError> {
    let Some(version) = group_version(&of.api_version) else {
        return Ok(None);
    };
    let kind = &version.with_kind(&of.kind);
    let pinned = |client| async move { pinned(&client, kind).await };
    match access.call(pinned).await {
        Ok(found) => Ok(found),
        Err(refused) if refused.is_not_found() => Ok(None),
        Err(refused) => {
            let what = format!("the kinds of {} could not be listed", of.api_version);
            Err(refused.on_read(&what))
        }
    }
}

async fn pinned(client: &kube::Client, kind: &GroupVersionKind) -> kube::Result<Option<Kind>> {
    match discovery::pinned_kind(client, kind).await {
        Ok((resource, can)) => {
            Ok(Some(Kind { resource, namespaced: can.scope == Scope::Namespaced }))
        }
        Err(kube::Error::Discovery(DiscoveryError::MissingKind(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A group and version as a path can have them.
fn group_version(api_version: &str) -> Option<GroupVersion> {
    let GroupVersion { group, version } = api_version.parse().ok()?;
    Some(GroupVersion::gv(&segment(&group), &segment(&version)))
}

/// An object as data.
fn plain(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("an object is JSON")
}

/// How many objects of a resource there are.
pub(super) async fn count(
    access: &Access,
    api_version: &str,
    resource: &str,
) -> Result<usize, IoError> {
    let Some(version) = group_version(api_version) else {
        return Ok(0);
    };
    // Paths have the name of the resource only.
    let resources = &ApiResource::from_gvk_with_plural(&version.with_kind(""), &segment(resource));
    let api = |client| Api::<DynamicObject>::all_with(client, resources);
    match access.list(api, ListParams::default()).await {
        Ok(objects) => Ok(objects.len()),
        Err(refused) if refused.is_not_found() => Ok(0),
        Err(refused) => {
            Err(refused.on_read(&format!("{resource} of {api_version} could not be counted")))
        }
    }
}

/// The version that the API server prefers for a group.
pub(super) async fn preferred(access: &Access, group: &str) -> Result<Option<String>, IoError> {
    if group.is_empty() {
        return Ok(Some("v1".to_owned()));
    }
    let groups = access.call(|client| async move { client.list_api_groups().await }).await;
    let groups = groups.map_err(|refused| refused.on_read(&format!("the versions of {group}")))?;
    let found = groups.groups.into_iter().find(|it| it.name == group);
    Ok(found.and_then(|group| group.preferred_version).map(|version| version.group_version))
}

/// The name of an object that is to be applied.
fn named(object: &Value) -> Result<ObjectName, IoError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = ObjectName {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: text(&object["metadata"]["namespace"]),
        name: text(&object["metadata"]["name"]),
    };
    if name.api_version.is_empty() || name.kind.is_empty() || name.name.is_empty() {
        let text = "an object without apiVersion, kind or name cannot be applied";
        return Err(IoError::new(FailureKind::Refused, text));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(segment("system:node-proxier"), "system:node-proxier");
        assert_eq!(segment("a/b c?"), "a%2Fb%20c%3F");
    }
}
