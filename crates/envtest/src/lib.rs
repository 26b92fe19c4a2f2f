//! A real control plane on loopback: etcd, the API server, the controller manager and the
//! scheduler, each as its own process, in one folder.
//!
//! There are no kubelets; tests that need nodes create them. Everything else of a real API server
//! is there: RBAC with its bootstrap roles, admission, service accounts, controllers under their
//! own names, garbage collection, and a database that survives all of them.
//!
//! ```no_run
//! use envtest::{ControlPlane, Options, Tools};
//!
//! # fn main() -> Result<(), envtest::Error> {
//! let mut plane = ControlPlane::start(Options::new("/tmp/plane", Tools::find()?))?;
//! let listed = plane.kubectl().args(["get", "namespaces"]).status();
//! plane.restart_apiserver()?;
//! plane.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - **Nothing is left half started.** After any failure, started components are stopped in reverse
//!   order; dropping a [`ControlPlane`] does the same. A small shell watches the owner and cleans
//!   up even if the owner is killed.
//! - **No endless wait.** Readiness has a deadline, and [`Event::Waiting`] reports what is missing.
//!   A component that dies is an error with the last lines of its log.
//! - **The folder is the cluster.** A start on the same folder continues with the same data, keys,
//!   tokens and, if they are free, ports. A folder with other content is refused.
//!
//! Everything is blocking, and there is no async runtime: the command that starts a cluster for
//! developers should compile quickly. In async tests, start it in `spawn_blocking`.

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
