//! `s3://bucket/prefix?region=...&endpoint=...`: what a user writes.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;
use thiserror::Error;

/// The beginning of every address.
const SCHEME: &str = "s3://";

/// The parameters, for messages.
const PARAMETERS: &str = "region, endpoint, ca-file, sse and kms-key";

/// Where snapshots go. It contains no credentials, so it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The bucket.
    pub bucket: String,
    /// What the keys begin with: segments with slashes between them, or nothing.
    pub prefix: String,
    /// The region; from the environment if it is not said.
    pub region: Option<String>,
    /// The URL of a server that is not Amazon's.
    pub endpoint: Option<String>,
    /// A file with authorities to trust beside the system's.
    pub ca: Option<PathBuf>,
    /// How the server encrypts what it keeps; its own default if it is not said.
    pub encryption: Option<Encryption>,
}

/// Encryption by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// With keys of the server.
    Aes256,
    /// With this key of the key management service.
    Kms(String),
}

/// Why a text is no address.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{text}` is not an S3 address: {why}")]
pub struct AddressError {
    text: String,
    why: String,
}

impl Address {
    /// Whether a text means S3, rather than a folder.
    pub fn is_meant(text: &str) -> bool {
        text.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
    }

    fn parse(text: &str) -> Result<Self, String> {
        if !Self::is_meant(text) {
            return Err("it begins with s3://".to_owned());
        }
        let rest = &text[SCHEME.len()..];
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if place.contains('@') {
            return Err("credentials do not belong into it; set AWS_ACCESS_KEY_ID and \
                        AWS_SECRET_ACCESS_KEY"
                .to_owned());
        }
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let mut address = Self {
            bucket: bucket_name(bucket)?,
            prefix: key_prefix(prefix)?,
            region: None,
            endpoint: None,
            ca: None,
            encryption: None,
        };
        let (mut sse, mut key) = (None, None);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if value.is_empty() {
                // The name is not quoted: it may be a secret that was pasted.
                return Err(format!(
                    "a parameter has no value; write NAME=VALUE, with the names {PARAMETERS}"
                ));
            }
            let twice = match name {
                "region" => address.region.replace(region(value)?).is_some(),
                "endpoint" => address.endpoint.replace(endpoint(value)?).is_some(),
                "ca-file" => address.ca.replace(PathBuf::from(value)).is_some(),
                "sse" => sse.replace(value).is_some(),
                "kms-key" => key.replace(value.to_owned()).is_some(),
                // The value is not quoted: it may be a secret that does not belong here.
                _ => {
                    return Err(format!(
                        "there is no parameter {name}; the parameters are {PARAMETERS}"
                    ));
                }
            };
            if twice {
                return Err(format!("the parameter {name} is there twice"));
            }
        }
        address.encryption = encryption(sse, key)?;
        Ok(address)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text).map_err(|why| {
            // What follows a question mark, and what precedes an @, may be credentials (rule 14).
            let shown = text.split('?').next().unwrap_or_default();
            let shown = shown.rsplit_once('@').map_or(shown, |_| SCHEME);
            AddressError { text: shown.to_owned(), why }
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, prefix, region, endpoint, ca, encryption } = self;
        write!(f, "{SCHEME}{bucket}")?;
        if !prefix.is_empty() {
            write!(f, "/{prefix}")?;
        }
        let (sse, key) = match encryption {
            None => (None, None),
            Some(Encryption::Aes256) => (Some("AES256"), None),
            Some(Encryption::Kms(key)) => (Some("aws:kms"), Some(key.as_str())),
        };
        let ca = ca.as_ref().map(|path| path.display().to_string());
        let parameters = [
            ("region", region.as_deref()),
            ("endpoint", endpoint.as_deref()),
            ("ca-file", ca.as_deref()),
            ("sse", sse),
            ("kms-key", key),
        ];
        let mut separator = '?';
        for (name, value) in parameters {
            if let Some(value) = value {
                write!(f, "{separator}{name}={value}")?;
                separator = '&';
            }
        }
        Ok(())
    }
}

/// A prefix with another segment below it. Characters that keys should not have become underscores.
pub(crate) fn join(prefix: &str, segment: &str) -> String {
    let plain = |c: char| if is_key_character(c) && c != '/' { c } else { '_' };
    let segment: String = segment.chars().map(plain).collect();
    if prefix.is_empty() { segment } else { format!("{prefix}/{segment}") }
}

/// By Amazon's rules for names, which other servers have relaxed at most.
fn bucket_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if text.is_empty() {
        return Err("it names no bucket; write s3://BUCKET/PREFIX".to_owned());
    }
    let fits = (3..=63).contains(&text.len()) && text.chars().all(plain);
    if !fits || !text.starts_with(ends) || !text.ends_with(ends) {
        return Err(format!(
            "`{text}` is not the name of a bucket: 3 to 63 lower-case letters, digits, dashes and \
             dots"
        ));
    }
    Ok(text.to_owned())
}

/// Such keys need no encoding in any request, so that every server signs them alike.
fn is_key_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./".contains(c)
}

