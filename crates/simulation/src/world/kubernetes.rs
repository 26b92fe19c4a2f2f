//! The API of the cluster, as the engine asks for it. Lists are read from the
//! model's store; whatever changes something is a request to the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_sim::names::{
    NODES, PERSISTENT_VOLUME_CLAIMS, POD_DISRUPTION_BUDGETS, PODS, VOLUME_ATTACHMENTS,
};
use kube_sim::object::{self, text};
use kube_sim::types::ResourceType;
use kube_sim::{Caller, Method, Reply, Request, Store};
use serde_json::{Value, json};
use talos_sim::model::NodeIndex;
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::{KubernetesFacts, NodeName};
use upgrade_core::workload::{Budget, Capacity, Pod, PodName};
use upgrade_engine::io::kubernetes::{Apply, Evicted, ObjectName};
use upgrade_engine::io::{Changes, Kubernetes, Machine, Trouble};

use super::seat::{Seat, unavailable};
use super::{Inside, objects};
use crate::seen::{Act, Question};

/// What the API server said.
pub(super) struct Said {
    code: u16,
    body: Value,
}

impl Said {
    fn trouble(&self) -> Trouble {
        let kind = match self.code {
            429 | 500 | 503 | 504 => FailureKind::Unavailable,
            _ => FailureKind::Refused,
        };
        let message = self.body["message"].as_str().unwrap_or("no reason given");
        Trouble::new(kind, &format!("Kubernetes answered {}: {message}", self.code))
    }

    fn ok(self) -> Result<Value, Trouble> {
        if self.code < 300 { Ok(self.body) } else { Err(self.trouble()) }
    }
}

impl Inside {
    /// An API server that answers this request.
    fn door(&mut self) -> Result<NodeIndex, Trouble> {
        let world = &self.world;
        let serves = |node: &NodeIndex| world.api_server_runs(*node);
        let doors: Vec<NodeIndex> = world.present().filter(serves).collect();
        if doors.is_empty() {
            return Err(unavailable("connection refused"));
        }
        let door = *self.dice.pick(&doors);
        if !self.world.api_server_has_etcd(door) {
            return Err(unavailable("etcdserver: request timed out"));
        }
        match self.world.api_trouble(door).refusal {
            Some(code) => Err(unavailable(&format!("Kubernetes answered {code}"))),
            None => Ok(door),
        }
    }

    fn store(&mut self) -> Result<&Store, Trouble> {
        self.door()?;
        Ok(self.kubernetes.api().store())
    }

    fn request(&mut self, request: &Request) -> Result<Said, Trouble> {
        self.door()?;
        let now = self.world.now();
        match self.kubernetes.api_mut().request(now, &Caller::admin(), request) {
            Reply::Response { status, body, .. } => {
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                Ok(Said { code: status, body })
            }
            Reply::Watch { .. } => Err(unavailable("a watch")),
        }
    }

    /// What kind of object it is; `None` if the API server has no such kind.
    fn kind(&mut self, name: &ObjectName) -> Result<Option<Arc<ResourceType>>, Trouble> {
        Ok(self.store()?.types().find_kind(&name.api_version, &name.kind).cloned())
    }

    /// Where an object is; `None` if the API server has no such kind.
    fn path(&mut self, name: &ObjectName) -> Result<Option<String>, Trouble> {
        let base = base(&name.api_version);
        Ok(self.kind(name)?.map(|kind| {
            let (plural, object) = (&kind.name.plural, &name.name);
            match (kind.namespaced, name.namespace.as_str()) {
                (false, _) => format!("{base}/{plural}/{object}"),
                (true, "") => format!("{base}/namespaces/default/{plural}/{object}"),
                (true, namespace) => format!("{base}/namespaces/{namespace}/{plural}/{object}"),
            }
        }))
    }
}

fn base(api_version: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}")
}

fn named(object: &Value) -> ObjectName {
    ObjectName {
        api_version: text(object, &["apiVersion"]).to_owned(),
        kind: text(object, &["kind"]).to_owned(),
        namespace: object::namespace(object).to_owned(),
        name: object::name(object).to_owned(),
    }
}

