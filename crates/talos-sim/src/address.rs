//! Where the nodes of a cluster listen.
//!
//! Each node has its own loopback address, in a block derived from the cluster's folder: the
//! addresses are the same at every start, and clusters side by side do not collide. Some systems
//! (macOS) have only 127.0.0.1. There the nodes share it, each on its own port, and know each other
//! by addresses that exist only inside the simulation.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use crate::server::listen;

/// apid's port on every real node.
pub const APID_PORT: u16 = 50_000;

/// The Image Factory's port, for layouts with one address per node.
const FACTORY_PORT: u16 = 8080;

/// The port of a Kubernetes API server, for layouts with one address per node.
const KUBERNETES_PORT: u16 = 6443;

/// The host part, within a block, of the address that the control planes share. No node has it, see
/// [`node_address`].
const SHARED: u32 = 254;

/// Blocks lie in 127.64.0.0 to 127.127.255.0, away from the addresses near 127.0.0.1 that other
/// programs use.
const FIRST_BLOCK: u32 = u32::from_be_bytes([127, 64, 0, 0]);
const BLOCKS: u32 = 64 * 256;

/// How many blocks are tried before giving up: more than the clusters of one name on any machine.
const ATTEMPTS: u32 = 512;

/// How node addresses are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One address per node if the system supports it, otherwise one port per node.
    #[default]
    Auto,
    /// One address per node, apid on its usual port.
    Addresses,
    /// 127.0.0.1 for all, one port per node.
    Ports,
}

/// Where everything listens. The folder stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The address of each node inside the cluster.
    pub nodes: Vec<IpAddr>,
    /// Where each node's apid listens.
    pub apid: Vec<SocketAddr>,
    /// Where each control plane's Kubernetes API server listens.
    pub kubernetes: Vec<SocketAddr>,
    /// The shared address of the Kubernetes API, open while any control plane serves it.
    pub endpoint: SocketAddr,
    /// Where the Image Factory listens.
    pub factory: SocketAddr,
}

/// Open sockets, in the order of [`Places`].
#[derive(Debug)]
pub struct Sockets {
    /// Of each node.
    pub apid: Vec<TcpListener>,
    /// Of each control plane's API server.
    pub kubernetes: Vec<TcpListener>,
    /// Of the address that they share.
    pub endpoint: TcpListener,
    /// Of the Image Factory.
    pub factory: TcpListener,
}

/// Why the sockets could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// An address is taken or cannot be used.
    #[error("cannot listen on {address}{hint}")]
    Taken {
        /// Which.
        address: SocketAddr,
        /// What to do about it.
        hint: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Too many nodes for the addresses there are.
    #[error("{0} nodes do not fit behind that address")]
    TooMany(usize),
}

impl Places {
    /// Opens the sockets of a cluster that was started before.
    pub fn reopen(&self) -> Result<Sockets, AddressError> {
        let hint = ": is another simulator or a real node using it?";
        let open = |address: &SocketAddr| open(*address, hint);
        // The factory's first: it is open as long as a cluster runs, while the others are closed
        // when their node is down. So a block of a running cluster is found taken at once, and no
        // other cluster listens in place of a node that is down, not even briefly.
        let factory = open(&self.factory)?;
        Ok(Sockets {
            apid: self.apid.iter().map(open).collect::<Result<_, _>>()?,
            kubernetes: self.kubernetes.iter().map(open).collect::<Result<_, _>>()?,
            endpoint: open(&self.endpoint)?,
            factory,
        })
    }

