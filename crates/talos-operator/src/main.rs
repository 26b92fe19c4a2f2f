//! The talos-operator binary; everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    talos_operator::run(std::env::args_os()).into()
}
