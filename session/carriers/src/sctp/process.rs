//! The SCTP process of a stack: starts it, takes its reports, watches it, and restarts it.
//!
//! Invariants: a process that ends or gives no sign of life takes only its associations with it. Each of them
//! ends with an error, and the next process has the same listeners. The UDP sockets belong to the program, so
//! that their ports are kept in between.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use parking_lot::Mutex;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::sctp::error::{Fault, SctpError};
use crate::sctp::helper;
use crate::sctp::listener::{Listening, OFFERS};
use crate::sctp::protocol::{self, CONTROL, CloseCause, ProcessOrder, ProcessReport, ProcessSetup, VARIABLE};
use crate::sctp::remote::Remote;
use crate::sctp::udp::Sockets;

/// The maximum time in which the process must start, and answer an order to listen.
const BEGINNING: Duration = Duration::from_secs(10);
/// The interval at which the process is asked for a sign of life.
const INTERVAL: Duration = Duration::from_millis(500);
/// The number of intervals without a sign of life of all its threads after which the process is killed.
const SILENT: u32 = 10;
/// The first and the longest pause before a short-lived process is restarted.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The lifetime from which a process no longer counts as short-lived.
const LASTED: Duration = Duration::from_secs(30);
/// The buffer of each stream to the process, in bytes. Urgent data cannot overtake its contents.
const STREAM: usize = 32_768;

type Outgoing = (ProcessOrder, Option<OwnedFd>);

/// A stack's process, which ends when the value is dropped.
pub(crate) struct StackProcess {
    shared: Arc<Shared>,
    pub(crate) udp_port: u16,
}

struct Shared {
    sockets: Sockets,
    setup: String,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// The channel to the process; `None` while there is no process.
    orders: Option<Sender<Outgoing>>,
    /// True if the process is no longer needed.
    closing: bool,
    associations: HashMap<u64, Arc<Remote>>,
    /// Streams for future associations, with their listeners.
    offers: HashMap<u64, (UnixStream, Arc<Listening>)>,
    listeners: HashMap<u64, Weak<Listening>>,
}

impl StackProcess {
    /// Starts the process with these sockets.
    pub(crate) fn start(sockets: Sockets, udp_port: u16) -> Result<Arc<Self>, SctpError> {
        let setup = ProcessSetup {
            udp_port,
            v4: sockets.v4.is_some(),
            v6: sockets.v6.is_some(),
            addresses: sockets.addresses.clone(),
        };
        let setup = serde_json::to_string(&setup).map_err(|error| SctpError::Start(error.to_string()))?;
        let shared = Arc::new(Shared { sockets, setup, table: Mutex::default() });
        let (begun, result) = sync_channel(1);
        let supervised = shared.clone();
        std::thread::Builder::new()
            .name("sctp-watch".into())
            .spawn(move || supervised.supervise(begun))?;
        match result.recv_timeout(BEGINNING) {
            Ok(Ok(())) => Ok(Arc::new(Self { shared, udp_port })),
            Ok(Err(fault)) => Err(fault.about(&[])),
            Err(_) => {
                shared.close();
                Err(SctpError::Start("the SCTP process does not start".into()))
            }
        }
    }

    /// Registers an association. Returns its number, both ends of its stream, and its state.
    pub(crate) fn expect(&self) -> io::Result<(u64, UnixStream, OwnedFd, Arc<Remote>)> {
        let (ours, theirs) = pair()?;
        let remote = Arc::new(Remote::default());
        let mut table = self.shared.table.lock();
        let id = table.number();
        table.associations.insert(id, remote.clone());
        Ok((id, ours, theirs, remote))
    }

    /// Sends an order.
    ///
    /// # Errors
    /// There is no process at present.
    pub(crate) fn order(&self, order: ProcessOrder, descriptor: Option<OwnedFd>) -> io::Result<()> {
        self.shared.table.lock().order(order, descriptor)
    }

    /// Ends an association that is no longer needed.
    pub(crate) fn end(&self, id: u64, at_once: bool) {
        let mut table = self.shared.table.lock();
        table.associations.remove(&id);
        // If there is no process, the association no longer exists.
        let _ = table.order(ProcessOrder::End { id, at_once }, None);
    }

