//! Asking for a pod to go, by the eviction API only (rule 6).

use kube::core::Status;
use serde_json::{Value, json};
use upgrade_core::workload::PodName;
use upgrade_engine::io::Trouble;
use upgrade_engine::io::kubernetes::Evicted;

use super::access::Access;
use super::send::{Call, Refused, is_budget, segment};

/// Asks for this very pod: another that came to have its name is left alone.
pub(super) async fn evict(access: &Access, pod: &PodName, uid: &str) -> Result<Evicted, Trouble> {
    let PodName { namespace, name } = pod;
    let (in_namespace, of_pod) = (segment(namespace), segment(name));
    let call = Call::post(
        format!("/api/v1/namespaces/{in_namespace}/pods/{of_pod}/eviction"),
        &json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }),
    );
    match access.send::<Value>(&call).await {
        Ok(_) => Ok(Evicted::Accepted),
        Err(Refused::Status(status)) => match answer(pod, &status) {
            Some(answer) => Ok(answer),
            None => Err(Refused::Status(status).trouble(&format!("evicting {pod}"))),
        },
        Err(refused) => Err(refused.trouble(&format!("evicting {pod}"))),
    }
}

/// What a refusal means; `None` if it is none of the usual ones.
fn answer(pod: &PodName, status: &Status) -> Option<Evicted> {
    let causes = || status.details.iter().flat_map(|details| &details.causes);
    let blocked = |budget, why: &str| Some(Evicted::Blocked { budget, why: why.to_owned() });
    match status.code {
        404 => Some(Evicted::Gone),
        // The precondition: a pod of this name, and not this one.
        409 if status.message.contains("UID") => Some(Evicted::Gone),
        429 => {
            let cause = causes().find(|cause| is_budget(cause));
            let words = cause.map_or(status.message.as_str(), |cause| cause.message.as_str());
            blocked(budget(words).map(|name| format!("{}/{name}", pod.namespace)), words)
        }
        // Two budgets count it, and Kubernetes does not evict such a pod at all.
        500 if status.message.contains("PodDisruptionBudget") => blocked(None, &status.message),
        // Its namespace is being deleted, and the pod with it.
        403 if causes().any(|cause| cause.reason == "NamespaceTerminating") => {
            blocked(None, &status.message)
        }
        _ => None,
    }
}

/// The name in "The disruption budget web needs 2 healthy pods and has 2
/// currently".
fn budget(words: &str) -> Option<&str> {
    let (_, rest) = words.split_once("disruption budget ")?;
    let name = rest.split_whitespace().next()?.trim_matches(['"', ',', '.']);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(value: Value) -> Status {
        serde_json::from_value(value).unwrap()
    }

    fn pod() -> PodName {
        PodName { namespace: "shop".to_owned(), name: "web-1".to_owned() }
    }

    #[test]
    fn a_budget_is_named() {
        // Rule 6: the words of a real API server.
        let refused = status(json!({
            "code": 429,
            "reason": "TooManyRequests",
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": {"causes": [{
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
            }]},
        }));
        let Some(Evicted::Blocked { budget, why }) = answer(&pod(), &refused) else {
            panic!("not blocked");
        };
        assert_eq!(budget.as_deref(), Some("shop/web"));
        assert!(why.contains("needs 2 healthy pods"));
    }

    #[test]
    fn several_budgets_block_without_a_name() {
        let refused = status(json!({
            "code": 500,
            "message": "This pod has more than one PodDisruptionBudget, which the eviction \
                        subresource does not support.",
        }));
        let blocked = answer(&pod(), &refused);
        assert!(matches!(blocked, Some(Evicted::Blocked { budget: None, .. })), "{blocked:?}");
    }

    #[test]
    fn who_is_gone_is_gone() {
        for refused in [
            json!({"code": 404, "message": "pods \"web-1\" not found"}),
            json!({"code": 409, "message": "Precondition failed: UID in precondition: a, UID in \
                                            object meta: b"}),
        ] {
            assert_eq!(answer(&pod(), &status(refused)), Some(Evicted::Gone));
        }
        assert_eq!(answer(&pod(), &status(json!({"code": 403, "message": "no"}))), None);
        assert_eq!(answer(&pod(), &status(json!({"code": 409, "message": "changed"}))), None);
    }
}
