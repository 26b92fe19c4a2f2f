//! The one place that prints.

use std::io::{IsTerminal as _, Write as _};

/// A line on standard output.
pub(crate) fn line(text: &str) {
    // Nobody reads it if it cannot be written.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The line of progress: replaced on a terminal, a line of its own elsewhere.
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
