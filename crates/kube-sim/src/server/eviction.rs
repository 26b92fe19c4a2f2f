//! Eviction, which respects budgets, and binding.

use std::sync::Arc;

use serde_json::{Value, json};

use super::ApiServer;
use super::body;
use super::delete;
use super::dispatch::{Operation, answer};
use crate::api::Reply;
use crate::controllers::conditions;
use crate::names::{POD_DISRUPTION_BUDGETS, PODS};
use crate::object;
use crate::selector::LabelSelector;
use crate::status::Status;
use crate::store::{Store, Write};

const MESSAGE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// The retry delay, in seconds, while a budget's numbers are unknown.
const RETRY: u32 = 10;

impl ApiServer {
    pub(super) fn evict(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let target = &operation.target;
        let eviction = if operation.request.body.is_empty() {
            json!({})
        } else {
            body::parse(&operation.request.body, true).map_err(Status::bad_request)?
        };
        let (version, kind) =
            (object::text(&eviction, &["apiVersion"]), object::text(&eviction, &["kind"]));
        if !["", "Eviction"].contains(&kind) {
            let short = version.rsplit('/').next().unwrap_or_default();
            return Err(Status::bad_request(format!(
                "{kind} in version {short:?} cannot be handled as a Eviction: converting \
                 ({short}.{kind}) to (policy.Eviction): unknown conversion"
            )));
        }
        if object::name(&eviction) != target.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let given = eviction.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
        let dry_run = operation.write.dry_run
            || object::list(&given, &["dryRun"]).iter().any(|mode| mode == "All");
        let write = Write { dry_run, ..operation.write.clone() };
        let options = delete::from_value(&given)?;
        self.store.evict(&write, &target.namespace, &target.name, &options)?;
        let success = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        });
        Ok(answer(201, &success))
    }

    pub(super) fn bind(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let target = &operation.target;
        let binding = body::parse(&operation.request.body, true).map_err(Status::bad_request)?;
        let node = object::text(&binding, &["target", "name"]).to_owned();
        let pod = self.store.current(&PODS, &target.namespace, &target.name)?;
        let bound = object::text(pod, &["spec", "nodeName"]);
        let refuse = |why: &str| {
            Err(Status::conflict(
                &crate::names::ResourceName::new("", "pods/binding"),
                &target.name,
                why,
            ))
        };
        if object::is_deleting(pod) {
            return refuse(&format!(
                "pod {} is being deleted, cannot be assigned to a host",
                target.name
            ));
        }
        if !bound.is_empty() {
            let why = format!("pod {} is already assigned to node {bound:?}", target.name);
            return refuse(&why);
        }
        self.store.bind(&operation.write, &target.namespace, &target.name, &node)?;
        let success = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        });
        Ok(answer(201, &success))
    }
}

impl Store {
    /// Evicts a pod if its budget allows, and counts the disruption.
    pub fn evict(
        &mut self,
        write: &Write,
        namespace: &str,
        name: &str,
        options: &crate::store::DeleteOptions,
    ) -> Result<(), Status> {
        let pod = self.current(&PODS, namespace, name)?.clone();
        let phase = object::text(&pod, &["status", "phase"]);
        // Evicting a finished, pending or terminating pod disrupts nothing.
        let harmless =
            ["Succeeded", "Failed", "Pending"].contains(&phase) || object::is_deleting(&pod);
        if !harmless && let Some(budget) = self.budget_of(&pod)? {
            let healthy = object::number(&budget, &["status", "currentHealthy"]).unwrap_or(0);
            let desired = object::number(&budget, &["status", "desiredHealthy"]).unwrap_or(0);
            let policy = object::text(&budget, &["spec", "unhealthyPodEvictionPolicy"]);
            let spare =
                !is_ready(&pod) && (policy == "AlwaysAllow" || healthy >= desired && desired > 0);
            if !spare {
                self.charge(write, &budget, name)?;
            }
        }
        self.delete(write, &PODS, namespace, name, options)?;
        Ok(())
    }

