//! Simulated clusters from outside, without any other program.

mod calls;
mod folder;
mod grpc;
