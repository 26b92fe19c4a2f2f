//! Content negotiation. Every response is JSON; a caller that prefers protobuf and also
//! accepts JSON gets JSON.

use super::query::Query;
use crate::status::Status;

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// The object itself.
    Object,
    /// A table for display.
    Table(Include),
    /// Only the metadata.
    Metadata,
    /// Discovery in one piece.
    Aggregated,
}

/// The part of each object that a table includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Include {
    Metadata,
    Object,
    Nothing,
}

const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The first accepted form that is available.
pub(super) fn negotiate(accept: &str, query: &Query) -> Result<Format, Status> {
    if accept.trim().is_empty() {
        return Ok(Format::Object);
    }
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> =
            parts.map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
        let parameter = |name: &str| {
            parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| *value)
        };
        if !["application/json", "application/*", "*/*"].contains(&media) {
            continue;
        }
        match (parameter("as"), parameter("v")) {
            ("", _) => return Ok(Format::Object),
            ("Table", "v1") => {
                return Ok(Format::Table(match query.get("includeObject") {
                    "Object" => Include::Object,
                    "None" => Include::Nothing,
                    _ => Include::Metadata,
                }));
            }
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "v1") => {
                return Ok(Format::Metadata);
            }
            ("APIGroupDiscoveryList", "v2") => return Ok(Format::Aggregated),
            _ => {}
        }
    }
    Err(Status::not_acceptable(KNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_available_form_is_used() {
        let is = |accept: &str, wanted: Option<Format>| {
            assert_eq!(negotiate(accept, &Query::default()).ok(), wanted, "{accept}");
        };
        is("", Some(Format::Object));
        is("application/vnd.kubernetes.protobuf, application/json", Some(Format::Object));
        is("application/vnd.kubernetes.protobuf,*/*", Some(Format::Object));
        is("application/vnd.kubernetes.protobuf", None);
        is(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            Some(Format::Table(Include::Metadata)),
        );
        is(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            Some(Format::Object),
        );
        is(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Some(Format::Metadata),
        );
        is(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
            Some(Format::Aggregated),
        );
        is("application/xml", None);
    }
}
