//! Why something did not work, in the classes that matter for what is done next.

use serde::{Deserialize, Serialize};

/// Why a candidate, or a question for a name, did not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The peer refused: nothing listens there.
    #[error("the peer refused the connection")]
    Refused,
    /// The connection was reset before it was established, or died right after.
    #[error("the connection was reset")]
    Reset,
    /// The network has no route there.
    #[error("there is no route to the peer")]
    Unreachable,
    /// Somebody on the path, or this host, forbids it.
    #[error("the connection is prohibited on the path")]
    Prohibited,
    /// There was no answer in time.
    #[error("the peer did not answer in time")]
    Timeout,
    /// The handshake of security failed: a certificate, a version, a proof.
    #[error("the security handshake failed")]
    Security,
    /// The peer speaks something else: no common application protocol, not this transport.
    #[error("the peer does not speak the protocol")]
    Protocol,
    /// Its interface went away.
    #[error("the interface went away")]
    InterfaceGone,
    /// This host could not make the attempt: no descriptor, no memory, no right to.
    #[error("this host could not make the attempt")]
    Local,
    /// There is no such name (NXDOMAIN).
    #[error("there is no such name")]
    NoSuchName,
    /// The name has no record of that kind.
    #[error("the name has no such record")]
    NoRecord,
    /// The name servers failed, refused, or did not answer.
    #[error("the name could not be looked up")]
    NameServer,
    /// It gives less security than was asked for, and was not started.
    #[error("it gives less security than was asked for")]
    LessSecure,
    /// It has no handshake that could show a peer, and the request does not admit it.
    #[error("a connectionless transport was not asked for")]
    Connectionless,
    /// It was not done when the race's time was over.
    #[error("the time for connecting was over")]
    Deadline,
    /// Who asked did not want it any more.
    #[error("it was cancelled")]
    Cancelled,
    /// There was no need or no time to start it.
    #[error("it was not started")]
    NotStarted,
    /// It connected, and then delivered nothing.
    #[error("it connected, and then delivered nothing")]
    Stalled,
}

impl Failure {
    /// Each, in the order of their declaration: an index is its number.
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

    /// Whether something on the path drops or forbids the transport: what is tried again in the
    /// background, because no peer has answered.
    #[must_use]
    pub const fn is_block(self) -> bool {
        matches!(
            self,
            Failure::Unreachable | Failure::Prohibited | Failure::Timeout
        )
    }

    /// Whether the peer itself, or another host in its place, answered the handshake and is of no use.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        matches!(
            self,
            Failure::Refused | Failure::Reset | Failure::Security | Failure::Protocol | Failure::Stalled
        )
    }
}
