//! URLs of factories.

use http::Uri;

/// Validates a factory's URL and removes a trailing slash.
pub fn check_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("`{text}` is not the URL of a factory: {why}");
    let uri: Uri = text.parse().map_err(|_| wrong("it is not a valid URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("it begins with http:// or https://"));
    }
    if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
        return Err(wrong("it may contain only a host and a path"));
    }
    if text.contains('@') {
        return Err(wrong("it must not contain a user name or password"));
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
