//! The command line of talos-operator, as a library with a thin `main`.
//!
//! A command turns its arguments and a [`profile`] into an intent, asks the
//! planner, and lets the engine drive the plan ([`runner`]). [`render`] and
//! [`progress`] make text of answers and events and are pure; [`printer`] is the
//! only place that writes. stdout carries the answer, stderr what there is to say
//! about it. The exit code is 0 for what is done, 1 for a failure or a refusal
//! with its reasons, 2 for a command line that makes no sense, 3 for a run that
//! was paused or interrupted.

pub mod advice;
pub mod args;
pub mod commands;
pub mod data;
pub mod factory;
pub mod failed;
pub mod offline;
pub mod place;
pub mod planning;
pub mod printer;
pub mod profile;
pub mod progress;
pub mod render;
pub mod rollback;
pub mod runner;
#[cfg(test)]
mod sample;
pub mod session;
pub mod settings;
pub mod signals;
pub mod story;
pub mod usage;
pub mod wish;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::args::{Cli, Command, LogFormat};
use crate::failed::Failed;
use crate::printer::Printer;
use crate::usage::Usage;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The question is answered, the work is done.
    Done,
    /// The answer is no, or it failed; the reasons are printed.
    Refused,
    /// The command line makes no sense.
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
    let failed = match Cli::try_parse_from(arguments) {
        Ok(cli) => match dispatch(cli, printer) {
            Ok(exit) => return exit,
            Err(failed) => failed,
        },
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                printer.stdout(&error.render().ansi().to_string());
                return Exit::Done;
            }
            // No command at all: the help says more than an error would.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                printer.stderr(&error.render().ansi().to_string());
                return Exit::BadUsage;
            }
            _ => Usage::from(&error).into(),
        },
    };
    printer.stderr(&render::failed(&failed));
    failed.exit
}

fn dispatch(cli: Cli, printer: Printer) -> Result<Exit, Failed> {
    let Cli { command, log, log_format, help: _ } = cli;
    let usual = || Targets::new().with_default(command.usual_level());
    listen(log.unwrap_or_else(usual), log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failed::of(&error, "free some resources of this machine"))?;
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
    // What still runs in the background has nothing left to do; a blocked
    // thread must not keep the program.
    runtime.shutdown_background();
    exit
}

/// Leaves out what the Kubernetes client says by itself: of watches that end and of
/// API servers that are away, which they are in every upgrade, and of answers that
/// it cannot read, which it quotes (rule 14). Whoever asked tells of a failure, and
/// knows of which cluster. Naming the client in `--log` brings it back.
fn calm(filter: Targets) -> Targets {
    const CLIENT: &str = "kube_client";
    if filter.iter().any(|(target, _)| target.starts_with(CLIENT)) {
        return filter;
    }
    let level = filter.default_level().unwrap_or(LevelFilter::OFF);
    filter
        .with_target(format!("{CLIENT}::client"), LevelFilter::OFF)
        // Authorities that cannot be read again, and nobody else tells.
        .with_target(format!("{CLIENT}::client::tls"), level)
}

/// Logs go to stderr. A second listener in one process is a test's.
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
    let _ = tracing_subscriber::registry().with(lines).with(calm(filter)).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_calm_unless_somebody_asks() {
        let told = LevelFilter::INFO.into_level().expect("a level");
        let warn = LevelFilter::WARN.into_level().expect("a level");
        let error = LevelFilter::ERROR.into_level().expect("a level");
        let filter = |text: &str| calm(text.parse().expect("a filter"));
        let info = filter("info");
        assert!(info.would_enable("upgrade_operator::task", &told));
        assert!(info.would_enable("kube_client::client::tls", &warn));
        assert!(info.would_enable("kube_runtime::watcher", &warn));
        assert!(!info.would_enable("kube_client::client", &warn));
        assert!(!info.would_enable("kube_client::client::builder", &error));
        assert!(filter("info,kube_client=warn").would_enable("kube_client::client", &warn));
        assert!(!filter("off").would_enable("kube_client::client::tls", &error));
    }
}
