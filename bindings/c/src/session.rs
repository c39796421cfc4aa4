//! Sessions by document: one connection over several transports and interfaces at once.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use hawser::connect::Duplex;
use hawser::connect::taps::EstablishmentError;
use hawser::connect::transports::session_stream;
use hawser::session;
use hawser::session::document::{Document, Format};

use crate::connection::Connection;
use crate::context::Context;
use crate::event::{Queued, Target, hawser_callback, hawser_event_kind};
use crate::handle::{self, hawser_connection, hawser_preconnection};
use crate::pointer;
use crate::status::{Failure, call};

/// Begins a connection that is a stream of a new session, and writes its handle. The session's document, in
/// TOML or JSON (docs/sessions.md), names its server, transports, interfaces and security; of the preconnection
/// only framers and properties of messages and connections count. The stream survives the loss of any path
/// while another is left. HAWSER_PATH_CHANGE reports changes of the paths, and HAWSER_SOFT_ERROR a wish of the
/// document that this machine does not fulfil. hawser_clone() opens further streams of the session, which ends
/// with its last connection.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT with all faults of the document.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_initiate_session(
    preconnection: hawser_preconnection,
    document: *const c_char,
    timeout_ms: u32,
    callback: hawser_callback,
    user: *mut c_void,
    connection: *mut hawser_connection,
) -> crate::hawser_status {
    call(|| {
        let preconnection = preconnection.get()?;
        let handle = hawser_connection { id: handle::reserve() };
        // SAFETY: the caller promises that the pointers are NULL or valid.
        let text = unsafe {
            pointer::write(connection, "connection", handle)?;
            pointer::text(document, "document")?
        };
        let document = parse(text)?;
        let (context, wanted) = {
            let state = preconnection.lock();
            (
                Arc::clone(&state.context),
                state.without_security().with_sent_events(),
            )
        };
        let _guard = context.handle.enter();
        let stream = open(document, Arc::clone(&context), handle);
        let timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms.into()));
        let begun = wanted.initiate_over(stream, timeout);
        Connection::start(handle.id, &context, begun, Target::new(callback, user));
        Ok(())
    })
}

fn parse(text: &str) -> Result<Document, Failure> {
    let format = if text.trim_start().starts_with('{') {
        Format::Json
    } else {
        Format::Toml
    };
    Document::parse(text, format).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::argument(all.join("; "))
    })
}

/// Opens the session that the document describes, and its first stream.
async fn open(
    document: Document,
    context: Arc<Context>,
    connection: hawser_connection,
) -> Result<Box<dyn Duplex>, EstablishmentError> {
    let system = |error: &dyn ToString| EstablishmentError::System(error.to_string());
    let (session, warnings) = session::open(&document).await.map_err(|error| system(&error))?;
    for warning in warnings {
        let mut event = Queued::new(hawser_event_kind::HAWSER_SOFT_ERROR).with_text(warning);
        event.connection = connection;
        context.push(event);
    }
    session.opened().await.map_err(|error| system(&error))?;
    session_stream(session).map_err(|error| system(&error))
}
