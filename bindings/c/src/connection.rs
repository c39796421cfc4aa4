//! Connections.

use std::ffi::{c_char, c_void};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context as Polling, Poll, Wake, Waker};

use bytes::Bytes;
use hawser::connect::taps::{
    self, ConnectionEnded, ConnectionEvent, MessageContext, ReceiveError, ReceivedMessage, SendError,
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use crate::context::Context;
use crate::event::{Queued, Target, hawser_callback, hawser_event_kind};
use crate::handle::{self, Object, hawser_connection};
use crate::pointer;
use crate::preconnection::{each_property, property};
use crate::status::{Failure, call, hawser_status};

/// The maximum number of calls to hawser_receive() that wait for a message.
const MAX_RECEIVES: usize = 1_024;

/// The maximum number of events of a connection that wait for their dispatch. Further ones, and at last calls
/// to hawser_send(), wait for them.
const MAX_EVENTS: usize = 1_024;

/// The maximum number of received messages that wait for their dispatch, each of at most 1 MiB.
const MAX_RECEIVED: usize = 16;

/// What hawser_receive() asked for: at least and at most this many bytes of a message.
type Demand = (usize, usize);

pub(crate) struct Connection {
    pub(crate) context: Arc<Context>,
    target: Mutex<Target>,
    /// Both tasks below poll it, one poll at a time.
    shared: Arc<Mutex<taps::Connection>>,
    sender: taps::Sender,
    /// The context of the message of which parts were sent, until its end.
    message: Mutex<Option<MessageContext>>,
    demands: mpsc::Sender<Demand>,
    sendable: Arc<Sendable>,
    tasks: OnceLock<[AbortHandle; 2]>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks
            .get()
            .into_iter()
            .flatten()
            .for_each(AbortHandle::abort);
    }
}

/// Queues HAWSER_SENDABLE when it is woken, once for each refused message.
struct Sendable {
    connection: hawser_connection,
    context: Weak<Context>,
    is_wanted: AtomicBool,
}

impl Wake for Sendable {
    fn wake(self: Arc<Self>) {
        if self.is_wanted.swap(false, Ordering::AcqRel)
            && let Some(context) = self.context.upgrade()
        {
            let mut event = Queued::new(hawser_event_kind::HAWSER_SENDABLE);
            event.connection = self.connection;
            context.push(event);
        }
    }
}

impl Connection {
    /// Serves a connection under this handle.
    pub(crate) fn start(id: u64, context: &Arc<Context>, connection: taps::Connection, target: Target) {
        let handle = hawser_connection { id };
        let sender = connection.sender().clone();
        let shared = Arc::new(Mutex::new(connection));
        let (demands, demanded) = mpsc::channel(MAX_RECEIVES);
        let object = Arc::new(Connection {
            context: Arc::clone(context),
            target: Mutex::new(target),
            shared: Arc::clone(&shared),
            sender,
            message: Mutex::default(),
            demands,
            sendable: Arc::new(Sendable {
                connection: handle,
                context: Arc::downgrade(context),
                is_wanted: AtomicBool::new(false),
            }),
            tasks: OnceLock::new(),
        });
        // The object is there before its first event.
        handle::insert(id, Object::Connection(Arc::clone(&object)));
        let reports = report(handle, Arc::clone(context), Arc::clone(&shared));
        let receives = receive(handle, Arc::clone(context), shared, demanded);
        let tasks = [context.handle.spawn(reports), context.handle.spawn(receives)];
        let _ = object.tasks.set(tasks.map(|task| task.abort_handle()));
    }

    pub(crate) fn target(&self) -> Target {
        *self.target.lock()
    }

