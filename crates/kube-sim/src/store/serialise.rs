//! Serialisation of a store: objects become lists, because their keys are not strings.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::log::Log;
use super::{Key, LazyLeases, Random, ResourceName, Store, Stored, Time, Types};

#[derive(Serialize)]
struct Written<'a> {
    now: Time,
    random: &'a Random,
    objects: Vec<(&'a ResourceName, Vec<(&'a Key, &'a Stored)>)>,
    log: &'a Log,
    lazy_leases: &'a LazyLeases,
}

#[derive(Deserialize)]
struct Read {
    now: Time,
    random: Random,
    objects: Vec<(ResourceName, Vec<(Key, Stored)>)>,
    log: Log,
    #[serde(default)]
    lazy_leases: LazyLeases,
}

impl Serialize for Store {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { now, random, types: _, objects, log, kept: _, quiet: _, lazy_leases } = self;
        let objects = objects
            .iter()
            .map(|(resource, objects)| {
                (resource, objects.iter().map(|(key, stored)| (key, stored.as_ref())).collect())
            })
            .collect();
        Written { now: *now, random, objects, log, lazy_leases }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Store {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { now, random, objects, log, lazy_leases } = Read::deserialize(deserializer)?;
        let objects = objects
            .into_iter()
            .map(|(resource, objects)| {
                let objects = objects.into_iter().map(|(key, stored)| (key, Arc::new(stored)));
                (resource, objects.collect())
            })
            .collect();
        let kept = log.revision();
        let types = Types::default();
        let mut store = Self { now, random, types, objects, log, kept, quiet: false, lazy_leases };
        store.definitions_changed();
        Ok(store)
    }
}
