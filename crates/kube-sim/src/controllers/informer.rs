//! Queues the objects that a change affects, like an informer.

use std::sync::Arc;

use serde_json::Value;

use super::index::{self, NodeInfo};
use super::{Controllers, Kind, pods, select};
use crate::names::{
    DAEMON_SETS, DEPLOYMENTS, EVENTS, JOBS, LEASES, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, ResourceName, SERVICES, STATEFUL_SETS,
    VOLUME_ATTACHMENTS,
};
use crate::object;
use crate::store::{Change, ChangeKind, Store};

impl Controllers {
    /// Processes the changes since the last call.
    pub(super) fn absorb(&mut self, store: &Store) {
        let seen = self.seen.filter(|seen| *seen >= store.compacted());
        let Some(seen) = seen else { return self.absorb_all(store) };
        if seen == store.revision() {
            return;
        }
        if let Some(changes) = store.changes_since(seen) {
            for change in changes {
                self.absorb_one(store, change);
            }
        }
        self.seen = Some(store.revision());
    }

    /// Queues every object as if it were new.
    fn absorb_all(&mut self, store: &Store) {
        self.index = super::Index::default();
        for kind in store.types().iter() {
            for object in store.list(&kind.name, None) {
                self.absorb_one(
                    store,
                    &Change {
                        revision: object::revision(object),
                        at: store.now(),
                        resource: kind.name.clone(),
                        kind: ChangeKind::Added,
                        object: object.clone(),
                        previous: None,
                    },
                );
            }
        }
        self.seen = Some(store.revision());
    }

    fn absorb_one(&mut self, store: &Store, change: &Change) {
        let Change { resource, object, previous, .. } = change;
        let is_pod = *resource == PODS;
        let gone = change.kind == ChangeKind::Deleted;
        let stays = |previous: &Arc<Value>| !gone && index::same(previous, object, is_pod);
        // Most changes are status updates, which do not affect the index.
        if !previous.as_ref().is_some_and(stays) {
            if let Some(previous) = previous {
                self.index.take(resource, previous, is_pod);
            }
            if !gone {
                self.index.put(resource, object, is_pod);
            }
        }
        self.mark_for_collection(store, change);
        let (namespace, name) = (object::namespace(object), object::name(object));
        let own = [
            (&DEPLOYMENTS, Kind::Deployment),
            (&REPLICA_SETS, Kind::ReplicaSet),
            (&DAEMON_SETS, Kind::DaemonSet),
            (&STATEFUL_SETS, Kind::StatefulSet),
            (&JOBS, Kind::Job),
            (&POD_DISRUPTION_BUDGETS, Kind::Budget),
            (&SERVICES, Kind::Service),
            (&NAMESPACES, Kind::Namespace),
            (&PERSISTENT_VOLUME_CLAIMS, Kind::Claim),
        ];
        if let Some((_, kind)) = own.into_iter().find(|(known, _)| *known == resource) {
            self.enqueue(kind, namespace, name);
        }
        if *resource == EVENTS {
            self.absorb_event(change);
        } else if is_pod {
            self.absorb_pod(store, change);
        } else if *resource == NODES {
            self.absorb_node(store, change);
        } else if *resource == LEASES {
            if !gone {
                self.record_lease(store, object);
            }
        } else if *resource == REPLICA_SETS {
            self.enqueue_controller(object);
        } else if *resource == VOLUME_ATTACHMENTS {
            let volume = object::text(object, &["spec", "source", "persistentVolumeName"]);
            self.enqueue(Kind::Volume, "", volume);
        }
        if gone && *resource == DAEMON_SETS {
            self.models.forget(object);
        }
        if gone && *resource == DEPLOYMENTS {
            self.hashes.forget(object);
        }
        if gone && (name == "default" || name == super::namespace::ROOT_CA) {
            self.enqueue(Kind::Namespace, "", namespace);
        }
        if gone
            && !namespace.is_empty()
            && store.get(&NAMESPACES, "", namespace).is_some_and(|found| object::is_deleting(found))
        {
            self.enqueue(Kind::Namespace, "", namespace);
        }
    }

