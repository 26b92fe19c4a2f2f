//! The generated code, nested like its packages, because it refers to itself by relative paths.

#![expect(
    missing_docs,
    clippy::pedantic,
    reason = "generated code; `proto/` is what people read and review"
)]
#![cfg_attr(
    any(feature = "client", feature = "server"),
    expect(clippy::allow_attributes_without_reason, reason = "tonic writes its own exceptions")
)]
#![cfg_attr(
    feature = "server",
    expect(clippy::allow_attributes, reason = "tonic writes its own exceptions")
)]

macro_rules! package {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
    };
}

pub mod cluster {
    package!("cluster");
}

pub mod common {
    package!("common");
}

pub mod cosi {
    pub mod resource {
        package!("cosi.resource");

        pub mod meta {
            package!("cosi.resource.meta");
        }
    }
}

pub mod google {
    pub mod rpc {
        package!("google.rpc");
    }
}

pub mod machine {
    package!("machine");
}

pub(crate) mod resource {
    pub mod config {
        package!("resource.config");
    }
}

pub(crate) mod talos {
    pub(crate) mod resource {
        pub(crate) mod definitions {
            pub mod block {
                package!("talos.resource.definitions.block");
            }

            pub mod cluster {
                package!("talos.resource.definitions.cluster");
            }

            pub mod enums {
                package!("talos.resource.definitions.enums");
            }

            pub mod etcd {
                package!("talos.resource.definitions.etcd");
            }

            pub mod extensions {
                package!("talos.resource.definitions.extensions");
            }

            pub mod k8s {
                package!("talos.resource.definitions.k8s");
            }

            pub mod kubeaccess {
                package!("talos.resource.definitions.kubeaccess");
            }

            pub mod network {
                package!("talos.resource.definitions.network");
            }

            pub mod runtime {
                package!("talos.resource.definitions.runtime");
            }

            pub mod v1alpha1 {
                package!("talos.resource.definitions.v1alpha1");
            }
        }
    }
}
