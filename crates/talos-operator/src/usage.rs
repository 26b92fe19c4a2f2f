//! An invalid command line: what is wrong, and what to do next.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What is wrong with a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What is wrong.
    pub message: String,
    /// What to do next.
    pub next: String,
}

impl Usage {
    /// A message and the next thing to do.
    pub fn new(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { message: message.into(), next: next.into() }
    }
}

impl From<&clap::Error> for Usage {
    fn from(error: &clap::Error) -> Self {
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.as_str()),
            _ => None,
        };
        // Our own parsers say what to write instead, and lack only the name of the flag.
        if error.kind() == ErrorKind::ValueValidation
            && let Some(flag) = text(ContextKind::InvalidArg)
            && let Some(why) = error.source()
        {
            let flag = flag.split(' ').next().unwrap_or(flag);
            return Self::new(format!("{flag}: {why}"), "correct the value and retry");
        }
        let rendered = error.render().to_string();
        // The rest repeats the usage; we point to the help instead.
        let message = ["\n\nUsage:", "\n\nFor more information"]
            .into_iter()
            .filter_map(|end| rendered.find(end))
            .min()
            .map_or(rendered.as_str(), |end| &rendered[..end]);
        let message =
            message.strip_prefix("error: ").unwrap_or(message).trim().replace("\n\n", "\n");
        Self::new(message, "see `talos-operator --help`, or `--help` after a command")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    fn usage(line: &str) -> Usage {
        let words = std::iter::once("talos-operator").chain(line.split_whitespace());
        Usage::from(&Cli::try_parse_from(words).unwrap_err())
    }

    #[test]
    fn a_bad_value_names_its_flag_and_what_to_write() {
        let usage = usage("plan --offline --talos-from 1.x");
        assert!(usage.message.starts_with("--talos-from: `1.x` is not a version"));
        assert!(usage.message.contains("like 1.13.9"), "{usage:?}");
    }

    #[test]
    fn the_usage_text_is_left_out() {
        for line in ["plan --ofline", "plan --order sideways", "fly", "plan --workers"] {
            let usage = usage(line);
            assert!(!usage.message.contains("Usage:"), "{usage:?}");
            assert!(!usage.message.contains("For more"), "{usage:?}");
            assert!(!usage.message.starts_with("error"), "{usage:?}");
        }
    }
}
