//! The machines of a live cluster, over their Talos API.

mod acts;
mod changes;
mod config;
mod discover;
mod etcd;
mod facts;
mod snapshot;
mod within;

use std::collections::BTreeMap;
use std::time::Duration;

use talos_client::{Client, Node};
use tokio::io::AsyncWrite;
use upgrade_core::image::ImageRef;
use upgrade_core::plan::RebootMode;
use upgrade_core::reason::FailureKind;
use upgrade_core::slots::Slots;
use upgrade_core::snapshot::{Component, EtcdFacts, Fact, NodeName, TalosFacts};
use upgrade_core::version::Minor;
use upgrade_engine::io::etcd::Downgrade;
use upgrade_engine::io::machines::{Config, Rendered};
use upgrade_engine::io::upgrader::Store;
use upgrade_engine::io::{
    Changes, EtcdAdmin, IoError, Machine, Machines, NodeUpgrader, ProgressSink,
};

use changes::Watches;
use discover::Memory;
pub use facts::{Parts, RunningVersions};
use within::NoAnswer;

/// What is known of the machines before they are asked.
pub(crate) struct Known {
    /// Machines that the talosconfig names, should they not know each other.
    pub(crate) named: Vec<String>,
    /// Machines that the caller lists.
    pub(crate) listed: Vec<Machine>,
}

/// The machines, as the engine sees them.
pub struct LiveTalos {
    client: Client,
    known: Known,
    watches: Watches,
    memory: Memory,
}

impl LiveTalos {
    pub(crate) fn new(client: Client, known: Known) -> Self {
        let (watches, memory) = (Watches::default(), Memory::default());
        Self { client, known, watches, memory }
    }

    /// The least that tells which versions run on a machine.
    pub async fn running_versions(
        &self,
        of: &Machine,
        parts: Parts,
    ) -> Result<RunningVersions, IoError> {
        facts::running_versions(&self.node(of)?, parts).await
    }

    /// What a machine tells, if it is the one that is meant. It is asked for its name once
    /// in each boot.
    async fn facts_of(&self, node: &Node, of: &Machine) -> Result<TalosFacts, IoError> {
        let facts = Box::pin(facts::facts(node, of)).await?;
        let known = self.memory.identified().get(&of.name) == Some(&facts.boot_id);
        if !known {
            facts::is_meant(node, of).await?;
            self.memory.identified().insert(of.name.clone(), facts.boot_id.clone());
        }
        Ok(facts)
    }

    /// What else may be behind a machine that does not answer.
    fn explained(&self, of: &Machine, mut error: IoError) -> IoError {
        let kind = error.failure.kind;
        let absent = matches!(kind, FailureKind::Unavailable | FailureKind::Mismatch);
        if absent && self.memory.roster().may_be_stale(&of.name) {
            let text = format!("{error}; {}", discover::STALE);
            error = IoError::new(kind, &text);
        }
        error
    }

    /// The machine's own client.
    fn node(&self, machine: &Machine) -> Result<Node, IoError> {
        let address = machine.address.parse().map_err(|error| {
            let text = format!("{}: {error}", machine.name);
            IoError::new(FailureKind::Mismatch, &text)
        })?;
        Ok(self.client.node(address))
    }
}

/// A machine that is asked, so that an address that does not answer is remembered, also
/// if the caller gives up.
struct Asking<'a> {
    memory: &'a Memory,
    of: &'a Machine,
    answered: Option<bool>,
}

impl<'a> Asking<'a> {
    const fn new(memory: &'a Memory, of: &'a Machine) -> Self {
        Self { memory, of, answered: Some(false) }
    }

    fn ended<T>(mut self, answer: &Result<T, IoError>) {
        self.answered = match answer {
            Ok(_) => Some(true),
            Err(error) if error.failure.kind == FailureKind::Unavailable => Some(false),
            // Another machine has its address now.
            Err(error) if error.failure.kind == FailureKind::Mismatch => Some(false),
            Err(_) => None,
        };
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(answered) = self.answered {
            self.memory.roster().tried(&self.of.name, &self.of.address, answered);
        }
    }
}

impl Machines for LiveTalos {
    async fn list(&self) -> Result<(String, Vec<Machine>), IoError> {
        discover::machines(&self.client, &self.known, &self.memory).await
    }

