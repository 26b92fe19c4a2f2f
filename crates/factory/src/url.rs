//! Where a factory is.

use http::Uri;

/// A factory's URL, without a slash at its end.
pub fn check_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("`{text}` is not the URL of a factory: {why}");
    let uri: Uri = text.parse().map_err(|_| wrong("it cannot be read"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("it begins with http:// or https://"));
    }
    if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
        return Err(wrong("it names a host and perhaps a folder"));
    }
    if text.contains('@') {
        return Err(wrong("names and passwords do not belong there"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host() {
        assert_eq!(check_url("https://factory.talos.dev/"), Ok("https://factory.talos.dev".into()));
        assert_eq!(check_url("http://127.0.0.1:8080/f"), Ok("http://127.0.0.1:8080/f".into()));
        for text in ["", "factory", "ftp://x", "https://", "https://x?y", "https://a:b@x"] {
            assert!(check_url(text).is_err(), "{text}");
        }
    }
}
