//! Resources about resources.

use talos_proto::cosi::resource::meta;
use talos_proto::{Kind, kind};

use super::super::World;
use super::super::api::NodeIndex;
use super::super::resource_value::{list, map};
use super::{NAMESPACES, ResourceValue, View, is_sensitive, kinds};

impl World {
    pub(super) fn meta_views(&self, node: NodeIndex, kind: &Kind) -> Option<Vec<View>> {
        let minor = self.nodes[node.0].minor();
        match *kind {
            kind::RESOURCE_DEFINITION => Some(
                kinds::all()
                    .filter(|kind| kind.since_minor <= minor)
                    .map(|kind| definition(kind, minor))
                    .collect(),
            ),
            kind::NAMESPACE => Some(
                NAMESPACES
                    .iter()
                    .map(|name| {
                        let description = format!("Resources of {name}.");
                        let message = meta::NamespaceSpec { description: description.clone() };
                        let yaml = map([("description", description.into())]);
                        View::new(*name, &message, &yaml)
                    })
                    .collect(),
            ),
            _ => None,
        }
    }
}

fn definition(kind: &Kind, minor: u64) -> View {
    let sensitive = is_sensitive(kind, minor);
    let spec = Kind { sensitive, ..*kind }.definition();
    let columns = spec.print_columns.iter().map(|column| {
        map([("name", column.name.clone().into()), ("jsonPath", column.json_path.clone().into())])
    });
    let mut yaml = map([
        ("type", spec.resource_type.clone().into()),
        ("displayType", spec.display_type.clone().into()),
        ("defaultNamespace", spec.default_namespace.clone().into()),
        ("aliases", list(spec.aliases.iter().cloned())),
        ("allAliases", list(spec.all_aliases.iter().cloned())),
        ("printColumns", ResourceValue::List(columns.collect())),
    ]);
    if let (true, ResourceValue::Map(entries)) = (sensitive, &mut yaml) {
        entries.push(("sensitivity".into(), "sensitive".into()));
    }
    View::new(kind.definition_id(), &spec, &yaml)
}
