//! The confirmation prompt.

use std::io::{BufRead as _, IsTerminal as _, stdin};

use crate::error::CommandError;
use crate::printer::Printer;

/// Whether the user confirms. Without a terminal the answer is an error, never a yes.
pub(super) fn confirm(question: &str, printer: Printer) -> Result<bool, CommandError> {
    let stdin = stdin();
    if !stdin.is_terminal() {
        return Err(CommandError::refused(
            "there is no terminal to ask on; nothing was done",
            "run it again with --yes",
        ));
    }
    printer.stderr(&format!("{question} [y/N] "));
    let mut answer = String::new();
    // The end of the input means no.
    let read = stdin.lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
