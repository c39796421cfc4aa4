//! The reasons for a failure, in the classes that determine the next step.

use serde::{Deserialize, Serialize};

/// A candidate failed, or a query for a name failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The peer refused the connection, because no process listens there.
    #[error("the peer refused the connection")]
    Refused,
    /// The connection was reset before it was established, or just after.
    #[error("the connection was reset")]
    Reset,
    /// The network has no route to the peer.
    #[error("this host has no route to the peer")]
    Unreachable,
    /// A node on the path, or this host, forbids the connection.
    #[error("the network prohibits the connection")]
    Prohibited,
    /// The peer did not answer in time.
    #[error("the peer did not answer in time")]
    Timeout,
    /// The security handshake failed: a certificate, a version or a proof was not accepted.
    #[error("the security handshake failed")]
    Security,
    /// The peer does not speak the protocol: there is no common application protocol, or it lacks this
    /// transport.
    #[error("the peer does not support the protocol")]
    Protocol,
    /// The candidate's interface disappeared.
    #[error("the interface went away")]
    InterfaceGone,
    /// This host could not make the attempt, for lack of a descriptor, of memory or of permission.
    #[error("this host could not start the attempt")]
    Local,
    /// The name does not exist (NXDOMAIN).
    #[error("the name does not exist")]
    NoSuchName,
    /// The name has no record of that kind.
    #[error("the name has no record of this type")]
    NoRecord,
    /// The name servers failed, refused, or did not answer.
    #[error("the name could not be resolved")]
    NameServer,
    /// The candidate gives less security than requested, and was not started.
    #[error("the transport is less secure than requested")]
    LessSecure,
    /// The candidate has no handshake that could prove a peer, and the request does not admit it.
    #[error("the transport is connectionless, which was not requested")]
    Connectionless,
    /// The candidate was not done when the race's time was over.
    #[error("the time limit for connecting was reached")]
    Deadline,
    /// The caller cancelled the race.
    #[error("the attempt was cancelled")]
    Cancelled,
    /// The candidate was not started, because it was not needed or there was no time.
    #[error("the attempt was not started")]
    NotStarted,
    /// The candidate connected, and then delivered no data.
    #[error("the connection was established but delivered no data")]
    Stalled,
}

impl Failure {
    /// All failures in the order of their declaration. An index is the failure's number.
    pub const ALL: [Failure; 18] = [
        Failure::Refused,
        Failure::Reset,
        Failure::Unreachable,
        Failure::Prohibited,
        Failure::Timeout,
        Failure::Security,
        Failure::Protocol,
        Failure::InterfaceGone,
        Failure::Local,
        Failure::NoSuchName,
        Failure::NoRecord,
        Failure::NameServer,
        Failure::LessSecure,
        Failure::Connectionless,
        Failure::Deadline,
        Failure::Cancelled,
        Failure::NotStarted,
        Failure::Stalled,
    ];

    /// Returns whether a node on the path drops or forbids the transport. Because no peer has answered, such
    /// a candidate is tried again in the background.
    #[must_use]
    pub const fn is_block(self) -> bool {
        matches!(
            self,
            Failure::Unreachable | Failure::Prohibited | Failure::Timeout
        )
    }

    /// Returns whether the peer itself, or another host in its place, answered the handshake and cannot be
    /// used.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        matches!(
            self,
            Failure::Refused | Failure::Reset | Failure::Security | Failure::Protocol | Failure::Stalled
        )
    }
}
