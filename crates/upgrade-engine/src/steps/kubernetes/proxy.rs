//! kube-proxy: only the configuration is changed here; the manifests that are rendered from it have
//! the image.

use upgrade_core::reason::Failure;
use upgrade_core::snapshot::Component;

use super::super::{Completion, Step};
use super::configure::{configure, read, wrong};
use super::target;
use crate::io::Io;

pub(super) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    let machine = step.machine()?;
    let image = target(step, Component::KubeProxy)?;
    let config = read(step, machine).await?;
    if talos_machine_config::proxy_is_off(&config.0).map_err(|error| wrong(machine, &error))? {
        return Ok(Completion::Skipped(format!("kube-proxy is disabled on {}", machine.name)));
    }
    if configure(step, machine, Component::KubeProxy, image).await? {
        return Ok(Completion::Done);
    }
    Ok(Completion::Skipped(format!("{} names {image} already", machine.name)))
}
