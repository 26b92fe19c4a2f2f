//! Server-side apply on stored objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Store, Write};
use crate::fields::{self, Manager};
use crate::names::ResourceName;
use crate::object;
use crate::status::Status;

impl Store {
    /// Applies a configuration to the object with its name, or creates it. Also returns whether it
    /// was created.
    pub fn apply(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        config: &Value,
        subresource: &str,
        force: bool,
    ) -> Result<(Arc<Value>, bool), Status> {
        let kind = self.kind(resource)?;
        let (namespace, name) = (object::namespace(config), object::name(config));
        let live = self.get(resource, namespace, name).cloned();
        let time = self.now.to_text();
        let manager = Manager { name: &write.manager, subresource, force, time: &time };
        let write = Write { applied: true, ..write.clone() };
        let given = object::text(config, &["metadata", "resourceVersion"]).to_owned();
        let Some(live) = live else {
            if subresource == "status" || !given.is_empty() {
                return Err(Status::not_found(resource, name));
            }
            let object = fields::apply(&kind, None, config, &manager)?;
            return Ok((self.create(&write, resource, object)?, false));
        };
        let mut object = fields::apply(&kind, Some(&live), config, &manager)?;
        if !given.is_empty() {
            object::set(&mut object, &["metadata", "resourceVersion"], json!(given));
        }
        Ok((self.replace(&write, resource, object, subresource)?, true))
    }
}
