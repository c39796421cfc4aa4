//! Connections as `AsyncRead + AsyncWrite` on a tokio runtime.
//!
//! A [`Network`] drives an [`Endpoint`] from one task. Streams and listeners share it through a mutex that is
//! held for the length of one call and never across an await. Application calls only put work into the stack.
//! The task sends the packets, so that the output of several streams in one turn leaves in one batch.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hawser_bus::{AttachmentChange, Bus, SchemaError, SourceId};
use hawser_engine::{ByHandle, Handle, Observable, Stack};
use hawser_time::{Instant, nanos};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::sync::Notify;

use crate::MAX_WAITING;
use crate::attach::APPLICATION;
use crate::endpoint::Endpoint;
use crate::error::ChangeError;
use crate::log;
use crate::messages::{Key, MessageError, NetworkEnd};
use crate::options::{self, Keepalive, Options};
use crate::verbs::CompletionWakers;

/// The maximum number of polls in a row before other tasks get their turn.
const POLLS_PER_TURN: usize = 16;

/// An endpoint driven by a task of the current runtime. Clones share it.
#[derive(Clone)]
pub struct Network {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Notified when an application call has left data to send.
    kick: Notify,
}

pub(crate) struct Inner {
    pub(crate) endpoint: Endpoint,
    wakers: ByHandle<Wakers>,
    /// The tasks that wait for messages.
    message_wakers: HashMap<Key, Vec<Waker>>,
    /// The tasks that wait for completions.
    pub(crate) completion_wakers: CompletionWakers,
    /// The reason for which the network has stopped, once it has.
    dead: Option<NetworkEnd>,
}

#[derive(Default)]
struct Wakers {
    /// The waiting readers; several tasks may wait for a listener's connections.
    read: Vec<Waker>,
    write: Vec<Waker>,
}

impl Network {
    /// Starts to drive `endpoint`. Call it inside a tokio runtime with I/O and time enabled.
    ///
    /// # Errors
    /// Returns an error if the device cannot be watched for readiness.
    pub fn start(mut endpoint: Endpoint) -> io::Result<Network> {
        // The endpoint records changes from here on. No task waits for earlier ones.
        endpoint.take_changed(&mut Vec::new());
        endpoint.take_changed_messages(&mut Vec::new());
        let fd = watch(endpoint.device().readiness().try_clone_to_owned()?)?;
        let wakeup = endpoint
            .device()
            .wakeup()
            .map(|wakeup| watch(wakeup.try_clone_to_owned()?));
        let wakeup = wakeup.transpose()?;
        let inner = Inner {
            endpoint,
            wakers: ByHandle::default(),
            message_wakers: HashMap::new(),
            completion_wakers: CompletionWakers::default(),
            dead: None,
        };
        let shared = Arc::new(Shared { inner: Mutex::new(inner), kick: Notify::new() });
        tokio::spawn(drive(Arc::downgrade(&shared), fd, wakeup));
        Ok(Network { shared })
    }

