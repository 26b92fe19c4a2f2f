//! Tests of worlds from outside, as an adapter uses them.

mod arming;
mod config;
mod cosi;
mod driver;
mod etcd;
mod etcd_versions;
mod ground_truth;
mod kubernetes_faults;
mod lifecycle;
mod machine;
mod manifests;
mod membership;
mod platform;
mod readiness;
mod size;
