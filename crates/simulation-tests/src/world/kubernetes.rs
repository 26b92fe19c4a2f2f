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
use upgrade_core::snapshot::{CORDON_MARK, KubernetesFacts, NodeName};
use upgrade_core::workload::{Budget, Capacity, Pod, PodName};
use upgrade_engine::io::kubernetes::{Apply, Evicted, ObjectName};
use upgrade_engine::io::kubernetes_error::{RequestError, Status};
use upgrade_engine::io::{Changes, IoError, Kubernetes, Machine};

use super::process_io::ProcessIo;
use super::{Inside, objects};
use crate::trace::{Act, Question};

/// What an API server without etcd says.
const NO_ETCD: &str = "etcdserver: request timed out";

impl Inside {
    /// An API server that answers this request.
    fn door(&mut self) -> Result<NodeIndex, RequestError> {
        let world = &self.world;
        let serves = |node: &NodeIndex| world.api_server_runs(*node);
        let doors: Vec<NodeIndex> = world.present().filter(serves).collect();
        if doors.is_empty() {
            return Err(RequestError::not_sent("connection refused"));
        }
        let door = *self.random.pick(&doors);
        if !self.world.api_server_has_etcd(door) {
            return Err(Status::new(500, NO_ETCD).into());
        }
        match self.world.api_trouble(door).refusal {
            Some(code) => Err(Status::new(code, "a simulated fault").into()),
            None => Ok(door),
        }
    }

    fn store(&mut self) -> Result<&Store, RequestError> {
        self.door()?;
        Ok(self.kubernetes.api().store())
    }

    fn request(&mut self, request: &Request) -> Result<Value, RequestError> {
        self.door()?;
        let now = self.world.now();
        match self.kubernetes.api_mut().request(now, &Caller::admin(), request) {
            Reply::Response { status, body, .. } if status < 300 => {
                Ok(serde_json::from_slice(&body).unwrap_or(Value::Null))
            }
            Reply::Response { status, body, .. } => {
                let said = serde_json::from_slice(&body).unwrap_or_default();
                Err(Status { code: status, ..said }.into())
            }
            Reply::Watch { .. } => Err(RequestError::not_sent("a watch")),
        }
    }

    /// What kind of object it is; `None` if the API server has no such kind.
    fn kind(&mut self, name: &ObjectName) -> Result<Option<Arc<ResourceType>>, RequestError> {
        Ok(self.store()?.types().find_kind(&name.api_version, &name.kind).cloned())
    }

