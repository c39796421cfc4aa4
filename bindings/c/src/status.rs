//! The results of calls: a status, and for the thread a text that says why.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of a call. Every value other than `HAWSER_OK` is an error, which hawser_error() describes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hawser_status {
    /// The call succeeded.
    HAWSER_OK = 0,
    /// The handle names no object of the kind that the function takes: it was never valid, or was freed.
    HAWSER_ERROR_HANDLE = -1,
    /// An argument is NULL, is no UTF-8, or is out of its range.
    HAWSER_ERROR_ARGUMENT = -2,
    /// There is no such property, or it does not take the value.
    HAWSER_ERROR_PROPERTY = -3,
    /// The call is not allowed now: events are being dispatched in another thread, or in a callback above.
    HAWSER_ERROR_BUSY = -4,
    /// Too much is queued. HAWSER_SENDABLE reports when to try again.
    HAWSER_ERROR_FULL = -5,
    /// The connection has ended, or the direction is closed.
    HAWSER_ERROR_ENDED = -6,
    /// The connection or the listener could not be established.
    HAWSER_ERROR_ESTABLISHMENT = -7,
    /// The buffer is too small; the needed size is returned.
    HAWSER_ERROR_SPACE = -8,
    /// The lifetime of the message ended before it was sent.
    HAWSER_ERROR_EXPIRED = -9,
    /// The operating system refused an operation.
    HAWSER_ERROR_SYSTEM = -10,
    /// The library has a fault. Please report it.
    HAWSER_ERROR_INTERNAL = -11,
}

/// A status that is not `HAWSER_OK`, with its reason.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: hawser_status,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: hawser_status, text: impl Display) -> Failure {
        Failure { status, text: text.to_string() }
    }

    pub(crate) fn argument(text: impl Display) -> Failure {
        Failure::new(hawser_status::HAWSER_ERROR_ARGUMENT, text)
    }
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Returns the reason for the last error of this thread, as UTF-8; empty if no call has failed. The text is
/// valid until the thread's next call that fails. It is never NULL, and the library owns it.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_error() -> *const c_char {
    TEXT.with_borrow(|text| text.as_ptr())
}

/// Runs the body of a function of the library. Its failure, or its panic, becomes the thread's error.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> hawser_status {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure::new(
            hawser_status::HAWSER_ERROR_INTERNAL,
            text.unwrap_or("a fault of the library"),
        ))
    });
    match result {
        Ok(()) => hawser_status::HAWSER_OK,
        Err(failure) => {
            TEXT.set(c_text(&failure.text));
            failure.status
        }
    }
}

/// Converts a text for C, which ends at the first zero byte.
pub(crate) fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}
