//! Errors of the API server: a code, a reason and a message.

use serde_json::{Map, Value, json};

use crate::names::ResourceName;

/// An error, or the outcome of an operation that returns no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: String,
    /// What the status is about.
    pub details: Option<Box<Details>>,
}

/// What a status is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The resource, or the kind if the object is invalid.
    pub kind: String,
    /// The object's UID.
    pub uid: String,
    /// The individual causes.
    pub causes: Vec<Cause>,
    /// How long to wait before a retry.
    pub retry_after_seconds: u32,
}

/// One cause of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: String,
    /// The field that it is about.
    pub field: String,
}

impl Cause {
    /// A value that is not allowed, shown in the message.
    pub fn invalid(field: &str, value: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {value}: {why}");
        Self { reason: "FieldValueInvalid", message, field: field.to_owned() }
    }

    /// A field that must be there.
    pub fn required(field: &str, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self { reason: "FieldValueRequired", message, field: field.to_owned() }
    }

    /// A field that must not be set or must not change.
    pub fn forbidden(field: &str, why: &str) -> Self {
        let message = format!("Forbidden: {why}");
        Self { reason: "FieldValueForbidden", message, field: field.to_owned() }
    }
}

impl Cause {
    /// A value outside the supported ones.
    pub(crate) fn unsupported(field: &str, value: &str, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
        let message =
            format!("Unsupported value: {value:?}: supported values: {}", known.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.to_owned() }
    }
}

