//! The two processes between which calls are made: over a transport program, over Linux's TCP with the same
//! frames, or by gRPC over Linux's TCP.
//!
//! There is one call at a time, and each reply repeats the bytes of its call. A spinning process never
//! sleeps: our end polls its device, and Linux's socket is read without blocking.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hawser::host::{DeviceSpec, StackSetup, linux_tcp, open};
use hawser::messages::Socket;
use hawser::{Endpoint, MessageError, MessageOptions};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::calls::{CONGESTION_CONTROL, Calls, Made, PORT, READY, check, message};
use super::grpc;
use crate::Error;

/// The variable that marks a process as one of the two. Its value is a [`Peer`] in JSON.
pub(super) const PEER: &str = "HAWSER_EXPERIMENT_PEER";
/// The interface of each host.
const DEVICE: &str = "eth0";
/// The longest message.
const MAX_SIZE: usize = 1_000_000;
/// The longest time for which a side sleeps.
const NAP: Duration = Duration::from_millis(100);
/// The size of a frame's header on a stream (docs/messages.md): length, kind and number.
const HEADER: usize = 12;
const CALL: u8 = 1;
const REPLY: u8 = 2;

/// A carrier of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CallCarrier {
    /// A built-in program over a packet socket.
    Homa,
    Tcp,
    /// gRPC, by tonic, over the kernel's TCP.
    Grpc,
    /// The kernel's TCP, without Nagle's algorithm.
    Linux,
}

impl CallCarrier {
    /// All carriers. The last one is the baseline for the others.
    pub(super) const ALL: [CallCarrier; 4] = [
        CallCarrier::Homa,
        CallCarrier::Tcp,
        CallCarrier::Grpc,
        CallCarrier::Linux,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            CallCarrier::Homa => "Homa",
            CallCarrier::Tcp => "TCP in MTP",
            CallCarrier::Grpc => "gRPC",
            CallCarrier::Linux => "Linux TCP",
        }
    }

    fn program(self) -> Option<&'static str> {
        match self {
            CallCarrier::Homa => Some("homa"),
            CallCarrier::Tcp => Some("tcp"),
            CallCarrier::Grpc | CallCarrier::Linux => None,
        }
    }
}

/// The role of one of the two processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) carrier: CallCarrier,
    /// Its own address, of the stack or of the kernel.
    pub(super) own: IpAddr,
    /// For a client: the server, the number of calls, and the bytes of each call. For a server, `None`.
    pub(super) calls: Option<Calls>,
    pub(super) spins: bool,
    /// The processor that it is pinned to.
    pub(super) core: Option<usize>,
}

/// Runs one of the two processes if this process was started as one, and returns its result; otherwise
/// returns `None`. A client prints a [`Made`].
///
/// # Errors
/// The calls failed.
pub(crate) fn serve() -> Option<Result<(), Error>> {
    let peer = std::env::var(PEER).ok()?;
    Some(act(&peer))
}

/// Pins this process to a processor.
pub(super) fn stay_on(core: usize) -> Result<(), Error> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

fn act(peer: &str) -> Result<(), Error> {
    let peer: Peer = serde_json::from_str(peer)?;
    peer.core.map_or(Ok(()), stay_on)?;
    let made = match (peer.carrier.program(), &peer.calls) {
        (Some(program), None) => return serve_by_program(program, &peer),
        (None, None) if peer.carrier == CallCarrier::Grpc => return grpc::serve(peer.own),
        (None, None) => return serve_by_linux(&peer),
        (Some(program), Some(calls)) => call_by_program(program, &peer, calls)?,
        (None, Some(calls)) if peer.carrier == CallCarrier::Grpc => grpc::call(calls)?,
        (None, Some(calls)) => call_by_linux(&peer, calls)?,
    };
    println!("{}", serde_json::to_string(&made)?);
    Ok(())
}

/// Times each call after the warm-up. A call that returns false has failed.
fn timed(calls: &Calls, mut call: impl FnMut(usize) -> Result<bool, Error>) -> Result<Made, Error> {
    let mut made = Made::default();
    for number in 0..calls.warm_up + calls.count {
        let begin = Instant::now();
        let is_answered = call(number)?;
        if number < calls.warm_up {
            continue;
        }
        match is_answered {
            true => made.times.push(begin.elapsed().as_nanos() as u64),
            false => made.failed += 1,
        }
    }
    Ok(made)
}

