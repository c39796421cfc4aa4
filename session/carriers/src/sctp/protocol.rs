//! The messages between a program and its SCTP process. Each is one packet of JSON, with at most one
//! descriptor, over a socket pair that preserves packet boundaries.
//!
//! Invariants: neither side trusts the other. The length of a message is limited, and an invalid message ends
//! the connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use crate::Statistics;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sctp::error::Fault;
use crate::sctp::options::SctpOptions;
use crate::sctp::path::{PathEvent, PathStatistics};

/// The maximum length of a message, in bytes.
const LONGEST: usize = 65_536;
/// The environment variable that makes a program its own SCTP process. It contains a [`ProcessSetup`].
pub(crate) const VARIABLE: &str = "HAWSER_SCTP_PROCESS";
/// The first descriptor of the process, its end of the socket pair. The UDP sockets follow.
pub(crate) const CONTROL: i32 = 3;

/// The initial state of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProcessSetup {
    pub(crate) udp_port: u16,
    /// True if there is a UDP socket of the family.
    pub(crate) v4: bool,
    pub(crate) v6: bool,
    /// The destinations to accept; if empty, all.
    pub(crate) addresses: Vec<IpAddr>,
}

/// An order to the process. The program assigns the numbers of associations and listeners.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ProcessOrder {
    /// Connect an association; the descriptor is its stream.
    Connect {
        id: u64,
        peers: Vec<SocketAddr>,
        locals: Vec<IpAddr>,
        options: SctpOptions,
    },
    /// Start a listener.
    Listen { id: u64, addresses: Vec<IpAddr>, port: u16, options: SctpOptions },
    /// Use this number and the descriptor for the listener's next association.
    Offer { listener: u64, id: u64 },
    /// End this direction of an association, after the written data and the end of the stream.
    Finish { id: u64 },
    /// End an association or a listener, at once or after the written data.
    End { id: u64, at_once: bool },
    /// Report a sign of life.
    Beat,
}

/// A report of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ProcessReport {
    /// The process has started.
    Ready,
    /// The process could not start.
    Unable(Fault),
    /// The number of times that each thread of the library has asked for more.
    Beat(Vec<u64>),
    /// The listener is open at these addresses.
    Listening { id: u64, addresses: Vec<SocketAddr> },
    /// A handshake has begun.
    Trying { id: u64 },
    /// The association is up.
    Up { id: u64, view: View },
    /// The association or the listener could not be opened.
    Failed { id: u64, fault: Fault },
    /// The association's state has changed.
    Changed { id: u64, view: View },
    /// The peer has all written data.
    Finished { id: u64 },
    /// The peer sends no more. Its direction has ended, or the whole association, for this cause.
    Ended { id: u64, cause: Option<CloseCause> },
}

/// The cause of an association's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CloseCause {
    Reset,
    TimedOut,
    Closed,
}

impl From<io::ErrorKind> for CloseCause {
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected => Self::Closed,
            _ => Self::Reset,
        }
    }
}

impl From<CloseCause> for io::Error {
    fn from(cause: CloseCause) -> Self {
        match cause {
            CloseCause::Reset => io::ErrorKind::ConnectionReset.into(),
            CloseCause::TimedOut => io::ErrorKind::TimedOut.into(),
            CloseCause::Closed => io::ErrorKind::BrokenPipe.into(),
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
    /// The path events since the last report.
    pub(crate) events: Vec<PathEvent>,
}

/// The fields of [`Statistics`], for serialisation.
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

/// Receives one message with its descriptor. Returns `None` when the socket pair is closed.
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
