//! How many files and sockets this process may have open.
//!
//! A run keeps a few connections to its cluster, and a few hundred runs need more than the
//! 1,024 of the usual soft limit. The administrator sets the hard limit; the process raises
//! its soft limit up to that, as every Go program does.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. How many there may be then; `None`
/// is no limit at all.
pub fn raise_nofile_limit() -> Option<u64> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // A system may refuse; then it stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current
}
