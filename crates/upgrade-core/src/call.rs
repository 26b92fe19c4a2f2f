//! What became of a call to a machine, as plain data.
//!
//! The client of the network and the worlds in memory both end here, so that a
//! failure means the same to the engine wherever it was met.

use std::fmt::{self, Display};

/// The codes of gRPC, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are gRPC's own")]
pub enum Code {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    /// The code of a number; undefined ones are unknown.
    pub const fn of(number: i32) -> Self {
        match number {
            0 => Self::Ok,
            1 => Self::Cancelled,
            3 => Self::InvalidArgument,
            4 => Self::DeadlineExceeded,
            5 => Self::NotFound,
            6 => Self::AlreadyExists,
            7 => Self::PermissionDenied,
            8 => Self::ResourceExhausted,
            9 => Self::FailedPrecondition,
            10 => Self::Aborted,
            11 => Self::OutOfRange,
            12 => Self::Unimplemented,
            13 => Self::Internal,
            14 => Self::Unavailable,
            15 => Self::DataLoss,
            16 => Self::Unauthenticated,
            _ => Self::Unknown,
        }
    }
}

/// How a call failed, without its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// There was no connection, so nothing was asked.
    NotConnected,
    /// The connection broke while the call was under way.
    Broken,
    /// No answer in time.
    Deadline,
    /// A stream fell silent.
    Idle,
    /// A stream ended before it was complete.
    Truncated,
    /// Our role does not allow the call.
    NotAuthorised,
    /// The endpoint does not forward requests.
    NotForwarded,
    /// The node's version does not know the method or the resource type.
    NotSupported,
    /// What was asked for does not exist.
    NotFound,
    /// Any other answer that is an error.
    Status(Code),
    /// An answer that cannot be understood.
    Malformed,
}

impl Class {
    /// What a code and its message mean, if a node sent them.
    pub fn of(code: Code, message: &str) -> Self {
        match code {
            Code::PermissionDenied if message.contains("no request forwarding") => {
                Self::NotForwarded
            }
            Code::PermissionDenied if message.contains("is not supported") => Self::NotSupported,
            Code::PermissionDenied | Code::Unauthenticated => Self::NotAuthorised,
            Code::Unimplemented => Self::NotSupported,
            Code::NotFound => Self::NotFound,
            code => Self::Status(code),
        }
    }

    /// Whether the same question may have an answer later, without anyone's help.
    pub const fn may_pass(self) -> bool {
        match self {
            Self::NotAuthorised | Self::NotSupported | Self::NotFound => false,
            Self::Status(code) => matches!(
                code,
                Code::Unavailable
                    | Code::Cancelled
                    | Code::DeadlineExceeded
                    | Code::ResourceExhausted
                    | Code::Aborted
                    | Code::Unknown
            ),
            _ => true,
        }
    }

    /// Whether the node answered with an error that it gave no kind. That is how
    /// Talos passes on what containerd says of a registry.
    pub const fn is_unclassified(self) -> bool {
        matches!(self, Self::Status(Code::Unknown))
    }

    /// Whether the node itself said that the call has ended. Codes that a proxy
    /// or a dying node may also send do not count.
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Status(Code::Unknown | Code::Internal | Code::DataLoss))
    }

    /// What is known after an act failed. Only an answer that a node gives before
    /// it begins counts as a refusal; codes that a proxy or a dying node may also
    /// send say nothing (rule 10).
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::NotConnected => Outcome::NotSent,
            Self::NotAuthorised | Self::NotForwarded | Self::NotSupported | Self::NotFound => {
                Outcome::Refused
            }
            // `OutOfRange` is also how our own side says that an answer was too
            // long to read.
            Self::Status(code) => match code {
                Code::InvalidArgument | Code::FailedPrecondition | Code::AlreadyExists => {
                    Outcome::Refused
                }
                _ => Outcome::Unknown,
            },
            Self::Broken | Self::Deadline | Self::Idle | Self::Truncated | Self::Malformed => {
                Outcome::Unknown
            }
        }
    }
}

/// Whether a change that was asked for may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request never left.
    NotSent,
    /// The node answered that it will not do it.
    Refused,
    /// It may or may not have happened: check the node before anything else.
    Unknown,
}

impl Outcome {
    /// Whether it is certain that nothing changed.
    pub const fn nothing_happened(self) -> bool {
        match self {
            Self::NotSent | Self::Refused => true,
            Self::Unknown => false,
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotSent => "nothing was changed: the request was not sent",
            Self::Refused => "nothing was changed: the node refused",
            Self::Unknown => {
                "it is not known whether it happened: check the node before trying again"
            }
        })
    }
}

