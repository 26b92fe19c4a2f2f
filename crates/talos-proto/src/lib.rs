//! The protocols that a Talos node speaks: its machine API and COSI, the API
//! of its resources.
//!
//! The definitions are our own and minimal. They stand in `proto/` and have the
//! package, message and method names and the field numbers of the real ones,
//! so that real nodes and a real talosctl understand them; what we do not use
//! is missing, and unknown fields are skipped, as protobuf wants it.
//!
//! The modules follow the packages: [`machine`], [`cluster`], [`common`],
//! [`cosi::resource`] and [`google::rpc`]. The payloads of resources, which in
//! Talos sit in `talos.resource.definitions` and `resource.config`, are
//! together in [`resource`]. [`kind`] says which payload belongs to which
//! resource type and where the resource is found; [`event`] packs and unpacks
//! what the event stream carries.
//!
//! Messages are plain data and always there. The features `client` and
//! `server` (both on by default) add tonic's code for one side or the other,
//! for example `machine::machine_service_client` and
//! `machine::machine_service_server`. Neither brings a transport: a client is
//! made from a channel, a server is put into a router, and whoever does that
//! chooses tonic's features.
//!
//! Maps are ordered, so encoding is deterministic. `common::Data` and the
//! messages of `cosi.resource` hold their bytes as [`bytes::Bytes`], which are
//! cheap to clone.
//!
//! Messages that may hold keys (machine configurations, kubeconfigs, specs of
//! resources) show only the length of what they hold in their `Debug` output.

pub mod event;
mod generated;
pub mod kind;
mod redacted;

#[doc(inline)]
pub use generated::{cluster, common, cosi, google, machine};
pub use kind::Kind;

/// Payloads of resources: what `Spec.proto_spec` encodes.
pub mod resource {
    #[doc(inline)]
    pub use crate::generated::resource::config;
    #[doc(inline)]
    pub use crate::generated::talos::resource::definitions::{
        block, cluster, enums, etcd, extensions, k8s, kubeaccess, network, runtime, v1alpha1,
    };
}

/// Every definition of this crate and what they import, as an encoded
/// `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/talos.bin"));

/// The largest message that Talos sends or accepts: 32 MiB. tonic's own limit
/// for received messages is 4 MiB, which a large machine configuration or
/// manifest may exceed, so both sides have to raise it to this.
pub const MAX_MESSAGE_SIZE: usize = 32 << 20;
