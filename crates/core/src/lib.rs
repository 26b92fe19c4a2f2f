//! Domain types of talos-operator.
