//! Reviews, which are answered and not stored. Everybody may do everything.

use serde_json::{Value, json};

use super::ApiServer;
use super::body;
use super::dispatch::{Operation, answer as reply};
use crate::api::Reply;
use crate::names::SERVICE_ACCOUNTS;
use crate::object;
use crate::status::Status;

pub(super) fn answer(operation: &Operation<'_>) -> Result<Reply, Status> {
    let (mut object, _) = body::decode(operation)?;
    let kind = operation.kind();
    object::set(&mut object, &["kind"], kind.kind.clone());
    object::set(&mut object, &["apiVersion"], kind.api_version());
    object::metadata(&mut object).remove("namespace");
    let caller = operation.caller;
    let status: Value = match kind.name.plural.as_ref() {
        "tokenreviews" => json!({
            "authenticated": true, "user": {"username": caller.user, "groups": caller.groups},
        }),
        "selfsubjectreviews" => {
            json!({"userInfo": {"username": caller.user, "groups": caller.groups}})
        }
        "selfsubjectrulesreviews" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    };
    object::set(&mut object, &["status"], status);
    Ok(reply(201, &object))
}

impl ApiServer {
    /// A token for a service account: a text that nobody checks.
    pub(super) fn token(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let target = &operation.target;
        self.store.current(&SERVICE_ACCOUNTS, &target.namespace, &target.name)?;
        let mut object: Value = if operation.request.body.is_empty() {
            json!({})
        } else {
            body::parse(&operation.request.body, true).map_err(Status::bad_request)?
        };
        let seconds = object::number(&object, &["spec", "expirationSeconds"]).unwrap_or(3600);
        let seconds = u64::try_from(seconds).unwrap_or(3600);
        let end = self.store.now().plus(std::time::Duration::from_secs(seconds));
        object::set(&mut object, &["kind"], "TokenRequest");
        object::set(&mut object, &["apiVersion"], "authentication.k8s.io/v1");
        let token = format!("token-{}", self.store.random.uuid());
        object::set(&mut object, &["status", "token"], token);
        object::set(&mut object, &["status", "expirationTimestamp"], end.to_text());
        Ok(reply(201, &object))
    }
}
