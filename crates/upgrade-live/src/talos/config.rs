//! The machine's configuration: read, applied, and what is rendered from it.
//! Nothing of its text is in an error (rule 14).

use prost_types::value::Kind;
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use talos_client::config::ApplyMode;
use talos_client::cosi::Resource;
use talos_client::resources::{BootstrapManifests, ExtraManifests, MachineConfig, Manifest};
use talos_client::{Error, Node};
use upgrade_core::image::ImageRef;
use upgrade_core::reason::FailureKind;
use upgrade_engine::io::IoError;
use upgrade_engine::io::machines::{Config, Rendered, Wanted};

use crate::talos_error;

/// Under which name a node shows the configuration that its next boot takes.
const ON_DISK: &str = "persistent";

/// The part of a document that is read; the rest is ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    /// Only the documents beside the first have it.
    kind: Option<String>,
    machine: Option<MachineSection>,
    /// Of an `UnattendedInstallConfig`, which takes the section's place in 1.14.
    installer: Option<Install>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MachineSection {
    install: Option<Install>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Install {
    image: Option<String>,
}

/// The install image of a configuration; `None` if it names none.
pub(super) fn installer(config: &str) -> Result<Option<ImageRef>, IoError> {
    let nonsense = |what: &str| {
        IoError::new(FailureKind::Mismatch, &format!("the machine configuration: {what}"))
    };
    // The parser's own words may quote the text.
    let documents: Vec<Option<Document>> = serde_saphyr::from_multiple(config)
        .map_err(|_| nonsense("it is not the YAML that Talos writes"))?;
    let mut images = documents.into_iter().flatten().filter_map(|document| {
        let Document { kind, machine, installer } = document;
        match kind.as_deref() {
            None => machine?.install?.image,
            Some("UnattendedInstallConfig") => installer?.image,
            Some(_) => None,
        }
    });
    let Some(image) = images.next_back().filter(|image| !image.is_empty()) else {
        return Ok(None);
    };
    image.parse().map(Some).map_err(|_| nonsense("its install image is no image reference"))
}

/// The whole configuration.
pub(super) async fn read(node: &Node) -> Result<Config, IoError> {
    let config = node.get::<MachineConfig>().await.map_err(|error| talos_error::read(&error))?;
    match config {
        Some(config) => Ok(Config(config.spec.0.into_exposed())),
        None => Err(IoError::new(FailureKind::Unavailable, "it has no configuration yet")),
    }
}

/// Gives it another, without a reboot or not at all.
pub(super) async fn apply(node: &Node, config: &Config) -> Result<(), IoError> {
    let applied = node.apply_config(config.0.as_bytes(), ApplyMode::NoReboot).await;
    let applied = applied.map_err(|error| talos_error::act(&error))?;
    for warning in &applied.warnings {
        let warning = upgrade_core::secret::scrub(warning);
        tracing::warn!(node = ?node.address(), %warning, "the node warns about its configuration");
    }
    Ok(())
}

/// Whether the configuration on disk is another than the active one. Nodes show
/// it since Talos 1.10, and only once one was written since their boot; before
/// that both are the same.
pub(super) async fn is_staged(node: &Node) -> Result<bool, IoError> {
    let failed = |error: Error| talos_error::read(&error);
    let on_disk = node.get_id::<MachineConfig>(ON_DISK).await.map_err(failed)?;
    let Some(on_disk) = on_disk else { return Ok(false) };
    let active = node.get::<MachineConfig>().await.map_err(failed)?;
    Ok(active.is_some_and(|active| active.spec.0 != on_disk.spec.0))
}

/// The bootstrap manifests, and what is missing of them.
pub(super) async fn manifests(node: &Node) -> Result<Rendered, IoError> {
    let before = wanted(node).await?;
    let manifests = node.list::<Manifest>().await.map_err(|error| talos_error::read(&error))?;
    // A manifest that was added or removed while the list was read.
    let wanted = wanted(node).await?;
    if before != wanted {
        let text = "the manifests that it is configured with changed while they were read";
        return Err(IoError::new(FailureKind::Unavailable, text));
    }
    let manifests = manifests.into_iter().map(|manifest| {
        let objects = manifest.spec.objects.into_exposed().into_iter();
        (manifest.metadata.id, objects.map(|object| structure(object.fields)).collect())
    });
    Ok(Rendered::new(wanted.as_ref(), manifests.collect()))
}

/// Which manifests the configuration wants; `None` until the node has read it.
async fn wanted(node: &Node) -> Result<Option<Wanted>, IoError> {
    let (own, extra) =
        tokio::try_join!(node.get::<BootstrapManifests>(), node.get::<ExtraManifests>())
            .map_err(|error| talos_error::read(&error))?;
    let (Some(own), Some(extra)) = (own, extra) else { return Ok(None) };
    let BootstrapManifests { proxy, core_dns, flannel, talos_api } = own.spec;
    let extra = extra.spec.names.into_exposed();
    Ok(Some(Wanted { proxy, core_dns, flannel, talos_api, extra }))
}

fn objects(mut manifests: Vec<Resource<Manifest>>) -> impl Iterator<Item = prost_types::Struct> {
    manifests.sort_by(|a, b| a.metadata.id.cmp(&b.metadata.id));
    manifests.into_iter().flat_map(|it| it.spec.objects.into_exposed())
}

/// The image of the kube-proxy that the manifests would run.
pub(super) fn proxy_image(manifests: Vec<Resource<Manifest>>) -> Option<String> {
    let is_daemon_set = |object: &prost_types::Struct| {
        let kind = object.fields.get("kind").and_then(|kind| kind.kind.as_ref());
        matches!(kind, Some(Kind::StringValue(kind)) if kind == "DaemonSet")
    };
    // Read as JSON only if it may be the one: there are many, and they are large.
    let mut sets = objects(manifests).filter(is_daemon_set).map(|it| structure(it.fields));
    let proxy = sets.find(|object| object["metadata"]["name"] == "kube-proxy")?;
    let containers = proxy["spec"]["template"]["spec"]["containers"].as_array()?;
    let container = containers.iter().find(|container| container["name"] == "kube-proxy")?;
    container["image"].as_str().map(str::to_owned)
}

fn structure(fields: impl IntoIterator<Item = (String, prost_types::Value)>) -> Value {
    Value::Object(
        fields.into_iter().map(|(name, value)| (name, json(value))).collect::<Map<_, _>>(),
    )
}

fn json(value: prost_types::Value) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(value),
        Some(Kind::NumberValue(number)) => Value::Number(whole(number)),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(json).collect(),
        Some(Kind::StructValue(inner)) => structure(inner.fields),
    }
}