    /// Starts a listener, and waits until it listens.
    pub(crate) fn listen(&self, listening: &Arc<Listening>) -> Result<Vec<SocketAddr>, Fault> {
        let receiver = {
            let mut table = self.shared.table.lock();
            let id = table.number();
            let receiver = listening.begin(id);
            table.listeners.insert(id, Arc::downgrade(listening));
            table.listen(id, listening)?;
            receiver
        };
        let result = receiver.recv_timeout(BEGINNING);
        result.unwrap_or_else(|_| Err(Fault::Start("the SCTP process does not answer".into())))
    }

    /// Offers a listener a new stream in place of one that it has used.
    pub(crate) fn offer(&self, listening: &Arc<Listening>) {
        self.shared.table.lock().complete(listening);
    }

    pub(crate) fn close_listener(&self, id: u64) {
        let mut table = self.shared.table.lock();
        table.listeners.remove(&id);
        let offered = |(_, (_, listening)): &(&u64, &(UnixStream, Arc<Listening>))| listening.id() == id;
        let unused: Vec<u64> = table.offers.iter().filter(offered).map(|(id, _)| *id).collect();
        for id in unused {
            table.offers.remove(&id);
            table.associations.remove(&id);
        }
        let _ = table.order(ProcessOrder::End { id, at_once: true }, None);
    }
}

impl Drop for StackProcess {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Table {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn order(&mut self, order: ProcessOrder, descriptor: Option<OwnedFd>) -> io::Result<()> {
        let sent = self
            .orders
            .as_ref()
            .map(|orders| orders.send((order, descriptor)));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    fn listen(&mut self, id: u64, listening: &Arc<Listening>) -> io::Result<()> {
        self.order(listening.order(id), None)?;
        self.complete(listening);
        Ok(())
    }

    fn living(&self) -> Vec<Arc<Listening>> {
        self.listeners.values().filter_map(Weak::upgrade).collect()
    }

    fn complete_all(&mut self) {
        for listening in self.living() {
            self.complete(&listening);
        }
    }

    /// Offers a listener as many streams as it lacks. If this fails now, it is repeated at the next
    /// heartbeat, because free descriptors or a process may be available later.
    fn complete(&mut self, listening: &Arc<Listening>) {
        let id = listening.id();
        let offered = self.offers.values().filter(|(_, of)| of.id() == id).count();
        for _ in offered + listening.waiting()..OFFERS {
            if let Err(error) = self.offer(id, listening) {
                tracing::debug!(%error, "an SCTP listener lacks a stream");
                return;
            }
        }
    }

    fn offer(&mut self, listener: u64, listening: &Arc<Listening>) -> io::Result<()> {
        let (ours, theirs) = pair()?;
        let id = self.number();
        self.order(ProcessOrder::Offer { listener, id }, Some(theirs))?;
        self.associations.insert(id, Arc::default());
        self.offers.insert(id, (ours, listening.clone()));
        Ok(())
    }
}

/// Returns our end of a stream to the process, and the process's end.
fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    sockopt::set_socket_send_buffer_size(&ours, STREAM)?;
    sockopt::set_socket_send_buffer_size(&theirs, STREAM)?;
    ours.set_nonblocking(true)?;
    Ok((ours, theirs.into()))
}

impl Shared {
    fn close(&self) {
        let mut table = self.table.lock();
        table.closing = true;
        // The writer thread ends, and shuts down the socket pair.
        table.orders = None;
    }

    /// Keeps a process running until the stack is closed.
    fn supervise(&self, begun: SyncSender<Result<(), Fault>>) {
        let mut pause = PAUSE;
        loop {
            let since = Instant::now();
            let result = self.run(&begun);
            self.fail_all();
            if self.table.lock().closing {
                return;
            }
            if let Err(fault) = result {
                // If the first process fails, the stack cannot open. Later ones are retried.
                if begun.try_send(Err(fault.clone())).is_ok() {
                    return;
                }
                tracing::warn!(?fault, "the SCTP process cannot start");
            }
            pause = if since.elapsed() > LASTED {
                PAUSE
            } else {
                LONGEST_PAUSE.min(pause * 2)
            };
            tracing::warn!(
                pause_ms = pause.as_millis(),
                "the SCTP process has ended and is being restarted"
            );
            std::thread::sleep(pause);
        }
    }

