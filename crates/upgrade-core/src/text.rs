//! Small pieces of text that many crates need alike.

use std::any::Any;
use std::error::Error;
use std::fmt::Display;

/// An error with its causes. Many errors repeat in their own words what is behind them:
/// what was said already is left out.
pub fn chain(error: &dyn Error) -> String {
    causes(error).join(": ")
}

/// An error and its causes, each said once.
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut said = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !said.iter().any(|earlier| earlier.contains(&text)) {
            said.push(text);
        }
        source = error.source();
    }
    said
}

/// Some items with commas between them, and how many there are besides, as in
/// `a, b and 3 more`. `count` is the number of all.
pub fn some<T: Display>(shown: &[T], count: usize) -> String {
    let names = shown.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match count.saturating_sub(shown.len()) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// The first items, at most so many, and how many there are besides.
pub fn first<T: Display>(items: &[T], most: usize) -> String {
    some(items.get(..most).unwrap_or(items), items.len())
}

/// All items, with commas between them.
pub fn all<T: Display>(items: &[T]) -> String {
    some(items, items.len())
}

/// What a panic said.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}

/// Makes a type's JSON form its text form: it is read with `FromStr`, written with `Display`.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use serde_as_text;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("outer: {0}, in the middle")]
    struct Repeats(#[source] std::io::Error);

    #[test]
    fn everything_behind_an_error_is_said_once() {
        let inner = || std::io::Error::other("inner");
        assert_eq!(chain(&Outer(inner())), "outer: inner");
        assert_eq!(chain(&Repeats(inner())), "outer: inner, in the middle");
        assert_eq!(causes(&Outer(inner())), ["outer", "inner"]);
    }

    #[test]
    fn a_long_list_ends_with_a_number() {
        assert_eq!(first(&["a", "b", "c"], 3), "a, b, c");
        assert_eq!(first(&["a", "b", "c"], 1), "a and 2 more");
        assert_eq!(some(&["a"], 4), "a and 3 more");
        assert_eq!(all::<&str>(&[]), "");
    }

    #[test]
    fn a_panic_says_why() {
        let said = |act: fn()| {
            panic_text(&*std::panic::catch_unwind(act).expect_err("it panics")).to_owned()
        };
        assert_eq!(said(|| panic!("a plain text")), "a plain text");
        assert_eq!(said(|| panic!("a text with {}", 1)), "a text with 1");
        assert_eq!(said(|| std::panic::panic_any(1)), "no reason given");
    }
}
