//! The kernel's own TCP, with cubic, as the baseline.
//!
//! A single connection that may sleep uses blocking calls alone, which the kernel serves best. A side with
//! many connections waits for them by epoll. A side that does not sleep polls without blocking.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use hawser::host::linux_tcp;
use rlimit::Resource;
use socket2::{Domain, Protocol, Socket, Type};

use super::spec::{Spec, Work};
use super::transport::{Transport, ready};
use crate::sys::Poller;

const CONGESTION_CONTROL: &str = "cubic";
/// The number of the listeners in the poller. A connection's number is its index in the table.
const LISTENER: u64 = u64::MAX;
/// The number of descriptors in addition to those of connections: listeners, the poller, standard streams.
const SPARE_DESCRIPTORS: u64 = 64;

/// The manner of waiting for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// Each call blocks.
    InCalls,
    /// One call waits for all connections.
    ForAll,
    /// The side never waits.
    Never,
}

/// A table of sockets.
pub(crate) struct Linux {
    address: IpAddr,
    waiting: Waiting,
    /// True if the side also waits for room to write.
    waits_for_room: bool,
    listeners: Vec<TcpListener>,
    streams: Vec<Option<TcpStream>>,
    free: Vec<usize>,
    poller: Poller,
    ready: Vec<u64>,
}

impl Linux {
    /// Makes an empty table.
    ///
    /// # Errors
    /// There are too few descriptors.
    pub(crate) fn new(spec: &Spec) -> io::Result<Linux> {
        let waiting = match (&spec.work, spec.sleeps) {
            (_, false) => Waiting::Never,
            (Work::Connect(_) | Work::Serve(_) | Work::Ask(_) | Work::Answer(_), true) => Waiting::ForAll,
            (Work::Send(plan) | Work::Receive(plan), true) if plan.flows > 1 => Waiting::ForAll,
            (Work::Send(_) | Work::Receive(_) | Work::Ping(_) | Work::Pong(_), true) => Waiting::InCalls,
        };
        if let Work::Ask(plan) | Work::Answer(plan) = &spec.work {
            allow_descriptors(u64::from(plan.connections) + SPARE_DESCRIPTORS)?;
        }
        Ok(Linux {
            address: spec.address.0,
            waiting,
            waits_for_room: matches!(spec.work, Work::Send(_)),
            listeners: Vec::new(),
            streams: Vec::new(),
            free: Vec::new(),
            poller: Poller::new()?,
            ready: Vec::new(),
        })
    }

    fn insert(&mut self, stream: TcpStream, opening: bool) -> io::Result<usize> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(self.waiting != Waiting::InCalls)?;
        let place = self.free.pop().unwrap_or(self.streams.len());
        if self.waiting == Waiting::ForAll {
            self.poller.add(&stream, place as u64, opening)?;
        }
        if place == self.streams.len() {
            self.streams.push(None);
        }
        self.streams[place] = Some(stream);
        Ok(place)
    }

    fn stream(&self, connection: usize) -> io::Result<&TcpStream> {
        let stream = self.streams.get(connection).and_then(Option::as_ref);
        stream.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// Raises the limit of descriptors, because each connection takes one.
fn allow_descriptors(wanted: u64) -> io::Result<()> {
    let (soft, hard) = Resource::NOFILE.get()?;
    if soft >= wanted {
        return Ok(());
    }
    Resource::NOFILE.set(wanted, hard.max(wanted)).map_err(|error| {
        io::Error::other(format!(
            "Linux needs {wanted} descriptors, but this user may open only {hard} (ulimit -Hn): {error}"
        ))
    })
}

impl Transport for Linux {
    type Connection = usize;

    fn listen(&mut self, port: u16) -> io::Result<()> {
        // The kernel's end of a TUN device gets its address only when the other side opens it.
        let any: IpAddr = if self.address.is_ipv4() {
            [0; 4].into()
        } else {
            [0u16; 8].into()
        };
        let listener = TcpListener::bind(SocketAddr::new(any, port))?;
        linux_tcp::set_congestion_control(&listener, CONGESTION_CONTROL)?;
        listener.set_nonblocking(self.waiting != Waiting::InCalls)?;
        self.poller.add(&listener, LISTENER, false)?;
        self.listeners.push(listener);
        Ok(())
    }

    fn accept(&mut self) -> io::Result<Option<usize>> {
        for listener in &self.listeners {
            if let Some((stream, _)) = ready(listener.accept())? {
                return self.insert(stream, false).map(Some);
            }
        }
        Ok(None)
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<usize> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        linux_tcp::set_congestion_control(&socket, CONGESTION_CONTROL)?;
        // With blocking calls, this call sleeps until the connection is open.
        socket.set_nonblocking(self.waiting != Waiting::InCalls)?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        self.insert(socket.into(), true)
    }

    fn opened(&mut self, connection: usize) -> io::Result<Option<usize>> {
        let stream = self.stream(connection)?;
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(None),
            result => drop(result?),
        }
        if self.waiting == Waiting::ForAll {
            self.poller
                .change(stream, connection as u64, self.waits_for_room)?;
        }
        Ok(Some(connection))
    }

    fn read(&mut self, connection: usize, out: &mut [u8]) -> io::Result<Option<usize>> {
        ready(self.stream(connection)?.read(out))
    }

    fn write(&mut self, connection: usize, bytes: &[u8]) -> io::Result<Option<usize>> {
        ready(self.stream(connection)?.write(bytes))
    }

    fn shutdown(&mut self, connection: usize) -> io::Result<()> {
        self.stream(connection)?.shutdown(Shutdown::Write)
    }

    fn close(&mut self, connection: usize) {
        if self.streams.get_mut(connection).and_then(Option::take).is_some() {
            self.free.push(connection);
        }
    }

    fn turn(&mut self, limit: Option<Duration>, changed: &mut Vec<usize>) -> io::Result<()> {
        if self.waiting == Waiting::ForAll {
            self.ready.clear();
            self.poller.wait(limit, &mut self.ready)?;
            changed.extend(self.ready.iter().filter(|n| **n != LISTENER).map(|n| *n as usize));
        }
        Ok(())
    }
}
