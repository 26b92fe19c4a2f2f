//! The arguments of `operator`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use upgrade_core::jiff::SignedDuration;

use super::{DataArgs, PaceArgs, parse};

const EXAMPLES: &str = "\
Examples:
  In a pod, as deploy/ has it:
    talos-operator operator --listen=0.0.0.0:8080 --snapshots=/var/lib/talos-operator

  On a desk, against the hub that kubectl uses, or another one:
    talos-operator operator
    talos-operator operator --kubeconfig ./hub.kubeconfig --context admin

Annotations on a KubernetesCluster do the rest:
    kubectl annotate kubernetescluster my-cluster upgrade.vitistack.io/talos-target=1.13.9";

/// This front end has another default order than the others.
const ORDER: &str = "Which role goes first when Talos is upgraded [default: workers-first]";

/// The arguments of `operator`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("order", |order| order.help(ORDER)))]
pub struct OperatorArgs {
    /// The hub's kubeconfig [default: as kubectl has it: KUBECONFIG, or else ~/.kube/config, or
    /// else the account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The name of this replica [default: this host and process]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub identity: Option<String>,
    /// The namespace of the leases
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = "vitistack-system")]
    pub namespace: String,
    /// Upgrade the clusters of this namespace only [default: of all namespaces]
    #[arg(long, value_name = "NAME", env = "WATCH_NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// Prefix of the names of the clusters' Secrets
    #[arg(long, value_name = "TEXT", env = "SECRET_PREFIX", default_value = "")]
    pub secret_prefix: String,
    /// The folder for etcd snapshots
    #[arg(long, value_name = "FOLDER", default_value = "./snapshots")]
    pub snapshots: PathBuf,
    /// Listen address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Polling interval for clusters without an upgrade target
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse::span)]
    pub look_every: SignedDuration,
    /// How long a silent replica keeps the clusters that it drives
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse::span)]
    pub lease_duration: SignedDuration,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub versions: VersionsArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub pace: PaceArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the type says it")]
    pub data: DataArgs,
}

/// The sources of releases. Of several for one product the last one counts.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Available versions")]
pub struct VersionsArgs {
    /// An Image Factory that lists the Talos releases
    #[arg(long, value_name = "URL")]
    pub image_factory: Option<String>,
    /// A ConfigMap in the operator's namespace with the keys talos, kubernetes, broken
    #[arg(long, value_name = "NAME")]
    pub versions_config_map: Option<String>,
    /// The Talos releases, separated by commas
    #[arg(long, value_name = "VERSIONS")]
    pub talos_versions: Option<String>,
    /// The Kubernetes releases, separated by commas
    #[arg(long, value_name = "VERSIONS")]
    pub kubernetes_versions: Option<String>,
}
