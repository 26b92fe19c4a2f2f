//! An Image Factory beside the nodes, over plain HTTP: releases, extensions, schematics, and the
//! images of a registry.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::version::{Minor, Version};

use crate::driver::Driver;
use crate::model::{self, Registry};
use crate::schematic::Schematic;

/// Official extensions that every version has, each with a description. The real list is longer;
/// these are the common ones.
const EXTENSIONS: &[(&str, &str)] = &[
    ("siderolabs/amd-ucode", "AMD CPU microcode"),
    ("siderolabs/drbd", "DRBD kernel modules"),
    ("siderolabs/gvisor", "gVisor container runtime"),
    ("siderolabs/i915", "Intel GPU firmware and modules"),
    ("siderolabs/intel-ucode", "Intel CPU microcode"),
    ("siderolabs/iscsi-tools", "iSCSI initiator"),
    ("siderolabs/nonfree-kmod-nvidia-lts", "NVIDIA kernel modules"),
    ("siderolabs/nvidia-container-toolkit-lts", "NVIDIA container toolkit"),
    ("siderolabs/nut-client", "Network UPS Tools client"),
    ("siderolabs/qemu-guest-agent", "QEMU guest agent"),
    ("siderolabs/tailscale", "Tailscale"),
    ("siderolabs/util-linux-tools", "Utilities of util-linux"),
    ("siderolabs/vmtoolsd-guest-agent", "VMware guest agent"),
    ("siderolabs/zfs", "ZFS kernel modules and tools"),
];

/// From this line on, installers come only from an Image Factory.
const FACTORY_ONLY_SINCE: Minor = Minor::new(1, 14);

/// Serves until the task is aborted.
pub async fn serve(listener: TcpListener, driver: Driver) {
    let app = Router::new()
        .route("/schematics", post(create_schematic))
        .route("/schematics/{id}", get(read_schematic))
        .route("/versions", get(versions))
        .route("/version/{version}/extensions/official", get(extensions))
        .route("/version/{version}/overlays/official", get(overlays))
        .route("/v2/", get(StatusCode::OK))
        .route("/v2/{*rest}", any(registry))
        .route("/healthz", get(StatusCode::OK))
        .with_state(Arc::new(driver));
    if let Err(error) = axum::serve(listener, app).await {
        tracing::error!(%error, "the Image Factory stopped");
    }
}

type Shared = State<Arc<Driver>>;

