//! The only module that prints.

use std::io::{IsTerminal as _, Write as _};

/// A line on standard output.
pub(crate) fn line(text: &str) {
    // A failed write means that there is no reader.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The progress line: replaced on a terminal, a new line elsewhere.
pub(crate) fn progress(text: &str) {
    let mut stderr = std::io::stderr();
    let _ = if stderr.is_terminal() {
        write!(stderr, "\r\x1b[2K{text}")
    } else {
        writeln!(stderr, "{text}")
    };
    let _ = stderr.flush();
}

/// The end of progress.
pub(crate) fn end() {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[2K");
        let _ = stderr.flush();
    }
}
