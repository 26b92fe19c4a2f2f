//! `talos-operator operator`: watches a hub's clusters and does what their
//! annotations say.

use std::time::Duration;

use image_factory::check_url;
use upgrade_core::policy::{Order, Policy, Workers};
use upgrade_operator::access::Given;
use upgrade_operator::versions::{Offer, Source};
use upgrade_operator::{Options, Settings, serve};
use vitistack_api::label::NODE_POOL;

use crate::Exit;
use crate::args::{OperatorArgs, VersionsArgs};
use crate::data::ReleaseData;
use crate::failed::Failed;
use crate::settings;
use crate::signals::Signals;
use crate::usage::Usage;

/// Works until it is told to stop.
pub async fn operator(args: &OperatorArgs) -> Result<Exit, Failed> {
    let data = ReleaseData::load(&args.data)?;
    let look_every = Duration::try_from(args.look_every).unwrap_or_default();
    if look_every < Duration::from_secs(1) {
        return Err(Usage::new("--look-every is too short", "write at least 1s").into());
    }
    let lease = Duration::try_from(args.lease_duration).unwrap_or_default();
    // Below, a busy moment of the hub would count as an end; above, a killed
    // replica would be missed too late.
    if !(Duration::from_secs(4)..=Duration::from_mins(10)).contains(&lease) {
        let given = args.lease_duration;
        let message = format!("--lease-duration {given:#} cannot be used");
        return Err(Usage::new(message, "write a time from 4s to 10m").into());
    }
    let workers = Workers { pool_label: NODE_POOL.to_owned(), ..Workers::default() };
    let usual = Policy { order: Order::WorkersFirst, workers, ..Policy::default() };
    let identity = args.identity.clone().unwrap_or_else(settings::process);
    let settings = Settings {
        hub: Given {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
            variable: settings::kubeconfig(),
            home: settings::home(),
        },
        listen: args.listen,
        sources: sources(&args.versions, &args.namespace)?,
        catalogue: data.catalogue,
        options: Options {
            identity,
            namespace: args.namespace.clone(),
            watch_namespace: args.watch_namespace.clone(),
            secret_prefix: args.secret_prefix.clone(),
            snapshots: args.snapshots.clone(),
            look_every,
            lease: Duration::from_secs(lease.as_secs()),
            policy: args.pace.over(usual),
            matrix: data.matrix,
        },
    };
    let mut signals = Signals::listen();
    let stop = async move {
        signals.next().await;
    };
    serve(settings, stop).await.map_err(|error| Failed::of(&error, error.next()))?;
    Ok(Exit::Done)
}

fn sources(args: &VersionsArgs, namespace: &str) -> Result<Vec<Source>, Usage> {
    let mut sources = Vec::new();
    if let Some(url) = &args.image_factory {
        let url = check_url(url).map_err(|error| {
            Usage::new(
                format!("--image-factory: {error}"),
                "write it like https://factory.talos.dev",
            )
        })?;
        sources.push(Source::Factory { url });
    }
    if let Some(name) = &args.versions_config_map {
        let namespace = namespace.to_owned();
        sources.push(Source::ConfigMap { namespace, name: name.clone() });
    }
    let list = |flag: &str, text: &Option<String>| {
        let listed = text.as_deref().map(Offer::list).transpose();
        listed.map_err(|error| {
            Usage::new(format!("{flag}: {error}"), "write versions with commas between them")
        })
    };
    let offer = Offer {
        talos: list("--talos-versions", &args.talos_versions)?,
        kubernetes: list("--kubernetes-versions", &args.kubernetes_versions)?,
        ..Offer::default()
    };
    if offer != Offer::default() {
        sources.push(Source::Listed(offer));
    }
    Ok(sources)
}
