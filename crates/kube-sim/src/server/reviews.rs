//! Reviews, which are answered but not stored, and tokens.

use serde_json::{Value, json};

use super::ApiServer;
use super::authorize::{self, RequestAttributes};
use super::body;
use super::dispatch::{Operation, answer as reply};
use crate::api::{Caller, Reply};
use crate::names::SERVICE_ACCOUNTS;
use crate::object;
use crate::status::Status;

/// The attributes that a review checks.
fn attributes(spec: &Value) -> RequestAttributes {
    let of = |part: &str, field: &str| object::text(spec, &[part, field]).to_owned();
    let resource = |field: &str| of("resourceAttributes", field);
    RequestAttributes {
        verb: resource("verb") + &of("nonResourceAttributes", "verb"),
        group: resource("group"),
        resource: resource("resource"),
        subresource: resource("subresource"),
        namespace: resource("namespace"),
        name: resource("name"),
        path: of("nonResourceAttributes", "path"),
    }
}

/// The user that a review checks.
fn subject(spec: &Value) -> Caller {
    let groups = object::list(spec, &["groups"]).iter().filter_map(Value::as_str);
    Caller {
        user: object::text(spec, &["user"]).to_owned(),
        groups: groups.map(str::to_owned).collect(),
    }
}

impl ApiServer {
    pub(super) fn review(&self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let (mut object, _) = body::decode(operation)?;
        let kind = operation.kind();
        object::set(&mut object, &["kind"], kind.kind.clone());
        object::set(&mut object, &["apiVersion"], kind.api_version());
        object::metadata(&mut object).remove("namespace");
        let caller = operation.caller;
        let spec = &object["spec"];
        let user = |caller: &Caller| json!({"username": caller.user, "groups": caller.groups});
        let status: Value = match kind.name.plural.as_ref() {
            "tokenreviews" => match self.account_of(object::text(spec, &["token"])) {
                Some(account) => json!({"authenticated": true, "user": user(&account)}),
                None => json!({"user": {}, "error": "[invalid bearer token]"}),
            },
            "selfsubjectreviews" => json!({"userInfo": user(caller)}),
            "selfsubjectrulesreviews" => {
                let namespace = object::text(spec, &["namespace"]);
                let rules = authorize::rules_of(&self.store, caller, namespace, &mut Vec::new());
                let (paths, resources): (Vec<Value>, Vec<Value>) =
                    rules.into_iter().partition(|rule| rule.get("nonResourceURLs").is_some());
                json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
            }
            plural => {
                let asked = if plural.starts_with("self") { caller.clone() } else { subject(spec) };
                match authorize::decide(&self.store, &asked, &attributes(spec)) {
                    Ok(()) => json!({"allowed": true}),
                    Err(why) if why.is_empty() => json!({"allowed": false}),
                    Err(why) => json!({"allowed": false, "reason": why}),
                }
            }
        };
        object::set(&mut object, &["status"], status);
        Ok(reply(201, &object))
    }

    /// Creates a token for a service account.
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
        let token = self.make_token(&target.namespace, &target.name, end);
        object::set(&mut object, &["status", "token"], token);
        object::set(&mut object, &["status", "expirationTimestamp"], end.to_text());
        Ok(reply(201, &object))
    }
}
