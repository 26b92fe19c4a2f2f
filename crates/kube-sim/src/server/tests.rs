//! Tests of the whole server by requests.

use serde_json::{Value, json};

use super::*;
use crate::api::{Item, Method};

mod access;
mod crds;
mod lists;
mod watches;
mod writes;

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

struct Talk {
    server: ApiServer,
    now: Time,
}

impl Talk {
    fn new() -> Self {
        let now = Time::from_secs(1_767_323_045);
        Self { server: ApiServer::without_controllers(1, now), now }
    }

    fn send(&mut self, request: &Request) -> Reply {
        self.server.request(self.now, &Caller::admin(), request)
    }

    /// The code and the body of a response.
    fn ask(&mut self, request: &Request) -> (u16, Value) {
        match self.send(request) {
            Reply::Response { status, body, .. } => {
                (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
            }
            watch @ Reply::Watch { .. } => panic!("{watch:?}"),
        }
    }

    fn get(&mut self, path: &str) -> (u16, Value) {
        self.ask(&Request::get(path))
    }

    fn post(&mut self, path: &str, body: &Value) -> (u16, Value) {
        self.ask(&Request::new(Method::Post, path).with_json(body))
    }

    fn put(&mut self, path: &str, body: &Value) -> (u16, Value) {
        self.ask(&Request::new(Method::Put, path).with_json(body))
    }

    fn patch(&mut self, path: &str, media: &str, body: &Value) -> (u16, Value) {
        self.ask(&Request::new(Method::Patch, path).with_json(body).with_content_type(media))
    }

    fn delete(&mut self, path: &str, body: &Value) -> (u16, Value) {
        self.ask(&Request::new(Method::Delete, path).with_json(body))
    }

    fn watch(&mut self, path: &str) -> StreamId {
        match self.send(&Request::get(path)) {
            Reply::Watch { stream, .. } => stream,
            other @ Reply::Response { .. } => panic!("{other:?}"),
        }
    }

    /// The items of a stream since the last call; its end is null.
    fn received(&mut self) -> Vec<Value> {
        let line = |output: Output| match output.item {
            Item::Event(line) => serde_json::from_slice(&line).unwrap(),
            Item::End => Value::Null,
        };
        self.server.outputs().into_iter().map(line).collect()
    }

    fn configmap(&mut self, name: &str, labels: &Value) {
        let body = json!({"metadata": {"name": name, "labels": labels}});
        assert_eq!(self.post("/api/v1/namespaces/default/configmaps", &body).0, 201);
    }

    fn pod(&mut self, name: &str, labels: &Value) {
        let body = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        });
        assert_eq!(self.post("/api/v1/namespaces/default/pods", &body).0, 201);
        let status = json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let path = format!("/api/v1/namespaces/default/pods/{name}/status");
        assert_eq!(self.patch(&path, STRATEGIC, &status).0, 200);
    }
}

fn kinds_of(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap_or("END")).collect()
}
