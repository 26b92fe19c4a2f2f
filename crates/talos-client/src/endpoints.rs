//! The endpoints of a cluster: one channel each, their health, and the order in which to try them.
//!
//! The endpoint that worked last is tried first. One that failed is tried last for a while, but
//! never dropped: when all are down there are no others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::Instant;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint as TonicEndpoint};

use crate::address::EndpointAddress;
use crate::connect::Connector;
use crate::error::Failure;

/// How long a failed endpoint is tried last. A reboot takes a minute or more, and an occasional
/// attempt costs little.
const DOWN_FOR: Duration = Duration::from_secs(15);

/// One endpoint.
pub(crate) struct Endpoint {
    pub(crate) address: EndpointAddress,
    pub(crate) channel: Channel,
    health: Mutex<Health>,
}

#[derive(Clone, Default)]
struct Health {
    down_until: Option<Instant>,
    last_failure: Option<String>,
}

/// The result of an endpoint's last use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointHealth {
    /// Its address.
    pub address: EndpointAddress,
    /// Why its last use failed; `None` if it worked or was never used.
    pub failure: Option<String>,
}

impl Endpoint {
    fn new(address: &EndpointAddress, tls: &Arc<ClientConfig>, connect: Duration) -> Self {
        let uri = |scheme| uri(scheme, address);
        // `http` because tonic's own TLS is not used; the server sees the `https` origin.
        let channel = TonicEndpoint::from(uri("http"))
            .origin(uri("https"))
            .connect_with_connector_lazy(Connector::new(address.clone(), Arc::clone(tls), connect));
        Self { address: address.clone(), channel, health: Mutex::default() }
    }

    fn health(&self) -> std::sync::MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failed(&self, failure: &Failure, now: Instant) {
        *self.health() =
            Health { down_until: Some(now + DOWN_FOR), last_failure: Some(failure.to_string()) };
    }

    fn is_down(&self, now: Instant) -> bool {
        self.health().down_until.is_some_and(|until| now < until)
    }
}

fn uri(scheme: &str, address: &EndpointAddress) -> Uri {
    format!("{scheme}://{address}").parse().expect("a checked address makes a URI")
}

/// All endpoints of a cluster.
pub(crate) struct Endpoints {
    all: Vec<Arc<Endpoint>>,
    preferred: AtomicUsize,
}

impl Endpoints {
    pub(crate) fn new(
        addresses: &[EndpointAddress],
        tls: &Arc<ClientConfig>,
        connect: Duration,
    ) -> Self {
        let all = addresses
            .iter()
            .map(|address| Arc::new(Endpoint::new(address, tls, connect)))
            .collect();
        Self { all, preferred: AtomicUsize::new(0) }
    }

    /// The endpoints in the order to try them now.
    pub(crate) fn line_up(&self, now: Instant) -> Vec<Arc<Endpoint>> {
        let first = self.preferred.load(Ordering::Relaxed);
        let count = self.all.len();
        let mut line: Vec<_> =
            (0..count).map(|offset| Arc::clone(&self.all[(first + offset) % count])).collect();
        // A stable sort: working endpoints keep their order.
        line.sort_by_key(|endpoint| endpoint.is_down(now));
        line
    }

    pub(crate) fn worked(&self, endpoint: &Arc<Endpoint>) {
        *endpoint.health() = Health::default();
        if let Some(index) = self.all.iter().position(|one| Arc::ptr_eq(one, endpoint)) {
            self.preferred.store(index, Ordering::Relaxed);
        }
    }

    pub(crate) fn health(&self) -> Vec<EndpointHealth> {
        self.all
            .iter()
            .map(|endpoint| EndpointHealth {
                address: endpoint.address.clone(),
                failure: endpoint.health().last_failure.clone(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use rustls::{RootCertStore, crypto::ring};

    use super::*;

    fn endpoints(addresses: &[&str]) -> Endpoints {
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let addresses: Vec<_> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Endpoints::new(&addresses, &Arc::new(tls), Duration::from_secs(1))
    }

    #[tokio::test(start_paused = true)]
    async fn working_endpoints_come_first_and_failed_ones_last_for_a_while() {
        let endpoints = endpoints(&["a", "b", "c"]);
        let line = || -> String {
            let line = endpoints.line_up(Instant::now());
            line.iter().map(|endpoint| endpoint.address.host()).collect()
        };
        assert_eq!(line(), "abc");
        endpoints.all[0].failed(&Failure::Broken(String::new()), Instant::now());
        assert_eq!(line(), "bca");
        endpoints.worked(&endpoints.all[2]);
        assert_eq!(line(), "cba");
        tokio::time::advance(DOWN_FOR).await;
        assert_eq!(line(), "cab");
        // The reason stays until it works again.
        assert!(endpoints.health()[0].failure.is_some());
        endpoints.worked(&endpoints.all[0]);
        assert!(endpoints.health()[0].failure.is_none());
        assert_eq!(line(), "abc");
        for endpoint in &endpoints.all {
            endpoint.failed(&Failure::Broken(String::new()), Instant::now());
        }
        assert_eq!(line(), "abc", "when all are down, all are tried");
    }

    proptest! {
        #[test]
        fn every_address_makes_a_uri_and_a_server_name(
            text in "[a-zA-Z0-9_.:\\[\\]-]{1,24}|[0-9a-f:]{2,20}|[a-z.-]{1,12}:[0-9]{1,5}",
        ) {
            if let Ok(address) = text.parse::<EndpointAddress>() {
                let uri = uri("https", &address);
                prop_assert_eq!(uri.port_u16(), Some(address.port()));
                let _ = address.server_name();
            }
        }
    }
}