    /// Opens a connection and waits until it is usable.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::ConnectionRefused`], [`io::ErrorKind::TimedOut`], …
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        self.connect_with(remote, &Options::new()).await
    }

    /// [`Network::connect`] with options, in force before the first packet leaves.
    ///
    /// # Errors
    /// As [`Network::connect`]; also [`io::ErrorKind::InvalidInput`] for an option's value that the program
    /// does not accept.
    pub async fn connect_with(&self, remote: SocketAddr, options: &Options) -> io::Result<Stream> {
        let mut stream = Stream { shared: self.shared.clone(), handle: self.begin(remote, options)? };
        let connection = stream.handle;
        let open = |cx: &mut Context<'_>| stream.attempt(cx, Side::Write, Endpoint::byte_stream);
        let handle = std::future::poll_fn(open).await?;
        if handle != connection {
            stream.handle = handle;
            self.shared.lock().wakers.remove(&connection);
        }
        Ok(stream)
    }

    /// Starts opening a connection.
    pub(crate) fn begin(&self, remote: SocketAddr, options: &Options) -> io::Result<Handle> {
        let handle = self
            .shared
            .lock()
            .alive()?
            .endpoint
            .connect_with(remote, options)?;
        self.shared.kick.notify_one();
        Ok(handle)
    }

    /// Opens a listener. At most `backlog` connections wait to be accepted.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::AddrInUse`], an error for a full table, …
    pub fn listen(&self, local: SocketAddr, backlog: u32) -> io::Result<Listener> {
        self.listen_with(local, backlog, &Options::new())
    }

    /// [`Network::listen`] with options, which its connections inherit.
    ///
    /// # Errors
    /// As [`Network::listen`]; also [`io::ErrorKind::InvalidInput`] for an option's value that the program
    /// does not accept.
    pub fn listen_with(&self, local: SocketAddr, backlog: u32, options: &Options) -> io::Result<Listener> {
        let handle = self
            .shared
            .lock()
            .alive()?
            .endpoint
            .listen_with(local, backlog, options)?;
        Ok(Listener { shared: self.shared.clone(), handle })
    }

    /// Calls `act` with the time and the stack, for observing it.
    pub fn with_stack<T>(&self, act: impl FnOnce(Instant, &mut Stack) -> T) -> T {
        self.shared.lock().endpoint.with_stack(act)
    }

    /// Puts the program on a bus: see [`Endpoint::interact`].
    ///
    /// # Errors
    /// Returns an error if the program declares more than a provider can have.
    pub fn interact(&self, bus: &Bus) -> Result<SourceId, SchemaError> {
        let shared = Arc::downgrade(&self.shared);
        let waker: hawser_bus::ring::Waker = Arc::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.kick.notify_one();
            }
        });
        let id = self.shared.lock().endpoint.interact(bus, Some(waker))?;
        self.shared.kick.notify_one();
        Ok(id)
    }

    /// Attaches a text to the program, as [`Endpoint::attach`] does. It is checked in the calling thread,
    /// while packets continue to flow.
    ///
    /// # Errors
    /// As [`Endpoint::attach`].
    pub fn attach(&self, name: &str, text: &str) -> Result<(), ChangeError> {
        let attachments = self.inspect(|endpoint| endpoint.attachments().clone());
        let next = attachments.attach(name, text, &[], APPLICATION)?;
        self.go_on(
            next,
            AttachmentChange::Attach { name, text, params: &[], who: APPLICATION },
        )
    }

    /// Detaches an attachment, as [`Endpoint::detach`] does.
    ///
    /// # Errors
    /// As [`Endpoint::detach`].
    pub fn detach(&self, name: &str) -> Result<(), ChangeError> {
        let attachments = self.inspect(|endpoint| endpoint.attachments().clone());
        self.go_on(
            attachments.detach(name)?,
            AttachmentChange::Detach { name, why: "" },
        )
    }

    fn go_on(
        &self,
        next: hawser_load::CheckedChange,
        change: AttachmentChange<'_>,
    ) -> Result<(), ChangeError> {
        self.shared
            .lock()
            .alive()
            .map_err(ChangeError::Stopped)?
            .endpoint
            .go_on(next, change)?;
        self.shared.kick.notify_one();
        Ok(())
    }

    /// Calls `read` with the endpoint, to read counters, contexts or state variables.
    pub fn inspect<T>(&self, read: impl FnOnce(&Endpoint) -> T) -> T {
        read(&self.shared.lock().endpoint)
    }

    /// Waits until at most `contexts` contexts are left, or `limit` has passed, so that closed connections
    /// can finish sending and closing.
    pub async fn drained(&self, contexts: usize, limit: Duration) {
        let all_gone = async {
            while self.inspect(Endpoint::contexts) > contexts {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(limit, all_gone).await;
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A task that panics while it holds the lock ends alone: the stack is consistent between calls.
        let mut inner = self.inner.lock();
        if inner.endpoint.is_lent {
            // An error of the device occurs again when it is polled.
            let _ = inner.endpoint.take_back();
            self.kick();
        }
        inner
    }

    /// Wakes the driving task, because there is data to send.
    pub(crate) fn kick(&self) {
        self.kick.notify_one();
    }
}

impl Inner {
    fn alive(&mut self) -> io::Result<&mut Inner> {
        match &self.dead {
            Some(end) => Err(end.clone().into()),
            None => Ok(self),
        }
    }

    /// Stops the network: all waiting tasks receive the error.
    fn end(&mut self, end: NetworkEnd) {
        self.dead.get_or_insert(end);
        let all: Vec<Handle> = self.wakers.keys().copied().collect();
        all.into_iter().for_each(|handle| self.wake(handle));
        let waiting = self.message_wakers.drain().flat_map(|(_, wakers)| wakers);
        waiting.for_each(Waker::wake);
        self.completion_wakers.wake_all();
    }

    /// Returns the inner state, or the error in the form for messages if the network has stopped.
    pub(crate) fn living(&mut self) -> Result<&mut Inner, MessageError> {
        match &self.dead {
            Some(end) => Err(MessageError::Network(end.clone())),
            None => Ok(self),
        }
    }

    /// Returns the error in the form for verbs, if the network has stopped.
    #[cfg(feature = "verbs")]
    pub(crate) fn ended(&self) -> Option<crate::verbs::VerbsError> {
        let end = self.dead.as_ref()?;
        Some(crate::verbs::VerbsError::Ended(end.to_string()))
    }

    /// Registers a waker for changes of a message socket or a call.
    pub(crate) fn wake_later(&mut self, key: Key, waker: &Waker) {
        let waiting = self.message_wakers.entry(key).or_default();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            if waiting.len() >= MAX_WAITING {
                waiting.remove(0).wake();
            }
            waiting.push(waker.clone());
        }
    }

    pub(crate) fn forget_waker(&mut self, key: Key) {
        self.message_wakers.remove(&key);
    }

    fn wake(&mut self, handle: Handle) {
        if let Some(wakers) = self.wakers.get_mut(&handle) {
            wakers
                .read
                .drain(..)
                .chain(wakers.write.drain(..))
                .for_each(Waker::wake);
        }
    }
}

