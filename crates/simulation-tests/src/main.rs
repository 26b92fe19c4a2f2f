//! `cargo xtask simulate` and `cargo xtask mutants` run this.

mod args;
mod many;
mod print;

use std::process::ExitCode;

use clap::Parser as _;

/// Objects are trees of small allocations, made and dropped all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let result = match &args.command {
        args::Command::Simulate(simulate) => many::simulate(simulate),
        args::Command::Replay(replay) => many::replay(replay),
        #[cfg(feature = "mutants")]
        args::Command::Mutants(mutants) => many::mutants(mutants),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print::line(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
