//! What runs in a new cluster besides its own parts: objects from a file.

use kube_sim::{ApiServer, Caller, Method, Reply, Request, Time, object};
use serde_json::Value;

/// Why a file of workloads is of no use.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// Not YAML, or not objects.
    #[error("not a file of Kubernetes objects: {0}")]
    File(String),
    /// An object of a kind that is not served.
    #[error("no kind {kind} in {api_version} is served here")]
    Kind {
        /// Its kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// An object that the API server refuses.
    #[error("{kind} {name}: {message}")]
    Refused {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// The API server's words.
        message: String,
    },
}

/// Reads objects: documents of YAML, and what is in lists.
pub fn parse(text: &str) -> Result<Vec<Value>, WorkloadError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| WorkloadError::File(error.to_string()))?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            list if object::text(&list, &["kind"]) == "List" => {
                objects.extend_from_slice(object::list(&list, &["items"]));
            }
            object if !object::text(&object, &["kind"]).is_empty() => objects.push(object),
            other => return Err(WorkloadError::File(format!("no kind in {other}"))),
        }
    }
    Ok(objects)
}

/// Creates the objects, in their order. Those that are there already stay as
/// they are: the cluster has gone on since.
pub fn create(api: &mut ApiServer, now: Time, objects: &[Value]) -> Result<(), WorkloadError> {
    for wanted in objects {
        let kind = object::text(wanted, &["kind"]).to_owned();
        let api_version = object::text(wanted, &["apiVersion"]).to_owned();
        let Some(found) = api.store().types().find_kind(&api_version, &kind).cloned() else {
            return Err(WorkloadError::Kind { kind, api_version });
        };
        let group = if found.name.group.is_empty() { "/api" } else { "/apis" };
        let namespace = match object::namespace(wanted) {
            _ if !found.namespaced => String::new(),
            "" => "/namespaces/default".to_owned(),
            name => format!("/namespaces/{name}"),
        };
        let path = format!("{group}/{api_version}{namespace}/{}", found.name.plural);
        let request = Request::new(Method::Post, &path).with_json(wanted);
        let reply = api.request(now, &Caller::admin(), &request);
        if let Reply::Response { status, body, .. } = reply
            && !matches!(status, 200..300 | 409)
        {
            let told: Value = serde_json::from_slice(&body).unwrap_or_default();
            return Err(WorkloadError::Refused {
                kind,
                name: object::name(wanted).to_owned(),
                message: object::text(&told, &["message"]).to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: two, namespace: kube-system}}
";

    #[test]
    fn objects_are_read_and_made_once() {
        let objects = parse(FILE).unwrap();
        assert_eq!(objects.len(), 2);
        let now = Time::from_secs(1_800_000_000);
        let mut api = ApiServer::new(0, now);
        create(&mut api, now, &objects).unwrap();
        create(&mut api, now, &objects).unwrap();
        let names = kube_sim::ResourceName::owned("", "configmaps");
        assert!(api.store().get(&names, "default", "one").is_some());
        assert!(api.store().get(&names, "kube-system", "two").is_some());
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(matches!(parse("[1]"), Err(WorkloadError::File(_))));
        assert!(matches!(parse("a: {"), Err(WorkloadError::File(_))));
        let now = Time::from_secs(1_800_000_000);
        let mut api = ApiServer::new(0, now);
        let strange = parse("{apiVersion: x/v1, kind: Thing, metadata: {name: z}}").unwrap();
        let error = create(&mut api, now, &strange).unwrap_err();
        assert_eq!(error.to_string(), "no kind Thing in x/v1 is served here");
    }
}
