//! How a cluster is reached: a talosconfig in memory, from what the hub stores.
//!
//! The sources are tried in this order, and the first that works is used:
//!
//! 1. the secrets of the cluster in its state Secret,
//! 2. the same in `status.secretBundle`, where another operator left them,
//! 3. the machine configuration that `spec.configRef` names, which has the same authority,
//! 4. the talosconfig Secret.
//!
//! From an authority a client certificate is made that is valid for a day and never stored. New
//! authorities are never made: a cluster whose authority is not known is not changed.
//!
//! Nothing of a source is in an error, in `Debug` or in a log (rule 14).

mod authority;
mod bundle;
mod certificate;
mod defect;
mod machine_config;
mod talosconfig;
#[cfg(test)]
mod tests;

use std::fmt::{self, Debug, Display};
use std::net::IpAddr;

use sha2::{Digest as _, Sha256};
use spec_api::{TalosControlPlane, names};
use thiserror::Error;
use upgrade_core::jiff::{SignedDuration, Timestamp};

pub use defect::Defect;

/// How long a client certificate is valid: long enough that no run outlives one between two
/// connections, short enough that a copy is soon worthless.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Certificates are valid from a little earlier, for nodes whose clock is behind.
pub const LEEWAY: SignedDuration = SignedDuration::from_mins(5);

/// A certificate is replaced at two thirds of its life, so that a connection that is made with it
/// has hours left.
const RENEW_AFTER: SignedDuration = SignedDuration::from_hours(16);

/// Where credentials are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The state Secret: the secrets of the cluster.
    StateSecret {
        /// Its name.
        name: String,
    },
    /// `status.secretBundle`: the same.
    Status,
    /// A machine configuration of a control plane.
    MachineConfig {
        /// The name of the `ConfigMap`.
        config_map: String,
        /// Its key.
        key: String,
    },
    /// A talosconfig.
    Talosconfig {
        /// The name of the Secret.
        name: String,
        /// Its key.
        key: String,
    },
}

impl Source {
    /// The sources of a control plane, in the order in which they are tried.
    pub fn all(object: &TalosControlPlane) -> Vec<Self> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let reference = object.spec.config_ref.as_ref().filter(|it| !it.name.is_empty());
        let config = reference.map(|reference| Self::MachineConfig {
            config_map: reference.name.clone(),
            key: reference.key.clone(),
        });
        let talosconfig = Self::Talosconfig {
            name: names::talosconfig_secret(object.owner_name()),
            key: spec_api::secret::talosconfig_key(name),
        };
        let state = Self::StateSecret { name: names::state_secret(name) };
        [state, Self::Status].into_iter().chain(config).chain([talosconfig]).collect()
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StateSecret { name } => {
                write!(f, "Secret {name}, {}", spec_api::secret::SECRET_BUNDLE)
            }
            Self::Status => f.write_str("status.secretBundle"),
            Self::MachineConfig { config_map, key } => write!(f, "ConfigMap {config_map}, {key}"),
            Self::Talosconfig { name, key } => write!(f, "Secret {name}, {key}"),
        }
    }
}

/// No source works.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there are no credentials: {}", told(.tried))]
pub struct NoCredentials {
    /// What was tried, and what is wrong with it.
    pub tried: Vec<(Source, Defect)>,
}

fn told(tried: &[(Source, Defect)]) -> String {
    let each: Vec<_> = tried.iter().map(|(source, defect)| format!("{source}: {defect}")).collect();
    each.join("; ")
}

/// A talosconfig, and how long it serves.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    talosconfig: String,
    origin: Origin,
    renew_at: Option<Timestamp>,
}

impl Credentials {
    /// The file. The caller must keep it out of every output.
    pub fn talosconfig(&self) -> &[u8] {
        self.talosconfig.as_bytes()
    }

    /// Whether they can still be used, now that the source shows this. A certificate that is made
    /// for each connection would look like changed credentials every time.
    pub fn serves(&self, origin: &Origin, now: Timestamp) -> bool {
        self.origin == *origin && self.renew_at.is_none_or(|renew_at| now < renew_at)
    }
}

impl Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { talosconfig: _, origin: _, renew_at } = self;
        f.debug_struct("Credentials").field("renew_at", renew_at).finish_non_exhaustive()
    }
}

/// Shows whether a source or the endpoints changed, and nothing else of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Origin([u8; 32]);

impl Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Origin(..)")
    }
}

/// What credentials are made from.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The name of the cluster, for the name of the context.
    pub cluster: &'a str,
    /// The addresses of the control planes.
    pub endpoints: &'a [IpAddr],
    /// The time.
    pub now: Timestamp,
}

impl Request<'_> {
    /// What a source and these endpoints show.
    pub fn origin(&self, content: &[u8]) -> Origin {
        let mut hasher = Sha256::new();
        hasher.update(content.len().to_be_bytes());
        hasher.update(content);
        for text in self.endpoints.iter().map(ToString::to_string) {
            hasher.update(text.as_bytes());
            hasher.update([0]);
        }
        Origin(hasher.finalize().into())
    }

    /// Credentials from the content of a source.
    pub fn credentials(&self, source: &Source, content: &[u8]) -> Result<Credentials, Defect> {
        let text = std::str::from_utf8(content).map_err(|_| Defect::NotText)?;
        if text.trim().is_empty() {
            return Err(Defect::Absent);
        }
        let authority = match source {
            Source::StateSecret { .. } | Source::Status => bundle::authority(text)?,
            Source::MachineConfig { .. } => machine_config::authority(text)?,
            Source::Talosconfig { .. } => {
                let talosconfig = talosconfig::with_endpoints(text, self.endpoints)?;
                return Ok(self.made(talosconfig, content, None));
            }
        };
        let client = certificate::client(&authority, self.now)?;
        let talosconfig =
            talosconfig::render(self.cluster, self.endpoints, &authority.pem, &client)?;
        let renew_at = client.not_after.min(self.now + RENEW_AFTER);
        Ok(self.made(talosconfig, content, Some(renew_at)))
    }

    fn made(
        &self,
        talosconfig: String,
        content: &[u8],
        renew_at: Option<Timestamp>,
    ) -> Credentials {
        Credentials { talosconfig, origin: self.origin(content), renew_at }
    }
}
