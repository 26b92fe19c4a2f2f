//! Why a real Kubernetes API cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a real Kubernetes API cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address is not a URL that can be used.
    #[error("`{0}` is not the address of a Kubernetes API")]
    Url(String),
    /// A file cannot be read.
    #[error("cannot read the {what} from {}", path.display())]
    File {
        /// What is in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds no token.
    #[error("{} holds no token", .0.display())]
    Token(PathBuf),
    /// The file holds no certificate.
    #[error("{} holds no certificate in PEM", .0.display())]
    Authority(PathBuf),
    /// There is no answer.
    #[error("the Kubernetes API at {url} does not answer: {why}")]
    Unreachable {
        /// Where.
        url: String,
        /// What happened.
        why: String,
    },
    /// Its certificate is not trusted.
    #[error("the Kubernetes API at {url} is not trusted: {why}")]
    Untrusted {
        /// Where.
        url: String,
        /// What is wrong with its certificate.
        why: String,
    },
    /// It refuses the token.
    #[error("the Kubernetes API at {url} refuses the token of {} ({code})", token_file.display())]
    Refused {
        /// Where.
        url: String,
        /// Where the token is from.
        token_file: PathBuf,
        /// The HTTP status code.
        code: u16,
    },
    /// It gives an unexpected answer.
    #[error("the Kubernetes API at {url} answers {code}: {said}")]
    Unexpected {
        /// Where.
        url: String,
        /// The HTTP status code.
        code: u16,
        /// Its message.
        said: String,
    },
}

impl RemoteError {
    /// What to do next.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Url(_) => "write --kubernetes-api like https://127.0.0.1:6443",
            Self::File { .. } => "name readable files",
            Self::Token(_) => "write a valid token of the API server into it, and nothing else",
            Self::Authority(_) => {
                "name the file with the API server's CA certificate in --kubernetes-ca-file"
            }
            Self::Unreachable { .. } => {
                "start it, for example with `cargo xtask cluster up`, or correct --kubernetes-api"
            }
            Self::Untrusted { .. } => {
                "name the CA certificate that signed its certificate with --kubernetes-ca-file"
            }
            Self::Refused { .. } => {
                "name the token of a cluster administrator with --kubernetes-token-file"
            }
            Self::Unexpected { .. } => {
                "check that --kubernetes-api names a Kubernetes API server that is ready"
            }
        }
    }
}
