//! The machine itself: version, services, memory and reboots.

use std::time::Duration;

use prost_types::Timestamp;
use talos_proto::machine as wire;
use upgrade_core::version::{ParseVersionError, Version};

use crate::client::Node;
use crate::error::{ActError, Error};
use crate::reply::part;

/// A node's version information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalosVersion {
    /// The version with a leading `v`.
    pub tag: String,
    /// The commit that it was built from.
    pub sha: String,
    /// `amd64`, `arm64`.
    pub arch: String,
    /// The platform, such as `metal` or `nocloud`.
    pub platform: String,
    /// `metal`, `cloud`, `container`, ...
    pub mode: String,
    /// Whether roles are enforced.
    pub rbac: bool,
}

impl TalosVersion {
    /// The version to compare with.
    pub fn version(&self) -> Result<Version, ParseVersionError> {
        self.tag.parse()
    }

    /// Whether it runs in a container, which cannot be upgraded.
    pub fn is_container(&self) -> bool {
        self.mode == "container"
    }
}

/// A service and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceInfo {
    /// Its name, such as `kubelet`.
    pub id: String,
    /// `Running`, `Finished`, `Failed`, ...
    pub state: String,
    /// The result of its health check; `None` if it has none or it has not run yet.
    pub healthy: Option<bool>,
    /// The last message of the health check.
    pub message: String,
    /// Its recent events, oldest first.
    pub events: Vec<ServiceEvent>,
}

/// A state change of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceEvent {
    /// The new state.
    pub state: String,
    /// The message.
    pub message: String,
    /// The time of the change.
    pub at: Option<Timestamp>,
}

impl From<wire::ServiceInfo> for ServiceInfo {
    fn from(info: wire::ServiceInfo) -> Self {
        let health = info.health.unwrap_or_default();
        let events = info.events.unwrap_or_default().events;
        Self {
            id: info.id,
            state: info.state,
            healthy: (!health.unknown).then_some(health.healthy),
            message: health.last_message,
            events: events
                .into_iter()
                .map(|event| ServiceEvent { state: event.state, message: event.msg, at: event.ts })
                .collect(),
        }
    }
}

/// How a machine reboots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RebootMode {
    /// The machine's default: kexec where possible.
    #[default]
    Default,
    /// Through the firmware, for machines that do not survive kexec.
    PowerCycle,
    /// Without waiting for services to stop. The last resort.
    Force,
}

impl From<RebootMode> for wire::reboot_request::Mode {
    fn from(mode: RebootMode) -> Self {
        match mode {
            RebootMode::Default => Self::Default,
            RebootMode::PowerCycle => Self::Powercycle,
            RebootMode::Force => Self::Force,
        }
    }
}

/// The ID of a request; the events it causes carry it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActorId(pub String);

/// The machine's memory, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Total memory.
    pub total: u64,
    /// Memory available to programs.
    pub available: u64,
}

impl Node {
    /// The running version, with architecture and platform.
    pub async fn version(&self) -> Result<TalosVersion, Error> {
        const METHOD: &str = "Version";
        let reply = self
            .read(METHOD, |line| async move { line.machine().version(line.request(())).await })
            .await?;
        let message = self.only(METHOD, reply.messages)?;
        let version = part(message.version, "version")
            .map_err(|failure| self.call(METHOD, None).failed(failure))?;
        let platform = message.platform.unwrap_or_default();
        Ok(TalosVersion {
            tag: version.tag,
            sha: version.sha,
            arch: version.arch,
            platform: platform.name,
            mode: platform.mode,
            rbac: message.features.unwrap_or_default().rbac,
        })
    }

    /// The host name.
    pub async fn hostname(&self) -> Result<String, Error> {
        const METHOD: &str = "Hostname";
        let reply = self
            .read(METHOD, |line| async move { line.machine().hostname(line.request(())).await })
            .await?;
        Ok(self.only(METHOD, reply.messages)?.hostname)
    }

    /// All services and their states.
    pub async fn services(&self) -> Result<Vec<ServiceInfo>, Error> {
        const METHOD: &str = "ServiceList";
        let reply = self
            .read(METHOD, |line| async move { line.machine().service_list(line.request(())).await })
            .await?;
        let services = self.only(METHOD, reply.messages)?.services;
        Ok(services.into_iter().map(ServiceInfo::from).collect())
    }

    /// When the machine booted, since the epoch, by its own clock.
    pub async fn booted_at(&self) -> Result<Duration, Error> {
        const METHOD: &str = "SystemStat";
        let reply = self
            .read(METHOD, |line| async move { line.machine().system_stat(line.request(())).await })
            .await?;
        let stat = self.only(METHOD, reply.messages)?;
        Ok(Duration::from_secs(stat.boot_time))
    }

    /// The machine's memory.
    pub async fn memory(&self) -> Result<Memory, Error> {
        const METHOD: &str = "Memory";
        let reply = self
            .read(METHOD, |line| async move { line.machine().memory(line.request(())).await })
            .await?;
        let message = self.only(METHOD, reply.messages)?;
        let info = part(message.meminfo, "meminfo")
            .map_err(|failure| self.call(METHOD, None).failed(failure))?;
        Ok(Memory { total: info.memtotal, available: info.memavailable })
    }

    /// Reboots the machine into the version installed last. Returns when the node has accepted.
    /// Sent at most once.
    pub async fn reboot(&self, mode: RebootMode) -> Result<ActorId, ActError> {
        const METHOD: &str = "Reboot";
        let request = wire::RebootRequest { mode: wire::reboot_request::Mode::from(mode).into() };
        let answer = self
            .act(METHOD, self.deadlines().act, |line| async move {
                line.machine().reboot(line.request(request)).await
            })
            .await?;
        let message = self.only_act(METHOD, answer.value.messages)?;
        Ok(ActorId(message.actor_id))
    }

    /// Makes the other slot the default and reboots into it. The node checks nothing. Sent at most
    /// once.
    pub async fn rollback(&self) -> Result<(), ActError> {
        const METHOD: &str = "Rollback";
        let answer = self
            .act(METHOD, self.deadlines().act, |line| async move {
                let request = line.request(wire::RollbackRequest {});
                line.machine().rollback(request).await
            })
            .await?;
        self.only_act(METHOD, answer.value.messages).map(|_| ())
    }
}
