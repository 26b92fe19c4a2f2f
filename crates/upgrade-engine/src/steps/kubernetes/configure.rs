//! Puts an image into a machine's configuration, in place.

use talos_machine_config::ConfigError;
use upgrade_core::advice::{Advice, Fix};
use upgrade_core::image::ImageRef;
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::Component;

use super::super::Step;
use super::super::wait::ask;
use crate::io::machines::Config;
use crate::io::{Happened, Io, Machine, Machines as _, NodeUpgrader as _};

/// The configuration, read as often as it takes.
pub(super) async fn read<I: Io>(step: &Step<I>, machine: &Machine) -> Result<Config, Failure> {
    let what = format!("the configuration of {}", machine.name);
    ask(step, &what, || step.io.machines().config(machine)).await
}

/// What is wrong with a configuration, and whose it is.
pub(super) fn wrong(machine: &Machine, error: &ConfigError) -> Failure {
    Failure::new(FailureKind::Refused, &format!("{}: {error}", machine.name))
}

/// Refuses to write a configuration over one that somebody staged, or that is on
/// trial: ours is made from the active one, and would take its place on disk.
pub(super) async fn refuse_staged<I: Io>(step: &Step<I>, machine: &Machine) -> Result<(), Failure> {
    let node = &machine.name;
    let what = format!("the configuration on the disk of {node}");
    let staged = ask(step, &what, || step.io.machines().config_is_staged(machine)).await?;
    if !staged || mutant::is(Mutant::StagedLost) {
        return Ok(());
    }
    let text = format!(
        "the machine configuration on the disk of {node} is not the active one: it is staged, or \
         another is on trial"
    );
    let advice = Advice::retry_after(Fix::StagedConfig(node.clone()));
    Err(Failure::new(FailureKind::Refused, &text).advise(advice))
}

/// Makes the configuration name this image. Whether it had to be changed.
pub(super) async fn configure<I: Io>(
    step: &Step<I>,
    machine: &Machine,
    component: Component,
    image: &ImageRef,
) -> Result<bool, Failure> {
    let Config(text) = read(step, machine).await?;
    if mutant::is(Mutant::SecretTold) {
        step.say(text.as_str());
    }
    let changed = talos_machine_config::set_image(&text, component, image);
    let Some(text) = changed.map_err(|error| wrong(machine, &error))? else {
        return Ok(false);
    };
    refuse_staged(step, machine).await?;
    step.say(format!("setting {component} on {} to {image}", machine.name));
    step.permitted()?;
    let Err(trouble) = step.io.upgrader().apply(machine, &Config(text)).await else {
        return Ok(true);
    };
    // An answer that was lost is not an act that was lost: look (rule 8).
    if trouble.happened == Happened::Maybe {
        let Config(text) = read(step, machine).await?;
        let found = talos_machine_config::image(&text, component);
        if found.map_err(|error| wrong(machine, &error))?.as_ref() == Some(image) {
            return Ok(true);
        }
    }
    let text = format!("{} did not take its configuration: {trouble}", machine.name);
    Err(Failure::new(trouble.failure.kind, &text))
}
