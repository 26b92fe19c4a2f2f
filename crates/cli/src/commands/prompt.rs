//! Asks a person, where there is one.

use std::io::{BufRead as _, IsTerminal as _, stdin};

use crate::error::CommandError;
use crate::printer::Printer;

/// Whether the person says yes. Without a terminal there is nobody to ask, and
/// silence is not consent.
pub(super) fn confirm(question: &str, printer: Printer) -> Result<bool, CommandError> {
    let stdin = stdin();
    if !stdin.is_terminal() {
        return Err(CommandError::refused(
            "there is no terminal to ask on, so nothing was done",
            "say --yes to go ahead without being asked",
        ));
    }
    printer.stderr(&format!("{question} [y/N] "));
    let mut answer = String::new();
    // An end of the input is a no.
    let read = stdin.lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
