//! The protocols of a Talos node: its machine API and COSI, the API of its resources.
//!
//! The definitions are our own and minimal. They are in `proto/` and keep the package, message and
//! method names and the field numbers of the real ones, so that real nodes and a real talosctl
//! understand them; unused fields are omitted, and skipped as unknown, as protobuf requires.
//!
//! The modules follow the packages: [`machine`], [`cluster`], [`common`], [`cosi::resource`] and
//! [`google::rpc`]. The payloads of resources, in Talos part of `talos.resource.definitions` and
//! `resource.config`, are together in [`resource`]. [`kind`] maps resource types to payloads and
//! namespaces; [`event`] packs and unpacks the payloads of the event stream.
//!
//! Messages are plain data and always available. The features `client` and `server` (both on by
//! default) add tonic's code for one side or the other, for example
//! `machine::machine_service_client` and `machine::machine_service_server`. Neither adds a
//! transport: a client is created from a channel, a server is added to a router, and the crate that
//! does so chooses tonic's features.
//!
//! Maps are ordered, so encoding is deterministic. `common::Data` and the messages of
//! `cosi.resource` store their bytes as [`bytes::Bytes`], which are cheap to clone.
//!
//! Messages that may contain keys (machine configurations, kubeconfigs, specs of resources) show
//! only the length of the content in their `Debug` output.

pub mod event;
mod generated;
pub mod kind;
mod redacted;

#[doc(inline)]
pub use generated::{cluster, common, cosi, google, machine};
pub use kind::Kind;

/// Payloads of resources: the content of `Spec.proto_spec`.
pub mod resource {
    #[doc(inline)]
    pub use crate::generated::resource::config;
    #[doc(inline)]
    pub use crate::generated::talos::resource::definitions::{
        block, cluster, enums, etcd, extensions, k8s, kubeaccess, network, runtime, v1alpha1,
    };
}

/// All definitions of this crate and their imports, as an encoded
/// `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/talos.bin"));

/// The largest message that Talos sends or accepts: 32 MiB. tonic's own limit
/// for received messages is 4 MiB, which a large machine configuration or
/// manifest may exceed, so both sides have to raise it to this.
pub const MAX_MESSAGE_SIZE: usize = 32 << 20;
