//! The names of what is written, by product.

pub use upgrade_api::annotation::{ACCEPT_OUTAGE, FOREIGN_NODES, PRUNE, REBOOT_MODE};
use upgrade_core::product::Product;
use vitistack_api::{annotation, status};

/// Both products, in the order in which they are upgraded.
pub const PRODUCTS: [Product; 2] = [Product::Talos, Product::Kubernetes];

/// The annotation with the version that a user wants.
pub const fn target(product: Product) -> &'static str {
    match product {
        Product::Talos => annotation::TALOS_TARGET,
        Product::Kubernetes => annotation::KUBERNETES_TARGET,
    }
}

/// The annotation with the version that could be had.
pub const fn available(product: Product) -> &'static str {
    match product {
        Product::Talos => annotation::TALOS_AVAILABLE,
        Product::Kubernetes => annotation::KUBERNETES_AVAILABLE,
    }
}

/// The annotation with the version that runs.
pub const fn current(product: Product) -> &'static str {
    match product {
        Product::Talos => annotation::TALOS_CURRENT,
        Product::Kubernetes => annotation::KUBERNETES_CURRENT,
    }
}

/// The annotation with one of the status words.
pub const fn status(product: Product) -> &'static str {
    match product {
        Product::Talos => annotation::TALOS_STATUS,
        Product::Kubernetes => annotation::KUBERNETES_STATUS,
    }
}

/// The annotation for people.
pub const fn message(product: Product) -> &'static str {
    match product {
        Product::Talos => annotation::TALOS_MESSAGE,
        Product::Kubernetes => annotation::KUBERNETES_MESSAGE,
    }
}

/// The annotation with how far it is, as in `2/5`.
pub const fn progress(product: Product) -> &'static str {
    match product {
        Product::Talos => annotation::TALOS_PROGRESS,
        Product::Kubernetes => annotation::KUBERNETES_PROGRESS,
    }
}

/// The type of a product's condition.
pub const fn condition(product: Product) -> &'static str {
    match product {
        Product::Talos => status::TALOS_UPGRADE,
        Product::Kubernetes => status::KUBERNETES_UPGRADE,
    }
}
