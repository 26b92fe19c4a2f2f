//! The command line of talos-operator, as a library with a thin `main`.
//!
//! A command turns its arguments into an intent, asks the planner, and hands
//! the answer to [`render`], whose functions are pure; [`printer`] is the only
//! place that writes. stdout carries the answer, stderr what there is to say
//! about it. The exit code is 0 for an answer, 1 for a refusal with its
//! reasons, 2 for a command line that makes no sense.

pub mod args;
pub mod commands;
pub mod data;
pub mod offline;
pub mod printer;
pub mod render;
pub mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::printer::Printer;
use crate::usage::Usage;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The question is answered.
    Done,
    /// The answer is no; the reasons are printed.
    Refused,
    /// The command line makes no sense.
    BadUsage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Refused => 1,
            Exit::BadUsage => 2,
        })
    }
}

/// Runs one command line, program name included.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let printer = Printer;
    let usage = match Cli::try_parse_from(arguments) {
        Ok(cli) => match dispatch(&cli, printer) {
            Ok(exit) => return exit,
            Err(usage) => usage,
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
            _ => Usage::from(&error),
        },
    };
    printer.stderr(&render::usage(&usage));
    Exit::BadUsage
}

fn dispatch(cli: &Cli, printer: Printer) -> Result<Exit, Usage> {
    match &cli.command {
        Command::Plan(args) => commands::plan(args, printer),
        Command::Matrix(args) => commands::matrix(args, printer),
        Command::Sim(args) => commands::sim(args, printer),
        Command::Upgrade { .. } => Err(Usage::new(
            "this release plans and does not upgrade yet; upgrading a live cluster comes with a later one",
            "see what it will do with `talos-operator plan --offline`",
        )),
    }
}