    fn send(&self, data: Bytes, end_of_message: bool, properties: Option<&str>) -> Result<u64, Failure> {
        let mut message = self.message.lock();
        let context = match (&*message, properties) {
            (Some(_), Some(_)) => {
                let text = "the parts of a message have the properties of its first part";
                return Err(Failure::argument(text));
            }
            (Some(context), None) => context.clone(),
            (None, properties) => {
                let mut context = MessageContext::new();
                if let Some(json) = properties {
                    each_property(json, |name, value| context.add_by_name(name, value).map(drop))?;
                }
                context
            }
        };
        let _guard = self.context.handle.enter();
        let waker = Waker::from(Arc::clone(&self.sendable));
        self.sendable.is_wanted.store(true, Ordering::Release);
        let polled = {
            let sending = pin!(self.sender.send_part(data, &context, end_of_message));
            sending.poll(&mut Polling::from_waker(&waker))
        };
        let Poll::Ready(sent) = polled else {
            // The waker stays, so the next change is reported.
            let text = "too much is queued: HAWSER_SENDABLE reports when to try again";
            return Err(Failure::new(hawser_status::HAWSER_ERROR_FULL, text));
        };
        self.sendable.is_wanted.store(false, Ordering::Release);
        let sent = sent.map_err(ended)?;
        *message = (!end_of_message).then_some(context);
        Ok(sent.number())
    }
}

fn ended(error: ConnectionEnded) -> Failure {
    Failure::new(hawser_status::HAWSER_ERROR_ENDED, error)
}

/// Queues the events of a connection until the last.
async fn report(handle: hawser_connection, context: Arc<Context>, shared: Arc<Mutex<taps::Connection>>) {
    let next = || {
        poll_fn(|cx| {
            let mut connection = shared.lock();
            let next = pin!(connection.next_event());
            next.poll(cx)
        })
    };
    let places = Arc::new(Semaphore::new(MAX_EVENTS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Some(event) = next().await else {
            return;
        };
        let transport = shared.lock().transport();
        let mut event = queued(event, transport);
        event.connection = handle;
        event.place = Some(place);
        context.push(event);
    }
}

fn queued(event: ConnectionEvent, transport: &str) -> Queued {
    use hawser_event_kind as Kind;
    use hawser_status as Status;
    match event {
        ConnectionEvent::Ready => Queued::new(Kind::HAWSER_READY).with_text(transport),
        ConnectionEvent::EstablishmentError(error) => Queued::new(Kind::HAWSER_ESTABLISHMENT_ERROR)
            .with_status(Status::HAWSER_ERROR_ESTABLISHMENT)
            .with_text(error),
        ConnectionEvent::Sent { send, .. } => {
            let mut event = Queued::new(Kind::HAWSER_SENT);
            event.send_id = send.number();
            event
        }
        ConnectionEvent::Expired { send, .. } => {
            let mut event = Queued::new(Kind::HAWSER_SEND_ERROR)
                .with_status(Status::HAWSER_ERROR_EXPIRED)
                .with_text("the lifetime of the message ended before it was sent");
            event.send_id = send.number();
            event
        }
        ConnectionEvent::SendError { send, why, .. } => {
            let status = match &why {
                SendError::Properties(_) => Status::HAWSER_ERROR_PROPERTY,
                SendError::Framing(_) => Status::HAWSER_ERROR_ARGUMENT,
                SendError::AfterFinal
                | SendError::Closing
                | SendError::ReceivesOnly
                | SendError::Ended(_) => Status::HAWSER_ERROR_ENDED,
            };
            let mut event = Queued::new(Kind::HAWSER_SEND_ERROR)
                .with_status(status)
                .with_text(why);
            event.send_id = send.number();
            event
        }
        ConnectionEvent::PathChange(text) => Queued::new(Kind::HAWSER_PATH_CHANGE).with_text(text),
        ConnectionEvent::CloneError(error) => Queued::new(Kind::HAWSER_CLONE_ERROR)
            .with_status(Status::HAWSER_ERROR_ESTABLISHMENT)
            .with_text(error),
        ConnectionEvent::Closed => Queued::new(Kind::HAWSER_CLOSED),
        ConnectionEvent::ConnectionError(error) => Queued::new(Kind::HAWSER_CONNECTION_ERROR)
            .with_status(Status::HAWSER_ERROR_ENDED)
            .with_text(error),
    }
}

/// Receives a message for each demand, until there are no more.
async fn receive(
    handle: hawser_connection,
    context: Arc<Context>,
    shared: Arc<Mutex<taps::Connection>>,
    mut demanded: mpsc::Receiver<Demand>,
) {
    let places = Arc::new(Semaphore::new(MAX_RECEIVED));
    while let Some((min, max)) = demanded.recv().await {
        let place = Arc::clone(&places).acquire_owned().await.ok();
        let received: Result<ReceivedMessage, ReceiveError> = poll_fn(|cx| {
            let mut connection = shared.lock();
            let next = pin!(connection.receive_within(min, max));
            next.poll(cx)
        })
        .await;
        let mut event = match &received {
            Ok(message) => {
                let mut event = Queued::new(hawser_event_kind::HAWSER_RECEIVED);
                event.data = message.data().clone();
                event.end_of_message = message.is_end_of_message();
                event
            }
            Err(error) => Queued::new(hawser_event_kind::HAWSER_RECEIVE_ERROR)
                .with_status(hawser_status::HAWSER_ERROR_ENDED)
                .with_text(error),
        };
        event.connection = handle;
        event.place = place;
        context.push(event);
    }
}

/// Sends a message, or a part of one: `len` bytes, which are copied. Parts of one message are sent in order,
/// the last with `end_of_message`. `properties` is NULL, or an object of JSON with message properties (RFC
/// 9622, section 9.1.3), such as `{"msgLifetime": 500, "final": true}`; it belongs to the first part. The
/// message's number is written to `send_id`, unless that is NULL; HAWSER_SENT or HAWSER_SEND_ERROR reports it.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY, HAWSER_ERROR_ENDED,
/// HAWSER_ERROR_FULL while too much is queued: bytes that the transport has not taken, or 1,024 messages whose
/// events have not been dispatched. HAWSER_SENDABLE reports when to try again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_send(
    connection: hawser_connection,
    data: *const u8,
    len: usize,
    end_of_message: bool,
    properties: *const c_char,
    send_id: *mut u64,
) -> hawser_status {
    call(|| {
        let connection = connection.get()?;
        // SAFETY: the caller promises that the pointers are NULL or valid.
        let (data, properties) = unsafe {
            (
                pointer::bytes(data, len, "data")?,
                pointer::optional(properties, "properties")?,
            )
        };
        let number = connection.send(Bytes::copy_from_slice(data), end_of_message, properties)?;
        if !send_id.is_null() {
            // SAFETY: as above.
            unsafe { send_id.write(number) };
        }
        Ok(())
    })
}

