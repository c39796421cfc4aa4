//! Messages between a program and its SCTP process: each is one packet of JSON over a socket pair that keeps
//! their borders, with at most one descriptor.
//!
//! Invariants: neither side trusts the other. A message has a greatest length; one that cannot be read ends
//! the pair.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use hawser_carrier::Statistics;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::options::SctpOptions;
use crate::path::{PathEvent, PathStatistics};

/// The longest message, bytes.
const LONGEST: usize = 65_536;
/// The variable that makes a program its own SCTP process: a [`Setup`].
pub(crate) const VARIABLE: &str = "HAWSER_SCTP_PROCESS";
/// Descriptors that the process begins with: the pair, and behind it the UDP sockets.
pub(crate) const CONTROL: i32 = 3;

/// The state in which the process begins.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) udp_port: u16,
    /// Whether there is a UDP socket of each family.
    pub(crate) v4: bool,
    pub(crate) v6: bool,
    /// Destinations to accept; all if there are none.
    pub(crate) addresses: Vec<IpAddr>,
}

/// An order to the process. Numbers of associations and listeners are the program's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Connect. The descriptor is the stream of the association.
    Connect {
        id: u64,
        peers: Vec<SocketAddr>,
        locals: Vec<IpAddr>,
        options: SctpOptions,
    },
    /// Listen.
    Listen { id: u64, addresses: Vec<IpAddr>, port: u16, options: SctpOptions },
    /// Use this number and the descriptor for the next association of a listener.
    Offer { listener: u64, id: u64 },
    /// End this direction of an association, after what was written and the end of the stream.
    Finish { id: u64 },
    /// End an association or a listener: at once, or after what was written.
    End { id: u64, at_once: bool },
    /// Give a sign of life.
    Beat,
}

/// A report of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It has begun.
    Ready,
    /// It could not begin.
    Unable(Fault),
    /// The number of times that each thread of the library has asked for more.
    Beat(Vec<u64>),
    /// The listener is at these addresses.
    Listening { id: u64, addresses: Vec<SocketAddr> },
    /// A handshake has begun.
    Trying { id: u64 },
    /// The association is up.
    Up { id: u64, view: View },
    /// The association, or the listener, did not come up.
    Failed { id: u64, fault: Fault },
    /// The association's state has changed.
    Changed { id: u64, view: View },
    /// The peer has all that was written.
    Finished { id: u64 },
    /// The peer sends no more: its direction has ended, or the association for this cause.
    Ended { id: u64, cause: Option<Cause> },
}

/// Causes for which an association ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    Reset,
    TimedOut,
    Closed,
}

impl From<io::ErrorKind> for Cause {
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected => Self::Closed,
            _ => Self::Reset,
        }
    }
}

impl From<Cause> for io::Error {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Reset => io::ErrorKind::ConnectionReset.into(),
            Cause::TimedOut => io::ErrorKind::TimedOut.into(),
            Cause::Closed => io::ErrorKind::BrokenPipe.into(),
        }
    }
}

/// The state of an association, as the library reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct View {
    pub(crate) local: Option<SocketAddr>,
    pub(crate) primary: Option<SocketAddr>,
    pub(crate) half_closes: bool,
    #[serde(with = "StatisticsFields")]
    pub(crate) statistics: Statistics,
    pub(crate) paths: Vec<PathStatistics>,
    /// The events of paths since the last report.
    pub(crate) events: Vec<PathEvent>,
}

/// [`Statistics`] field by field.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Statistics")]
struct StatisticsFields {
    srtt: std::time::Duration,
    rttvar: std::time::Duration,
    mss: usize,
    window: u64,
    slow_start: bool,
    in_flight: u64,
    queued: u64,
    acked: u64,
    retransmitted: u64,
    rate: u64,
    blocked: bool,
    oversized: bool,
}

/// Sends one message, with a descriptor if there is one.
pub(crate) fn send<M: Serialize>(
    socket: impl AsFd,
    message: &M,
    descriptor: Option<&OwnedFd>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(AsFd::as_fd);
    if let Some(descriptor) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
    }
    let sent = rustix::net::sendmsg(
        socket,
        &[IoSlice::new(&bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Receives one message and its descriptor; none at the end of the pair.
pub(crate) fn receive<M: DeserializeOwned>(
    socket: impl AsFd,
    flags: RecvFlags,
) -> io::Result<Option<(M, Option<OwnedFd>)>> {
    let mut bytes = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(Some((
        serde_json::from_slice(&bytes[..received.bytes])?,
        descriptor,
    )))
}