    fn absorb_pod(&mut self, store: &Store, change: &Change) {
        let Change { object: pod, previous, .. } = change;
        let gone = change.kind == ChangeKind::Deleted;
        let (namespace, name) = (object::namespace(pod), object::name(pod));
        let counts_alike = |previous: &Arc<Value>| !gone && pods::count_alike(previous, pod);
        let counts = !previous.as_ref().is_some_and(counts_alike);
        if counts {
            self.enqueue_controller(pod);
        }
        if let Some(previous) = previous.as_ref().filter(|_| counts) {
            self.enqueue_controller(previous);
        }
        let node = object::text(pod, &["spec", "nodeName"]);
        let key = (namespace.to_owned(), name.to_owned());
        if gone || !node.is_empty() {
            self.parked.remove(&key);
        } else if !object::is_deleting(pod) && !self.parked.contains(&key) {
            self.enqueue(Kind::Place, namespace, name);
        }
        if !node.is_empty() && (gone || select::is_over(pod)) {
            self.unpark();
        }
        let repels = |info: &NodeInfo| {
            !info.ready
                || info.taints().iter().any(|taint| object::text(taint, &["effect"]) == "NoExecute")
        };
        if !node.is_empty() && self.index.nodes.get(node).is_none_or(repels) {
            self.enqueue(Kind::Node, "", node);
        }
        if !counts {
            return;
        }
        let matching = |resource: &ResourceName, test: &dyn Fn(&Value, &Value) -> bool| {
            let mut names = Vec::new();
            for found in store.list(resource, Some(namespace)) {
                if test(found, pod)
                    || previous.as_ref().is_some_and(|previous| test(found, previous))
                {
                    names.push(object::name(found).to_owned());
                }
            }
            names
        };
        for budget in matching(&POD_DISRUPTION_BUDGETS, &|budget, pod| {
            select::matches(object::at(budget, &["spec", "selector"]), pod)
        }) {
            self.enqueue(Kind::Budget, namespace, &budget);
        }
        let selects = |service: &Value, pod: &Value| {
            object::at(service, &["spec", "selector"])
                .and_then(Value::as_object)
                .is_some_and(|wanted| select::simple(wanted, pod))
        };
        if !store.is_lazy() {
            for service in matching(&SERVICES, &selects) {
                self.enqueue(Kind::Service, namespace, &service);
            }
        }
        for claim in super::volumes::claims(pod) {
            if let Some(claim) = store.get(&PERSISTENT_VOLUME_CLAIMS, namespace, claim) {
                let volume = object::text(claim, &["spec", "volumeName"]);
                self.enqueue(Kind::Volume, "", volume);
            }
        }
    }

    fn absorb_node(&mut self, store: &Store, change: &Change) {
        let name = object::name(&change.object);
        let before = if change.kind == ChangeKind::Deleted {
            self.index.nodes.remove(name)
        } else {
            let info = NodeInfo::new(&change.object);
            let before = self.index.nodes.insert(name.to_owned(), info.clone());
            if before.as_ref().is_some_and(|before| before.same(&info)) {
                return;
            }
            before
        };
        if before.is_none() {
            self.record_contact(store.now(), name, store.now());
        }
        self.enqueue(Kind::Node, "", name);
        self.unpark();
        // Each set examines every node, so queue only the sets that the change affects.
        for set in store.list(&DAEMON_SETS, None) {
            if self.models.care(set, before.as_ref(), self.index.nodes.get(name)) {
                self.enqueue(Kind::DaemonSet, object::namespace(set), object::name(set));
            }
        }
    }

    /// Retries the pods that did not fit on any node.
    fn unpark(&mut self) {
        for (namespace, name) in std::mem::take(&mut self.parked) {
            self.enqueue(Kind::Place, &namespace, &name);
        }
    }

    fn enqueue_controller(&mut self, object: &Value) {
        let Some(owner) = select::controller(object) else { return };
        let kind = match object::text(owner, &["kind"]) {
            "Deployment" => Kind::Deployment,
            "ReplicaSet" => Kind::ReplicaSet,
            "DaemonSet" => Kind::DaemonSet,
            "StatefulSet" => Kind::StatefulSet,
            "Job" => Kind::Job,
            _ => return,
        };
        self.enqueue(kind, object::namespace(object), object::text(owner, &["name"]));
    }
}
