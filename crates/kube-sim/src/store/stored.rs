//! The stored form of an object: a value while it is in use, otherwise text. Either form is created
//! from the other on demand, so readers see no difference; a value takes ten times the memory of
//! its text.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// One object. At least one of its forms is present.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    value: OnceLock<Arc<Value>>,
    text: OnceLock<Arc<str>>,
    /// Whether the value was used since the last [`cool`](Self::cool).
    used: AtomicBool,
}

impl Stored {
    pub(crate) fn from_value(value: Arc<Value>) -> Self {
        Self { value: value.into(), used: AtomicBool::new(true), ..Self::default() }
    }

    pub(crate) fn value(&self) -> &Arc<Value> {
        self.used.store(true, Ordering::Relaxed);
        self.value.get_or_init(|| {
            let text = self.text.get().map_or("null", AsRef::as_ref);
            Arc::new(serde_json::from_str(text).unwrap_or_default())
        })
    }

    pub(crate) fn text(&self) -> &Arc<str> {
        self.text
            .get_or_init(|| self.value.get().map(ToString::to_string).unwrap_or_default().into())
    }

    /// Keeps only the text, unless the value was used since the last call.
    pub(crate) fn cool(&mut self) {
        self.cool_as(Value::to_string);
    }

    /// The same with a text that may omit parts of the value.
    pub(crate) fn cool_as(&mut self, write: impl FnOnce(&Value) -> String) {
        if std::mem::take(self.used.get_mut()) {
            return;
        }
        if let Some(value) = self.value.take() {
            self.text.get_or_init(|| write(&value).into());
        }
    }
}

impl Clone for Stored {
    fn clone(&self) -> Self {
        let used = AtomicBool::new(self.used.load(Ordering::Relaxed));
        Self { value: self.value.clone(), text: self.text.clone(), used }
    }
}

/// Writes the text unchanged.
impl Serialize for Stored {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.text()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Keeps the text without parsing it.
impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self { text: Arc::<str>::from(raw.get()).into(), ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unused_value_becomes_text_and_is_restored() {
        let value = Arc::new(json!({"a": [1, -2, "x"], "b": {"c": null}}));
        let mut stored = Stored::from_value(value.clone());
        stored.cool();
        assert!(stored.value.get().is_some(), "it has just been used");
        stored.cool();
        assert!(stored.value.get().is_none());
        assert_eq!(&**stored.text(), value.to_string());
        assert_eq!(stored.value(), &value);
        stored.cool();
        assert!(stored.value.get().is_some(), "it was asked for");
    }
}