/// Ports and replicas are whole numbers, which the message has no type for;
/// Kubernetes refuses `80.0` where it wants `80`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "only numbers that survive the way there and back are cast"
)]
fn whole(number: f64) -> Number {
    let cut = number as i64;
    if cut as f64 == number {
        return cut.into();
    }
    Number::from_f64(number).unwrap_or_else(|| 0.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_install_image_is_found_in_either_form() {
        let found = |text: &str| installer(text).unwrap().map(|image| image.to_string());
        let first = "version: v1alpha1\nmachine:\n  token: hunter2\n  install:\n    \
                     image: ghcr.io/siderolabs/installer:v1.12.0\n";
        assert_eq!(found(first).as_deref(), Some("ghcr.io/siderolabs/installer:v1.12.0"));
        let other = "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n";
        assert_eq!(found(&format!("{first}---\n{other}")), found(first));
        assert_eq!(found(other), None);
        let newer = "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\ninstaller:\n  \
                     image: factory.talos.dev/metal-installer/3765:v1.14.1\n";
        let newer = found(&format!("version: v1alpha1\nmachine: {{}}\n---\n{newer}"));
        assert_eq!(newer.as_deref(), Some("factory.talos.dev/metal-installer/3765:v1.14.1"));
    }

    #[test]
    fn errors_quote_nothing() {
        // Rule 14.
        for text in [
            "machine: {token: hunter2",
            "machine: {install: {image: 'hunter2 hunter2'}}",
            "machine: [hunter2]",
        ] {
            let error = installer(text).map(|_| ()).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn numbers_are_whole_where_they_can_be() {
        for (number, text) in
            [(80.0, "80"), (-1.0, "-1"), (0.5, "0.5"), (1e18, "1000000000000000000")]
        {
            assert_eq!(whole(number).to_string(), text);
        }
    }
}