/// Asks for the next message; HAWSER_RECEIVED or HAWSER_RECEIVE_ERROR answers each call, in order. A message
/// comes in parts if it is longer than `max_len` bytes, and a part has at least `min_incomplete_len` bytes.
/// With 0 and 0, whole messages are reported, as long as they fit into the library's buffer of 1 MiB; without
/// a framer, over a stream of bytes, what has arrived.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_FULL while 1,024 calls wait.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_receive(
    connection: hawser_connection,
    min_incomplete_len: usize,
    max_len: usize,
) -> hawser_status {
    call(|| {
        let or_all = |len| if len == 0 { usize::MAX } else { len };
        let demand = (or_all(min_incomplete_len), or_all(max_len));
        connection.get()?.demands.try_send(demand).map_err(|_| {
            let text = format!("{MAX_RECEIVES} calls wait for a message");
            Failure::new(hawser_status::HAWSER_ERROR_FULL, text)
        })
    })
}

/// Closes a connection when all sent messages are delivered, which HAWSER_CLOSED reports.
///
/// Errors: HAWSER_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_close(connection: hawser_connection) -> hawser_status {
    call(|| {
        connection.get()?.sender.close();
        Ok(())
    })
}

/// Ends a connection at once, and discards what was not sent. HAWSER_CONNECTION_ERROR follows.
///
/// Errors: HAWSER_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_abort(connection: hawser_connection) -> hawser_status {
    call(|| {
        connection.get()?.sender.abort();
        Ok(())
    })
}

