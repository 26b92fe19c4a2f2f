//! A value that never appears in output (rule 14).
//!
//! Not the crate `secrecy`: it holds only types that can overwrite their memory, which protobuf
//! structures and parsed keys cannot, and it does not support comparison, which detecting a changed
//! configuration needs.

use std::fmt;

/// Holds a secret: `Debug` prints a placeholder, and there is no `Display` and no serialisation.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden<T>(T);

impl<T> Hidden<T> {
    /// Wraps a secret.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The secret. The caller is responsible for where it goes.
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// Unwraps the secret.
    pub fn into_exposed(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        let hidden = Hidden::new("hunter2".to_owned());
        assert_eq!(format!("{hidden:?} {hidden:#?}"), "<hidden> <hidden>");
        assert_eq!(hidden.expose(), "hunter2");
    }
}
