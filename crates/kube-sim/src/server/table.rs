//! Tables: the columns of `kubectl get`.

use serde_json::{Value, json};

use crate::object;
use crate::time::Time;
use crate::types::ResourceType;

mod cells;
mod path;
pub(super) use cells::cells;

/// The columns of a built-in kind. A tilde marks wide columns, a hash numeric ones.
fn known(kind: &ResourceType) -> &'static str {
    match (kind.name.group.as_ref(), kind.name.plural.as_ref()) {
        ("", "nodes") => {
            "Name,Status,Roles,Age,Version,~Internal-IP,~External-IP,~OS-Image,~Kernel-Version,\
             ~Container-Runtime"
        }
        ("", "pods") => "Name,Ready,Status,Restarts,Age,~IP,~Node,~Nominated Node,~Readiness Gates",
        ("", "namespaces") => "Name,Status,Age",
        ("", "configmaps") => "Name,Data,Age",
        ("", "secrets") => "Name,Type,Data,Age",
        ("", "services") => "Name,Type,Cluster-IP,External-IP,Port(s),Age,~Selector",
        ("" | "events.k8s.io", "events") => {
            "Last Seen,Type,Reason,Object,~Subobject,~Source,Message,~First Seen,~#Count,~Name"
        }
        ("apps", "deployments") => {
            "Name,Ready,Up-to-date,Available,Age,~Containers,~Images,~Selector"
        }
        ("apps", "daemonsets") => {
            "Name,#Desired,#Current,#Ready,#Up-to-date,#Available,Node Selector,Age,~Containers,\
             ~Images,~Selector"
        }
        ("apps", "replicasets") => {
            "Name,#Desired,#Current,#Ready,Age,~Containers,~Images,~Selector"
        }
        ("apps", "statefulsets") => "Name,Ready,Age,~Containers,~Images",
        ("batch", "jobs") => "Name,Status,Completions,Duration,Age,~Containers,~Images,~Selector",
        ("policy", "poddisruptionbudgets") => {
            "Name,Min Available,Max Unavailable,#Allowed Disruptions,Age"
        }
        ("coordination.k8s.io", "leases") => "Name,Holder,Age",
        ("", "persistentvolumeclaims") => {
            "Name,Status,Volume,Capacity,Access Modes,StorageClass,Age"
        }
        ("", "persistentvolumes") => {
            "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,Age"
        }
        ("storage.k8s.io", "volumeattachments") => "Name,Attacher,PV,Node,Attached,Age",
        ("apiextensions.k8s.io", "customresourcedefinitions") => "Name,Created At",
        _ => "Name,Age",
    }
}

/// The printer columns that a definition has for a version.
fn custom<'a>(kind: &'a ResourceType, version: &str) -> Option<&'a [Value]> {
    let definition = kind.definition.as_ref()?;
    let versions = object::list(definition, &["spec", "versions"]);
    let version = versions.iter().find(|known| object::text(known, &["name"]) == version)?;
    Some(object::list(version, &["additionalPrinterColumns"])).filter(|columns| !columns.is_empty())
}

/// The column definitions.
pub(super) fn columns(kind: &ResourceType, version: &str) -> Vec<Value> {
    let column = |name: &str, form: &str, priority: i64| {
        let format = if name == "Name" { "name" } else { "" };
        json!({"name": name, "type": form, "format": format, "description": "", "priority": priority})
    };
    if let Some(columns) = custom(kind, version) {
        let own = columns.iter().map(|own| {
            let priority = object::number(own, &["priority"]).unwrap_or(0);
            let text = |field: &str| object::text(own, &[field]);
            json!({
                "name": text("name"), "type": text("type"), "format": text("format"),
                "description": text("description"), "priority": priority,
            })
        });
        return std::iter::once(column("Name", "string", 0)).chain(own).collect();
    }
    known(kind)
        .split(',')
        .map(|name| {
            let wide = name.starts_with('~');
            let form = if name.contains('#') { "integer" } else { "string" };
            column(name.trim_start_matches(['~', '#']), form, i64::from(wide))
        })
        .collect()
}

/// The age in kubectl's short form.
pub(super) fn age(now: Time, since: &str) -> String {
    let Some(since) = Time::from_text(since) else { return "<unknown>".to_owned() };
    short(now.since(since).as_secs())
}

/// At most two units, and the second only for small values.
pub(super) fn short(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |big: u64, unit: &str, small: u64, part: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{part}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, "d", hours % 24, "h")
    } else if days < 365 * 2 {
        format!("{days}d")
    } else if days < 365 * 8 {
        two(days / 365, "y", days % 365, "d")
    } else {
        format!("{}y", days / 365)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (seconds, wanted) in [
            (5, "5s"),
            (119, "119s"),
            (318, "5m18s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (3600 * 30, "30h"),
            (86400 * 3 + 7200, "3d2h"),
            (86400 * 100, "100d"),
            (86400 * 800, "2y70d"),
        ] {
            assert_eq!(short(seconds), wanted);
        }
    }
}
