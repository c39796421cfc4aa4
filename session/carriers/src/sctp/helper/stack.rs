//! The process's single SCTP stack.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::abi::{
    self, AssociationParameters, Event, InitMessage, PeerAddressParameters, RtoInfo, notification, option,
};
use super::address;
use super::closer::{Ending, SocketCloser};
use super::library::{Library, Socket};
use super::wakers::WakerRegistration;
use crate::sctp::error::Fault;
use crate::sctp::options::SctpOptions;
use crate::sctp::udp::Sockets;

/// The settings of the stack, with times in milliseconds.
///
/// The first three were measured to fill two paths of 10 Mbit/s (19.1 to 19.3 Mbit/s; the other modes reach
/// 13.7 to 18.5). Unused features are off.
const TUNABLES: &[(&str, u32)] = &[
    ("cmt_on_off", abi::CMT_MPTCP),
    // A path is excluded only when it has failed, not at its first timeout.
    ("path_pf_threshold", 0),
    ("rto_min_default", RTO_MIN),
    ("rto_initial_default", RTO_INITIAL),
    // The number of chunks of one association that wait to be sent or acknowledged.
    ("max_chunks_on_queue", 4_096),
    ("auto_asconf", 0),
    ("asconf_enable", 0),
    ("auth_enable", 0),
    ("pr_enable", 0),
    ("reconfig_enable", 0),
    ("pktdrop_enable", 0),
];
const RTO_MIN: u32 = 200;
const RTO_INITIAL: u32 = 1_000;
/// The number of unanswered retransmissions after which an association is given up. A path is given up after
/// half as many.
const RETRANSMISSIONS: u16 = 8;
/// The indication by which two carriers recognise each other: `HWSR` (RFC 5061, 4.2.6).
pub(crate) const ADAPTATION: u32 = 0x4857_5352;

/// The process's SCTP stack: usrsctp in UDP (RFC 6951), with its threads. It exists as long as the process.
#[derive(Clone, Copy)]
pub(crate) struct HelperStack {
    library: &'static Library,
    closer: &'static SocketCloser,
}

impl HelperStack {
    /// Starts the library with these sockets. To be called once in a process.
    pub(crate) fn begin(udp_port: u16, sockets: Sockets) -> Result<Self, Fault> {
        let library = Library::load()?;
        let closer = SocketCloser::start().map_err(|error| Fault::Start(error.to_string()))?;
        library.begin(udp_port, sockets)?;
        for (name, value) in TUNABLES {
            library.tune(name, *value)?;
        }
        Ok(Self { library, closer: Box::leak(Box::new(closer)) })
    }

    /// Waits until every dropped association has ended, at most for `limit`, so that peers are notified
    /// before the process exits.
    pub(crate) async fn settle(&self, limit: Duration) {
        // An association that is still open after that ends with the process.
        let _ = tokio::time::timeout(limit, self.closer.idle()).await;
    }

    /// Opens a socket with the options of an association.
    pub(crate) fn socket(
        &self,
        is_v6: bool,
        registration: &WakerRegistration,
        options: &SctpOptions,
    ) -> io::Result<Socket> {
        let socket = self.library.socket(is_v6, registration)?;
        prepare(&socket, options)?;
        Ok(socket)
    }

    pub(crate) fn end(&self, ending: Ending) {
        self.closer.end(ending);
    }
}

/// Sets the options of an association, or of those that a listening socket accepts.
pub(crate) fn prepare(socket: &Socket, options: &SctpOptions) -> io::Result<()> {
    socket.set_buffer(libc::SO_SNDBUF, options.send_buffer)?;
    socket.set_buffer(libc::SO_RCVBUF, options.receive_buffer)?;
    socket.set(option::NO_DELAY, &1u32)?;
    socket.set(option::RECEIVE_INFORMATION, &1u32)?;
    socket.set(option::ADAPTATION_LAYER, &ADAPTATION)?;
    let streams = InitMessage {
        outbound_streams: 1,
        inbound_streams: 16,
        max_attempts: RETRANSMISSIONS,
        max_timeout: 4_000,
    };
    socket.set(option::INIT_MESSAGE, &streams)?;
    for kind in [
        notification::ASSOCIATION_CHANGE,
        notification::PEER_ADDRESS_CHANGE,
        notification::SHUTDOWN,
        notification::ADAPTATION,
    ] {
        socket.set(option::EVENT, &Event { kind, on: 1, ..Event::default() })?;
    }
    set_idle_timeout(socket, options.idle_timeout)
}

/// Limits the time for which the peer may be silent. There are eight tries, each with a timeout of at most an
/// eighth of that time. Each path has a heartbeat every quarter of it.
fn set_idle_timeout(socket: &Socket, idle_timeout: Duration) -> io::Result<()> {
    let idle_timeout = u32::try_from(idle_timeout.as_millis())
        .unwrap_or(u32::MAX)
        .max(2_000);
    let max = (idle_timeout / u32::from(RETRANSMISSIONS)).clamp(RTO_MIN, 60_000);
    let rto = RtoInfo { initial: RTO_INITIAL.min(max), max, min: RTO_MIN, ..RtoInfo::default() };
    socket.set(option::RTO_INFO, &rto)?;
    let tries = AssociationParameters {
        max_retransmissions: RETRANSMISSIONS,
        ..AssociationParameters::default()
    };
    socket.set(option::ASSOCIATION_PARAMETERS, &tries)?;
    let path = PeerAddressParameters {
        // The unspecified address stands for all; the library requires a structure with a family.
        address: address::store((Ipv4Addr::UNSPECIFIED, 0).into()),
        heartbeat_interval: idle_timeout / 4,
        flags: abi::HEARTBEATS,
        max_retransmissions: RETRANSMISSIONS / 2,
        ..PeerAddressParameters::default()
    };
    socket.set(option::PEER_ADDRESS_PARAMETERS, &path)
}
