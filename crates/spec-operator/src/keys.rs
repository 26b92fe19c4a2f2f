//! The annotations of this front end alone. Those that steer upgrades on every front end are in
//! `upgrade_api::annotation`.

/// On a `TalosControlPlane`: a new value lets a failed upgrade be tried again, with the same
/// versions.
pub const RETRY: &str = "upgrade.vitistack.io/retry";

/// On any object with versions: `true` lets the versions count that it had when it was adopted.
/// On a `TalosControlPlane` it is for its pools and machines, too.
pub const ADOPT: &str = "upgrade.vitistack.io/adopt";

/// Written by the operator: the versions that an object had when it was adopted. They start
/// nothing until the user changes them.
pub const ADOPTED: &str = "upgrade.vitistack.io/adopted";

/// Written by the operator, on a run: what the user asked for when it began.
pub const ASKED: &str = "upgrade.vitistack.io/asked";
