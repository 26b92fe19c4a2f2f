//! Generates the code from `proto/` in pure Rust, without protoc.

use std::{error::Error, fs, path::Path};

use prost::Message as _;

/// Relative to this package's folder, where Cargo runs build scripts.
const PROTO_ROOT: &str = "../../proto";

/// The files that no other file imports; they import the rest.
const ROOTS: &[&str] = &[
    "cluster/cluster.proto",
    "cosi/resource/meta/meta.proto",
    "cosi/resource/state.proto",
    "machine/image.proto",
    "machine/lifecycle.proto",
    "machine/machine.proto",
    "resource/config/config.proto",
    "talos/resource/definitions/block/block.proto",
    "talos/resource/definitions/cluster/cluster.proto",
    "talos/resource/definitions/etcd/etcd.proto",
    "talos/resource/definitions/extensions/extensions.proto",
    "talos/resource/definitions/k8s/k8s.proto",
    "talos/resource/definitions/kubeaccess/kubeaccess.proto",
    "talos/resource/definitions/network/network.proto",
    "talos/resource/definitions/runtime/runtime.proto",
    "talos/resource/definitions/v1alpha1/v1alpha1.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO_ROOT}");
    let mut descriptors = protox::compile(ROOTS, [PROTO_ROOT])?;

    tonic_prost_build::configure()
        // The crates that open sockets choose the transport.
        .build_transport(false)
        .client_mod_attribute(".", r#"#[cfg(feature = "client")]"#)
        .server_mod_attribute(".", r#"#[cfg(feature = "server")]"#)
        // The same value encodes to the same bytes every time.
        .btree_map(".")
        // Snapshots, logs and encoded resources are shared, not copied.
        .bytes(".common.Data")
        .bytes(".cosi.resource")
        // These may contain keys; src/redacted.rs has their `Debug`.
        .skip_debug([
            "common.Data",
            "cosi.resource.Spec",
            "machine.ApplyConfigurationRequest",
            "resource.config.MachineConfigSpec",
            "talos.resource.definitions.k8s.ExtraManifest",
        ])
        .compile_fds(descriptors.clone())?;

    // Only the generator needs comments and positions.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    fs::write(Path::new(&out_dir()?).join("talos.bin"), descriptors.encode_to_vec())?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this is how Cargo talks to a build script")]
fn out_dir() -> Result<std::ffi::OsString, &'static str> {
    std::env::var_os("OUT_DIR").ok_or("Cargo did not set OUT_DIR")
}
