//! Request bodies.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value, json};

use super::dispatch::Operation;
use crate::object;
use crate::protobuf;
use crate::schema::{self, Schema};
use crate::status::Status;
use crate::store::unknown;

const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Parses JSON or protobuf, or YAML where that is allowed.
pub(super) fn parse(body: &Bytes, yaml: bool) -> Result<Value, String> {
    if body.starts_with(protobuf::MAGIC) {
        return protobuf::decode(body).ok_or_else(|| "unreadable protobuf".to_owned());
    }
    let error = match serde_json::from_slice(body) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if yaml {
        let text = String::from_utf8_lossy(body);
        return serde_saphyr::from_str(&text).map_err(|error| error.to_string());
    }
    Err(words(&error))
}

/// Go's message for truncated JSON; for other errors, the position.
fn words(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
}

/// The start of a body, for the error message.
fn summary(body: &[u8]) -> String {
    const LONGEST: usize = 30;
    let start = body.get(..LONGEST).unwrap_or(body);
    let more = if body.len() > LONGEST { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => {
            let mut hex = String::new();
            for byte in start {
                let _ = write!(hex, "{byte:02x}");
            }
            format!("{hex}{more}")
        }
    }
}

/// The error for a body that is not an object of any kind.
fn unrecognized(kind: &str, why: &str, body: &[u8]) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; \
         json parse error: {why} ({})",
        summary(body)
    ))
}

/// Removes null fields: built-in kinds treat them as absent.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, inner| !inner.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// The object that a caller sends to be stored, and warnings about it.
pub(super) fn decode(operation: &Operation<'_>) -> Result<(Value, Vec<String>), Status> {
    let request = operation.request;
    let media = request.content_type.split(';').next().unwrap_or_default().trim();
    let yaml = media == "application/yaml";
    let binary = media == "application/vnd.kubernetes.protobuf";
    if !yaml && !binary && !["", "application/json"].contains(&media) {
        return Err(Status::unsupported_media_type(KNOWN));
    }
    let kind = operation.kind();
    let mut object = parse(&request.body, yaml)
        .map_err(|error| unrecognized(&kind.kind, &error, &request.body))?;
    if object.is_null() {
        object = json!({});
    }
    if kind.definition.is_none() {
        without_nulls(&mut object);
    }
    let is = match &object {
        Value::Object(_) => return check(operation, object),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    let why = format!(
        "json: cannot unmarshal {is} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    );
    Err(unrecognized(&kind.kind, &why, &request.body))
}

/// The checks of every incoming object.
pub(super) fn check(
    operation: &Operation<'_>,
    object: Value,
) -> Result<(Value, Vec<String>), Status> {
    let kind = operation.kind();
    let mut object = object;
    check_kind(operation, &object)?;
    let schema = Schema::of_version(kind, &operation.view.version);
    if kind.definition.is_none()
        && let Some(wrong) = unknown::mistyped(&object, schema, &kind.kind)
    {
        return Err(Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {wrong}",
            kind.kind, operation.view.version, kind.kind
        )));
    }
    let warnings = check_unknown(operation, &mut object, schema)?;
    object = operation.view.incoming(object);
    name_and_namespace(operation, &mut object)?;
    Ok((object, warnings))
}

fn check_kind(operation: &Operation<'_>, object: &Value) -> Result<(), Status> {
    let kind = operation.kind();
    let wanted = kind.api_version_of(&operation.view.version);
    let (found, version) = (object::text(object, &["kind"]), object::text(object, &["apiVersion"]));
    if (found.is_empty() || found == kind.kind) && (version.is_empty() || version == wanted) {
        return Ok(());
    }
    let (group, short) = version.split_once('/').unwrap_or(("", version));
    if kind.definition.is_none() && schema::definition_name(group, short, found).is_none() {
        return Err(Status::bad_request(format!(
            "{found} in version {short:?} cannot be handled as a {}: no kind {found:?} is registered \
             for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"",
            kind.kind
        )));
    }
    if found == kind.kind {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({wanted})"
        )));
    }
    Err(Status::bad_request(format!(
        "{found} in version {short:?} cannot be handled as a {}: converting ({short}.{found}) to \
         ({}.{}): unknown conversion",
        kind.kind,
        if kind.name.group.is_empty() {
            "core"
        } else {
            kind.name.group.split('.').next().unwrap_or_default()
        },
        kind.kind
    )))
}

/// Removes unknown fields; whether they are an error, a warning or ignored is the caller's choice.
fn check_unknown(
    operation: &Operation<'_>,
    object: &mut Value,
    schema: Schema<'_>,
) -> Result<Vec<String>, Status> {
    let found = unknown::prune(object, schema);
    let warnings: Vec<String> =
        found.iter().map(|field| format!("unknown field {field:?}")).collect();
    match operation.query.get("fieldValidation") {
        "Strict" if !warnings.is_empty() => {
            let kind = operation.kind();
            let words = warnings.join(", ");
            Err(Status::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: strict decoding error: {words}",
                kind.kind, operation.view.version, kind.kind
            )))
        }
        "Ignore" => Ok(Vec::new()),
        _ => Ok(warnings),
    }
}

/// Takes name and namespace from the path; the object's own must match.
fn name_and_namespace(operation: &Operation<'_>, object: &mut Value) -> Result<(), Status> {
    let target = &operation.target;
    let namespace = object::namespace(object);
    if operation.kind().namespaced {
        if !namespace.is_empty() && namespace != target.namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        object::set(object, &["metadata", "namespace"], json!(target.namespace));
    }
    if !target.name.is_empty() {
        let name = object::name(object);
        if name.is_empty() && operation.request.method == crate::api::Method::Put {
            return Err(Status::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                target.name
            )));
        }
        if !name.is_empty() && name != target.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                target.name
            )));
        }
        object::set(object, &["metadata", "name"], json!(target.name));
    }
    Ok(())
}
