//! A number or a percentage, as in Kubernetes' `maxUnavailable`.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// How many of something: a count, or a percentage of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Exactly this many.
    Count(usize),
    /// This percentage of the whole, between 1 and 100.
    Percent(u8),
}

/// A text that is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not an amount: write a number from 1, like 2, or a percentage from 1% to 100%")]
pub struct ParseAmountError(pub String);

impl Amount {
    /// How many of `whole` this is. Percentages round down, as Kubernetes does
    /// for `maxUnavailable`, but never to zero: a roll-out must be able to move.
    pub fn of(self, whole: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (whole * usize::from(percent) / 100).max(1),
        }
    }
}

impl Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Amount {
    type Err = ParseAmountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseAmountError(text.to_owned());
        match text.strip_suffix('%') {
            Some(percent) => match percent.parse() {
                Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
                _ => Err(fail()),
            },
            None => match text.parse() {
                Ok(count) if count > 0 => Ok(Self::Count(count)),
                _ => Err(fail()),
            },
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count as u64),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(i64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_down_but_never_to_nothing() {
        assert_eq!(Amount::Percent(25).of(10), 2);
        assert_eq!(Amount::Percent(25).of(3), 1);
        assert_eq!(Amount::Percent(100).of(7), 7);
        assert_eq!(Amount::Count(3).of(2), 3);
    }

    #[test]
    fn both_forms_are_read_from_json() {
        assert_eq!(serde_json::from_str::<Amount>("2").unwrap(), Amount::Count(2));
        assert_eq!(serde_json::from_str::<Amount>("\"2\"").unwrap(), Amount::Count(2));
        assert_eq!(serde_json::from_str::<Amount>("\"25%\"").unwrap(), Amount::Percent(25));
        assert_eq!(serde_json::to_string(&Amount::Percent(25)).unwrap(), "\"25%\"");
        assert_eq!(serde_json::to_string(&Amount::Count(2)).unwrap(), "2");
    }

    #[test]
    fn nothing_and_nonsense_are_refused() {
        for text in ["0", "-1", "0%", "101%", "many", "", "%", "1.5"] {
            let error = text.parse::<Amount>().unwrap_err();
            assert!(error.to_string().contains("write a number from 1"), "{text}");
        }
        assert!(serde_json::from_str::<Amount>("0").is_err());
    }
}