/// Registers a file descriptor with the runtime.
///
/// # Errors
/// Returns an error if it cannot be watched for readiness.
#[allow(unsafe_code)] // The runtime requires proof of the descriptor's ownership.
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the returned value owns the descriptor, and takes it from the runtime's poll set before it
    // closes it; no other code can close it.
    Ok(unsafe { AsyncFd::register(fd) }?)
}

/// The next action of the driving task.
enum DriveStep {
    Again,
    Sleep {
        limit: Option<Duration>,
        /// True if frames wait until the device takes them.
        or_writable: bool,
    },
}

/// Notifies all waiting tasks when the driving task ends in any way, including a panic or the runtime's end.
struct LastWord(std::sync::Weak<Shared>);

impl Drop for LastWord {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.lock().end(NetworkEnd::Task);
        }
    }
}

/// Polls the endpoint until its last holder is gone.
async fn drive(shared: std::sync::Weak<Shared>, fd: AsyncFd<OwnedFd>, wakeup: Option<AsyncFd<OwnedFd>>) {
    let _last_word = LastWord(shared.clone());
    let mut changed = ChangedObjects::default();
    loop {
        let Some(shared) = shared.upgrade() else { return };
        match turn(&shared, &mut changed) {
            Ok(DriveStep::Again) => tokio::task::yield_now().await,
            Ok(DriveStep::Sleep { limit, or_writable }) => {
                let sleep = async {
                    match limit {
                        Some(d) => tokio::time::sleep(d).await,
                        None => std::future::pending().await,
                    }
                };
                let rung = async {
                    match &wakeup {
                        Some(wakeup) => wakeup.readable().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = shared.kick.notified() => {}
                    // An error of a socket makes it neither readable nor writable.
                    ready = fd.ready(Interest::READABLE | Interest::ERROR) => if let Ok(mut guard) = ready { guard.clear_ready() },
                    ready = fd.writable(), if or_writable => if let Ok(mut guard) = ready { guard.clear_ready() },
                    ready = rung => if let Ok(mut guard) = ready { guard.clear_ready() },
                    () = sleep => {}
                    // Checks once a second whether the last holder is gone.
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                }
            }
            Err(error) => {
                log::device_failed(&error);
                return shared.lock().end(NetworkEnd::Device(Arc::new(error)));
            }
        }
    }
}

/// The objects that changed in a turn; empty between two turns.
#[derive(Default)]
struct ChangedObjects {
    handles: Vec<Handle>,
    messages: Vec<Key>,
}

/// Runs one turn of the driving task.
fn turn(shared: &Shared, changed: &mut ChangedObjects) -> io::Result<DriveStep> {
    let mut inner = shared.inner.lock();
    inner.endpoint.take_back()?;
    let mut busy = true;
    for _ in 0..POLLS_PER_TURN {
        busy = inner.endpoint.poll()?;
        if !busy {
            break;
        }
    }
    inner.endpoint.take_changed(&mut changed.handles);
    for handle in changed.handles.drain(..) {
        inner.wake(handle);
    }
    inner.endpoint.take_changed_messages(&mut changed.messages);
    for key in changed.messages.drain(..) {
        let waiting = inner.message_wakers.remove(&key).into_iter().flatten();
        waiting.for_each(Waker::wake);
    }
    let Inner { endpoint, completion_wakers, .. } = &mut *inner;
    completion_wakers.wake(endpoint);
    if busy {
        return Ok(DriveStep::Again);
    }
    let now = inner.endpoint.now();
    let next = DriveStep::Sleep {
        limit: inner.endpoint.next_deadline().map(|at| at - now),
        or_writable: inner.endpoint.wants_device(),
    };
    inner.endpoint.lend();
    Ok(next)
}

/// An ordered stream of bytes in both directions: a connection, or the only stream of a connection that has
/// streams. Dropping it shuts it down together with the connection; bytes already written still leave.
pub struct Stream {
    shared: Arc<Shared>,
    handle: Handle,
}

impl Stream {
    /// Returns the remote end.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.shared.lock().endpoint.peer(self.handle)
    }

    /// Returns the local end.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        self.shared.lock().endpoint.local(self.handle)
    }

    /// Returns a state variable that the program declares `observable`.
    #[must_use]
    pub fn observe(&self, field: &str) -> Option<u64> {
        self.shared.lock().endpoint.observe(self.handle, field)
    }

    /// Resolves the names of state variables, for [`Stream::observe_all`].
    #[must_use]
    pub fn observables<const N: usize>(&self, fields: [&str; N]) -> [Option<Observable>; N] {
        let inner = self.shared.lock();
        fields.map(|field| inner.endpoint.observable(self.handle, field))
    }

    /// Returns several state variables at one moment.
    #[must_use]
    pub fn observe_all<const N: usize>(&self, variables: [Option<Observable>; N]) -> [Option<u64>; N] {
        let inner = self.shared.lock();
        variables.map(|variable| inner.endpoint.read_observable(self.handle, variable?))
    }

    /// Returns a probe that reads the connection's state variables while the stream has another owner.
    #[must_use]
    pub fn probe(&self) -> StateReader {
        StateReader { shared: Arc::downgrade(&self.shared), handle: self.handle }
    }

    /// Sends small pieces at once (TCP: no Nagle).
    ///
    /// # Errors
    /// As [`Stream::set_option`].
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.set_option(options::OPT_NODELAY, on.into())
    }

    /// Sets the probing of an idle peer; `None`, the default, disables it.
    ///
    /// # Errors
    /// As [`Stream::set_option`].
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        let set = |(option, value)| self.set_option(option, value);
        options::keepalive_options(keepalive)
            .into_iter()
            .try_for_each(set)
    }

    /// Sets the time that the connection may go without progress until it fails (RFC 5482); `None` stands for
    /// the program's default.
    ///
    /// # Errors
    /// As [`Stream::set_option`].
    pub fn set_user_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.set_option(options::OPT_USER_TIMEOUT, limit.map_or(0, nanos))
    }

    /// Sets an option: an `OPT_…` constant of [`crate::options`], or a number that the program defines.
    ///
    /// # Errors
    /// Returns errno `ENOPROTOOPT` for an option that the program does not know,
    /// [`io::ErrorKind::InvalidInput`] for a value that it does not accept, or
    /// [`io::ErrorKind::NotConnected`] once the connection has ended.
    pub fn set_option(&self, option: u32, value: u64) -> io::Result<()> {
        self.shared
            .lock()
            .alive()?
            .endpoint
            .set_option(self.handle, option, value)?;
        self.shared.kick.notify_one();
        Ok(())
    }

    /// Drops the connection and all data in flight; the peer sees a reset.
    pub fn abort(&self) {
        self.shared.lock().endpoint.abort(self.handle);
        self.shared.kick.notify_one();
    }

    /// Sends all of `bytes` without copying them ([`Endpoint::write_shared`]), and waits while there is no
    /// room. It is cancel safe: accepted bytes are removed from `bytes`, and a further call continues with
    /// the rest.
    ///
    /// # Errors
    /// As [`Endpoint::write`], except for [`io::ErrorKind::WouldBlock`].
    pub async fn write_shared(&self, bytes: &mut Bytes) -> io::Result<()> {
        write_shared(&self.shared, self.handle, bytes).await
    }

    /// Calls a function that never blocks; if it would, registers the waker.
    fn attempt<T>(
        &self,
        cx: &mut Context<'_>,
        side: Side,
        act: impl FnOnce(&mut Endpoint, Handle) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        attempt(&self.shared, self.handle, cx, side, act)
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Side {
    Read,
    Write,
}

/// Waits until a connection is open.
pub(crate) async fn connected(shared: &Shared, handle: Handle) -> io::Result<()> {
    let open = |cx: &mut Context<'_>| {
        attempt(
            shared,
            handle,
            cx,
            Side::Read,
            |endpoint, handle| match endpoint.connected(handle)? {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            },
        )
    };
    std::future::poll_fn(open).await
}