impl Kubernetes for Seat {
    async fn nodes(&self) -> Result<BTreeMap<NodeName, KubernetesFacts>, Trouble> {
        self.ask(Question::Nodes, |inside| {
            let store = inside.store()?;
            Ok(store.list(&NODES, None).filter_map(|node| objects::node(node)).collect())
        })
        .await
    }

    async fn api_server(&self, of: &Machine) -> Result<(), Trouble> {
        self.ask(Question::ApiServer(of.name.clone()), |inside| {
            let node = inside.find(&of.name).ok_or_else(|| unavailable("no such machine"))?;
            inside.hangs |= inside.world.is_silent(node);
            if !inside.world.api_server_runs(node) {
                return Err(unavailable("connection refused"));
            }
            if !inside.world.api_server_has_etcd(node) {
                return Err(unavailable("/readyz: etcd failed"));
            }
            Ok(())
        })
        .await
    }

    async fn capacity(&self) -> Result<BTreeMap<NodeName, Capacity>, Trouble> {
        self.ask(Question::Other("capacity"), |inside| {
            let store = inside.store()?;
            Ok(store.list(&NODES, None).map(|node| objects::capacity(node)).collect())
        })
        .await
    }

    async fn set_unschedulable(&self, node: &NodeName, unschedulable: bool) -> Result<(), Trouble> {
        let act = Act::Cordon { node: node.clone(), on: unschedulable };
        let flag = if unschedulable { json!(true) } else { Value::Null };
        let request = Request::new(Method::Patch, &format!("/api/v1/nodes/{node}"))
            .with_json(&json!({"spec": {"unschedulable": flag}}))
            .with_content_type("application/merge-patch+json");
        self.act(act, move |inside| inside.request(&request)?.ok().map(|_| ())).await
    }

    async fn pods(&self, on: Option<&NodeName>) -> Result<Vec<Pod>, Trouble> {
        self.ask(Question::Other("pods"), |inside| {
            let store = inside.store()?;
            let here = |pod: &&Arc<Value>| {
                on.is_none_or(|node| text(pod, &["spec", "nodeName"]) == node.0)
            };
            Ok(store.list(&PODS, None).filter(here).map(|pod| objects::pod(pod)).collect())
        })
        .await
    }

    async fn budgets(&self) -> Result<Vec<Budget>, Trouble> {
        self.ask(Question::Other("budgets"), |inside| {
            let store = inside.store()?;
            Ok(store.list(&POD_DISRUPTION_BUDGETS, None).map(|it| objects::budget(it)).collect())
        })
        .await
    }

