//! Changes an image in a machine's configuration, in place.

use talos_machine_config::ConfigError;
use upgrade_core::advice::{Advice, Fix};
use upgrade_core::guard;
use upgrade_core::image::ImageRef;
use upgrade_core::mutant::Mutant;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::Component;

use super::super::Step;
use super::super::wait::retry_read;
use crate::io::machines::Config;
use crate::io::{Applied, Io, Machine, Machines as _, NodeUpgrader as _};

/// Reads the configuration, until it can be read.
pub(super) async fn read<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Config, Failure> {
    let what = format!("the configuration of {}", machine.name);
    retry_read(step, &what, || step.io.machines().config(machine)).await
}

/// The failure for a configuration that cannot be used.
pub(super) fn wrong(machine: &Machine, error: &ConfigError) -> Failure {
    Failure::new(FailureKind::Refused, &format!("{}: {error}", machine.name))
}

/// Refuses to write a configuration over one that is staged or on trial: ours is made from the
/// active one, and would replace the other on disk.
pub(super) async fn refuse_staged<I: Io>(step: &Step<I>, machine: &Machine) -> Result<(), Failure> {
    let node = &machine.name;
    let what = format!("the configuration on the disk of {node}");
    let staged = retry_read(step, &what, || step.io.machines().config_is_staged(machine)).await?;
    if !guard!(Mutant::StagedLost, staged) {
        return Ok(());
    }
    let text = format!(
        "the machine configuration on the disk of {node} is not the active one: it is staged, or \
         another is on trial"
    );
    let advice = Advice::retry_after(Fix::StagedConfig(node.clone()));
    Err(Failure::new(FailureKind::Refused, &text).advise(advice))
}

/// Sets the image in the configuration. Returns whether it had to be changed.
pub(super) async fn configure<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    component: Component,
    image: &ImageRef,
) -> Result<bool, Failure> {
    let Config(text) = read(step, machine).await?;
    if !guard!(Mutant::SecretShown) {
        step.report_text(text.as_str());
    }
    let changed = talos_machine_config::set_image(&text, component, image);
    let Some(text) = changed.map_err(|error| wrong(machine, &error))? else {
        return Ok(false);
    };
    refuse_staged(step, machine).await?;
    step.report_text(format!("setting {component} on {} to {image}", machine.name));
    step.permitted()?;
    let Err(error) = step.io.upgrader().apply(machine, &Config(text)).await else {
        return Ok(true);
    };
    // A lost answer does not mean that nothing was applied: read again (rule 8).
    if error.applied == Applied::Unknown {
        let Config(text) = read(step, machine).await?;
        let found = talos_machine_config::image(&text, component);
        if found.map_err(|error| wrong(machine, &error))?.as_ref() == Some(image) {
            return Ok(true);
        }
    }
    let text = format!("{} did not take its configuration: {error}", machine.name);
    Err(Failure::new(error.failure.kind, &text))
}