fn key_prefix(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    if let Some(wrong) = text.chars().find(|c| !is_key_character(*c)) {
        return Err(format!(
            "the prefix contains `{wrong}`; write letters, digits, dashes, underscores, dots and \
             slashes"
        ));
    }
    let odd = |segment: &str| matches!(segment, "" | "." | "..");
    if !text.is_empty() && text.split('/').any(odd) {
        return Err("a part of the prefix is empty, `.` or `..`".to_owned());
    }
    Ok(text.to_owned())
}

/// The name of a region. It becomes part of a host name.
pub(crate) fn region(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if text.is_empty() || !text.chars().all(plain) {
        return Err(format!("`{text}` is not a region; write one like eu-north-1"));
    }
    Ok(text.to_owned())
}

/// The URL of a server. Without TLS only on this machine: a snapshot holds every secret of its
/// cluster (rule 14).
pub(crate) fn endpoint(text: &str) -> Result<String, String> {
    if text.contains('@') {
        return Err("the endpoint must not contain a user name or password".to_owned());
    }
    let wrong = |why: &str| format!("the endpoint `{text}` {why}");
    let uri: Uri = text.parse().map_err(|_| wrong("is not a valid URL"))?;
    let host = uri.host().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| wrong("names no host; write https://HOST:PORT"))?;
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if is_loopback(host) => {}
        Some("http") => {
            return Err(wrong(
                "is not encrypted, and snapshots contain every secret of their cluster; write \
                 https://, and name the server's authority with ca-file=FILE if the system does not \
                 trust it",
            ));
        }
        _ => return Err(wrong("begins with https://")),
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(wrong("has a path; the bucket is added to it"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn encryption(sse: Option<&str>, key: Option<String>) -> Result<Option<Encryption>, String> {
    match (sse, key) {
        (None, None) => Ok(None),
        (Some("AES256"), None) => Ok(Some(Encryption::Aes256)),
        (Some("aws:kms"), Some(key)) => {
            // It becomes a header.
            if !key.chars().all(|c| c.is_ascii_graphic()) {
                return Err("the value of kms-key is not a key's ID or ARN".to_owned());
            }
            Ok(Some(Encryption::Kms(key)))
        }
        (Some("aws:kms"), None) => Err("sse=aws:kms needs a key; add kms-key=ARN".to_owned()),
        (_, Some(_)) => Err("kms-key belongs to sse=aws:kms".to_owned()),
        (Some(other), None) => {
            Err(format!("there is no encryption `{other}`; write sse=AES256 or sse=aws:kms"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in [
            "s3://backups",
            "s3://backups/prod/east?region=eu-north-1",
            "s3://my.backups/a_b?region=fsn1&endpoint=https://fsn1.your-objectstorage.com",
            "s3://backups?endpoint=http://127.0.0.1:7070&ca-file=/etc/ca.pem&sse=AES256",
            "s3://backups?endpoint=http://[::1]:7070",
            "s3://backups?region=eu-north-1&sse=aws:kms&kms-key=arn:aws:kms:eu-north-1:1:key/2",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let slashes = "s3://backups/prod/?endpoint=https://s3.lan/".parse::<Address>().unwrap();
        assert_eq!(slashes.to_string(), "s3://backups/prod?endpoint=https://s3.lan");
        assert_eq!(join(&join(&slashes.prefix, "team a"), "x"), "prod/team_a/x");
        assert_eq!(join("", "x"), "x");
        assert!(
            Address::is_meant("S3://x") && !Address::is_meant("./s3:") && !Address::is_meant("s3")
        );
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong() {
        for (text, why) in [
            ("/backups", "begins with s3://"),
            ("s3://", "names no bucket"),
            ("s3://Backups", "not the name of a bucket"),
            ("s3://ab", "not the name of a bucket"),
            ("s3://backups/a b", "the prefix contains ` `"),
            ("s3://backups/a//b", "a part of the prefix is empty"),
            ("s3://backups/../b", "`..`"),
            ("s3://backups?region=", "has no value"),
            ("s3://backups?region=a.b/c", "not a region"),
            ("s3://backups?region=a&region=b", "twice"),
            ("s3://backups?profile=x", "no parameter profile"),
            ("s3://backups?endpoint=minio:9000", "https://"),
            ("s3://backups?endpoint=http://minio:9000", "not encrypted"),
            ("s3://backups?endpoint=http://127.0.0.1.evil.example", "not encrypted"),
            ("s3://backups?endpoint=https://s3.lan/path", "has a path"),
            ("s3://backups?sse=aws:kms", "add kms-key"),
            ("s3://backups?kms-key=x", "belongs to"),
            ("s3://backups?sse=rot13", "no encryption"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn credentials_in_an_address_are_refused_and_not_repeated() {
        // Rule 14.
        for text in [
            "s3://AKIAID:hunter2@backups",
            "s3://backups?secret_access_key=hunter2",
            "s3://backups?hunter2",
            "s3://backups?endpoint=https://me:hunter2@s3.lan",
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