    /// Where an object is; `None` if the API server has no such kind.
    fn path(&mut self, name: &ObjectName) -> Result<Option<String>, RequestError> {
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

/// What there is if the API server says that there is no such thing.
fn unless_missing<T>(answer: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(refused) if refused.is_not_found() => Ok(None),
        Err(refused) => Err(refused),
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

impl Kubernetes for ProcessIo {
    async fn nodes(&self) -> Result<BTreeMap<NodeName, KubernetesFacts>, IoError> {
        self.ask(Question::Nodes, |inside| {
            let store = inside.store()?;
            Ok(store.list(&NODES, None).filter_map(|node| objects::node(node)).collect())
        })
        .await
        .map_err(|refused: RequestError| refused.on_read("the nodes could not be listed"))
    }

    async fn api_server(&self, of: &Machine) -> Result<(), IoError> {
        self.ask(Question::ApiServer(of.name.clone()), |inside| {
            let missing = || RequestError::not_sent("no such machine");
            let node = inside.find(&of.name).ok_or_else(missing)?;
            inside.hangs |= inside.world.is_silent(node);
            if !inside.world.api_server_runs(node) {
                return Err(RequestError::not_sent("connection refused"));
            }
            if !inside.world.api_server_has_etcd(node) {
                return Err(Status::new(500, "/readyz: etcd failed").into());
            }
            Ok(())
        })
        .await
        .map_err(|refused| refused.on_read("its own API server"))
    }

    async fn capacity(&self) -> Result<BTreeMap<NodeName, Capacity>, IoError> {
        self.ask(Question::Other("capacity"), |inside| {
            let store = inside.store()?;
            Ok(store.list(&NODES, None).map(|node| objects::capacity(node)).collect())
        })
        .await
        .map_err(|refused: RequestError| refused.on_read("the nodes could not be listed"))
    }

    async fn set_unschedulable(&self, node: &NodeName, unschedulable: bool) -> Result<(), IoError> {
        let act = Act::Cordon { node: node.clone(), on: unschedulable };
        let (flag, mark) =
            if unschedulable { (json!(true), json!("talos-operator")) } else { Default::default() };
        let request = Request::new(Method::Patch, &format!("/api/v1/nodes/{node}"))
            .with_json(&json!({
                "metadata": {"annotations": {CORDON_MARK: mark}},
                "spec": {"unschedulable": flag},
            }))
            .with_content_type("application/merge-patch+json");
        let done = self.act(act, move |inside| inside.request(&request)).await;
        done.map(|_| ()).map_err(|refused| refused.on_change(&format!("cordoning {node}")))
    }

    async fn pods(&self, on: Option<&NodeName>) -> Result<Vec<Pod>, IoError> {
        self.ask(Question::Other("pods"), |inside| {
            let store = inside.store()?;
            let here = |pod: &&Arc<Value>| {
                on.is_none_or(|node| text(pod, &["spec", "nodeName"]) == node.0)
            };
            Ok(store.list(&PODS, None).filter(here).map(|pod| objects::pod(pod)).collect())
        })
        .await
        .map_err(|refused: RequestError| refused.on_read("the pods could not be listed"))
    }

    async fn budgets(&self) -> Result<Vec<Budget>, IoError> {
        self.ask(Question::Other("budgets"), |inside| {
            let store = inside.store()?;
            Ok(store.list(&POD_DISRUPTION_BUDGETS, None).map(|it| objects::budget(it)).collect())
        })
        .await
        .map_err(|refused: RequestError| refused.on_read("the budgets could not be listed"))
    }

    async fn evict(&self, pod: &PodName, uid: &str) -> Result<Evicted, IoError> {
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
        let node = self.shared.at(|inside| {
            let pod = inside.kubernetes.api().store().get(&PODS, namespace, name)?;
            Some(NodeName(text(pod, &["spec", "nodeName"]).to_owned()))
        });
        let act = Act::Evict { pod: pod.clone(), node };
        match self.act(act, move |inside| inside.request(&request)).await {
            Ok(_) => Ok(Evicted::Accepted),
            Err(refused) => refused.evicted(pod),
        }
    }

    async fn attachments(&self, node: &NodeName) -> Result<Vec<String>, IoError> {
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
        .map_err(|refused: RequestError| refused.on_read("the volumes could not be listed"))
    }

    fn changes(&self) -> Changes {
        self.shared.objects.subscribe()
    }

    async fn deprecated(&self) -> Result<Vec<(String, String)>, IoError> {
        let asked = self.ask(Question::Other("deprecated"), |inside| inside.store().map(|_| ()));
        let asked = asked.await.map_err(|refused| refused.on_read("the metrics could not be read"));
        asked.map(|()| Vec::new())
    }

    async fn count(&self, api_version: &str, resource: &str) -> Result<usize, IoError> {
        let request = Request::get(&format!("{}/{resource}", base(api_version)));
        self.ask(Question::Other("count"), move |inside| {
            let listed = unless_missing(inside.request(&request))?;
            Ok(listed.as_ref().and_then(|it| it["items"].as_array()).map_or(0, Vec::len))
        })
        .await
        .map_err(|refused: RequestError| {
            refused.on_read(&format!("{resource} could not be counted"))
        })
    }

    async fn preferred(&self, group: &str) -> Result<Option<String>, IoError> {
        if group.is_empty() {
            return Ok(Some("v1".to_owned()));
        }
        let request = Request::get(&format!("/apis/{group}"));
        self.ask(Question::Other("preferred"), move |inside| {
            let found = unless_missing(inside.request(&request))?;
            let found =
                found.as_ref().and_then(|it| it["preferredVersion"]["groupVersion"].as_str());
            Ok(found.map(str::to_owned))
        })
        .await
        .map_err(|refused: RequestError| refused.on_read(&format!("the versions of {group}")))
    }

    async fn object(&self, name: &ObjectName) -> Result<Option<Value>, IoError> {
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
        .map_err(|refused: RequestError| refused.on_read(&format!("{name} could not be read")))
    }

    async fn apply(&self, object: &Value, manager: &str, how: Apply) -> Result<Value, IoError> {
        let name = named(object);
        let act = Act::Apply {
            kind: name.kind.clone(),
            namespace: name.namespace.clone(),
            name: name.name.clone(),
        };
        let Apply { force, dry_run } = how;
        let dry = if dry_run { "&dryRun=All" } else { "" };
        let query = format!("fieldManager={manager}&force={force}{dry}");
        let (object, what) = (object.clone(), format!("{name} could not be applied"));
        self.act(act, move |inside| {
            let Some(path) = inside.path(&name)? else {
                return Err(Status::new(404, "there is no such kind").into());
            };
            let request = Request::new(Method::Patch, &format!("{path}?{query}"))
                .with_json(&object)
                .with_content_type("application/apply-patch+yaml");
            inside.request(&request)
        })
        .await
        .map_err(|refused| refused.on_change(&what))
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), IoError> {
        let act = Act::Delete {
            kind: name.kind.clone(),
            namespace: name.namespace.clone(),
            name: name.name.clone(),
        };
        let (name, what) = (name.clone(), format!("{name} could not be deleted"));
        self.act(act, move |inside| {
            let Some(path) = inside.path(&name)? else { return Ok(()) };
            let request = Request::new(Method::Delete, &path)
                .with_json(&json!({"propagationPolicy": "Background"}));
            unless_missing(inside.request(&request)).map(|_| ())
        })
        .await
        .map_err(|refused| refused.on_change(&what))
    }
}
