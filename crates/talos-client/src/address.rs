//! Addresses of Talos API endpoints and of nodes.
//!
//! They look alike but differ: the client connects to an endpoint, which may have a port. A node is
//! named in the request; the endpoint forwards to it, always to the default port.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use rustls::pki_types::ServerName;
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};

/// The port of the Talos API.
pub const DEFAULT_PORT: u16 = 50000;

/// A string that is not a valid address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not an address: {why}")]
pub struct AddressError {
    /// The input.
    pub text: String,
    /// What is wrong with it, and what is valid.
    pub why: &'static str,
}

/// An address to connect to: a control plane node, by IP address or by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointAddress {
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Host {
    Ip(IpAddr),
    Name(String),
}

impl EndpointAddress {
    /// The host without a port: an IP address without brackets, or a name.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Ip(ip) => ip.to_string(),
            Host::Name(name) => name.clone(),
        }
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The name that the endpoint's certificate has to be valid for.
    pub(crate) fn server_name(&self) -> ServerName<'static> {
        match &self.host {
            Host::Ip(ip) => ServerName::IpAddress((*ip).into()),
            Host::Name(name) => {
                ServerName::try_from(name.clone()).expect("names are validated by parsing")
            }
        }
    }
}

impl Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host {
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{port}"),
            Host::Ip(IpAddr::V4(ip)) => write!(f, "{ip}:{port}"),
            Host::Name(name) => write!(f, "{name}:{port}"),
        }
    }
}

impl FromStr for EndpointAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = split(text)?;
        Ok(Self { host, port: port.unwrap_or(DEFAULT_PORT) })
    }
}

/// The node that a request is for, in the endpoint's terms: an IP address or a name that the
/// endpoint can resolve, without a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeAddress(String);

impl NodeAddress {
    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn metadata(&self) -> MetadataValue<Ascii> {
        self.0.parse().expect("an IP address or a DNS name is plain ASCII")
    }
}

impl Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for NodeAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match split(text)? {
            (_, Some(_)) => Err(AddressError {
                text: text.to_owned(),
                why: "a node has no port; ports belong to endpoints",
            }),
            (Host::Ip(ip), None) => Ok(Self(ip.to_string())),
            (Host::Name(name), None) => Ok(Self(name)),
        }
    }
}

impl From<IpAddr> for NodeAddress {
    fn from(ip: IpAddr) -> Self {
        Self(ip.to_string())
    }
}

fn split(text: &str) -> Result<(Host, Option<u16>), AddressError> {
    let fail = |why| AddressError { text: text.to_owned(), why };
    if text.is_empty() {
        return Err(fail("it is empty; write an IP address or a host name"));
    }
    if text.contains("://") {
        return Err(fail(
            "it is a URL; write only the host and perhaps a port, like 10.5.0.2:50000",
        ));
    }
    if text.contains('%') {
        return Err(fail(
            "addresses with a zone cannot be verified; use another address of the node",
        ));
    }
    // Bare IPv6 first: its colons do not start a port.
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok((Host::Ip(ip), None));
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (inner, after) = rest
            .split_once(']')
            .ok_or_else(|| fail("the bracket is not closed; write it like [fd00::2]:50000"))?;
        let ip = inner
            .parse::<Ipv6Addr>()
            .map_err(|_| fail("brackets are for IPv6 addresses, like [fd00::2]:50000"))?;
        let port = match after.strip_prefix(':') {
            Some(port) => Some(port),
            None if after.is_empty() => None,
            None => return Err(fail("after the bracket only a port may follow")),
        };
        (Host::Ip(ip.into()), port)
    } else {
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let host = match host.parse::<IpAddr>() {
            Ok(ip) => Host::Ip(ip),
            Err(_) if ServerName::try_from(host).is_ok() => Host::Name(host.to_owned()),
            Err(_) => {
                return Err(fail(
                    "write an IP address or a host name, like 10.5.0.2, [fd00::2] or cp-1.example.org",
                ));
            }
        };
        (host, port)
    };
    let port = match port {
        None => None,
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err(fail("a port is a number from 1 to 65535")),
        },
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (text, canonical) in [
            ("10.5.0.2", "10.5.0.2:50000"),
            ("10.5.0.2:443", "10.5.0.2:443"),
            ("fd00::2", "[fd00::2]:50000"),
            ("[fd00::2]", "[fd00::2]:50000"),
            ("[fd00::2]:50001", "[fd00::2]:50001"),
            ("cp-1.example.org", "cp-1.example.org:50000"),
            ("cp-1:6000", "cp-1:6000"),
        ] {
            let address: EndpointAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), canonical);
            assert_eq!(canonical.parse::<EndpointAddress>().unwrap(), address);
            let _ = address.server_name();
        }
    }

    #[test]
    fn an_invalid_endpoint_says_why() {
        for (text, why) in [
            ("", "empty"),
            ("https://10.5.0.2:50000", "URL"),
            ("fe80::1%eth0", "zone"),
            ("[fd00::2", "not closed"),
            ("[10.5.0.2]", "brackets are for IPv6"),
            ("[fd00::2]x", "only a port"),
            ("10.5.0.2:0", "1 to 65535"),
            ("10.5.0.2:70000", "1 to 65535"),
            ("10.5.0.2:", "1 to 65535"),
            ("a b", "IP address or a host name"),
            (":50000", "IP address or a host name"),
            ("fd00::2:xyz::", "IP address or a host name"),
        ] {
            let error = text.parse::<EndpointAddress>().unwrap_err().to_string();
            assert!(error.contains(why) || error.contains("1 to 65535"), "{text}: {error}");
        }
    }

    #[test]
    fn nodes_have_no_port() {
        assert_eq!("10.5.0.2".parse::<NodeAddress>().unwrap().as_str(), "10.5.0.2");
        assert_eq!("[fd00::2]".parse::<NodeAddress>().unwrap().as_str(), "fd00::2");
        assert_eq!("cp-1".parse::<NodeAddress>().unwrap().metadata(), "cp-1");
        let error = "10.5.0.2:50000".parse::<NodeAddress>().unwrap_err();
        assert!(error.to_string().contains("a node has no port"), "{error}");
    }
}
