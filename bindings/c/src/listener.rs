//! Listeners.

use std::ffi::c_char;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use hawser::connect::taps::{self, ListenerEvent};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::connection::Connection;
use crate::context::Context;
use crate::event::{Queued, Target, hawser_event_kind};
use crate::handle::{self, Object, hawser_listener};
use crate::pointer;
use crate::status::{Failure, call, hawser_status};

/// The maximum number of accepted connections whose event waits for its dispatch. Further peers wait.
const MAX_WAITING: usize = 128;

pub(crate) struct Listener {
    pub(crate) context: Arc<Context>,
    target: Target,
    addresses: Vec<SocketAddr>,
    task: OnceLock<AbortHandle>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl Listener {
    /// Serves a listener under this handle.
    pub(crate) fn start(id: u64, context: &Arc<Context>, listener: taps::Listener, target: Target) {
        let object = Arc::new(Listener {
            context: Arc::clone(context),
            target,
            addresses: listener.addresses().to_vec(),
            task: OnceLock::new(),
        });
        // The object is there before its first event.
        handle::insert(id, Object::Listener(Arc::clone(&object)));
        let task = context
            .handle
            .spawn(accept(id, Arc::clone(context), listener, target));
        let _ = object.task.set(task.abort_handle());
    }

    pub(crate) fn target(&self) -> Target {
        self.target
    }
}

async fn accept(id: u64, context: Arc<Context>, mut listener: taps::Listener, target: Target) {
    let places = Arc::new(Semaphore::new(MAX_WAITING));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let mut event = match listener.next_event().await {
            Some(ListenerEvent::ConnectionReceived(connection)) => {
                let own = handle::reserve();
                let mut event = Queued::new(hawser_event_kind::HAWSER_CONNECTION_RECEIVED);
                event.connection.id = own;
                event.place = Some(place);
                Connection::start(own, &context, connection, target);
                event
            }
            Some(ListenerEvent::Stopped) | None => Queued::new(hawser_event_kind::HAWSER_STOPPED),
        };
        event.listener = hawser_listener { id };
        let is_last = event.kind == hawser_event_kind::HAWSER_STOPPED;
        context.push(event);
        if is_last {
            return;
        }
    }
}

/// Writes one of the addresses at which a listener listens, such as `127.0.0.1:4433`, to a buffer of `size`
/// bytes, with a zero byte behind it. `index` counts them from 0. Its length is written to `len`, unless that
/// is NULL, also if the buffer is too small.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT if there are not that many, HAWSER_ERROR_SPACE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_listener_address(
    listener: hawser_listener,
    index: usize,
    buffer: *mut c_char,
    size: usize,
    len: *mut usize,
) -> hawser_status {
    call(|| {
        let listener = listener.get()?;
        let address = listener.addresses.get(index);
        let missing =
            || Failure::argument(format!("the listener has {} addresses", listener.addresses.len()));
        let text = address.ok_or_else(missing)?.to_string();
        // SAFETY: the caller promises that the pointers are NULL or valid.
        unsafe { pointer::copy(&text, buffer, size, len) }
    })
}

/// Stops a listener and frees it. Connections that it has accepted stay. No event of it follows.
///
/// Errors: HAWSER_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_listener_free(listener: hawser_listener) -> hawser_status {
    call(|| listener.take().map(drop))
}
