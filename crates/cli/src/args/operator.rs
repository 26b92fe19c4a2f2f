//! The arguments of `operator`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::version::Version;
use upgrade_operator::versions::{Offer, check_url};

use super::{DataArgs, parse};

const EXAMPLES: &str = "\
Examples:
  In a pod, as deploy/40-operator.yaml has it:
    talos-operator operator --log info

  From a desk, with a kubeconfig of the hub:
    talos-operator operator --kubeconfig hub.yaml --snapshots ./backups --log info";

/// What `operator` is asked.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OperatorArgs {
    /// A kubeconfig of the hub [default: the account of the pod that this runs in]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// What this replica is called in leases and journals [default: host and process]
    #[arg(long, value_name = "NAME", env = "POD_NAME", hide_env_values = true)]
    pub identity: Option<String>,
    /// The namespace of the replicas' leases, and of the `ConfigMap` of versions
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        hide_env_values = true,
        default_value = "vitistack-system"
    )]
    pub namespace: String,
    /// What the names of the clusters' Secrets begin with, before the clusterId
    #[arg(
        long,
        value_name = "TEXT",
        env = "SECRET_PREFIX",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub secret_prefix: String,
    /// Where etcd snapshots go
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/talos-operator")]
    pub snapshots: PathBuf,
    /// Where /healthz, /readyz and /metrics are
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// How often a cluster is looked at that nobody wants anything of
    #[arg(long, value_name = "TIME", value_parser = parse::span, default_value = "90s")]
    pub look_every: SignedDuration,
    /// How upgrades are done where annotations say nothing: the `policy` of a profile, as YAML
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub versions: OfferArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub data: DataArgs,
}

/// Which releases are shown as available. Later ones in this list count more.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Available versions")]
pub struct OfferArgs {
    /// An Image Factory, whose list of Talos releases is taken
    #[arg(long, value_name = "URL", value_parser = check_url)]
    pub factory: Option<String>,
    /// A `ConfigMap` with the keys talos, kubernetes and broken
    #[arg(long, value_name = "NAME")]
    pub versions_config_map: Option<String>,
    /// Talos releases, separated by commas
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub talos_versions: Option<Vec<Version>>,
    /// Kubernetes releases, separated by commas
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub kubernetes_versions: Option<Vec<Version>>,
    /// How often the factory and the `ConfigMap` are asked
    #[arg(long, value_name = "TIME", value_parser = parse::span, default_value = "15m")]
    pub versions_every: SignedDuration,
}

impl OfferArgs {
    /// What the flags list themselves, if they do.
    pub fn offer(&self) -> Option<Offer> {
        let Self { talos_versions, kubernetes_versions, .. } = self;
        (talos_versions.is_some() || kubernetes_versions.is_some()).then(|| Offer {
            talos: talos_versions.clone(),
            kubernetes: kubernetes_versions.clone(),
            ..Offer::default()
        })
    }
}
