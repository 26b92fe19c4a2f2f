//! `Debug` for messages that may contain keys: the length, not the content.

use std::fmt;

use crate::{
    common::Data, cosi::resource::Spec, machine::ApplyConfigurationRequest,
    resource::config::MachineConfigSpec, resource::k8s::ExtraManifest,
};

/// A placeholder for a value in `Debug` output.
struct Redacted(usize);

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(length) = self;
        write!(f, "<{length} bytes>")
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metadata, bytes } = self;
        f.debug_struct("Data")
            .field("metadata", metadata)
            .field("bytes", &Redacted(bytes.len()))
            .finish()
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proto_spec, yaml_spec } = self;
        f.debug_struct("Spec")
            .field("proto_spec", &Redacted(proto_spec.len()))
            .field("yaml_spec", &Redacted(yaml_spec.len()))
            .finish()
    }
}

impl fmt::Debug for ApplyConfigurationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, mode: _, dry_run, try_mode_timeout } = self;
        f.debug_struct("ApplyConfigurationRequest")
            .field("data", &Redacted(data.len()))
            .field("mode", &self.mode())
            .field("dry_run", dry_run)
            .field("try_mode_timeout", try_mode_timeout)
            .finish()
    }
}

impl fmt::Debug for MachineConfigSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { yaml_marshalled } = self;
        f.debug_struct("MachineConfigSpec")
            .field("yaml_marshalled", &Redacted(yaml_marshalled.len()))
            .finish()
    }
}

impl fmt::Debug for ExtraManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, url: _, priority, inline_manifest } = self;
        f.debug_struct("ExtraManifest")
            .field("name", name)
            .field("priority", priority)
            .field("inline_manifest", &Redacted(inline_manifest.len()))
            .finish_non_exhaustive()
    }
}
