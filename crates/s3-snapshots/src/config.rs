//! Everything that a store needs: an address, credentials and authorities.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use upgrade_core::hidden::Hidden;

use crate::address::{self, Address};

/// The region where a server of one's own has none.
const NO_REGION: &str = "us-east-1";

/// The largest bundle of authorities; the system's own has a quarter of a megabyte.
const LARGEST_BUNDLE: u64 = 4 << 20;

/// The variables, by the names that every S3 client knows.
const KEY_ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET_KEY: &str = "AWS_SECRET_ACCESS_KEY";
const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";
const REGION: &str = "AWS_REGION";
const DEFAULT_REGION: &str = "AWS_DEFAULT_REGION";
const ENDPOINT: &str = "AWS_ENDPOINT_URL";
const ENDPOINT_S3: &str = "AWS_ENDPOINT_URL_S3";

/// What proves to the server who asks.
#[derive(Clone)]
pub struct Credentials {
    /// The access key's ID.
    pub key_id: Hidden<String>,
    /// The secret access key.
    pub secret_key: Hidden<String>,
    /// The token of temporary credentials.
    pub session_token: Option<Hidden<String>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(<hidden>)")
    }
}

/// Where the snapshots of a store go, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The bucket and its server.
    pub address: Address,
    /// The region.
    pub region: String,
    /// The credentials.
    pub credentials: Credentials,
    /// Authorities to trust beside the system's, as PEM.
    pub authorities: Option<Vec<u8>>,
}

/// Why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A variable is missing.
    #[error(
        "there are no credentials for s3://{bucket}: {missing} is not set; set {KEY_ID} and {SECRET_KEY}"
    )]
    NoCredentials {
        /// The bucket.
        bucket: String,
        /// The variable.
        missing: &'static str,
    },
    /// Credentials are sent in headers.
    #[error("{0} contains a space or a special character; set it to the value alone")]
    NotAHeader(&'static str),
    /// Amazon's servers are named after regions.
    #[error("s3://{bucket} has no region; add ?region=REGION to the address, or set {REGION}")]
    NoRegion {
        /// The bucket.
        bucket: String,
    },
    /// A variable is wrong.
    #[error("{variable}: {why}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The file with authorities cannot be read.
    #[error("the authorities of the S3 server, {}, cannot be read; correct ca-file=FILE in the address", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        error: io::Error,
    },
}

/// The standard variables of S3 clients.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    key_id: Option<Hidden<String>>,
    secret_key: Option<Hidden<String>>,
    session_token: Option<Hidden<String>>,
    region: Option<String>,
    endpoint: Option<String>,
}

impl Environment {
    /// Reads them through a function, which the module that may read the environment has.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |one, other| variable(one).or_else(|| variable(other));
        Self {
            key_id: variable(KEY_ID).map(Hidden::new),
            secret_key: variable(SECRET_KEY).map(Hidden::new),
            session_token: variable(SESSION_TOKEN).map(Hidden::new),
            region: first(REGION, DEFAULT_REGION),
            endpoint: first(ENDPOINT_S3, ENDPOINT),
        }
    }

    fn credentials(&self, bucket: &str) -> Result<Credentials, ConfigError> {
        let needed = |value: &Option<Hidden<String>>, missing| {
            let absent = || ConfigError::NoCredentials { bucket: bucket.to_owned(), missing };
            header(value.as_ref().ok_or_else(absent)?, missing)
        };
        let token = self.session_token.as_ref();
        Ok(Credentials {
            key_id: needed(&self.key_id, KEY_ID)?,
            secret_key: needed(&self.secret_key, SECRET_KEY)?,
            session_token: token.map(|token| header(token, SESSION_TOKEN)).transpose()?,
        })
    }
}

/// A value without the newline that files of Secrets often have.
fn header(value: &Hidden<String>, name: &'static str) -> Result<Hidden<String>, ConfigError> {
    let text = value.expose().trim();
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
        return Err(ConfigError::NotAHeader(name));
    }
    Ok(Hidden::new(text.to_owned()))
}

