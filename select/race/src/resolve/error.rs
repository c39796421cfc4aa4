//! The errors of questions about names.

use crate::{Failure, Question};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;

/// The reasons for which a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name does not exist (NXDOMAIN).
    #[error("the name `{name}` does not exist")]
    NoSuchName {
        /// The requested name.
        name: String,
    },
    /// The name has no such record, or no usable one.
    #[error("`{name}` has no {}", records(*.question))]
    NoRecord {
        /// The requested name.
        name: String,
        /// The kind of record.
        question: Question,
    },
    /// The name is an alias in a loop, or in an endless chain (RFC 1034, 3.6.2).
    #[error("`{name}` is an alias without an address at its end: {chain}")]
    AliasLoop {
        /// The requested name.
        name: String,
        /// The aliases in order, up to the first repetition.
        chain: String,
    },
    /// No name server answered in time.
    #[error("no name server answered the query for {} of `{name}` in time", records(*.question))]
    Timeout {
        /// The requested name.
        name: String,
        /// The kind of record.
        question: Question,
    },
    /// The name server answered with an error.
    #[error("the name server answered the query for {} of `{name}` with {code}", records(*.question))]
    Server {
        /// The requested name.
        name: String,
        /// The kind of record.
        question: Question,
        /// The response code (RFC 1035, 4.1.1), as text.
        code: String,
    },
    /// The question could not be sent, or the answer could not be parsed.
    #[error("the query for {} of `{name}` failed: {why}", records(*.question))]
    Other {
        /// The requested name.
        name: String,
        /// The kind of record.
        question: Question,
        /// The error of the system or the decoder.
        why: String,
    },
}

impl ResolveError {
    /// Returns its class, for a race.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            ResolveError::NoSuchName { .. } => Failure::NoSuchName,
            ResolveError::NoRecord { .. } | ResolveError::AliasLoop { .. } => Failure::NoRecord,
            ResolveError::Timeout { .. } | ResolveError::Server { .. } | ResolveError::Other { .. } => {
                Failure::NameServer
            }
        }
    }

    pub(crate) fn new(name: &str, question: Question, error: &NetError) -> ResolveError {
        let name = name.to_owned();
        let server =
            |name, code: ResponseCode| ResolveError::Server { name, question, code: code.to_string() };
        match error {
            NetError::Timeout => ResolveError::Timeout { name, question },
            NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
                ResponseCode::NXDomain => ResolveError::NoSuchName { name },
                ResponseCode::NoError => ResolveError::NoRecord { name, question },
                code => server(name, code),
            },
            NetError::Dns(DnsError::ResponseCode(code)) => server(name, *code),
            other => ResolveError::Other { name, question, why: other.to_string() },
        }
    }
}

fn records(question: Question) -> &'static str {
    match question {
        Question::Ipv4 => "IPv4 addresses",
        Question::Ipv6 => "IPv6 addresses",
        Question::Service => "service records",
    }
}
