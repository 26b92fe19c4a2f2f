//! `talos-operator operator`: the annotation door, until it is told to end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::TcpListener;
use upgrade_core::policy::Policy;
use upgrade_operator::http::{self, Health, Metrics};
use upgrade_operator::versions::{Source, Versions};
use upgrade_operator::{Known, Operator, Options};

use crate::Exit;
use crate::args::OperatorArgs;
use crate::data::ReleaseData;
use crate::failed::Failed;
use crate::printer::Printer;
use crate::settings;
use crate::signals::Signals;
use crate::usage::Usage;

/// How long a connection to the hub may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the tasks in the background get after everything was handed over.
const GRACE: Duration = Duration::from_secs(1);

/// Works until it is told to end, then hands over.
pub async fn operator(args: &OperatorArgs, printer: Printer) -> Result<Exit, Failed> {
    let mut signals = Signals::listen();
    let ReleaseData { matrix, catalogue } = ReleaseData::load(&args.data)?;
    let policy = args.policy.as_deref().map_or_else(|| Ok(Policy::default()), policy)?;
    let client = connect(args.kubeconfig.as_deref()).await?;
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        let what = format!("--listen: {} cannot be listened on: {error}", args.listen);
        Failed::refused(what, "name another address or port with --listen")
    })?;
    let metrics = Arc::<Metrics>::default();
    let versions = Versions::new(Known { matrix, catalogue }, sources(args));
    let identity = args.identity.clone().unwrap_or_else(settings::process);
    printer
        .stderr(&format!("{identity} works; /healthz, /readyz and /metrics at {}\n", args.listen));
    let options = Options {
        identity,
        namespace: args.namespace.clone(),
        secret_prefix: args.secret_prefix.clone(),
        snapshots: args.snapshots.clone(),
        look_every: args.look_every.unsigned_abs(),
        policy,
    };
    let operator = Operator::new(client.clone(), options, versions.known(), Arc::clone(&metrics));
    let every = args.versions.versions_every.unsigned_abs();
    let refreshing = tokio::spawn(versions.keep(client, every, Arc::clone(&metrics)));
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let health = Health { ready: operator.ready(), metrics };
    let serving = tokio::spawn(http::serve(listener, health, async {
        let _ = ended.await;
    }));
    operator
        .run(async {
            signals.next().await;
        })
        .await;
    refreshing.abort();
    drop(end);
    // A scraper that keeps its connection must not keep us.
    let _ = tokio::time::timeout(GRACE, serving).await;
    Ok(Exit::Done)
}

/// The sources in the order in which they count.
fn sources(args: &OperatorArgs) -> Vec<Source> {
    let factory = args.versions.factory.clone().map(|url| Source::Factory { url });
    let map = args.versions.versions_config_map.clone();
    let map = map.map(|name| Source::ConfigMap { namespace: args.namespace.clone(), name });
    let listed = args.versions.offer().map(Source::Listed);
    [factory, map, listed].into_iter().flatten().collect()
}

async fn connect(kubeconfig: Option<&Path>) -> Result<Client, Failed> {
    let mut config = match kubeconfig {
        Some(path) => {
            // The error of the reader may quote what it read, which is secret.
            let unusable = || {
                let what = format!("--kubeconfig: {} cannot be used", path.display());
                Failed::from(Usage::new(what, "name a kubeconfig that kubectl accepts"))
            };
            let read = Kubeconfig::read_from(path).map_err(|_| unusable())?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(read, &options).await.map_err(|_| unusable())?
        }
        None => Config::incluster().map_err(|_| {
            Failed::from(Usage::new(
                "this is no pod, and no --kubeconfig says where the hub is",
                "name a kubeconfig of the hub with --kubeconfig",
            ))
        })?,
    };
    config.connect_timeout = Some(CONNECT);
    Client::try_from(config)
        .map_err(|error| Failed::of(&error, "check the kubeconfig or the pod's service account"))
}

/// The policy in a file.
fn policy(path: &Path) -> Result<Policy, Failed> {
    let wrong = |what: String| {
        let what = format!("--policy: {}: {what}", path.display());
        Failed::from(Usage::new(what, "write it like the `policy` of a profile"))
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let policy: Policy = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match policy.problems().first() {
        Some(problem) => Err(wrong(problem.to_string())),
        None => Ok(policy),
    }
}
