//! Manifests in the configuration beside Talos's own: inline text, or the URL of a file.
//!
//! A file is downloaded after each boot and kept in memory. A failed download leaves no resource,
//! while the node reports ready; it retries by itself. A downloaded file stays until the next boot,
//! even if the original changes.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::World;
use super::super::api::NodeIndex;
use super::super::config::documents;
use super::super::fault::FaultKind;
use super::super::node::Power;
use super::super::schedule::Due;

/// How long a node waits before it retries a download.
const RETRY: Duration = Duration::from_secs(20);

/// One extra manifest.
#[derive(Clone, Serialize, Deserialize)]
pub(in super::super) struct Extra {
    /// Its name among all manifests: `{priority}-{name}`.
    pub(in super::super) id: String,
    pub(in super::super) priority: String,
    pub(in super::super) name: String,
    /// The URL of a file; `None` for inline text.
    pub(in super::super) url: Option<String>,
    /// The text (rule 14: it may hold keys).
    pub(in super::super) text: String,
}

impl Extra {
    fn new(priority: &str, name: &str, url: Option<&str>, text: &str) -> Self {
        Self {
            id: format!("{priority}-{name}"),
            priority: priority.to_owned(),
            name: name.to_owned(),
            url: url.map(str::to_owned),
            text: text.to_owned(),
        }
    }

    /// The extra manifests of a configuration, in Talos's order.
    pub(in super::super) fn read(config: &[Value]) -> Vec<Self> {
        let mut all = Vec::new();
        let at = |path: &'static str| config.iter().filter_map(move |it| it.pointer(path));
        let texts = |list: &Value| -> Vec<String> {
            let items = list.as_array().into_iter().flatten();
            items.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
        };
        if at("/cluster/network/cni/name").any(|name| name == "custom") {
            for url in at("/cluster/network/cni/urls").flat_map(texts) {
                all.push(Self::new("05", &url, Some(&url), ""));
            }
        }
        if at("/cluster/externalCloudProvider/enabled").any(|enabled| *enabled == true) {
            for url in at("/cluster/externalCloudProvider/manifests").flat_map(texts) {
                all.push(Self::new("30", &url, Some(&url), ""));
            }
        }
        for url in at("/cluster/extraManifests").flat_map(texts) {
            all.push(Self::new("99", &url, Some(&url), ""));
        }
        let inline = at("/cluster/inlineManifests").filter_map(Value::as_array).flatten();
        for item in inline {
            let text = |key: &str| item[key].as_str().unwrap_or_default();
            all.push(Self::new("99", text("name"), None, text("contents")));
        }
        for document in config {
            let text = |key: &str| document[key].as_str().unwrap_or_default();
            match text("kind") {
                "KubeExternalManifestConfig" => {
                    all.push(Self::new("99", text("name"), Some(text("url")), ""));
                }
                "KubeInlineManifestConfig" => {
                    all.push(Self::new("99", text("name"), None, text("manifest")));
                }
                _ => {}
            }
        }
        all
    }
}

/// The objects of a manifest. A list is split into its items, as nodes do.
fn objects(text: &str) -> Vec<Value> {
    let objects = documents(text).unwrap_or_default().into_iter();
    let objects = objects.flat_map(|object| match object.get("items") {
        Some(Value::Array(items)) => items.clone(),
        _ => vec![object],
    });
    objects.filter(|object| object.as_object().is_some_and(|it| !it.is_empty())).collect()
}

impl World {
    /// The extra manifests that a control plane has.
    pub(super) fn extra_manifests(&self, node: NodeIndex) -> Vec<super::Manifest> {
        let here = &self.nodes[node.0];
        let there =
            |extra: &&Extra| extra.url.as_ref().is_none_or(|url| here.downloads.contains_key(url));
        let extras = here.config.extra_manifests().iter().filter(there);
        let text = |extra: &Extra| match &extra.url {
            Some(url) => here.downloads[url].clone(),
            None => extra.text.clone(),
        };
        extras.map(|extra| (extra.id.clone(), objects(&text(extra)))).collect()
    }

    /// The extra manifests that a control plane should have, including failed downloads: the truth
    /// for a referee.
    pub(super) fn wanted_manifests(&self, node: NodeIndex) -> Vec<super::Manifest> {
        let here = &self.nodes[node.0];
        let text = |extra: &Extra| match &extra.url {
            Some(url) => self.spec.files.get(url).cloned().unwrap_or_default(),
            None => extra.text.clone(),
        };
        let extras = here.config.extra_manifests().iter();
        extras.map(|extra| (extra.id.clone(), objects(&text(extra)))).collect()
    }

    /// Downloads the missing files. A file that no server has never arrives; with the fault nothing
    /// does.
    pub(in super::super) fn download(&mut self, node: NodeIndex) {
        let here = &self.nodes[node.0];
        if here.power != Power::On || !here.network || !here.is_control_plane() {
            return;
        }
        let fails = self.fault(node, FaultKind::FailingManifest).is_some();
        let urls: BTreeSet<String> =
            here.config.extra_manifests().iter().filter_map(|extra| extra.url.clone()).collect();
        let files = &self.spec.files;
        let arrived: Vec<(String, String)> = urls
            .iter()
            .filter(|url| !fails && !here.downloads.contains_key(*url))
            .filter_map(|url| Some((url.clone(), files.get(url)?.clone())))
            .collect();
        let here = &mut self.nodes[node.0];
        here.downloads.extend(arrived);
        // The node removes old files only when all downloads are complete.
        if urls.iter().all(|url| here.downloads.contains_key(url)) {
            here.downloads.retain(|url, _| urls.contains(url));
        }
    }

    /// Schedules a retry of failed downloads.
    pub(in super::super) fn download_later(&mut self, node: NodeIndex) {
        let boot = self.nodes[node.0].boot;
        self.schedule.put(self.now.plus(RETRY), Due::Download { node, boot });
    }
}