fn endpoint(program: &str, peer: &Peer, port: u16) -> Result<(Endpoint, Socket), Error> {
    let program = hawser::programs::resolve_with(program, &[])?;
    let setup = StackSetup::new(DeviceSpec::Packet(DEVICE.into()), (peer.own, 24));
    let mut endpoint = open(program, &setup)?;
    let options = MessageOptions {
        size: MAX_SIZE,
        deadline: Some(Duration::from_secs(30)),
        ..MessageOptions::default()
    };
    let socket = endpoint.bind(SocketAddr::new(peer.own, port), &options)?;
    Ok((endpoint, socket))
}

/// Serves calls. It does not return; its parent ends the process.
fn serve_by_program(program: &str, peer: &Peer) -> Result<(), Error> {
    let (mut endpoint, socket) = endpoint(program, peer, PORT)?;
    println!("{READY}");
    loop {
        let is_busy = endpoint.poll()?;
        let count = endpoint.serve(socket, |request| request.message.clone())?;
        if !is_busy && count == 0 && !peer.spins {
            endpoint.wait(Some(NAP))?;
        }
    }
}

fn call_by_program(program: &str, peer: &Peer, calls: &Calls) -> Result<Made, Error> {
    let (mut endpoint, socket) = endpoint(program, peer, 0)?;
    let server = SocketAddr::new(calls.server, PORT);
    let message = message(calls.size);
    timed(calls, |_| {
        let mut under_way = None;
        loop {
            if under_way.is_none() {
                under_way = endpoint.call(socket, server, &message)?;
            }
            let is_busy = endpoint.poll()?;
            match under_way.map(|call| endpoint.reply(call)) {
                Some(Ok(Some(reply))) => return check(&reply, &message).map(|()| true),
                Some(Err(MessageError::Failed { .. } | MessageError::Deadline)) => return Ok(false),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(None)) | None => {}
            }
            if !is_busy && !peer.spins {
                endpoint.wait(Some(NAP))?;
            }
        }
    })
}

fn serve_by_linux(peer: &Peer) -> Result<(), Error> {
    let listener = TcpListener::bind(SocketAddr::new(peer.own, PORT))?;
    linux_tcp::set_congestion_control(&listener, CONGESTION_CONTROL)?;
    println!("{READY}");
    loop {
        let (stream, _) = listener.accept()?;
        let mut stream = Framed::new(stream, peer.spins)?;
        while let Some(length) = stream.receive(CALL)? {
            stream.frame[4] = REPLY;
            stream.send(HEADER + length)?;
        }
    }
}

fn call_by_linux(peer: &Peer, calls: &Calls) -> Result<Made, Error> {
    let stream = TcpStream::connect(SocketAddr::new(calls.server, PORT))?;
    linux_tcp::set_congestion_control(&stream, CONGESTION_CONTROL)?;
    let mut stream = Framed::new(stream, peer.spins)?;
    let message = message(calls.size);
    timed(calls, |number| {
        stream.frame[..4].copy_from_slice(&(calls.size as u32).to_be_bytes());
        stream.frame[4..HEADER].copy_from_slice(&(number as u64).to_be_bytes());
        stream.frame[4] = CALL;
        stream.frame[HEADER..HEADER + calls.size].copy_from_slice(&message);
        stream.send(HEADER + calls.size)?;
        let length = stream
            .receive(REPLY)?
            .ok_or("the server has closed the connection")?;
        check(&stream.frame[HEADER..HEADER + length], &message).map(|()| true)
    })
}

/// Frames on a stream of Linux's TCP, one at a time.
struct Framed {
    stream: TcpStream,
    frame: Vec<u8>,
}

impl Framed {
    fn new(stream: TcpStream, spins: bool) -> Result<Framed, Error> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(spins)?;
        let frame = vec![0; HEADER + MAX_SIZE];
        Ok(Framed { stream, frame })
    }

    /// Receives one whole frame of a kind, and returns the size of its message. Returns `None` if the stream
    /// ends before a frame.
    fn receive(&mut self, kind: u8) -> Result<Option<usize>, Error> {
        let (mut filled, mut needed) = (0, HEADER);
        while filled < needed {
            match self.stream.read(&mut self.frame[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err("the stream ends within a frame".into()),
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            }
            if filled >= HEADER {
                let length = [0, 1, 2, 3].map(|at| self.frame[at]);
                needed = HEADER + u32::from_be_bytes(length) as usize;
                if needed > self.frame.len() || self.frame[4] != kind {
                    return Err("these bytes are no frame".into());
                }
            }
        }
        match filled == needed {
            true => Ok(Some(needed - HEADER)),
            false => Err("there is more than the one frame".into()),
        }
    }

    fn send(&mut self, length: usize) -> Result<(), Error> {
        let mut sent = 0;
        while sent < length {
            match self.stream.write(&self.frame[sent..length]) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