/// Calls a function that never blocks with a handle; if it would, registers the waker.
pub(crate) fn attempt<T>(
    shared: &Shared,
    handle: Handle,
    cx: &mut Context<'_>,
    side: Side,
    act: impl FnOnce(&mut Endpoint, Handle) -> io::Result<T>,
) -> Poll<io::Result<T>> {
    let mut inner = shared.lock();
    let inner = match inner.alive() {
        Ok(inner) => inner,
        Err(error) => return Poll::Ready(Err(error)),
    };
    match act(&mut inner.endpoint, handle) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let wakers = inner.wakers.entry(handle).or_default();
            let waiting = match side {
                Side::Read => &mut wakers.read,
                Side::Write => &mut wakers.write,
            };
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                // A task that is woken without cause asks again; most likely its wait was given up.
                if waiting.len() >= MAX_WAITING {
                    waiting.remove(0).wake();
                }
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        }
        result => {
            // Reading opens a window and writing adds data to send, so there is work in either case.
            shared.kick.notify_one();
            Poll::Ready(result)
        }
    }
}

/// Writes all of `bytes` without a copy, and removes the written bytes from it.
pub(crate) async fn write_shared(shared: &Shared, handle: Handle, bytes: &mut Bytes) -> io::Result<()> {
    std::future::poll_fn(|cx| {
        while !bytes.is_empty() {
            let written = ready!(attempt(shared, handle, cx, Side::Write, |endpoint, handle| {
                endpoint.write_shared(handle, bytes)
            }))?;
            bytes.advance(written);
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// Reads into a buffer of tokio.
pub(crate) fn poll_read(
    shared: &Shared,
    handle: Handle,
    cx: &mut Context<'_>,
    out: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let read = |endpoint: &mut Endpoint, handle| endpoint.read(handle, out.initialize_unfilled());
    attempt(shared, handle, cx, Side::Read, read).map_ok(|len| out.advance(len))
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        poll_read(&self.shared, self.handle, cx, out)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.attempt(cx, Side::Write, |endpoint, handle| endpoint.write(handle, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.attempt(cx, Side::Write, |endpoint, handle| {
            let mut taken = 0;
            for slice in slices.iter().filter(|slice| !slice.is_empty()) {
                match endpoint.write(handle, slice) {
                    Ok(count) if count < slice.len() => {
                        taken += count;
                        break;
                    }
                    Ok(count) => taken += count,
                    // An error behind bytes already read is reported the next time.
                    Err(_) if taken > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(taken)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.kick.notify_one();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.lock().endpoint.shutdown(self.handle);
        self.shared.kick.notify_one();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.give_back(self.handle);
    }
}

impl Shared {
    /// Shuts a handle down and forgets it.
    pub(crate) fn give_back(&self, handle: Handle) {
        let mut inner = self.lock();
        inner.wakers.remove(&handle);
        inner.endpoint.close(handle);
        drop(inner);
        self.kick.notify_one();
    }
}

/// Reads a connection's state variables without keeping the connection or the network alive.
#[derive(Clone)]
pub struct StateReader {
    shared: std::sync::Weak<Shared>,
    handle: Handle,
}

impl StateReader {
    /// Returns a state variable that the program declares `observable`; `None` once the connection or the
    /// network is gone.
    #[must_use]
    pub fn observe(&self, field: &str) -> Option<u64> {
        self.shared.upgrade()?.lock().endpoint.observe(self.handle, field)
    }
}

/// Accepts connections. Dropping it closes it.
pub struct Listener {
    pub(crate) shared: Arc<Shared>,
    handle: Handle,
}

impl Listener {
    /// Waits for the next connection; if connections have streams, for the next one with a stream.
    ///
    /// # Errors
    /// Returns the reason for which the listener failed.
    pub async fn accept(&self) -> io::Result<Stream> {
        let handle = self.next(Endpoint::accept_stream).await?;
        Ok(Stream { shared: self.shared.clone(), handle })
    }

    /// Waits for the next handle that `accept` takes.
    pub(crate) async fn next(
        &self,
        accept: fn(&mut Endpoint, Handle) -> io::Result<Handle>,
    ) -> io::Result<Handle> {
        let accept = |cx: &mut Context<'_>| attempt(&self.shared, self.handle, cx, Side::Read, accept);
        std::future::poll_fn(accept).await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.give_back(self.handle);
    }
}
