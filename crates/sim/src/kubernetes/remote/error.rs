//! Why a real Kubernetes API cannot be had.

use std::io;
use std::path::PathBuf;

/// Why a real Kubernetes API cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address is none.
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
    /// Nobody answers.
    #[error("the Kubernetes API at {url} does not answer: {why}")]
    Unreachable {
        /// Where.
        url: String,
        /// What happened.
        why: String,
    },
    /// It is not who it should be.
    #[error("the Kubernetes API at {url} is not trusted: {why}")]
    Untrusted {
        /// Where.
        url: String,
        /// What is wrong with its certificate.
        why: String,
    },
    /// It does not know us.
    #[error("the Kubernetes API at {url} refuses the token of {} ({code})", token_file.display())]
    Refused {
        /// Where.
        url: String,
        /// Where the token is from.
        token_file: PathBuf,
        /// The code of HTTP.
        code: u16,
    },
    /// It says something else.
    #[error("the Kubernetes API at {url} answers {code}: {said}")]
    Unexpected {
        /// Where.
        url: String,
        /// The code of HTTP.
        code: u16,
        /// What it says.
        said: String,
    },
}

impl RemoteError {
    /// What to do next.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Url(_) => "write --kubernetes-api like https://127.0.0.1:6443",
            Self::File { .. } => "name files that can be read",
            Self::Token(_) => "write a token into it that the API server knows, and nothing else",
            Self::Authority(_) => {
                "name the file with the API server's authority in --kubernetes-ca-file"
            }
            Self::Unreachable { .. } => {
                "start it, for example with `cargo xtask cluster up`, or correct --kubernetes-api"
            }
            Self::Untrusted { .. } => {
                "name the authority that signed its certificate with --kubernetes-ca-file"
            }
            Self::Refused { .. } => {
                "name the token of somebody who may do everything with --kubernetes-token-file"
            }
            Self::Unexpected { .. } => {
                "see that --kubernetes-api names a Kubernetes API server that is ready"
            }
        }
    }
}
