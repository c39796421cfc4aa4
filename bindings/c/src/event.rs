//! Events: what happened to a connection or a listener, handed to the callback of its application.

use std::ffi::{CString, c_char, c_void};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::handle::{hawser_connection, hawser_listener};
use crate::status::hawser_status;

/// What an event reports.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hawser_event_kind {
    /// The connection is established, including its security. `text` names the transport.
    HAWSER_READY = 1,
    /// A call to hawser_receive() has its message, or a part of it: `data`, `len`, `end_of_message`.
    HAWSER_RECEIVED = 2,
    /// A call to hawser_receive() has no message: `status` and `text`. No message follows.
    HAWSER_RECEIVE_ERROR = 3,
    /// The transport has accepted a message of hawser_send(): `send_id`.
    HAWSER_SENT = 4,
    /// A message was not sent: `send_id`, `status` (HAWSER_ERROR_EXPIRED after its lifetime) and `text`.
    HAWSER_SEND_ERROR = 5,
    /// hawser_send() refused a message because too much was queued, and may succeed now.
    HAWSER_SENDABLE = 6,
    /// The paths below the connection have changed: `text`.
    HAWSER_PATH_CHANGE = 7,
    /// The connection has left its group: `status` and `text`.
    HAWSER_CLONE_ERROR = 8,
    /// The connection was closed by either side. After it and each of the next two, a connection has no events
    /// but the answers to calls of hawser_receive().
    HAWSER_CLOSED = 9,
    /// The connection could not be established: `status` and `text`.
    HAWSER_ESTABLISHMENT_ERROR = 10,
    /// The connection has ended otherwise: `status` and `text`.
    HAWSER_CONNECTION_ERROR = 11,
    /// The listener has accepted a connection: `connection`. Its events go to the listener's callback until
    /// hawser_connection_set_callback() names another.
    HAWSER_CONNECTION_RECEIVED = 12,
    /// The listener has stopped. It is its last event.
    HAWSER_STOPPED = 13,
    /// Something was asked for that this machine does not provide, and the connection goes on without it:
    /// `text`.
    HAWSER_SOFT_ERROR = 14,
}

/// An event. It and all that it points to is valid until the callback returns. Later versions of the library
/// may append members.
#[repr(C)]
#[derive(Debug)]
pub struct hawser_event {
    /// What the event reports.
    pub kind: hawser_event_kind,
    /// The reason of an event that reports an error, otherwise HAWSER_OK.
    pub status: hawser_status,
    /// The connection that the event is about; 0 if it is about a listener alone.
    pub connection: hawser_connection,
    /// The listener that the event is about, otherwise 0.
    pub listener: hawser_listener,
    /// The number that hawser_send() returned for the message.
    pub send_id: u64,
    /// The received bytes; never NULL.
    pub data: *const u8,
    /// The number of received bytes.
    pub len: usize,
    /// True if the received bytes are the last of their message.
    pub end_of_message: bool,
    /// A description for people, in UTF-8; never NULL.
    pub text: *const c_char,
}

/// A function that receives events. `user` is the pointer that was given with the function. It may call any
/// function of the library except hawser_run_once() and hawser_context_free(), and may free the object that
/// the event is about.
pub type hawser_callback = Option<unsafe extern "C" fn(user: *mut c_void, event: *const hawser_event)>;

/// A callback with its pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    callback: hawser_callback,
    user: *mut c_void,
}

// SAFETY: the library never reads through the pointer; it hands it back to the application's function, which
// the header's documentation says is called in the thread that dispatches events.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    pub(crate) fn new(callback: hawser_callback, user: *mut c_void) -> Target {
        Target { callback, user }
    }

    /// Calls the function, if there is one.
    pub(crate) fn call(&self, event: &Queued) {
        let Some(callback) = self.callback else {
            return;
        };
        let event = hawser_event {
            kind: event.kind,
            status: event.status,
            connection: event.connection,
            listener: event.listener,
            send_id: event.send_id,
            data: event.data.as_ptr(),
            len: event.data.len(),
            end_of_message: event.end_of_message,
            text: event.text.as_ptr(),
        };
        // SAFETY: the application promises that the function takes these arguments; the event lives until it
        // returns.
        unsafe { callback(self.user, &raw const event) };
    }
}

/// An event that waits for its dispatch.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) kind: hawser_event_kind,
    pub(crate) status: hawser_status,
    pub(crate) connection: hawser_connection,
    pub(crate) listener: hawser_listener,
    pub(crate) send_id: u64,
    pub(crate) data: Bytes,
    pub(crate) end_of_message: bool,
    pub(crate) text: CString,
    /// The place among the waiting events of a listener that it occupies until its dispatch.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

impl Queued {
    pub(crate) fn new(kind: hawser_event_kind) -> Queued {
        Queued {
            kind,
            status: hawser_status::HAWSER_OK,
            connection: hawser_connection { id: 0 },
            listener: hawser_listener { id: 0 },
            send_id: 0,
            data: Bytes::new(),
            end_of_message: false,
            text: CString::default(),
            place: None,
        }
    }

    pub(crate) fn with_text(mut self, text: impl std::fmt::Display) -> Queued {
        self.text = crate::status::c_text(&text.to_string());
        self
    }

    pub(crate) fn with_status(mut self, status: hawser_status) -> Queued {
        self.status = status;
        self
    }
}
