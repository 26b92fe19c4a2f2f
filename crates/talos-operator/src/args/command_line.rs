//! Commands that are printed for a user to run.

use std::fmt::{Display, Write as _};
use std::path::Path;

use clap::ValueEnum;

/// A command of this program, written as a shell reads it.
#[derive(Clone, Debug)]
pub struct CommandLine {
    text: String,
    switches: String,
}

impl CommandLine {
    /// A command without flags.
    pub fn new(verb: &str) -> Self {
        Self { text: format!("talos-operator {verb}"), switches: String::new() }
    }

    /// Adds a flag with a value, if there is one.
    pub fn value(&mut self, flag: &str, value: Option<impl Display>) -> &mut Self {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = write!(self.text, " --{flag} {}", quoted(&value.to_string()));
        }
        self
    }

    /// Adds a flag with a path, if there is one.
    pub fn path(&mut self, flag: &str, path: Option<&Path>) -> &mut Self {
        self.value(flag, path.map(Path::display))
    }

    /// Adds a flag with one of its possible values, if there is one.
    pub fn choice(&mut self, flag: &str, value: Option<impl ValueEnum>) -> &mut Self {
        let value = value.and_then(|value| value.to_possible_value());
        self.value(flag, value.as_ref().map(clap::builder::PossibleValue::get_name))
    }

    /// Adds a flag once for each value.
    pub fn values(&mut self, flag: &str, values: &[String]) -> &mut Self {
        for value in values {
            self.value(flag, Some(value));
        }
        self
    }

    /// Adds a flag without a value; all of these come last.
    pub fn switch(&mut self, flag: &str, set: bool) -> &mut Self {
        if set {
            // Writing to a string cannot fail.
            let _ = write!(self.switches, " --{flag}");
        }
        self
    }
}

impl Display for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { text, switches } = self;
        write!(f, "{text}{switches}")
    }
}

/// The value as a shell reads it back.
pub fn quoted(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:%@+=,".contains(&byte);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_values_back() {
        assert_eq!(quoted("25%"), "25%");
        assert_eq!(quoted("my matrix.toml"), "'my matrix.toml'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn switches_come_last() {
        let mut line = CommandLine::new("plan");
        line.switch("yes", true).switch("no", false).value("soak", Some("30s"));
        line.value("context", None::<&str>).values("hold", &["a".to_owned(), "b c".to_owned()]);
        assert_eq!(line.to_string(), "talos-operator plan --soak 30s --hold a --hold 'b c' --yes");
    }
}
