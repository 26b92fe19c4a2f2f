//! What was wrong with a request, and what to do next.

use object_store::Error as Cause;
use thiserror::Error;
use upgrade_core::reason::FailureKind;
use upgrade_core::secret::scrub;
use upgrade_engine::snapshots::StoreError;

use crate::transport::{TransportError, element};

/// What was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is no such bucket.
    NoBucket,
    /// The server does not know the access key.
    UnknownKey,
    /// The secret key does not belong to the access key.
    WrongSecret,
    /// Temporary credentials have expired.
    Expired,
    /// The clocks differ too much.
    ClockSkew,
    /// The credentials lack a permission.
    Denied,
    /// The bucket is in another region.
    Region,
    /// The server's encryption refuses.
    Encryption,
    /// The server does not know this request.
    Unsupported,
    /// No space, or a quota is used up.
    Full,
    /// The server's certificate is signed by an authority that is not trusted.
    UnknownAuthority,
    /// Something else is wrong with TLS.
    Tls,
    /// The server cannot be reached.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// The server is overloaded, or has an internal error.
    Busy,
    /// There is an object of this name already.
    Exists,
    /// There is no such object.
    Missing,
    /// The upload is gone.
    UploadGone,
    /// What was read back is not what was written.
    Damaged,
    /// Something else.
    Other,
}

/// Why a request failed.
#[derive(Clone, Debug, Error)]
#[error("{target}: {doing}: {}{}; {}", problem.text(), shown(detail), problem.next())]
pub struct S3Error {
    /// What was wrong.
    pub problem: Problem,
    /// Bucket and server.
    target: String,
    /// What failed, as in `the snapshots cannot be listed`.
    doing: &'static str,
    /// What the server said, without anything that may be secret.
    detail: String,
}

fn shown(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(" ({detail})") }
}

impl Problem {
    fn text(self) -> &'static str {
        match self {
            Self::NoBucket => "the bucket does not exist",
            Self::UnknownKey => "the server does not know the access key",
            Self::WrongSecret => "the secret access key is not that of the access key",
            Self::Expired => "the temporary credentials are no longer valid",
            Self::ClockSkew => "the clocks of this machine and of the server differ too much",
            Self::Denied => "the credentials lack the permission",
            Self::Region => "the bucket is in another region",
            Self::Encryption => "the server cannot encrypt with this key",
            Self::Unsupported => "the server does not support this request",
            Self::Full => "the server has no space left, or the quota is used up",
            Self::UnknownAuthority => {
                "the server's certificate is from an authority that is not trusted"
            }
            Self::Tls => "no verified TLS connection",
            Self::Unreachable => "the server cannot be reached",
            Self::TimedOut => "no answer in time",
            Self::Busy => "the server is overloaded or has an internal error",
            Self::Exists => "another snapshot of the same second has this name",
            Self::Missing => "there is no such object",
            Self::UploadGone => "the upload was removed while it was in progress",
            Self::Damaged => "the server returned something else than was sent",
            Self::Other => "the request failed",
        }
    }

    /// What to do.
    fn next(self) -> &'static str {
        match self {
            Self::NoBucket => "create it, or correct bucket, region and endpoint in the address",
            Self::UnknownKey => "correct AWS_ACCESS_KEY_ID, or the endpoint in the address",
            Self::WrongSecret => "correct AWS_SECRET_ACCESS_KEY",
            Self::Expired => "get new ones, AWS_SESSION_TOKEN included",
            Self::ClockSkew => "synchronise the clock of this machine (NTP)",
            Self::Denied => {
                "allow ListBucket, GetObject, PutObject, DeleteObject and AbortMultipartUpload"
            }
            Self::Region => "correct region in the address",
            Self::Encryption => "correct kms-key in the address, and let these credentials use it",
            Self::Unsupported => "use a server with multipart uploads and conditional writes",
            Self::Full => "free some space, raise the quota, or keep fewer snapshots",
            Self::UnknownAuthority => {
                "name the authority's certificate with ca-file=FILE in the address"
            }
            Self::Tls => "correct endpoint in the address, or the server's certificate",
            Self::Unreachable => "check endpoint and region in the address, and the network",
            Self::Exists | Self::TimedOut | Self::Busy | Self::UploadGone => "retry",
            Self::Missing => "list the bucket",
            Self::Damaged => "retry; if it happens again, check the server's disks",
            Self::Other => "check the server's log",
        }
    }

    fn kind(self) -> FailureKind {
        match self {
            Self::Unreachable
            | Self::TimedOut
            | Self::Busy
            | Self::Exists
            | Self::UploadGone
            | Self::Damaged => FailureKind::Unavailable,
            _ => FailureKind::Refused,
        }
    }

    /// Of an error's code in a reply.
    fn of_code(code: &str) -> Option<Self> {
        Some(match code {
            "NoSuchBucket" => Self::NoBucket,
            "InvalidAccessKeyId" | "XAdminUserNotFound" => Self::UnknownKey,
            "SignatureDoesNotMatch" => Self::WrongSecret,
            "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => Self::Expired,
            "RequestTimeTooSkewed" | "RequestExpired" => Self::ClockSkew,
            "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => Self::Denied,
            "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "IllegalLocationConstraintException" => Self::Region,
            "NotImplemented" | "MethodNotAllowed" => Self::Unsupported,
            "QuotaExceeded"
            | "QuotaExceededException"
            | "XMinioStorageFull"
            | "InsufficientStorage"
            | "InsufficientCapacity" => Self::Full,
            "SlowDown" | "InternalError" | "ServiceUnavailable" | "RequestTimeout" => Self::Busy,
            "PreconditionFailed" | "ConditionalRequestConflict" => Self::Exists,
            "NoSuchKey" => Self::Missing,
            "NoSuchUpload" => Self::UploadGone,
            code if code.starts_with("KMS.") => Self::Encryption,
            _ => return None,
        })
    }

    /// Of a reply without a code: to HEAD, or from something between us and the server.
    fn of_status(status: u16) -> Option<Self> {
        Some(match status {
            401 | 403 => Self::Denied,
            404 => Self::Missing,
            409 | 412 => Self::Exists,
            413 | 507 => Self::Full,
            405 | 501 => Self::Unsupported,
            408 | 429 | 500 | 502..=504 => Self::Busy,
            _ => return None,
        })
    }
}

