//! A cluster of simulated Talos nodes.
//!
//! [`model`] is the core: a pure, synchronous state machine of one cluster. Sockets, and the
//! in-memory worlds of the deterministic simulation, are adapters around it.
//!
//! The adapters: [`cluster`] starts a whole cluster on loopback. Its [`driver`] owns the model and
//! the [`clock`]. Each node has a [`server`] that listens and speaks TLS ([`tls`], [`pki`],
//! [`keepalive`]); [`grpc`] reads requests, which [`apid`] routes. Beside the nodes there are an Image
//! Factory ([`factory`]), a [`store`] for everything that survives a restart, and a [`control`]
//! port for the faults of [`schedule`] at run time. [`kubernetes`] serves the cluster's Kubernetes
//! API.

pub mod address;
pub mod apid;
pub mod clock;
pub mod cluster;
pub mod control;
pub mod driver;
pub mod factory;
pub mod grpc;
pub mod keepalive;
pub mod kubernetes;
pub mod model;
pub mod pki;
pub mod schedule;
pub mod schematic;
pub mod secrets_bundle;
pub mod server;
pub mod store;
pub mod talosconfig;
pub mod tls;
