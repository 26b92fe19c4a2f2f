//! Project commands.

mod tools;

use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project commands")]
enum Xtask {
    Tools(tools::Args),
}

fn main() -> anyhow::Result<()> {
    match Xtask::parse() {
        Xtask::Tools(args) => tools::run(args),
    }
}