    /// Finds places for a new cluster of `count` nodes, control planes first: in the block that
    /// begins at `subnet`, or in the first free block derived from `seed`.
    pub fn find(
        count: usize,
        control_planes: usize,
        layout: Layout,
        subnet: Option<Ipv4Addr>,
        seed: &[u8],
    ) -> Result<(Self, Sockets), AddressError> {
        let ports = match layout {
            Layout::Addresses => false,
            Layout::Ports => true,
            Layout::Auto => subnet.is_none() && !has_many_addresses(),
        };
        if ports {
            return Self::on_ports(count, control_planes);
        }
        if let Some(base) = subnet {
            return Self::on_addresses(count, control_planes, base);
        }
        let hash = Sha256::digest(seed);
        let start = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]) % BLOCKS;
        // Each try moves on by the width of the cluster.
        let width = u32::try_from(count / 250 + 1).map_err(|_| AddressError::TooMany(count))?;
        let mut last = AddressError::TooMany(count);
        for attempt in 0..ATTEMPTS {
            let block = (start + attempt * width) % (BLOCKS - width.min(BLOCKS - 1));
            let base = Ipv4Addr::from_bits(FIRST_BLOCK + (block << 8));
            match Self::on_addresses(count, control_planes, base) {
                Ok(found) => return Ok(found),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn on_addresses(
        count: usize,
        control_planes: usize,
        base: Ipv4Addr,
    ) -> Result<(Self, Sockets), AddressError> {
        let addresses: Vec<IpAddr> = (0..count)
            .map(|index| node_address(base, index))
            .collect::<Option<_>>()
            .ok_or(AddressError::TooMany(count))?;
        let first = addresses.first().copied().unwrap_or(IpAddr::V4(base));
        let shared = base.to_bits().checked_add(SHARED).ok_or(AddressError::TooMany(count))?;
        let shared = IpAddr::V4(Ipv4Addr::from_bits(shared));
        let on = |port: u16| move |address: &IpAddr| SocketAddr::new(*address, port);
        let places = Self {
            apid: addresses.iter().map(on(APID_PORT)).collect(),
            kubernetes: addresses.iter().take(control_planes).map(on(KUBERNETES_PORT)).collect(),
            endpoint: SocketAddr::new(shared, KUBERNETES_PORT),
            nodes: addresses,
            factory: SocketAddr::new(first, FACTORY_PORT),
        };
        let sockets = places.reopen()?;
        Ok((places, sockets))
    }

    fn on_ports(count: usize, control_planes: usize) -> Result<(Self, Sockets), AddressError> {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let mut places = Self {
            nodes: Vec::new(),
            apid: Vec::new(),
            kubernetes: Vec::new(),
            endpoint: any,
            factory: any,
        };
        let mut sockets = Vec::new();
        for index in 0..count {
            let inside = node_address(Ipv4Addr::new(10, 5, 0, 0), index);
            places.nodes.push(inside.ok_or(AddressError::TooMany(count))?);
            let (socket, address) = open_any(any)?;
            sockets.push(socket);
            places.apid.push(address);
        }
        let mut kubernetes = Vec::new();
        for _ in 0..control_planes {
            let (socket, address) = open_any(any)?;
            kubernetes.push(socket);
            places.kubernetes.push(address);
        }
        let (endpoint, address) = open_any(any)?;
        places.endpoint = address;
        let (factory, address) = open_any(any)?;
        places.factory = address;
        let sockets = Sockets { apid: sockets, kubernetes, endpoint, factory };
        Ok((places, sockets))
    }
}

fn open(address: SocketAddr, hint: &'static str) -> Result<TcpListener, AddressError> {
    listen(address).map_err(|source| AddressError::Taken { address, hint, source })
}

fn open_any(any: SocketAddr) -> Result<(TcpListener, SocketAddr), AddressError> {
    let socket = open(any, "")?;
    let address = socket.local_addr().unwrap_or(any);
    Ok((socket, address))
}

/// The first node is at .2, as in most networks; the ends of each block of 256
/// are left out.
fn node_address(base: Ipv4Addr, index: usize) -> Option<IpAddr> {
    let index = u32::try_from(index).ok()?;
    let offset = (index / 250) * 256 + index % 250 + 2;
    let bits = base.to_bits().checked_add(offset)?;
    Some(IpAddr::V4(Ipv4Addr::from_bits(bits)))
}

/// Whether all of 127.0.0.0/8 can be used.
fn has_many_addresses() -> bool {
    let probe = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 64, 0, 2)), 0);
    listen(probe).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn blocks_follow_from_the_seed_and_do_not_overlap() {
        let (one, sockets) = Places::find(3, 1, Layout::Addresses, None, b"a").unwrap();
        let (two, _kept) = Places::find(3, 1, Layout::Addresses, None, b"a").unwrap();
        assert!(one.nodes.iter().all(|node| !two.nodes.contains(node)));
        let error = one.reopen().unwrap_err();
        assert!(error.to_string().contains(&one.factory.to_string()), "{error}");
        // The block stays taken even while all of its nodes are down.
        let Sockets { apid, kubernetes, endpoint, factory } = sockets;
        drop((apid, kubernetes, endpoint));
        let error = one.reopen().unwrap_err();
        assert!(error.to_string().contains(&one.factory.to_string()), "{error}");
        drop(factory);
        one.reopen().unwrap();
    }

    #[tokio::test]
    async fn many_clusters_of_one_name_find_a_block_each() {
        let mut kept = Vec::new();
        for _ in 0..40 {
            kept.push(Places::find(1, 1, Layout::Addresses, None, b"many").unwrap());
        }
        let nodes: std::collections::BTreeSet<_> =
            kept.iter().map(|(places, _)| places.nodes[0]).collect();
        assert_eq!(nodes.len(), kept.len());
    }

    #[tokio::test]
    async fn every_node_gets_a_port() {
        let (places, _sockets) = Places::find(3, 1, Layout::Ports, None, b"").unwrap();
        assert_eq!(places.kubernetes.len(), 1);
        assert!(places.apid.iter().all(|apid| apid.ip() == Ipv4Addr::LOCALHOST));
        assert_eq!(places.nodes[0].to_string(), "10.5.0.2");
    }

    #[test]
    fn many_nodes_fit() {
        let base = Ipv4Addr::new(127, 64, 0, 0);
        assert_eq!(node_address(base, 249).unwrap().to_string(), "127.64.0.251");
        assert_eq!(node_address(base, 250).unwrap().to_string(), "127.64.1.2");
        assert_eq!(node_address(Ipv4Addr::BROADCAST, 0), None);
    }
}
