//! The arguments of `sim`.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use talos_sim::cluster;
use talos_sim::model::{Discovery, Range};
use talos_sim::schedule;
use upgrade_core::image::ImageRef;
use upgrade_core::version::Version;

use super::parse;

const EXAMPLES: &str = "\
Examples:
  A cluster for experiments, at twenty times real time:
    talos-operator sim --control-planes 3 --workers 5 --talos 1.12.11 --kubernetes 1.34.2 \\
        --speed 20 --dir ./mycluster

  The same cluster again, in its last state:
    talos-operator sim --dir ./mycluster

  In another terminal, inject a fault:
    talos-operator sim fault cp-1 boot-back --dir ./mycluster

  Nodes for a real control plane, such as that of `cargo xtask cluster up`:
    talos-operator sim --dir ./mycluster --kubernetes-api https://127.0.0.1:6443 \\
        --kubernetes-token-file ./admin.token --kubernetes-ca-file ./ca.crt";

/// The default folder of a cluster.
const USUAL_FOLDER: &str = "./talos-sim";

/// A simulated cluster.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    #[command(subcommand)]
    pub command: Option<SimCommand>,
    #[command(flatten)]
    pub start: StartArgs,
}

/// Commands for an existing simulated cluster.
#[derive(Clone, Debug, Subcommand)]
pub enum SimCommand {
    /// Inject a fault into a running cluster
    Fault(FaultArgs),
    /// List the active faults, or with --kinds every kind of fault
    Faults(FaultsArgs),
    /// Write a talosconfig with another role
    Talosconfig(TalosconfigArgs),
}

/// The folder of a cluster.
#[derive(Clone, Debug, Args)]
pub struct DirArgs {
    /// Folder of the cluster, with its talosconfig, keys and state
    #[arg(long, value_name = "FOLDER", default_value = USUAL_FOLDER)]
    pub dir: PathBuf,
}

/// An existing cluster.
#[derive(Clone, Debug, Args)]
pub struct ExistingArgs {
    /// Folder of the cluster [default: ./talos-sim, else the folder of
    /// TALOSCONFIG, else the only cluster below this folder]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The variable of talosctl, so that both find the same cluster.
    #[arg(long, env = "TALOSCONFIG", hide = true)]
    talosconfig: Option<PathBuf>,
}

impl ExistingArgs {
    /// The folder that is meant. `is_cluster` says whether a folder holds one.
    pub fn folder(&self, is_cluster: impl Fn(&Path) -> bool) -> PathBuf {
        if let Some(dir) = &self.dir {
            return dir.clone();
        }
        let usual = PathBuf::from(USUAL_FOLDER);
        if is_cluster(&usual) {
            return usual;
        }
        let beside = self.talosconfig.as_deref().and_then(Path::parent);
        if let Some(beside) = beside.filter(|beside| is_cluster(beside)) {
            return beside.to_owned();
        }
        let here = std::fs::read_dir(".").into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> =
            here.map(|entry| entry.path()).filter(|path| is_cluster(path)).collect();
        // Of several, none is the obvious one.
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => only,
            _ => usual,
        }
    }
}

/// What is started, and how.
#[derive(Clone, Debug, Args)]
pub struct StartArgs {
    #[command(flatten)]
    pub folder: DirArgs,
    /// Number of control planes [default: 3]
    #[arg(long, value_name = "N", value_parser = parse::control_planes)]
    pub control_planes: Option<usize>,
    /// Number of workers [default: 2]
    #[arg(long, value_name = "N", value_parser = parse::workers)]
    pub workers: Option<usize>,
    /// Talos version at the start [default: the newest]
    #[arg(long, value_name = "VERSION")]
    pub talos: Option<Version>,
    /// Kubernetes version at the start [default: the newest that this Talos supports]
    #[arg(long, value_name = "VERSION")]
    pub kubernetes: Option<Version>,
    /// Name of the cluster [default: sim]
    #[arg(long, value_name = "NAME", value_parser = cluster_name)]
    pub name: Option<String>,
    /// Seed of the random numbers; the same seed gives the same run [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Speed of time; 20 is twenty times real time
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse::speed)]
    pub speed: f64,
    /// Scheduled faults: a YAML list with node, fault, after or on, and for
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
    /// Discovery between the nodes of a new cluster [default: service]
    #[arg(long, value_name = "HOW", value_enum)]
    pub discovery: Option<DiscoveryArg>,
    /// Workloads to run: a YAML file with Kubernetes objects
    #[arg(long, value_name = "FILE")]
    pub workloads: Option<PathBuf>,
    #[command(flatten)]
    pub real: RealArgs,
    #[command(flatten)]
    pub machines: MachineArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub timings: TimingArgs,
}

/// How nodes find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiscoveryArg {
    /// Through the discovery service
    Service,
    /// The discovery service behind an air gap: each node knows only itself
    AirGap,
    /// Through Kubernetes: control planes know control planes
    Kubernetes,
    /// Not at all
    Off,
}

impl From<DiscoveryArg> for Discovery {
    fn from(discovery: DiscoveryArg) -> Self {
        match discovery {
            DiscoveryArg::Service => Self::Service,
            DiscoveryArg::AirGap => Self::AirGap,
            DiscoveryArg::Kubernetes => Self::Kubernetes,
            DiscoveryArg::Off => Self::Off,
        }
    }
}

