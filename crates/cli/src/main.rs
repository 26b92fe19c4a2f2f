//! The talos-operator binary.

fn main() {}
