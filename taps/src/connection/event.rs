//! What happens to a Connection (RFC 9622, 7 to 11).

use super::queue::SendId;
use crate::{CloneError, ConnectionError, EstablishmentError, MessageContext, SendError};

/// Something that happened to a Connection.
///
/// For each Send there is one of [`Event::Sent`], [`Event::Expired`] and [`Event::SendError`] with
/// [`with_sent_events`]; without, those that succeed have no event, and of those that do not at most 1,024
/// wait to be taken.
///
/// [`with_sent_events`]: crate::Preconnection::with_sent_events
///
/// [`Event::Closed`], [`Event::EstablishmentError`] and [`Event::ConnectionError`] are the last. What is
/// received is no event of this kind: [`super::Receiver::receive`] hands it over.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It is established: by a transport, its security included.
    Ready,
    /// It could not be established.
    EstablishmentError(EstablishmentError),
    /// The transport has accepted the message, or the part, and events were asked for; whether the peer has it is another
    /// question: [`super::Sender::acked`].
    Sent {
        /// Which Send.
        send: SendId,
        /// Of which message.
        context: MessageContext,
    },
    /// Its lifetime was over before it was sent.
    Expired {
        /// Which Send.
        send: SendId,
        /// Of which message.
        context: MessageContext,
    },
    /// It was not sent.
    SendError {
        /// Which Send.
        send: SendId,
        /// Of which message.
        context: MessageContext,
        /// The reason for which it was not sent.
        why: SendError,
    },
    /// The paths below have changed; how, for people.
    PathChange(String),
    /// The Connection has left its group.
    CloneError(CloneError),
    /// It was closed, by either side, and everything sent was delivered as far as the transport reports it.
    Closed,
    /// It ended otherwise.
    ConnectionError(ConnectionError),
}

impl Event {
    /// Whether none follows.
    #[must_use]
    pub fn is_last(&self) -> bool {
        match self {
            Event::EstablishmentError(_) | Event::Closed | Event::ConnectionError(_) => true,
            Event::Ready | Event::Sent { .. } | Event::Expired { .. } | Event::SendError { .. } => false,
            Event::PathChange(_) | Event::CloneError(_) => false,
        }
    }

    /// Whether it reports what became of a Send.
    pub(super) fn is_outcome(&self) -> bool {
        matches!(
            self,
            Event::Sent { .. } | Event::Expired { .. } | Event::SendError { .. }
        )
    }
}