impl Status {
    fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(mut self, resource: &ResourceName, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.plural.to_string(),
            ..Details::default()
        }));
        self
    }

    /// 404: there is no such object.
    pub fn not_found(resource: &ResourceName, name: &str) -> Self {
        Self::plain(404, "NotFound", format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// 404: there is no such resource.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        let details = Some(Box::default());
        Self { details, ..Self::plain(404, "NotFound", message) }
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &ResourceName, name: &str) -> Self {
        let message = format!("{resource} {name:?} already exists");
        Self::plain(409, "AlreadyExists", message).about(resource, name)
    }

    /// 409: the operation conflicts with the object's state.
    pub fn conflict(resource: &ResourceName, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::plain(409, "Conflict", message).about(resource, name)
    }

    /// 409: the object has changed since the caller read it.
    pub fn modified(resource: &ResourceName, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// 400: the request is invalid.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    /// 403: not allowed.
    pub fn forbidden(resource: &ResourceName, name: &str, why: &str) -> Self {
        let message = format!("{resource} {name:?} is forbidden: {why}");
        Self::plain(403, "Forbidden", message).about(resource, name)
    }

    /// 405: the resource does not support the verb.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let details = Some(Box::default());
        Self { details, ..Self::plain(405, "MethodNotAllowed", message) }
    }

    /// 406: none of the accepted media types is available.
    pub fn not_acceptable(known: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {known}");
        let details = Some(Box::default());
        Self { details, ..Self::plain(406, "NotAcceptable", message) }
    }

    /// 415: the body has an unsupported media type.
    pub fn unsupported_media_type(known: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {known}"
        );
        Self::plain(415, "UnsupportedMediaType", message)
    }

    /// 415: the patch has an unsupported media type.
    pub(crate) fn unsupported_patch() -> Self {
        let details = Some(Box::default());
        Self { details, ..Self::plain(415, "UnsupportedMediaType", "415: Unsupported Media Type") }
    }

    /// 422: the outcome of a patch cannot be read as an object.
    pub(crate) fn bad_patch(patched: &str, why: &str) -> Self {
        Self::invalid("", "", "", vec![Cause::invalid("patch", &json!(patched), why)])
    }

    /// 500 with only a message and no reason.
    pub(crate) fn failure(message: impl Into<String>) -> Self {
        Self::plain(500, "", message)
    }

    /// 410: the version that the caller continues from is no longer available.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message)
    }

    /// 422: the object is invalid.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut messages = Vec::new();
        for cause in &causes {
            let words = format!("{}: {}", cause.field, cause.message);
            // A cause that two checks found is reported once.
            if !messages.contains(&words) {
                messages.push(words);
            }
        }
        let words = match messages.as_slice() {
            [] => "<nil>".to_owned(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        };
        let message = format!("{qualified} {name:?} is invalid: {words}");
        Self { details: Some(Box::new(details)), ..Self::plain(422, "Invalid", message) }
    }

    /// 409: other managers own the fields with other values.
    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        let details = Some(Box::new(Details { causes, ..Details::default() }));
        Self { details, ..Self::plain(409, "Conflict", message) }
    }

    /// 429: the budget allows no further disruption.
    pub fn too_many_disruptions(message: &str, budget: &str, retry: u32) -> Self {
        let cause =
            Cause { reason: "DisruptionBudget", message: budget.to_owned(), field: String::new() };
        let details = Some(Box::new(Details {
            causes: vec![cause],
            retry_after_seconds: retry,
            ..Details::default()
        }));
        Self { details, ..Self::plain(429, "TooManyRequests", message) }
    }

    /// 504: the requested version is newer than the current one.
    pub fn too_large_version(wanted: u64, current: u64) -> Self {
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = Some(Box::new(Details {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..Details::default()
        }));
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Self { details, ..Self::plain(504, "Timeout", message) }
    }

    /// 200: the operation succeeded and returns no object.
    pub fn success(resource: &ResourceName, name: &str, uid: &str) -> Self {
        let mut status = Self::plain(200, "", "").about(resource, name);
        if let Some(details) = &mut status.details {
            uid.clone_into(&mut details.uid);
        }
        status
    }

    /// 500: internal error.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = format!("Internal error occurred: {}", message.into());
        Self::plain(500, "InternalError", message)
    }

    /// The JSON object in the response body.
    pub fn to_value(&self) -> Value {
        let Self { code, reason, message, details } = self;
        let outcome = if *code < 300 { "Success" } else { "Failure" };
        let mut object = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": outcome,
        });
        if *code >= 300 {
            object["message"] = json!(message);
            object["code"] = json!(code);
        }
        if !reason.is_empty() {
            object["reason"] = json!(reason);
        }
        if let Some(details) = details {
            object["details"] = details.to_value();
        }
        object
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let Self { name, group, kind, uid, causes, retry_after_seconds } = self;
        let mut map = Map::new();
        for (field, text) in [("name", name), ("group", group), ("kind", kind), ("uid", uid)] {
            if !text.is_empty() {
                map.insert(field.to_owned(), json!(text));
            }
        }
        if !causes.is_empty() {
            let cause = |Cause { reason, message, field }: &Cause| {
                let mut cause = json!({"reason": reason, "message": message});
                if !field.is_empty() {
                    cause["field"] = json!(field);
                }
                cause
            };
            map.insert("causes".to_owned(), causes.iter().map(cause).collect());
        }
        if *retry_after_seconds > 0 {
            map.insert("retryAfterSeconds".to_owned(), json!(retry_after_seconds));
        }
        Value::Object(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{DEPLOYMENTS, PODS};

    #[test]
    fn a_status_is_what_kubectl_reads() {
        assert_eq!(
            Status::not_found(&PODS, "x").to_value(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "pods \"x\" not found", "reason": "NotFound",
                "details": {"name": "x", "kind": "pods"}, "code": 404,
            })
        );
        assert_eq!(
            Status::already_exists(&DEPLOYMENTS, "d").message,
            "deployments.apps \"d\" already exists"
        );
        let causes = vec![Cause::required("spec.x", ""), Cause::forbidden("spec.y", "no")];
        assert_eq!(
            Status::invalid("apps", "Deployment", "d", causes).message,
            "Deployment.apps \"d\" is invalid: [spec.x: Required value, spec.y: Forbidden: no]"
        );
    }
}