/// A real Kubernetes API.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "A real Kubernetes API instead of the cluster's own")]
pub struct RealArgs {
    /// URL, such as `https://127.0.0.1:6443`; the nodes register there
    #[arg(long, value_name = "URL", requires_all = ["kubernetes_token_file", "kubernetes_ca_file"])]
    pub kubernetes_api: Option<String>,
    /// File with the token of a cluster administrator
    #[arg(long, value_name = "FILE", requires = "kubernetes_api")]
    pub kubernetes_token_file: Option<PathBuf>,
    /// File with the certificate authority of the API server
    #[arg(long, value_name = "FILE", requires = "kubernetes_api")]
    pub kubernetes_ca_file: Option<PathBuf>,
}

/// What the machines of a new cluster are.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Machines of a new cluster")]
pub struct MachineArgs {
    /// Platform, such as nocloud or aws; container for Talos in containers [default: metal]
    #[arg(long, value_name = "NAME", value_parser = cluster::platform)]
    pub platform: Option<String>,
    /// Enable Secure Boot: the firmware boots signed images only
    #[arg(long)]
    pub secure_boot: bool,
    /// Installer image in the machine configurations [default: the matching one]
    #[arg(long, value_name = "IMAGE")]
    pub install_image: Option<ImageRef>,
}

/// Where a new cluster listens.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Addresses of a new cluster")]
pub struct NetworkArgs {
    /// Block of loopback addresses, such as 127.77.0.0 [default: a free one]
    #[arg(long, value_name = "ADDRESS", value_parser = subnet)]
    pub subnet: Option<Ipv4Addr>,
    /// Give each node a port of 127.0.0.1 instead of an address of its own
    #[arg(long, conflicts_with = "subnet")]
    pub ports: bool,
    /// Give each node a second address in a storage network; it is listed first and cannot be
    /// reached
    #[arg(long)]
    pub storage_network: bool,
}

/// How long things take in a new cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Durations in a new cluster, such as 45s or 30s-60s")]
pub struct TimingArgs {
    /// Pulling an image [default: 30s-60s]
    #[arg(long, value_name = "SPAN", value_parser = range)]
    pub pull: Option<Range>,
    /// Running an installer [default: 10s-30s]
    #[arg(long, value_name = "SPAN", value_parser = range)]
    pub install: Option<Range>,
    /// Draining by the node itself, in an upgrade from Talos 1.12 [default: 10s-60s]
    #[arg(long, value_name = "SPAN", value_parser = range)]
    pub drain: Option<Range>,
    /// Rebooting [default: 30s-90s]
    #[arg(long, value_name = "SPAN", value_parser = range)]
    pub reboot: Option<Range>,
    /// Becoming healthy after a reboot [default: 30s-60s]
    #[arg(long, value_name = "SPAN", value_parser = range)]
    pub rejoin: Option<Range>,
}

/// A fault while the cluster runs.
#[derive(Clone, Debug, Args)]
pub struct FaultArgs {
    /// Name or address of the node, or `all`
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Fault, such as boot-back or slow-pull=5; see `sim faults --kinds`
    #[arg(value_name = "KIND")]
    pub fault: String,
    /// Duration of the fault, in the cluster's own time
    #[arg(long = "for", value_name = "SPAN", value_parser = schedule::parse_duration)]
    pub lasting: Option<Duration>,
    /// End the fault now
    #[arg(long, conflicts_with = "lasting")]
    pub clear: bool,
    #[command(flatten)]
    pub folder: ExistingArgs,
}

/// The arguments of `sim faults`.
#[derive(Clone, Debug, Args)]
pub struct FaultsArgs {
    /// List every kind of fault
    #[arg(long)]
    pub kinds: bool,
    #[command(flatten)]
    pub folder: ExistingArgs,
}

/// A talosconfig with another role.
#[derive(Clone, Debug, Args)]
pub struct TalosconfigArgs {
    /// Role: os:admin, os:operator, os:reader or os:etcd:backup
    #[arg(long, value_name = "ROLE", default_value = "os:admin")]
    pub role: String,
    /// Use an expired certificate
    #[arg(long)]
    pub expired: bool,
    /// File to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub folder: ExistingArgs,
}

fn cluster_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let starts_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if starts_well && text.len() <= 63 && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a name: write lower-case letters, digits and dashes"))
    }
}

fn subnet(text: &str) -> Result<Ipv4Addr, String> {
    let wrong = || format!("`{text}` is not a loopback address: write one like 127.77.0.0");
    let address: Ipv4Addr = text.parse().map_err(|_| wrong())?;
    if address.is_loopback() { Ok(address) } else { Err(wrong()) }
}

fn range(text: &str) -> Result<Range, String> {
    let wrong = || format!("`{text}` is not a span: write it like 45s or 30s-60s");
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    let min = schedule::parse_duration(min).map_err(|_| wrong())?;
    let max = schedule::parse_duration(max).map_err(|_| wrong())?;
    if min <= max { Ok(Range { min, max }) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_that_is_meant() {
        let args = |dir: Option<&str>, talosconfig: Option<&str>| ExistingArgs {
            dir: dir.map(PathBuf::from),
            talosconfig: talosconfig.map(PathBuf::from),
        };
        let beside = Some("./mycluster/talosconfig");
        let all = |_: &Path| true;
        let none = |_: &Path| false;
        let mine = |path: &Path| path == Path::new("./mycluster");
        assert_eq!(args(Some("here"), beside).folder(all), Path::new("here"));
        assert_eq!(args(None, beside).folder(all), Path::new(USUAL_FOLDER));
        assert_eq!(args(None, beside).folder(mine), Path::new("./mycluster"));
        assert_eq!(args(None, None).folder(none), Path::new(USUAL_FOLDER));
        // The only one here, whatever its name is; here: the folder of sources.
        let sources = |path: &Path| path.ends_with("src");
        assert_eq!(args(None, None).folder(sources), Path::new("./src"));
    }
}
