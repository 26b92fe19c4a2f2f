//! Requests and replies of the API server.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The authenticated user. The HTTPS server takes it from the client certificate or token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The user name.
    pub user: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
}

impl Caller {
    /// An administrator.
    pub fn admin() -> Self {
        Self { user: "admin".to_owned(), groups: vec!["system:masters".to_owned()] }
    }
}

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
    /// Any other method; no resource supports it.
    Other,
}

impl Method {
    /// The method with this name.
    pub fn from_name(name: &str) -> Self {
        match name {
            // The HTTPS server drops the body of a reply to HEAD.
            "GET" | "HEAD" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Other => "OTHER",
        })
    }
}

/// One HTTP request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path, still percent-encoded, without the query.
    pub path: String,
    /// The query, still percent-encoded, without the question mark.
    pub query: String,
    /// The `Content-Type` header; empty if there is none.
    pub content_type: String,
    /// The `Accept` header; empty if there is none.
    pub accept: String,
    /// The `User-Agent` header: the default field manager of writes that name none.
    pub user_agent: String,
    /// The body.
    pub body: Bytes,
}

impl Request {
    /// A request without a body. Text after a `?` in the path is the query.
    pub fn new(method: Method, path: &str) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            content_type: String::new(),
            accept: String::new(),
            user_agent: String::new(),
            body: Bytes::new(),
        }
    }

    /// A `GET`.
    pub fn get(path: &str) -> Self {
        Self::new(Method::Get, path)
    }

    /// Adds a JSON body.
    #[must_use]
    pub fn with_json(self, body: &serde_json::Value) -> Self {
        let content_type = "application/json".to_owned();
        Self { content_type, body: Bytes::from(body.to_string()), ..self }
    }

    /// Sets the `Content-Type`.
    #[must_use]
    pub fn with_content_type(self, content_type: &str) -> Self {
        Self { content_type: content_type.to_owned(), ..self }
    }

    /// Sets the `Accept` header.
    #[must_use]
    pub fn accepting(self, accept: &str) -> Self {
        Self { accept: accept.to_owned(), ..self }
    }
}

/// The reply to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A complete response.
    Response {
        /// The HTTP status code.
        status: u16,
        /// The `Content-Type` header.
        content_type: &'static str,
        /// The `Retry-After` header, in seconds.
        retry_after: Option<u32>,
        /// Values for the `Warning` header, code 299.
        warnings: Vec<String>,
        /// The body.
        body: Bytes,
    },
    /// A streaming response with status 200; its items come from
    /// [`outputs`](crate::ApiServer::outputs).
    Watch {
        /// The stream that its items belong to.
        stream: StreamId,
        /// The `Content-Type` header.
        content_type: &'static str,
    },
}

/// An open watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(pub u64);

/// An item to send on an open watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The watch.
    pub stream: StreamId,
    /// What to send.
    pub item: Item,
}

/// An item of a watch stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// One event: a line of JSON with its newline.
    Event(Bytes),
    /// The end of the stream.
    End,
}