    /// The budget that covers a pod.
    fn budget_of(&self, pod: &Value) -> Result<Option<Arc<Value>>, Status> {
        let budgets: Vec<&Arc<Value>> = self
            .list(&POD_DISRUPTION_BUDGETS, Some(object::namespace(pod)))
            .filter(|budget| {
                let selector = LabelSelector::of(object::at(budget, &["spec", "selector"]));
                selector.is_some_and(|selector| selector.matches(pod))
            })
            .collect();
        match budgets.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some((*one).clone())),
            _ => Err(Status {
                code: 500,
                reason: "",
                message: "This pod has more than one PodDisruptionBudget, which the eviction \
                          subresource does not support."
                    .to_owned(),
                details: None,
            }),
        }
    }

    /// Uses one allowed disruption of a budget.
    fn charge(&mut self, write: &Write, budget: &Value, pod: &str) -> Result<(), Status> {
        let name = object::name(budget);
        let number = |path: &[&str]| object::number(budget, path).unwrap_or(0);
        if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
            let why =
                format!("The disruption budget {name} is still being processed by the server.");
            return Err(Status::too_many_disruptions(MESSAGE, &why, RETRY));
        }
        let allowed = number(&["status", "disruptionsAllowed"]);
        if allowed < 0 {
            let why = "pdb disruptions allowed is negative";
            return Err(Status::forbidden(&POD_DISRUPTION_BUDGETS, name, why));
        }
        if allowed == 0 {
            return Err(Status::too_many_disruptions(MESSAGE, &refusal(budget), 0));
        }
        let now = self.now().to_text();
        let namespace = object::namespace(budget);
        let charge = |budget: &mut Value| {
            object::set(budget, &["status", "disruptionsAllowed"], allowed - 1);
            object::set(budget, &["status", "disruptedPods", pod], now.as_str());
        };
        let write = Write { manager: "kube-apiserver".to_owned(), ..write.clone() };
        self.modify_status(&write, &POD_DISRUPTION_BUDGETS, namespace, name, charge)?;
        Ok(())
    }

    /// Binds a pod to a node.
    pub fn bind(
        &mut self,
        write: &Write,
        namespace: &str,
        name: &str,
        node: &str,
    ) -> Result<Arc<Value>, Status> {
        let kind = self.kind(&PODS)?;
        let old = self.current(&PODS, namespace, name)?.clone();
        let mut pod = old.as_ref().clone();
        object::set(&mut pod, &["spec", "nodeName"], node);
        let condition = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": self.now().to_text(),
        });
        let mut conditions: Vec<Value> = object::list(&pod, &["status", "conditions"])
            .iter()
            .filter(|condition| object::text(condition, &["type"]) != "PodScheduled")
            .cloned()
            .collect();
        conditions.push(condition);
        object::set(&mut pod, &["status", "conditions"], conditions);
        Ok(self.put(write, &kind, Some(old), pod))
    }
}

/// Why a budget allows nothing: its condition or its numbers.
fn refusal(budget: &Value) -> String {
    let name = object::name(budget);
    let number = |path: &[&str]| object::number(budget, path).unwrap_or(0);
    let condition = conditions::get(budget, "DisruptionAllowed").unwrap_or(&Value::Null);
    let [is, reason, message] =
        ["status", "reason", "message"].map(|field| object::text(condition, &[field]));
    let explained = is == "False" && !message.is_empty();
    let (desired, healthy) =
        (number(&["status", "desiredHealthy"]), number(&["status", "currentHealthy"]));
    if explained && reason == "SyncFailed" {
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it \
             failed sync: {message}"
        )
    } else if healthy <= desired {
        format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    } else if explained {
        format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }
}

fn is_ready(pod: &Value) -> bool {
    object::list(pod, &["status", "conditions"]).iter().any(|condition| {
        object::text(condition, &["type"]) == "Ready"
            && object::text(condition, &["status"]) == "True"
    })
}
