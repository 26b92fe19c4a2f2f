//! `talos-operator operator`: upgrades the clusters of a hub as their annotations say.

use std::path::Path;
use std::time::Duration;

use annotation_operator::{Options, serve};
use image_factory_client::check_url;
use s3_snapshots::Address;
use upgrade_controller::Settings;
use upgrade_controller::clock::Clock;
use upgrade_controller::controller::ControllerOptions;
use upgrade_controller::hub_config::HubOptions;
use upgrade_controller::versions::{Offer, Source};
use upgrade_core::policy::{Order, Policy, Workers};
use upgrade_live::LiveSnapshots;
use vitistack_api::label::NODE_POOL;

use crate::Exit;
use crate::args::{AvailableVersionsArgs, OperatorArgs};
use crate::error::CommandError;
use crate::release_data::ReleaseData;
use crate::settings;
use crate::signals::Signals;
use crate::snapshot_store;
use crate::usage::Usage;

/// Runs until it is stopped.
pub async fn operator(args: &OperatorArgs) -> Result<Exit, CommandError> {
    let data = ReleaseData::load(&args.data)?;
    let probe_interval = Duration::try_from(args.look_every).unwrap_or_default();
    if probe_interval < Duration::from_secs(1) {
        return Err(Usage::new("--look-every is too short", "write 1s or more").into());
    }
    let lease = Duration::try_from(args.lease_duration).unwrap_or_default();
    // Shorter, and a slow hub would look like a dead replica; longer, and a dead replica would
    // block its clusters for too long.
    if !(Duration::from_secs(4)..=Duration::from_mins(10)).contains(&lease) {
        let given = args.lease_duration;
        let message = format!("--lease-duration {given:#} is out of range");
        return Err(Usage::new(message, "write a time from 4s to 10m").into());
    }
    let workers = Workers { pool_label: NODE_POOL.to_owned(), ..Workers::default() };
    let usual = Policy { order: Order::WorkersFirst, workers, ..Policy::default() };
    let identity = args.identity.clone().unwrap_or_else(settings::process);
    let settings = Settings {
        hub: HubOptions {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
            variable: settings::kubeconfig(),
            home: settings::home(),
        },
        listen: args.listen,
        sources: sources(&args.versions, &args.namespace)?,
        catalogue: data.catalogue,
    };
    let options = Options {
        controller: ControllerOptions {
            identity,
            namespace: args.namespace.clone(),
            probe_interval,
            lease: Duration::from_secs(lease.as_secs()),
            matrix: data.matrix,
            clock: Clock::SYSTEM,
        },
        watch_namespace: args.watch_namespace.clone(),
        secret_prefix: args.secret_prefix.clone(),
        snapshots: snapshots(&args.snapshots)?,
        policy: args.policy.over(usual),
    };
    let mut signals = Signals::listen();
    let stop = async move {
        signals.next().await;
    };
    serve(settings, options, stop)
        .await
        .map_err(|error| CommandError::caused_by(&error, error.next()))?;
    Ok(Exit::Done)
}

/// The store that the replicas share.
fn snapshots(place: &Path) -> Result<LiveSnapshots, Usage> {
    let Some(address) = place.to_str().filter(|text| Address::is_meant(text)) else {
        return Ok(place.to_owned().into());
    };
    let wrong = |why: String, next| Usage::new(format!("--snapshots: {why}"), next);
    let address = snapshot_store::resolve(address, Path::to_owned)
        .map_err(|why| wrong(why, snapshot_store::EXAMPLE))?;
    let opened = snapshot_store::open(address);
    let next = "set the variables from a Secret, and correct the address";
    opened.map(LiveSnapshots::from).map_err(|why| wrong(why, next))
}

fn sources(args: &AvailableVersionsArgs, namespace: &str) -> Result<Vec<Source>, Usage> {
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
            Usage::new(format!("{flag}: {error}"), "write versions separated by commas")
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
