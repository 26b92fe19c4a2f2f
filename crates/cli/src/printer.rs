//! The only place that prints. stdout is data, stderr is everything else;
//! colours vanish where nobody would see them (no terminal, `NO_COLOR`).

use std::io::Write;

/// Writes to the program's two streams.
#[derive(Clone, Copy, Debug)]
pub struct Printer;

impl Printer {
    /// The answer.
    pub fn stdout(self, text: &str) {
        write(anstream::stdout().lock(), text);
    }

    /// What there is to say about it.
    pub fn stderr(self, text: &str) {
        write(anstream::stderr().lock(), text);
    }
}

/// A reader that went away (`| head`) is no failure of ours, and there is
/// nobody left to tell about any other.
fn write(mut stream: impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.flush();
}
