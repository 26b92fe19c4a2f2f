//! The only module that prints. stdout is data, stderr is everything else; colours are removed
//! without a terminal or with `NO_COLOR`.

use std::io::Write;

/// Writes to the program's two streams.
#[derive(Clone, Copy, Debug)]
pub struct Printer;

impl Printer {
    /// The answer.
    pub fn stdout(self, text: &str) {
        write(anstream::stdout().lock(), text);
    }

    /// Everything else.
    pub fn stderr(self, text: &str) {
        write(anstream::stderr().lock(), text);
    }
}

/// A closed pipe (`| head`) is not a failure, and any other could not be reported anyway.
fn write(mut stream: impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.flush();
}
