//! A real control plane on loopback: etcd, the API server, the controller
//! manager and the scheduler, each a process of its own, in one folder.
//!
//! There are no kubelets: whoever wants nodes brings them. Everything is there
//! that makes an API server a real one: RBAC with its bootstrap roles,
//! admission, service accounts, controllers that act under their own names,
//! garbage collection, and a database that survives all of them.
//!
//! ```no_run
//! use real_control_plane::{ControlPlane, Options, Tools};
//!
//! # fn main() -> Result<(), real_control_plane::Error> {
//! let mut plane = ControlPlane::start(Options::new("/tmp/plane", Tools::find()?))?;
//! let listed = plane.kubectl().args(["get", "namespaces"]).status();
//! plane.restart_apiserver()?;
//! plane.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - **Nothing is left half started.** Whatever goes wrong, what was started is
//!   stopped, last started first; dropping a [`ControlPlane`] does the same. A
//!   small shell beside it watches its owner and cleans up even if that is
//!   killed outright.
//! - **No endless wait.** Readiness has a deadline, and whoever waits is told
//!   what for ([`Event::Waiting`]). A component that dies is an error with the
//!   last lines of its log.
//! - **The folder is the cluster.** Started again on the same folder, it goes on
//!   with the same data, keys, tokens and, if they are free, ports. A folder
//!   that holds something else is refused.
//!
//! Everything blocks, and there is no runtime in here: the command that starts
//! a cluster for a person should compile quickly. In asynchronous tests, start
//! it in `spawn_blocking`.

mod clock;
mod component;
mod control_plane;
mod credentials;
mod error;
mod folder;
mod guard;
mod inspect;
mod ports;
mod process;
mod ready;
mod settings;

pub use self::component::Component;
pub use self::control_plane::{ControlPlane, Event, Observer, Options};
pub use self::error::Error;
pub use self::folder::Access;
pub use self::inspect::{Health, Inspection, Running, inspect, take_down};
pub use self::settings::{Tools, find_tool};
