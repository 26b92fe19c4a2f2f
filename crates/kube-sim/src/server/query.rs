//! Query strings.

/// Decodes percent encoding.
pub(super) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        let hex = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        if *byte == b'%'
            && let (Some(high), Some(low)) = (hex(index + 1), hex(index + 2))
        {
            out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
            index += 3;
        } else {
            out.push(*byte);
            index += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The decoded query.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        };
        Self(query.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    /// The first value of a key; empty if there is none.
    pub(super) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(found, _)| found == key).map_or("", |(_, value)| value)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(found, _)| found == key)
    }

    /// Whether a key is set to a true value, or has no value.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.has(key) && !["false", "0"].contains(&self.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch&x=%zz");
        assert_eq!(query.get("labelSelector"), "a=b,c in (d)");
        assert!(query.flag("watch"));
        assert_eq!(query.get("x"), "%zz");
        assert_eq!(query.get("y"), "");
    }
}