impl S3Error {
    pub(crate) fn new(
        problem: Problem,
        target: &str,
        doing: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self { problem, target: target.to_owned(), doing, detail: detail.into() }
    }

    /// Of what the protocol's library says. Its texts may contain a whole reply, and are not shown
    /// (rule 14).
    pub(crate) fn of(target: &str, doing: &'static str, cause: &Cause) -> Self {
        if let Some(error) = transport(cause) {
            return Self::new(error.problem, target, doing, error.text.clone());
        }
        let text = cause.to_string();
        let (code, status) = (element(&text, "Code"), status(&text));
        let by_code = code.and_then(Problem::of_code);
        let redirected = text.contains("redirect without LOCATION");
        let by_status = || {
            if redirected { Some(Problem::Region) } else { Problem::of_status(status?) }
        };
        let problem = by_code.or_else(by_status).unwrap_or(match cause {
            Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } => Problem::Denied,
            Cause::NotFound { .. } => Problem::Missing,
            Cause::Precondition { .. } | Cause::AlreadyExists { .. } => Problem::Exists,
            _ => Problem::Other,
        });
        let message = element(&text, "Message").map(|message| scrub(message).into_owned());
        let parts =
            [code.map(str::to_owned), message, status.map(|status| format!("HTTP {status}"))];
        // A reply with a code says more than its status.
        let detail: Vec<String> = parts.into_iter().flatten().take(2).collect();
        Self::new(problem, target, doing, detail.join(": "))
    }

    /// The same for the engine.
    pub fn into_store_error(self) -> StoreError {
        StoreError::new(self.problem.kind(), &self.to_string())
    }
}

impl From<S3Error> for StoreError {
    fn from(error: S3Error) -> Self {
        error.into_store_error()
    }
}

/// What our side of the connection met, somewhere among the causes.
fn transport(cause: &Cause) -> Option<&TransportError> {
    let mut error: Option<&(dyn std::error::Error + 'static)> = Some(cause);
    while let Some(cause) = error {
        if let Some(found) = cause.downcast_ref::<TransportError>() {
            return Some(found);
        }
        error = cause.source();
    }
    None
}

/// The HTTP status in a text of the library.
fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replied(text: &str) -> S3Error {
        let cause = Cause::Generic { store: "S3", source: text.to_owned().into() };
        S3Error::of("s3://backups", "the snapshots cannot be listed", &cause)
    }

    #[test]
    fn codes_and_statuses_become_problems() {
        for (text, problem) in [
            ("<Code>NoSuchBucket</Code>", Problem::NoBucket),
            ("<Code>InvalidAccessKeyId</Code>", Problem::UnknownKey),
            ("<Code>SignatureDoesNotMatch</Code>", Problem::WrongSecret),
            ("<Code>RequestTimeTooSkewed</Code>", Problem::ClockSkew),
            ("<Code>KMS.NotFoundException</Code>", Problem::Encryption),
            ("<Code>XMinioStorageFull</Code>", Problem::Full),
            ("non-2xx status code: 507 Insufficient Storage: ", Problem::Full),
            ("non-2xx status code: 403 Forbidden: ", Problem::Denied),
            ("non-2xx status code: 503 Service Unavailable: ", Problem::Busy),
            ("Received redirect without LOCATION, this", Problem::Region),
            ("<Code>Odd</Code>", Problem::Other),
        ] {
            assert_eq!(replied(text).problem, problem, "{text}");
        }
    }

    #[test]
    fn every_error_says_what_and_what_next() {
        let text = "status code: 403 Forbidden: <Error><Code>InvalidAccessKeyId</Code>\
                    <Message>It does not exist.</Message></Error>";
        assert_eq!(
            replied(text).to_string(),
            "s3://backups: the snapshots cannot be listed: the server does not know the access key \
             (InvalidAccessKeyId: It does not exist.); correct AWS_ACCESS_KEY_ID, or the endpoint in \
             the address",
        );
    }

    #[test]
    fn only_what_may_pass_is_retried() {
        for (problem, passes) in [
            (Problem::Busy, true),
            (Problem::Unreachable, true),
            (Problem::TimedOut, true),
            (Problem::Exists, true),
            (Problem::WrongSecret, false),
            (Problem::NoBucket, false),
            (Problem::UnknownAuthority, false),
            (Problem::Full, false),
        ] {
            let error = S3Error::new(problem, "s3://backups", "it failed", "");
            assert_eq!(error.into_store_error().kind().may_pass(), passes, "{problem:?}");
        }
    }
}