    async fn evict(&self, pod: &PodName, uid: &str) -> Result<Evicted, Trouble> {
        let PodName { namespace, name } = pod;
        let request = Request::new(
            Method::Post,
            &format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction"),
        )
        .with_json(&json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }));
        let node = self.place.at(|inside| {
            let pod = inside.kubernetes.api().store().get(&PODS, namespace, name)?;
            Some(NodeName(text(pod, &["spec", "nodeName"]).to_owned()))
        });
        let act = Act::Evict { pod: pod.clone(), node };
        let said = self.act(act, move |inside| inside.request(&request)).await?;
        let causes = said.body["details"]["causes"].as_array();
        let budget = causes.into_iter().flatten().find(|it| it["reason"] == "DisruptionBudget");
        match said.code {
            404 | 409 => Ok(Evicted::Gone),
            429 if budget.is_some() => {
                let why = budget.and_then(|it| it["message"].as_str()).unwrap_or_default();
                Ok(Evicted::Blocked { budget: None, why: why.to_owned() })
            }
            _ => said.ok().map(|_| Evicted::Accepted),
        }
    }

    async fn attachments(&self, node: &NodeName) -> Result<Vec<String>, Trouble> {
        self.ask(Question::Other("attachments"), |inside| {
            let store = inside.store()?;
            let staying: Vec<String> = store
                .list(&PODS, None)
                .map(|pod| objects::pod(pod))
                .filter(|pod| pod.node.as_ref() == Some(node) && pod.is_daemon())
                .flat_map(|pod| {
                    let namespace = pod.name.namespace.clone();
                    pod.claims.into_iter().map(move |claim| (namespace.clone(), claim))
                })
                .filter_map(|(namespace, claim)| {
                    let claim = store.get(&PERSISTENT_VOLUME_CLAIMS, &namespace, &claim)?;
                    Some(text(claim, &["spec", "volumeName"]).to_owned())
                })
                .collect();
            let volumes = store
                .list(&VOLUME_ATTACHMENTS, None)
                .filter(|it| text(it, &["spec", "nodeName"]) == node.0)
                .map(|it| text(it, &["spec", "source", "persistentVolumeName"]))
                .filter(|volume| !staying.iter().any(|it| it == volume))
                .map(str::to_owned)
                .collect();
            Ok(volumes)
        })
        .await
    }

    fn changes(&self) -> Changes {
        self.place.objects.subscribe()
    }

    async fn deprecated(&self) -> Result<Vec<(String, String)>, Trouble> {
        self.ask(Question::Other("deprecated"), |inside| inside.store().map(|_| Vec::new())).await
    }

    async fn count(&self, api_version: &str, resource: &str) -> Result<usize, Trouble> {
        let request = Request::get(&format!("{}/{resource}", base(api_version)));
        self.ask(Question::Other("count"), move |inside| {
            let said = inside.request(&request)?;
            if said.code == 404 {
                return Ok(0);
            }
            Ok(said.ok()?["items"].as_array().map_or(0, Vec::len))
        })
        .await
    }

    async fn preferred(&self, group: &str) -> Result<Option<String>, Trouble> {
        if group.is_empty() {
            return Ok(Some("v1".to_owned()));
        }
        let request = Request::get(&format!("/apis/{group}"));
        self.ask(Question::Other("preferred"), move |inside| {
            let said = inside.request(&request)?;
            if said.code == 404 {
                return Ok(None);
            }
            let body = said.ok()?;
            Ok(body["preferredVersion"]["groupVersion"].as_str().map(str::to_owned))
        })
        .await
    }

    async fn object(&self, name: &ObjectName) -> Result<Option<Value>, Trouble> {
        self.ask(Question::Other("object"), |inside| {
            let Some(kind) = inside.kind(name)? else { return Ok(None) };
            let namespace = match name.namespace.as_str() {
                "" if kind.namespaced => "default",
                namespace => namespace,
            };
            let found = inside.store()?.get(&kind.name, namespace, &name.name);
            Ok(found.map(|object| object.as_ref().clone()))
        })
        .await
    }

    async fn apply(&self, object: &Value, manager: &str, how: Apply) -> Result<Value, Trouble> {
        let name = named(object);
        let act = Act::Apply {
            kind: name.kind.clone(),
            namespace: name.namespace.clone(),
            name: name.name.clone(),
        };
        let Apply { force, dry_run } = how;
        let dry = if dry_run { "&dryRun=All" } else { "" };
        let query = format!("fieldManager={manager}&force={force}{dry}");
        let object = object.clone();
        self.act(act, move |inside| {
            let Some(path) = inside.path(&name)? else {
                let text = format!("{name} cannot be applied: there is no such kind");
                return Err(Trouble::new(FailureKind::Refused, &text));
            };
            let request = Request::new(Method::Patch, &format!("{path}?{query}"))
                .with_json(&object)
                .with_content_type("application/apply-patch+yaml");
            inside.request(&request)?.ok()
        })
        .await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), Trouble> {
        let act = Act::Delete {
            kind: name.kind.clone(),
            namespace: name.namespace.clone(),
            name: name.name.clone(),
        };
        let name = name.clone();
        self.act(act, move |inside| {
            let Some(path) = inside.path(&name)? else { return Ok(()) };
            let request = Request::new(Method::Delete, &path)
                .with_json(&json!({"propagationPolicy": "Background"}));
            let said = inside.request(&request)?;
            if said.code == 404 { Ok(()) } else { said.ok().map(|_| ()) }
        })
        .await
    }
}
