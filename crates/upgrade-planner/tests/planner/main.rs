//! The planner's tests: what is planned, what is refused, and what is decided.

mod armed;
mod checks;
mod common;
mod cordons;
mod decide;
mod drains;
mod etcd_minors;
mod external;
mod installers;
mod invisible;
mod node_intents;
mod paths;
mod plans;
mod pools;
mod properties;
mod reboots;
mod rollback;