/// Frees a connection's handle. If the connection has not ended, it is closed; sent messages are still
/// delivered while the context lives. No event of it follows.
///
/// Errors: HAWSER_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_connection_free(connection: hawser_connection) -> hawser_status {
    call(|| connection.take().map(drop))
}

/// Sends the events of a connection to another callback from now on.
///
/// Errors: HAWSER_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_connection_set_callback(
    connection: hawser_connection,
    callback: hawser_callback,
    user: *mut c_void,
) -> hawser_status {
    call(|| {
        *connection.get()?.target.lock() = Target::new(callback, user);
        Ok(())
    })
}

/// Makes another connection of the same group: a further stream of the same transport connection if that has
/// several, otherwise a connection of its own to the same peer (RFC 9622, section 7.4). Its events go to this
/// callback.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_ESTABLISHMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_clone(
    connection: hawser_connection,
    callback: hawser_callback,
    user: *mut c_void,
    clone: *mut hawser_connection,
) -> hawser_status {
    call(|| {
        let connection = connection.get()?;
        let id = handle::reserve();
        // SAFETY: the caller promises that the pointer is NULL or valid.
        unsafe { pointer::write(clone, "clone", hawser_connection { id }) }?;
        let context = &connection.context;
        let _guard = context.handle.enter();
        let cloned = connection.shared.lock().clone_connection();
        let cloned =
            cloned.map_err(|error| Failure::new(hawser_status::HAWSER_ERROR_ESTABLISHMENT, error))?;
        Connection::start(id, context, cloned, Target::new(callback, user));
        Ok(())
    })
}

/// Sets a connection property by its name and a value as text; see hawser_preconnection_set_property(). All
/// except `connPriority` apply to the whole group.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_connection_set_property(
    connection: hawser_connection,
    name: *const c_char,
    value: *const c_char,
) -> hawser_status {
    call(|| {
        let connection = connection.get()?;
        // SAFETY: the caller promises that the pointers are NULL or valid.
        let (name, value) = unsafe { (pointer::text(name, "name")?, pointer::text(value, "value")?) };
        let _guard = connection.context.handle.enter();
        connection
            .shared
            .lock()
            .set_property_by_name(name, value)
            .map_err(property)
    })
}

/// Writes the value of a property as text to a buffer of `size` bytes, with a zero byte behind it, and its
/// length to `len`, unless that is NULL, also if the buffer is too small.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY if the connection has no value of
/// it, HAWSER_ERROR_SPACE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_connection_property(
    connection: hawser_connection,
    name: *const c_char,
    buffer: *mut c_char,
    size: usize,
    len: *mut usize,
) -> hawser_status {
    call(|| {
        let connection = connection.get()?;
        // SAFETY: the caller promises that the pointer is NULL or valid.
        let name = unsafe { pointer::text(name, "name") }?;
        let all = connection.shared.lock().properties();
        let unknown = |text: String| Failure::new(hawser_status::HAWSER_ERROR_PROPERTY, text);
        let value = all
            .get_by_name(name)
            .map_err(|error| unknown(error.to_string()))?;
        let value = value.ok_or_else(|| unknown(format!("the connection has no value of `{name}`")))?;
        // SAFETY: as above.
        unsafe { pointer::copy(&value.to_string(), buffer, size, len) }
    })
}

/// Writes the remote address of a connection, such as `192.0.2.1:443`, to a buffer as
/// hawser_connection_property() does. The text is empty while it is not known.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_SPACE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_connection_remote(
    connection: hawser_connection,
    buffer: *mut c_char,
    size: usize,
    len: *mut usize,
) -> hawser_status {
    call(|| {
        let (_, remote) = connection.get()?.shared.lock().endpoints();
        let text = remote.map_or_else(String::new, |remote| remote.to_string());
        // SAFETY: the caller promises that the pointers are NULL or valid.
        unsafe { pointer::copy(&text, buffer, size, len) }
    })
}
