//! The events of a Connection (RFC 9622, 7 to 11).

use super::queue::SendId;
use crate::taps::{CloneError, ConnectionError, EstablishmentError, MessageContext, SendError};

/// An event of a Connection.
///
/// With [`with_sent_events`], each Send has one of [`ConnectionEvent::Sent`], [`ConnectionEvent::Expired`]
/// and [`ConnectionEvent::SendError`]. Without it, successful Sends have no event, and at most 1,024 events
/// of failed Sends are queued.
///
/// [`with_sent_events`]: crate::taps::Preconnection::with_sent_events
///
/// [`ConnectionEvent::Closed`], [`ConnectionEvent::EstablishmentError`] and
/// [`ConnectionEvent::ConnectionError`] are the last. Received messages are not events of this kind:
/// [`super::Receiver::receive`] returns them.
#[derive(Clone, Debug, PartialEq)]
pub enum ConnectionEvent {
    /// The Connection is established by a transport, including its security.
    Ready,
    /// The Connection could not be established.
    EstablishmentError(EstablishmentError),
    /// The transport has accepted the message, or the part, and these events were requested. Delivery to the
    /// peer is reported by [`super::Sender::acked`].
    Sent {
        /// The call to Send.
        send: SendId,
        /// The context of the message.
        context: MessageContext,
    },
    /// The message's lifetime ended before it was sent.
    Expired {
        /// The call to Send.
        send: SendId,
        /// The context of the message.
        context: MessageContext,
    },
    /// The message was not sent.
    SendError {
        /// The call to Send.
        send: SendId,
        /// The context of the message.
        context: MessageContext,
        /// The reason for which it was not sent.
        why: SendError,
    },
    /// The paths below have changed; the text describes the change for people.
    PathChange(String),
    /// The Connection has left its group.
    CloneError(CloneError),
    /// The Connection was closed by either side. All sent data was delivered, as far as the transport reports
    /// it.
    Closed,
    /// The Connection ended in another way.
    ConnectionError(ConnectionError),
}

impl ConnectionEvent {
    /// Returns whether no event follows it.
    #[must_use]
    pub fn is_last(&self) -> bool {
        match self {
            ConnectionEvent::EstablishmentError(_)
            | ConnectionEvent::Closed
            | ConnectionEvent::ConnectionError(_) => true,
            ConnectionEvent::Ready
            | ConnectionEvent::Sent { .. }
            | ConnectionEvent::Expired { .. }
            | ConnectionEvent::SendError { .. } => false,
            ConnectionEvent::PathChange(_) | ConnectionEvent::CloneError(_) => false,
        }
    }

    /// Returns whether it reports the outcome of a Send.
    pub(super) fn is_outcome(&self) -> bool {
        matches!(
            self,
            ConnectionEvent::Sent { .. }
                | ConnectionEvent::Expired { .. }
                | ConnectionEvent::SendError { .. }
        )
    }
}
