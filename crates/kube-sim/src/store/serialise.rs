//! A store as data: its objects as lists, since their keys are no texts.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::log::Log;
use super::{Random, ResourceName, Store, Time, Types, object};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
struct Stored {
    now: Time,
    random: Random,
    objects: Vec<(ResourceName, Vec<Arc<Value>>)>,
    log: Log,
}

impl Serialize for Store {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { now, random, types: _, objects, log, quiet: _ } = self;
        let objects = objects
            .iter()
            .map(|(resource, objects)| (resource.clone(), objects.values().cloned().collect()))
            .collect();
        Stored { now: *now, random: random.clone(), objects, log: log.clone() }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Store {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Stored { now, random, objects, log } = Stored::deserialize(deserializer)?;
        let key = |object: &Arc<Value>| {
            (object::namespace(object).to_owned(), object::name(object).to_owned())
        };
        let objects = objects
            .into_iter()
            .map(|(resource, objects)| {
                (resource, objects.into_iter().map(|object| (key(&object), object)).collect())
            })
            .collect();
        let mut store = Self { now, random, types: Types::default(), objects, log, quiet: false };
        store.definitions_changed();
        Ok(store)
    }
}
