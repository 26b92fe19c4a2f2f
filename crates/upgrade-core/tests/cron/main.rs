//! Schedules: what Kubernetes' own library makes of them, and what holds for all.

mod properties;
mod table;