/// How an installer that failed exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExitCode {
    /// 1: for a reason of its own.
    Unknown,
    /// 2: what it was given is not valid for the new version.
    InvalidInput,
    /// 3: not supported.
    Unsupported,
    /// 4: the machine or its running version does not fit.
    Environment,
    /// 5: something that it needs failed.
    Dependency,
    /// 6: reading or writing failed.
    Io,
    /// 7: installing failed.
    Install,
    /// One that this program does not know.
    Other(i32),
}

impl ExitCode {
    /// What a number means; `None` for 0, which is success.
    pub const fn of(code: i32) -> Option<Self> {
        Some(match code {
            0 => return None,
            1 => Self::Unknown,
            2 => Self::InvalidInput,
            3 => Self::Unsupported,
            4 => Self::Environment,
            5 => Self::Dependency,
            6 => Self::Io,
            7 => Self::Install,
            other => Self::Other(other),
        })
    }

    /// The number.
    pub const fn number(self) -> i32 {
        match self {
            Self::Unknown => 1,
            Self::InvalidInput => 2,
            Self::Unsupported => 3,
            Self::Environment => 4,
            Self::Dependency => 5,
            Self::Io => 6,
            Self::Install => 7,
            Self::Other(other) => other,
        }
    }

    /// What a person should do about it. It says nothing of the boot loader: how
    /// far the installer came is not in its code.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::InvalidInput => {
                "compare the machine config, and the Kubernetes version in it, with what the new \
                 Talos accepts"
            }
            Self::Unsupported => {
                "read in the release notes of the new Talos what it no longer supports"
            }
            Self::Environment => {
                "upgrade through the versions in between, or read what the installer says about \
                 the machine"
            }
            Self::Dependency => "correct what it names",
            Self::Io => "check the disk and its free space",
            Self::Install => "check the boot disk and the firmware's variables",
            Self::Unknown | Self::Other(_) => "read its last lines, and the node's console",
        }
    }
}

impl Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self {
            Self::Unknown => "it failed for a reason of its own",
            Self::InvalidInput => {
                "the machine config or the Kubernetes version is not valid for the new Talos"
            }
            Self::Unsupported => "the new Talos does not support this",
            Self::Environment => {
                "this machine, or the version it runs, does not allow the upgrade: perhaps a \
                 version in between is needed"
            }
            Self::Dependency => "something that it depends on failed",
            Self::Io => "it could not read or write: check the disk",
            Self::Install => "writing the boot loader or the image failed: check the boot disk",
            Self::Other(_) => "this code is not known",
        };
        write!(f, "exit code {}: {meaning}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_mean_more_than_they_say() {
        assert_eq!(Class::of(Code::PermissionDenied, "not authorized"), Class::NotAuthorised);
        assert_eq!(Class::of(Code::PermissionDenied, "no request forwarding"), Class::NotForwarded);
        assert_eq!(
            Class::of(Code::PermissionDenied, "resource type \"X\" is not supported"),
            Class::NotSupported
        );
        assert_eq!(Class::of(Code::Unimplemented, ""), Class::NotSupported);
        assert_eq!(Class::of(Code::NotFound, ""), Class::NotFound);
        assert_eq!(Class::of(Code::Internal, ""), Class::Status(Code::Internal));
    }

    #[test]
    fn what_may_have_happened_is_never_called_refused() {
        // Rule 8: a broken connection, a deadline and an internal error.
        for class in [Class::Broken, Class::Deadline, Class::Idle, Class::Truncated] {
            assert_eq!(class.outcome(), Outcome::Unknown);
        }
        assert_eq!(Class::Status(Code::Internal).outcome(), Outcome::Unknown);
        assert_eq!(Class::Status(Code::FailedPrecondition).outcome(), Outcome::Refused);
        assert_eq!(Class::NotConnected.outcome(), Outcome::NotSent);
    }

    #[test]
    fn numbers_are_grpcs_own() {
        assert_eq!(Code::of(14), Code::Unavailable);
        assert_eq!(Code::of(9), Code::FailedPrecondition);
        assert_eq!(Code::of(99), Code::Unknown);
    }

    #[test]
    fn exit_codes_have_meanings() {
        assert_eq!(ExitCode::of(0), None);
        for number in [1, 2, 3, 4, 5, 6, 7, 8, -1, 137] {
            let code = ExitCode::of(number).unwrap();
            assert_eq!(code.number(), number);
            assert!(code.to_string().starts_with(&format!("exit code {number}: ")));
            assert!(!code.remedy().contains("whole"), "an exit code tells nothing of the slots");
        }
    }
}
