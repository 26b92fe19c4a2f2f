//! Unpacks replies.
//!
//! A reply is a list, because a proxy may ask several nodes at once. We always ask one node, so
//! there is one message; and because a proxy can put a node's error inside a successful reply, that
//! is checked too.

use talos_proto::common::Metadata;
use talos_proto::machine;
use tonic::Code;

use crate::client::Node;
use crate::error::{ActError, Error, Failure};

/// A message of a reply, with optional metadata about its node and error.
pub(crate) trait Message {
    fn metadata(&self) -> Option<&Metadata>;
}

macro_rules! messages {
    ($($message:ident),+ $(,)?) => {
        $(impl Message for machine::$message {
            fn metadata(&self) -> Option<&Metadata> {
                self.metadata.as_ref()
            }
        })+
    };
}

messages!(
    ApplyConfiguration,
    EtcdAlarm,
    EtcdAlarmDisarm,
    EtcdDefragment,
    EtcdDowngradeCancel,
    EtcdDowngradeEnable,
    EtcdDowngradeValidate,
    EtcdForfeitLeadership,
    EtcdMembers,
    EtcdStatus,
    Hostname,
    ImagePull,
    Memory,
    Reboot,
    Rollback,
    ServiceList,
    SystemStat,
    Upgrade,
    Version,
);

/// The error in a message's metadata, if any.
pub(crate) fn carried(metadata: Option<&Metadata>) -> Option<Failure> {
    let Metadata { hostname: _, error, status } = metadata?;
    match status {
        Some(status) if status.code != 0 => {
            Some(Failure::of_code(Code::from_i32(status.code), &status.message))
        }
        _ if !error.is_empty() => Some(Failure::of_code(Code::Unknown, error)),
        _ => None,
    }
}

/// The single message of a reply.
pub(crate) fn one<M: Message>(messages: Vec<M>) -> Result<M, Failure> {
    let count = messages.len();
    let mut messages = messages.into_iter();
    let (Some(message), None) = (messages.next(), messages.next()) else {
        return Err(Failure::Malformed(format!("{count} messages where one was expected")));
    };
    match carried(message.metadata()) {
        Some(failure) => Err(failure),
        None => Ok(message),
    }
}

/// A required part of a reply.
pub(crate) fn part<T>(value: Option<T>, name: &str) -> Result<T, Failure> {
    value.ok_or_else(|| Failure::Malformed(format!("`{name}` is missing")))
}

impl Node {
    /// The single message of a reply, checked.
    pub(crate) fn only<M: Message>(
        &self,
        method: &'static str,
        messages: Vec<M>,
    ) -> Result<M, Error> {
        one(messages).map_err(|failure| self.call(method, None).failed(failure))
    }

    /// The same for a call that changes something.
    pub(crate) fn only_act<M: Message>(
        &self,
        method: &'static str,
        messages: Vec<M>,
    ) -> Result<M, ActError> {
        one(messages).map_err(|failure| self.act_failed(method, None, failure))
    }
}

#[cfg(test)]
mod tests {
    use talos_proto::google::rpc::Status;

    use super::*;

    fn hostname(metadata: Option<Metadata>) -> machine::Hostname {
        machine::Hostname { metadata, hostname: "cp-1".to_owned() }
    }

    #[test]
    fn one_message_without_an_error() {
        assert_eq!(one(vec![hostname(None)]).unwrap().hostname, "cp-1");
        let named = Metadata { hostname: "10.5.0.2".to_owned(), ..Metadata::default() };
        assert!(one(vec![hostname(Some(named))]).is_ok());
    }

    #[test]
    fn an_error_inside_is_an_error() {
        let metadata = Metadata {
            error: "rpc error".to_owned(),
            status: Some(Status { code: 7, message: "not authorized".to_owned(), details: vec![] }),
            ..Metadata::default()
        };
        let failure = one(vec![hostname(Some(metadata))]).unwrap_err();
        assert!(matches!(failure, Failure::NotAuthorised(_)), "{failure:?}");

        let metadata = Metadata { error: "boom".to_owned(), ..Metadata::default() };
        let failure = one(vec![hostname(Some(metadata))]).unwrap_err();
        assert!(matches!(failure, Failure::Status { code: Code::Unknown, .. }));
    }

    #[test]
    fn a_reply_without_exactly_one_message_is_malformed() {
        assert!(matches!(one::<machine::Hostname>(vec![]), Err(Failure::Malformed(_))));
        let two = vec![hostname(None), hostname(None)];
        assert!(matches!(one(two), Err(Failure::Malformed(_))));
    }
}
