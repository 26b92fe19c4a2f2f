//! Tests of simulated clusters from outside, without external tools.

mod calls;
mod folder;
mod grpc;