    async fn identify(
        &self,
        nodes: &BTreeMap<NodeName, Vec<String>>,
    ) -> Vec<(NodeName, Result<Machine, IoError>)> {
        discover::identify(&self.client, &self.memory, nodes).await
    }

    async fn facts(&self, of: &Machine) -> Result<TalosFacts, IoError> {
        let asking = Asking::new(&self.memory, of);
        let node = self.node(of)?;
        let facts = Box::pin(self.facts_of(&node, of));
        let facts = if self.memory.roster().may_be_stale(&of.name) {
            // In time to say what may be behind it.
            let limit = discover::STALE_LIMIT;
            let late = || IoError::from(NoAnswer::Silent(limit));
            let time = Duration::try_from(limit).unwrap_or_default();
            tokio::time::timeout(time, facts).await.unwrap_or_else(|_| Err(late()))
        } else {
            facts.await
        };
        asking.ended(&facts);
        facts.map_err(|error| self.explained(of, error))
    }

    async fn images(&self, of: &Machine) -> Result<BTreeMap<Component, ImageRef>, IoError> {
        facts::images(&self.node(of)?, of.role).await
    }

    async fn etcd(&self, members: &[Machine]) -> Fact<EtcdFacts> {
        let nodes = members.iter().map(|machine| Ok((machine, self.node(machine)?)));
        match nodes.collect::<Result<Vec<_>, IoError>>() {
            Ok(nodes) => etcd::facts(&nodes).await,
            Err(error) => Fact::Unknown(error.to_string()),
        }
    }

    fn changes(&self, of: &Machine) -> Changes {
        self.watches.of(of, self.node(of).ok())
    }

    async fn slots(&self, of: &Machine) -> Result<Slots, IoError> {
        acts::slots(&self.node(of)?).await
    }

    async fn config(&self, of: &Machine) -> Result<Config, IoError> {
        config::read(&self.node(of)?).await
    }

    async fn config_is_staged(&self, of: &Machine) -> Result<bool, IoError> {
        config::is_staged(&self.node(of)?).await
    }

    async fn manifests(&self, of: &Machine) -> Result<Rendered, IoError> {
        config::manifests(&self.node(of)?).await
    }
}

impl NodeUpgrader for LiveTalos {
    async fn pull(
        &self,
        on: &Machine,
        image: &ImageRef,
        store: Store,
        progress: &dyn ProgressSink,
    ) -> Result<String, IoError> {
        acts::pull(&self.node(on)?, image, store, progress).await
    }

    async fn install(
        &self,
        on: &Machine,
        _: &ImageRef,
        pulled: &str,
        progress: &dyn ProgressSink,
    ) -> Result<(), IoError> {
        acts::install(&self.node(on)?, pulled, progress).await
    }

    async fn upgrade(
        &self,
        on: &Machine,
        image: &ImageRef,
        force: bool,
        mode: RebootMode,
    ) -> Result<(), IoError> {
        acts::upgrade(&self.node(on)?, image, force, mode).await
    }

    async fn reboot(&self, on: &Machine, mode: RebootMode) -> Result<(), IoError> {
        acts::reboot(&self.node(on)?, mode).await
    }

    async fn rollback(&self, on: &Machine) -> Result<(), IoError> {
        acts::rollback(&self.node(on)?).await
    }

    async fn apply(&self, to: &Machine, config: &Config) -> Result<(), IoError> {
        config::apply(&self.node(to)?, config).await
    }
}

impl EtcdAdmin for LiveTalos {
    async fn forfeit(&self, on: &Machine) -> Result<(), IoError> {
        acts::forfeit(&self.node(on)?).await
    }

    async fn validate_downgrade(&self, on: &Machine, to: Minor) -> Result<Downgrade, IoError> {
        acts::validate_downgrade(&self.node(on)?, to).await
    }

    async fn enable_downgrade(&self, on: &Machine, to: Minor) -> Result<(), IoError> {
        acts::enable_downgrade(&self.node(on)?, to).await
    }

    async fn snapshot(
        &self,
        from: &Machine,
        into: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), IoError> {
        snapshot::stream(&self.node(from)?, into).await
    }
}