    /// Runs one process until it ends.
    fn run(&self, begun: &SyncSender<Result<(), Fault>>) -> Result<(), Fault> {
        let (control, mut child) = self.spawn()?;
        let control = Arc::new(control);
        let result = self.attend(&control, begun);
        // The thread that writes orders ends.
        self.table.lock().orders = None;
        if !matches!(result, Ok(Over::Closed)) {
            let _ = child.kill();
        }
        drop(control);
        let _ = child.wait();
        result.map(|_| ())
    }

    fn spawn(&self) -> Result<(OwnedFd, Child), Fault> {
        if std::env::var_os(VARIABLE).is_some() {
            return Err(Fault::Start(
                "this program was started as an SCTP process, but is not one".into(),
            ));
        }
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(io::Error::from)?;
        sockopt::set_socket_timeout(&ours, Timeout::Recv, Some(INTERVAL)).map_err(io::Error::from)?;
        let mut descriptors = vec![theirs];
        for socket in [&self.sockets.v4, &self.sockets.v6].into_iter().flatten() {
            descriptors.push(socket.as_fd().try_clone_to_owned()?);
        }
        let mappings = descriptors
            .into_iter()
            .zip(CONTROL..)
            .map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd })
            .collect();
        // This reference keeps the entry from being removed by the linker.
        std::hint::black_box(&helper::entry::ENTRY);
        let mut command = Command::new("/proc/self/exe");
        command
            .env_clear()
            .env(VARIABLE, &self.setup)
            .envs(std::env::vars_os().filter(|(name, _)| name == "LD_LIBRARY_PATH"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .fd_mappings(mappings)
            .map_err(|error| Fault::Start(error.to_string()))?;
        Ok((ours, command.spawn()?))
    }

    /// Takes the process's reports until it ends.
    fn attend(&self, control: &Arc<OwnedFd>, begun: &SyncSender<Result<(), Fault>>) -> Result<Over, Fault> {
        let mut watch = LivenessMonitor::default();
        let started = Instant::now();
        let mut asked = Instant::now();
        let mut is_ready = false;
        loop {
            match protocol::receive::<ProcessReport>(control, RecvFlags::empty()) {
                Ok(Some((ProcessReport::Ready, _))) => {
                    is_ready = true;
                    self.begin(control.clone())?;
                    // Only the start of the first process is awaited.
                    let _ = begun.try_send(Ok(()));
                }
                Ok(Some((ProcessReport::Unable(fault), _))) => return Err(fault),
                Ok(Some((ProcessReport::Beat(counts), _))) => watch.note(counts),
                Ok(Some((report, _))) => self.take(report),
                Ok(None) if self.table.lock().closing => return Ok(Over::Closed),
                Ok(None) if is_ready => return Ok(Over::Gone),
                Ok(None) => return Err(Fault::Start("the SCTP process ended immediately".into())),
                // A call is interrupted when a stopped process continues (signal(7)).
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error.into()),
            }
            if !is_ready && started.elapsed() > BEGINNING {
                return Err(Fault::Start("the SCTP process does not start".into()));
            }
            if is_ready && asked.elapsed() >= INTERVAL {
                asked = Instant::now();
                if watch.is_silent() {
                    tracing::warn!("the SCTP process does not respond and is terminated");
                    return Ok(Over::Gone);
                }
                let mut table = self.table.lock();
                let _ = table.order(ProcessOrder::Beat, None);
                table.complete_all();
            }
        }
    }

