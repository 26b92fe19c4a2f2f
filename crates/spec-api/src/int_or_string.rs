//! A number or a text, as `maxUnavailable` has it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// A number or a text. Unlike Kubernetes' own type it reads any number: the schema has no
/// limits, and a number that is too large must not make the object unreadable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    /// A whole number.
    Int(i64),
    /// A text, or a number that is none of the above.
    Text(String),
}

impl fmt::Display for IntOrString {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(formatter),
            Self::Text(text) => formatter.pad(text),
        }
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrText)
    }
}

struct NumberOrText;

impl Visitor<'_> for NumberOrText {
    type Value = IntOrString;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or a text")
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(IntOrString::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        let whole = i64::try_from(number).map(IntOrString::Int);
        Ok(whole.unwrap_or_else(|_| IntOrString::Text(number.to_string())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(IntOrString::Text(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(IntOrString::Text(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_and_any_text_is_read() {
        for (json, told, again) in [
            ("1", "1", "1"),
            ("-3", "-3", "-3"),
            ("3000000000", "3000000000", "3000000000"),
            ("18446744073709551615", "18446744073709551615", "\"18446744073709551615\""),
            ("0.5", "0.5", "\"0.5\""),
            ("\"25%\"", "25%", "\"25%\""),
            ("\"many\"", "many", "\"many\""),
        ] {
            let read: IntOrString = serde_json::from_str(json).expect("readable");
            assert_eq!(read.to_string(), told);
            assert_eq!(serde_json::to_string(&read).expect("writable"), again);
        }
    }
}
