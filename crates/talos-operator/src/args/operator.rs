//! The arguments of `operator`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use upgrade_core::jiff::SignedDuration;

use super::{DataArgs, PolicyArgs, parse};

const EXAMPLES: &str = "\
Examples:
  In a pod, as in deploy/:
    talos-operator operator --listen=0.0.0.0:8080 --snapshots=/var/lib/talos-operator

  On a workstation, for the hub that kubectl uses, or for another one:
    talos-operator operator
    talos-operator operator --kubeconfig ./hub.kubeconfig --context admin

Set a target with an annotation on a KubernetesCluster:
    kubectl annotate kubernetescluster my-cluster upgrade.vitistack.io/talos-target=1.13.9";

/// Annotations have another default order than the command line.
const ORDER: &str = "Which role goes first when Talos is upgraded [default: workers-first]";

/// The arguments of `operator`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("order", |order| order.help(ORDER)))]
pub struct OperatorArgs {
    /// Kubeconfig of the hub [default: KUBECONFIG, else ~/.kube/config, else the pod's service
    /// account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Identity of this replica [default: host name and process ID]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub identity: Option<String>,
    /// Namespace of the replicas' Leases
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = "vitistack-system")]
    pub namespace: String,
    /// Watch only this namespace [default: all namespaces]
    #[arg(long, value_name = "NAME", env = "WATCH_NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// Prefix of the names of the clusters' Secrets
    #[arg(long, value_name = "TEXT", env = "SECRET_PREFIX", default_value = "")]
    pub secret_prefix: String,
    /// Folder or S3 address for etcd snapshots
    #[arg(long, value_name = "FOLDER|URL", default_value = "./snapshots")]
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
    pub versions: AvailableVersionsArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub data: DataArgs,
}

/// Sources of available versions. The last one that lists a product takes precedence.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Available versions")]
pub struct AvailableVersionsArgs {
    /// Image Factory whose Talos versions are offered
    #[arg(long, value_name = "URL")]
    pub image_factory: Option<String>,
    /// ConfigMap in the operator's namespace with the keys talos, kubernetes and broken
    #[arg(long, value_name = "NAME")]
    pub versions_config_map: Option<String>,
    /// Available Talos versions, separated by commas
    #[arg(long, value_name = "VERSIONS")]
    pub talos_versions: Option<String>,
    /// Available Kubernetes versions, separated by commas
    #[arg(long, value_name = "VERSIONS")]
    pub kubernetes_versions: Option<String>,
}
