//! Objects of any kind, found by asking the API server what it has.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use upgrade_core::reason::FailureKind;
use upgrade_engine::io::Trouble;
use upgrade_engine::io::kubernetes::{Apply, ObjectName};

use super::access::Access;
use super::send::{Call, segment};

/// What is known of each group and version. A kind that is not among them is
/// asked for anew: definitions come and go.
#[derive(Default)]
pub(super) struct Kinds(Mutex<HashMap<String, Vec<Kind>>>);

#[derive(Clone, Deserialize)]
struct Kind {
    /// As paths have it.
    #[serde(rename = "name")]
    plural: String,
    #[serde(rename = "kind")]
    name: String,
    namespaced: bool,
}

#[derive(Deserialize)]
struct Kinded {
    #[serde(default)]
    resources: Vec<Kind>,
}

impl Kinds {
    /// An object, if it is there.
    pub(super) async fn get(
        &self,
        access: &Access,
        name: &ObjectName,
    ) -> Result<Option<Value>, Trouble> {
        let Some(path) = self.path(access, name).await? else {
            return Ok(None);
        };
        match access.send::<Value>(&Call::get(path)).await {
            Ok(object) => Ok(Some(object)),
            Err(refused) if refused.is_not_found() => Ok(None),
            Err(refused) => Err(refused.look(&format!("{name} could not be read"))),
        }
    }

    /// Server-side apply.
    pub(super) async fn apply(
        &self,
        access: &Access,
        object: &Value,
        manager: &str,
        how: Apply,
    ) -> Result<Value, Trouble> {
        let name = named(object)?;
        let Some(path) = self.path(access, &name).await? else {
            let (kind, version) = (&name.kind, &name.api_version);
            let text = format!("{name} cannot be applied: there is no {kind} in {version}");
            return Err(Trouble::new(FailureKind::Refused, &text));
        };
        let Apply { force, dry_run } = how;
        let dry = if dry_run { "&dryRun=All" } else { "" };
        let manager = segment(manager);
        let path = format!("{path}?fieldManager={manager}&force={force}{dry}");
        // JSON is YAML, and this is the type that every version knows.
        let call = Call::patch(path, "application/apply-patch+yaml", object);
        let applied = access.send(&call).await;
        applied.map_err(|refused| refused.act(&format!("{name} could not be applied")))
    }

    /// Deletes an object. What belongs to it goes after it.
    pub(super) async fn delete(&self, access: &Access, name: &ObjectName) -> Result<(), Trouble> {
        let Some(path) = self.path(access, name).await? else {
            return Ok(());
        };
        let call = Call::delete(path, &json!({"propagationPolicy": "Background"}));
        match access.send::<Value>(&call).await {
            Ok(_) => Ok(()),
            Err(refused) if refused.is_not_found() => Ok(()),
            Err(refused) => Err(refused.act(&format!("{name} could not be deleted"))),
        }
    }

    /// Where an object is; `None` if the API server has no such kind.
    async fn path(&self, access: &Access, name: &ObjectName) -> Result<Option<String>, Trouble> {
        let base = base(&name.api_version);
        let mut kind = self.known(name);
        if kind.is_none() {
            self.ask(access, name, &base).await?;
            kind = self.known(name);
        }
        Ok(kind.map(|Kind { plural, namespaced, .. }| {
            let object = segment(&name.name);
            match (namespaced, name.namespace.as_str()) {
                (false, _) => format!("{base}/{plural}/{object}"),
                (true, "") => format!("{base}/namespaces/default/{plural}/{object}"),
                (true, namespace) => {
                    format!("{base}/namespaces/{}/{plural}/{object}", segment(namespace))
                }
            }
        }))
    }

    fn known(&self, name: &ObjectName) -> Option<Kind> {
        let kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(&name.api_version)?.iter().find(|kind| kind.name == name.kind).cloned()
    }

    async fn ask(&self, access: &Access, name: &ObjectName, base: &str) -> Result<(), Trouble> {
        let kinds = match access.send::<Kinded>(&Call::get(base.to_owned())).await {
            Ok(Kinded { mut resources }) => {
                // Subresources have a kind as well, and are no objects.
                resources.retain(|kind| !kind.plural.contains('/'));
                resources
            }
            Err(refused) if refused.is_not_found() => Vec::new(),
            Err(refused) => {
                let what = format!("the kinds of {} could not be listed", name.api_version);
                return Err(refused.look(&what));
            }
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(name.api_version.clone(), kinds);
        Ok(())
    }
}

/// Where a group and version is.
fn base(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", segment(group), segment(version)),
        None => format!("/api/{}", segment(api_version)),
    }
}

/// How many objects of a resource there are.
pub(super) async fn count(
    access: &Access,
    api_version: &str,
    resource: &str,
) -> Result<usize, Trouble> {
    let path = format!("{}/{}", base(api_version), segment(resource));
    match access.list::<IgnoredAny>(&path, "").await {
        Ok(objects) => Ok(objects.len()),
        Err(refused) if refused.is_not_found() => Ok(0),
        Err(refused) => {
            Err(refused.look(&format!("{resource} of {api_version} could not be counted")))
        }
    }
}

/// The version that the API server prefers for a group.
pub(super) async fn preferred(access: &Access, group: &str) -> Result<Option<String>, Trouble> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Group {
        preferred_version: Version,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        group_version: String,
    }
    if group.is_empty() {
        return Ok(Some("v1".to_owned()));
    }
    match access.send::<Group>(&Call::get(format!("/apis/{}", segment(group)))).await {
        Ok(group) => Ok(Some(group.preferred_version.group_version)),
        Err(refused) if refused.is_not_found() => Ok(None),
        Err(refused) => Err(refused.look(&format!("the versions of {group}"))),
    }
}

/// The name of an object that is to be applied.
fn named(object: &Value) -> Result<ObjectName, Trouble> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = ObjectName {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: text(&object["metadata"]["namespace"]),
        name: text(&object["metadata"]["name"]),
    };
    if name.api_version.is_empty() || name.kind.is_empty() || name.name.is_empty() {
        let text = "an object without apiVersion, kind or name cannot be applied";
        return Err(Trouble::new(FailureKind::Refused, text));
    }
    Ok(name)
}