async fn known(driver: &Driver) -> Registry {
    driver.visit(|inside| inside.world.spec().registry.clone()).await.unwrap_or_default()
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    let mut body = serde_json::to_string(value).unwrap_or_default();
    body.push('\n');
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn create_schematic(State(driver): Shared, body: Bytes) -> Response {
    #[derive(Serialize)]
    struct Created {
        id: String,
        schematic: String,
    }
    let Ok(text) = std::str::from_utf8(&body) else {
        return (StatusCode::BAD_REQUEST, "yaml: not UTF-8\n").into_response();
    };
    let schematic = match Schematic::parse(text) {
        Ok(schematic) => schematic,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let (id, resolved) = schematic.resolve();
    let created = Created { id: id.clone(), schematic: resolved.yaml.clone() };
    driver.visit(move |inside| inside.world.add_schematic(id, resolved)).await;
    json(StatusCode::CREATED, &created)
}

async fn read_schematic(State(driver): Shared, Path(id): Path<String>) -> Response {
    match known(&driver).await.schematics.get(&id) {
        Some(model::Schematic { yaml, .. }) => {
            ([(header::CONTENT_TYPE, "application/yaml")], yaml.clone()).into_response()
        }
        None => (StatusCode::NOT_FOUND, "schematic not found\n").into_response(),
    }
}

#[derive(Deserialize)]
struct VersionsQuery {
    broken: Option<String>,
}

async fn versions(State(driver): Shared, Query(query): Query<VersionsQuery>) -> Response {
    let tags: Vec<String> = if query.broken.as_deref() == Some("true") {
        let broken = Catalogue::builtin().broken;
        broken.iter().map(|broken| broken.talos.tag()).collect()
    } else {
        released(&known(&driver).await).iter().map(Version::tag).collect()
    };
    json(StatusCode::OK, &tags)
}

/// The registry lists the newest release of a line; the older ones exist too.
fn released(registry: &Registry) -> Vec<Version> {
    let mut versions = Vec::new();
    for newest in &registry.talos {
        let line = newest.minor();
        let earlier = (0..newest.patch()).filter_map(|patch| parse(&format!("{line}.{patch}")));
        versions.extend(earlier);
        versions.push(newest.clone());
    }
    versions.sort();
    versions.dedup();
    versions
}

fn parse(version: &str) -> Option<Version> {
    version.parse().ok()
}

#[derive(Serialize)]
struct ExtensionInfo {
    name: &'static str,
    #[serde(rename = "ref")]
    reference: String,
    digest: String,
    author: &'static str,
    description: &'static str,
}

async fn extensions(State(driver): Shared, Path(version): Path<String>) -> Response {
    let Some(version) = parse(&version) else {
        return (StatusCode::BAD_REQUEST, "error parsing version\n").into_response();
    };
    if !known(&driver).await.has_talos(&version) {
        return (StatusCode::NOT_FOUND, "version not found\n").into_response();
    }
    let list: Vec<ExtensionInfo> = EXTENSIONS
        .iter()
        .map(|(name, description)| {
            let reference = format!("ghcr.io/{name}:{version}");
            ExtensionInfo {
                name,
                digest: digest(reference.as_bytes()),
                reference,
                author: "Sidero Labs",
                description,
            }
        })
        .collect();
    json(StatusCode::OK, &list)
}

async fn overlays(State(driver): Shared, Path(version): Path<String>) -> Response {
    match parse(&version) {
        Some(version) if known(&driver).await.has_talos(&version) => json(StatusCode::OK, &[(); 0]),
        _ => (StatusCode::NOT_FOUND, "version not found\n").into_response(),
    }
}

/// `/v2/<name>/manifests/<reference>` and `/v2/<name>/tags/list`.
async fn registry(State(driver): Shared, method: Method, Path(rest): Path<String>) -> Response {
    if method != Method::GET && method != Method::HEAD {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let registry = known(&driver).await;
    if let Some((name, reference)) = rest.rsplit_once("/manifests/") {
        return if has_image(&registry, name, reference) {
            manifest(name, reference)
        } else {
            missing("MANIFEST_UNKNOWN", "manifest unknown")
        };
    }
    if let Some(name) = rest.strip_suffix("/tags/list") {
        let tags: Vec<String> = released(&registry)
            .iter()
            .map(Version::tag)
            .filter(|tag| has_image(&registry, name, tag))
            .collect();
        if tags.is_empty() {
            return missing("NAME_UNKNOWN", "repository name not known to registry");
        }
        return json(StatusCode::OK, &serde_json::json!({ "name": name, "tags": tags }));
    }
    missing("UNSUPPORTED", "the operation is unsupported")
}

fn missing(code: &str, message: &str) -> Response {
    let errors = serde_json::json!({ "errors": [{ "code": code, "message": message }] });
    json(StatusCode::NOT_FOUND, &errors)
}

/// Whether an image exists, as an Image Factory or the registries of Talos and
/// Kubernetes would say.
pub fn has_image(registry: &Registry, name: &str, reference: &str) -> bool {
    let Some(version) = reference.strip_prefix('v').and_then(parse) else {
        return false;
    };
    if let Some((kind, schematic)) = name.rsplit_once('/')
        && schematic.len() == 64
    {
        return model::platform::of_kind(kind).is_some()
            && registry.schematics.contains_key(schematic)
            && registry.has_talos(&version);
    }
    match name {
        "siderolabs/installer" => {
            registry.has_talos(&version) && version.minor() < FACTORY_ONLY_SINCE
        }
        "siderolabs/kubelet"
        | "kube-apiserver"
        | "kube-controller-manager"
        | "kube-scheduler"
        | "kube-proxy" => registry.has_kubernetes(&version),
        _ => false,
    }
}

fn manifest(name: &str, reference: &str) -> Response {
    const KIND: &str = "application/vnd.oci.image.index.v1+json";
    let platform = |architecture: &str| {
        serde_json::json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest(format!("{name}:{reference}/{architecture}").as_bytes()),
            "size": 1024,
            "platform": { "os": "linux", "architecture": architecture },
        })
    };
    let index = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": KIND,
        "manifests": [platform("amd64"), platform("arm64")],
    });
    let body = index.to_string();
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
    if let Ok(digest) = HeaderValue::from_str(&digest(body.as_bytes())) {
        headers.insert("docker-content-digest", digest);
    }
    // A HEAD request gets the same headers; axum leaves its body out.
    (headers, body).into_response()
}

fn digest(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_exist() {
        let registry = Registry {
            talos: vec![Version::new(1, 13, 9), Version::new(1, 14, 1)],
            kubernetes: vec![Version::new(1, 34, 5)],
            ..Registry::default()
        };
        let empty = model::EMPTY_SCHEMATIC;
        let has = |name: &str, tag: &str| has_image(&registry, name, tag);
        assert!(has(&format!("metal-installer/{empty}"), "v1.13.9"));
        assert!(has(&format!("metal-installer-secureboot/{empty}"), "v1.13.0"));
        assert!(has(&format!("installer/{empty}"), "v1.14.1"));
        assert!(!has(&format!("metal-installer/{empty}"), "v1.13.10"));
        assert!(!has(&format!("metal-installer/{}", "ab".repeat(32)), "v1.13.9"));
        assert!(!has(&format!("metal-fly/{empty}"), "v1.13.9"));
        assert!(has("siderolabs/installer", "v1.13.9"));
        assert!(!has("siderolabs/installer", "v1.14.1"));
        assert!(has("kube-apiserver", "v1.34.2"));
        assert!(!has("kube-apiserver", "v1.35.0"));
        assert!(!has("kube-apiserver", "1.34.2"));
        assert_eq!(released(&registry).len(), 12);
    }
}
