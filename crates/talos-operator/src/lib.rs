//! The command line of talos-operator, as a library with a thin `main`.
//!
//! A command turns its arguments and a [`profile`] into an intent, asks the planner, and lets
//! the engine drive the plan ([`runner`]). [`render`] and [`progress`] make text of answers and
//! events and are pure; [`printer`] is the only module that writes. stdout carries the answer,
//! stderr everything else. The exit code is 0 for success, 1 for a failure or a refusal with its
//! reasons, 2 for an invalid command line, 3 for a run that was paused or interrupted.

pub mod advice;
pub mod args;
pub mod cluster_config;
pub mod commands;
pub mod error;
pub mod factory;
pub mod intent;
pub mod offline;
pub mod planning;
pub mod printer;
pub mod profile;
pub mod progress;
pub mod release_data;
pub mod render;
pub mod rollback;
pub mod runner;
pub mod session;
pub mod settings;
pub mod signals;
pub mod snapshot_store;
#[cfg(test)]
mod test_fixtures;
pub mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::args::{Cli, Command, LogFormat};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::usage::Usage;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done,
    /// A refusal or a failure; the reasons are printed.
    Refused,
    /// The command line is invalid.
    BadUsage,
    /// A run was paused or interrupted; it can be resumed.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Refused => 1,
            Exit::BadUsage => 2,
            Exit::Interrupted => 3,
        })
    }
}

/// Runs one command line, program name included.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let printer = Printer;
    let error = match Cli::try_parse_from(arguments) {
        Ok(cli) => match dispatch(cli, printer) {
            Ok(exit) => return exit,
            Err(error) => error,
        },
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                printer.stdout(&error.render().ansi().to_string());
                return Exit::Done;
            }
            // Without a command the help is more useful than an error.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                printer.stderr(&error.render().ansi().to_string());
                return Exit::BadUsage;
            }
            _ => Usage::from(&error).into(),
        },
    };
    printer.stderr(&render::error(&error));
    error.exit
}

fn dispatch(cli: Cli, printer: Printer) -> Result<Exit, CommandError> {
    let Cli { command, log, log_format, help: _ } = cli;
    let usual = || Targets::new().with_default(command.usual_level());
    listen(log.unwrap_or_else(usual), log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| CommandError::caused_by(&error, "free resources on this machine"))?;
    let exit = runtime.block_on(async {
        match &command {
            Command::Plan(args) => commands::plan(args, printer).await,
            Command::Upgrade(args) => commands::upgrade(args, printer).await,
            Command::Status(args) => commands::status(args, printer),
            Command::Resume(args) => commands::resume(args, printer).await,
            Command::Pause(args) => commands::pause(args, printer),
            Command::Rollback(args) => commands::rollback(args, printer).await,
            Command::Health(args) => commands::health(args, printer).await,
            Command::Snapshot(args) => commands::snapshot(args, printer).await,
            Command::Version(args) => commands::version(args, printer).await,
            Command::Matrix(args) => Ok(commands::matrix(args, printer)?),
            Command::Operator(args) => commands::operator(args).await,
            Command::Crds(args) => Ok(commands::crds(args, printer)),
            Command::Sim(args) => Ok(commands::sim(args, printer).await?),
            Command::Demo(args) => commands::demo(args, printer).await,
        }
    });
    // Background tasks have nothing left to do; a blocked thread must not delay the exit.
    runtime.shutdown_background();
    exit
}

/// Drops the Kubernetes client's own log: it reports watches that end and API servers that are
/// unreachable, which is normal in every upgrade, and quotes answers that it cannot read
/// (rule 14). Callers log failures with the name of the cluster. Naming the client in `--log`
/// brings its log back.
fn without_client_log(filter: Targets) -> Targets {
    const CLIENT: &str = "kube_client";
    if filter.iter().any(|(target, _)| target.starts_with(CLIENT)) {
        return filter;
    }
    let level = filter.default_level().unwrap_or(LevelFilter::OFF);
    filter
        .with_target(format!("{CLIENT}::client"), LevelFilter::OFF)
        // Only the client logs certificate authorities that it cannot reload.
        .with_target(format!("{CLIENT}::client::tls"), level)
}

/// Sends logs to stderr. Only tests set up a second subscriber in one process.
fn listen(filter: Targets, format: LogFormat) {
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(true);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        // Fields beside the message, as log collectors index them.
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let _ = tracing_subscriber::registry().with(lines).with(without_client_log(filter)).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubernetes_client_logs_only_on_request() {
        let info_level = LevelFilter::INFO.into_level().expect("a level");
        let warn = LevelFilter::WARN.into_level().expect("a level");
        let error = LevelFilter::ERROR.into_level().expect("a level");
        let filter = |text: &str| without_client_log(text.parse().expect("a filter"));
        let info = filter("info");
        assert!(info.would_enable("upgrade_controller::reconciler", &info_level));
        assert!(info.would_enable("kube_client::client::tls", &warn));
        assert!(info.would_enable("kube_runtime::watcher", &warn));
        assert!(!info.would_enable("kube_client::client", &warn));
        assert!(!info.would_enable("kube_client::client::builder", &error));
        assert!(filter("info,kube_client=warn").would_enable("kube_client::client", &warn));
        assert!(!filter("off").would_enable("kube_client::client::tls", &error));
    }
}