    /// Gives the process its initial orders: the existing listeners.
    fn begin(&self, control: Arc<OwnedFd>) -> Result<(), Fault> {
        let (orders, outgoing) = channel();
        std::thread::Builder::new()
            .name("sctp-orders".into())
            .spawn(move || write(&control, &outgoing))?;
        let mut table = self.table.lock();
        if table.closing {
            return Ok(());
        }
        table.orders = Some(orders);
        table
            .living()
            .iter()
            .try_for_each(|listening| table.listen(listening.id(), listening))?;
        Ok(())
    }

    fn take(&self, report: ProcessReport) {
        let mut table = self.table.lock();
        match report {
            ProcessReport::Ready | ProcessReport::Unable(_) | ProcessReport::Beat(_) => {}
            ProcessReport::Listening { id, addresses } => table.answer(id, Ok(addresses)),
            ProcessReport::Failed { id, fault } => {
                table.answer(id, Err(fault.clone()));
                if let Some(remote) = table.associations.remove(&id) {
                    remote.fail(fault);
                }
            }
            ProcessReport::Up { id, view } => {
                let Some(remote) = table.associations.get(&id).cloned() else {
                    return;
                };
                remote.up(view);
                if let Some((stream, listening)) = table.offers.remove(&id) {
                    listening.push(id, stream, remote);
                }
            }
            ProcessReport::Changed { id, view } => table.with(id, |remote| remote.change(view)),
            ProcessReport::Trying { id } => table.with(id, Remote::try_it),
            ProcessReport::Finished { id } => table.with(id, Remote::finish),
            ProcessReport::Ended { id, cause } => table.with(id, |remote| remote.end(cause)),
        }
    }

    /// Ends all associations with an error, because their process is gone.
    fn fail_all(&self) {
        let mut table = self.table.lock();
        table.offers.clear();
        for (_, remote) in table.associations.drain() {
            remote.fail(Fault::Gone);
            remote.end(Some(CloseCause::Reset));
        }
    }
}

impl Table {
    fn with(&self, id: u64, change: impl FnOnce(&Remote)) {
        if let Some(remote) = self.associations.get(&id) {
            change(remote);
        }
    }

    fn answer(&self, id: u64, result: Result<Vec<SocketAddr>, Fault>) {
        if let Some(listening) = self.listeners.get(&id).and_then(Weak::upgrade) {
            listening.answer(result);
        }
    }
}

/// The way in which a process ended.
enum Over {
    /// The stack was closed.
    Closed,
    /// The process ended, or gave no sign of life.
    Gone,
}

/// Sends orders until there are no more, and then shuts down the socket pair.
fn write(control: &OwnedFd, outgoing: &Receiver<Outgoing>) {
    while let Ok((order, descriptor)) = outgoing.recv() {
        if protocol::send(control, &order, descriptor.as_ref()).is_err() {
            break;
        }
    }
    let _ = rustix::net::shutdown(control, rustix::net::Shutdown::Write);
}

/// Evaluates the process's signs of life.
#[derive(Debug, Default)]
struct LivenessMonitor {
    counts: Vec<u64>,
    /// The number of intervals in which not all threads gave one.
    silent: u32,
}

impl LivenessMonitor {
    /// Takes the counts of the threads. A working thread increases its own.
    fn note(&mut self, counts: Vec<u64>) {
        let all_grew =
            counts.len() != self.counts.len() || counts.iter().zip(&self.counts).all(|(new, old)| new > old);
        if all_grew {
            self.silent = 0;
            self.counts = counts;
        }
    }

    /// Returns true if too many intervals have passed. To be called once in each interval.
    fn is_silent(&mut self) -> bool {
        self.silent += 1;
        self.silent > SILENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_silent_thread_makes_the_process_silent() {
        let mut watch = LivenessMonitor::default();
        watch.note(vec![1, 1]);
        for round in 2..100 {
            watch.note(vec![round, round]);
            assert!(!watch.is_silent());
        }
        for round in 100..100 + u64::from(SILENT) - 1 {
            watch.note(vec![round, 99]);
            assert!(!watch.is_silent(), "{round}");
        }
        watch.note(vec![1_000, 99]);
        assert!(watch.is_silent());
        watch.note(vec![1_001, 100]);
        assert!(!watch.is_silent());
    }
}