impl Config {
    /// The address, completed by the environment. What the address says takes precedence.
    pub fn from_environment(
        address: Address,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let credentials = environment.credentials(&address.bucket)?;
        let mut address = address;
        if address.endpoint.is_none()
            && let Some(endpoint) = &environment.endpoint
        {
            let checked = address::endpoint(endpoint);
            let wrong = |why| ConfigError::Variable { variable: ENDPOINT, why };
            address.endpoint = Some(checked.map_err(wrong)?);
        }
        if address.region.is_none()
            && let Some(region) = &environment.region
        {
            let wrong = |why| ConfigError::Variable { variable: REGION, why };
            address.region = Some(address::region(region).map_err(wrong)?);
        }
        let authorities = address.ca.as_deref().map(read_bundle).transpose()?;
        Self::new(address, credentials, authorities)
    }

    /// With credentials and authorities from elsewhere, such as a Secret.
    pub fn new(
        address: Address,
        credentials: Credentials,
        authorities: Option<Vec<u8>>,
    ) -> Result<Self, ConfigError> {
        let region = match (&address.region, &address.endpoint) {
            (Some(region), _) => region.clone(),
            (None, Some(_)) => NO_REGION.to_owned(),
            (None, None) => {
                return Err(ConfigError::NoRegion { bucket: address.bucket });
            }
        };
        Ok(Self { address, region, credentials, authorities })
    }
}

fn read_bundle(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let read = || {
        if std::fs::metadata(path)?.len() > LARGEST_BUNDLE {
            return Err(io::Error::other("it is larger than 4 MiB"));
        }
        std::fs::read(path)
    };
    read().map_err(|error| ConfigError::Authorities { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(set: &[(&str, &str)]) -> Environment {
        Environment::read(|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const KEYS: [(&str, &str); 3] =
        [(KEY_ID, "AKIAHUNTER1"), (SECRET_KEY, "hunter2\n"), (SESSION_TOKEN, "hunter3")];

    #[test]
    fn the_address_precedes_the_environment() {
        let mut set = KEYS.to_vec();
        set.extend([(REGION, "eu-north-1"), (ENDPOINT, "https://s3.lan/")]);
        let config = |text: &str, set: &[_]| {
            Config::from_environment(text.parse().unwrap(), &environment(set))
        };
        let read = config("s3://backups", &set).unwrap();
        assert_eq!(read.region, "eu-north-1");
        assert_eq!(read.address.endpoint.as_deref(), Some("https://s3.lan"));
        assert_eq!(read.credentials.secret_key.expose(), "hunter2");
        let said = config("s3://backups?region=fsn1&endpoint=https://other.lan", &set).unwrap();
        assert_eq!(said.region, "fsn1");
        assert_eq!(said.address.endpoint.as_deref(), Some("https://other.lan"));
        let own = config("s3://backups?endpoint=https://other.lan", &KEYS).unwrap();
        assert_eq!(own.region, NO_REGION);
    }

    #[test]
    fn what_is_missing_is_named() {
        let wrong = |text: &str, set: &[_]| {
            let config = Config::from_environment(text.parse().unwrap(), &environment(set));
            config.unwrap_err().to_string()
        };
        assert!(wrong("s3://backups?region=x", &KEYS[1..]).contains(KEY_ID));
        assert!(wrong("s3://backups?region=x", &KEYS[..1]).contains(SECRET_KEY));
        assert!(wrong("s3://backups", &KEYS).contains("?region=REGION"));
        let mut set = KEYS.to_vec();
        set.push((ENDPOINT, "http://s3.lan"));
        assert!(wrong("s3://backups", &set).contains("AWS_ENDPOINT_URL: the endpoint"));
        let none = wrong("s3://backups?region=x&ca-file=/nonexistent/ca.pem", &KEYS);
        assert!(none.contains("/nonexistent/ca.pem"), "{none}");
    }

    #[test]
    fn credentials_are_not_shown() {
        // Rule 14.
        let environment = environment(&KEYS);
        let address = "s3://backups?region=x".parse().unwrap();
        let config = Config::from_environment(address, &environment).unwrap();
        let shown = format!("{environment:?} {config:?} {:#?}", config.credentials);
        assert!(!shown.to_lowercase().contains("hunter"), "{shown}");
        let odd = [(KEY_ID, "AKIA"), (SECRET_KEY, "hunter2 hunter2")];
        let address = "s3://backups?region=x".parse().unwrap();
        let error = Config::from_environment(address, &self::environment(&odd)).unwrap_err();
        assert!(error.to_string().starts_with(SECRET_KEY), "{error}");
        assert!(!error.to_string().contains("hunter"), "{error}");
    }
}
