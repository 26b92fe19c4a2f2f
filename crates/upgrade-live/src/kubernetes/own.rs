//! Asking the API server of one control plane, and not whichever answers at the
//! address that they share.
//!
//! It is asked at its machine's own address, with the cluster's authority and the
//! kubeconfig's credentials. Talos puts every address of the machine into the
//! certificate, so it is verified like any other. Where that address cannot be reached
//! from here, or the kubeconfig is for a proxy with an authority of its own, the
//! endpoints of the Service `kubernetes` tell: an API server enters itself there once it
//! is ready, and is taken out within seconds when it is gone.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::discovery::v1::{EndpointConditions, EndpointSlice};
use kube::Api;
use kube::api::ListParams;
use talos_client::Client as Talos;
use talos_client::resources::ApiServerConfig;
use tokio::time::timeout;
use upgrade_core::reason::FailureKind;
use upgrade_core::text::chain;
use upgrade_engine::io::{IoError, Machine};

use super::access::Access;
use super::read;

/// Where an API server of Talos listens unless the machine configuration says otherwise.
const PORT: u16 = 6443;

/// How long each question may take: the other nodes are waiting for the same observation.
const LIMIT: Duration = Duration::from_secs(4);

/// The endpoints of the API servers.
const OF_API_SERVERS: &str = "kubernetes.io/service-name=kubernetes";

/// Why there was no good answer.
#[derive(Debug)]
enum NoAnswer {
    /// It is not ready, or nothing listens there.
    Down(String),
    /// It cannot be asked from here.
    OutOfReach(String),
}

/// Comes back well if the machine's own API server says that it is ready.
pub(super) async fn api_server(
    access: &Access,
    talos: Option<&Talos>,
    of: &Machine,
) -> Result<(), IoError> {
    let down = |why: &str| IoError::new(FailureKind::Unavailable, why);
    let port = port(talos, of).await;
    let why = match ask(access, of, port).await {
        Ok(()) => return Ok(()),
        Err(NoAnswer::Down(why)) => return Err(down(&why)),
        Err(NoAnswer::OutOfReach(why)) => why,
    };
    tracing::debug!(node = %of.name, %why, "the API server is not asked itself");
    match timeout(LIMIT, is_listed(access, of)).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => {
            let text = "it is not among the endpoints of the Service kubernetes, and cannot be \
                        asked at its own address";
            Err(down(&format!("{text}: {why}")))
        }
        Ok(Err(trouble)) => Err(trouble),
        Err(_) => Err(down(&format!("the Kubernetes API did not answer in time; {why}"))),
    }
}

/// The port that the machine's API server listens on.
async fn port(talos: Option<&Talos>, of: &Machine) -> u16 {
    let (Some(talos), Ok(address)) = (talos, of.address.parse()) else { return PORT };
    let node = talos.node(address);
    match timeout(LIMIT, node.get::<ApiServerConfig>()).await {
        Ok(Ok(Some(config))) => config.spec.local_port.unwrap_or(PORT),
        _ => PORT,
    }
}

/// Asks it at its own address.
async fn ask(access: &Access, of: &Machine, port: u16) -> Result<(), NoAnswer> {
    let out_of_reach = |why: &dyn ToString| NoAnswer::OutOfReach(why.to_string());
    let address: IpAddr = of
        .address
        .parse()
        .map_err(|_| NoAnswer::OutOfReach(format!("{} is no address", of.address)))?;
    let own = access.at(std::net::SocketAddr::new(address, port)).await;
    let own = own.map_err(|trouble| out_of_reach(&trouble))?;
    // No object: `Api` has no type for it.
    let request = Request::get("/readyz").body(Vec::new()).expect("a path");
    match timeout(LIMIT, own.request_text(request)).await {
        Ok(Ok(_)) => Ok(()),
        // Its answer says which of its parts are not ready.
        Ok(Err(kube::Error::Api(status))) if status.code >= 500 => {
            Err(NoAnswer::Down(format!("/readyz answered {}", status.code)))
        }
        Ok(Err(error)) if is_refused(&error) => {
            Err(NoAnswer::Down(format!("{address}:{port} refused the connection")))
        }
        Ok(Err(error)) => Err(NoAnswer::OutOfReach(chain(&error))),
        Err(_) => Err(NoAnswer::OutOfReach(format!("no answer from {address}:{port}"))),
    }
}

/// Whether nothing listens there, though the machine can be reached.
pub(super) fn is_refused(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
            )
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether the API servers' own list has it.
async fn is_listed(access: &Access, of: &Machine) -> Result<bool, IoError> {
    let slices = |client| Api::<EndpointSlice>::namespaced(client, "default");
    let slices = access.list(slices, ListParams::default().labels(OF_API_SERVERS)).await;
    let slices =
        slices.map_err(|refused| refused.on_read("the API servers could not be listed"))?;
    let internal = read::internal_ips(access, &of.name).await?;
    let own: BTreeSet<String> = internal.chain([of.address.clone()]).collect();
    Ok(is_among(&slices, &own))
}

fn is_among(slices: &[EndpointSlice], own: &BTreeSet<String>) -> bool {
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let ready = |conditions: &EndpointConditions| conditions.ready != Some(false);
    endpoints
        .filter(|endpoint| endpoint.conditions.as_ref().is_none_or(ready))
        .flat_map(|endpoint| &endpoint.addresses)
        .any(|address| own.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listed_api_server_that_is_ready_counts() {
        // Rule 1.
        let text = r#"[
            {"addressType": "IPv4", "endpoints": [{"addresses": ["10.5.0.2"], "conditions": {"ready": true}},
                           {"addresses": ["10.5.0.3"], "conditions": {"ready": false}},
                           {"addresses": ["10.5.0.4"]}]},
            {"addressType": "IPv4", "endpoints": null}
        ]"#;
        let slices: Vec<EndpointSlice> = serde_json::from_str(text).unwrap();
        let listed = |address: &str| is_among(&slices, &BTreeSet::from([address.to_owned()]));
        assert!(listed("10.5.0.2") && listed("10.5.0.4"));
        assert!(!listed("10.5.0.3") && !listed("10.5.0.9"));
    }

    #[test]
    fn a_refused_connection_is_told_from_one_that_finds_no_way() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert!(is_refused(&kube::Error::Service(Box::new(refused))));
        let nowhere = io::Error::from(io::ErrorKind::HostUnreachable);
        assert!(!is_refused(&kube::Error::Service(Box::new(nowhere))));
    }
}
