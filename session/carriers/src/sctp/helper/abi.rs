//! The library's interface: numbers and structures of usrsctp.h, release 0.9.5.
//!
//! Every structure is plain data without padding (checked by `Pod`). Its size is checked against the C
//! compiler's result for the header.

use bytemuck::{Pod, Zeroable};

pub(crate) const PROTOCOL: libc::c_int = 132;

/// The levels and names of options.
pub(crate) mod option {
    pub(crate) const RTO_INFO: i32 = 0x01;
    pub(crate) const ASSOCIATION_PARAMETERS: i32 = 0x02;
    pub(crate) const INIT_MESSAGE: i32 = 0x03;
    pub(crate) const NO_DELAY: i32 = 0x04;
    pub(crate) const ADAPTATION_LAYER: i32 = 0x08;
    pub(crate) const PEER_ADDRESS_PARAMETERS: i32 = 0x0a;
    pub(crate) const EVENT: i32 = 0x1e;
    pub(crate) const RECEIVE_INFORMATION: i32 = 0x1f;
    pub(crate) const REMOTE_UDP_PORT: i32 = 0x24;
    pub(crate) const STATUS: i32 = 0x100;
    pub(crate) const PEER_ADDRESS_INFORMATION: i32 = 0x101;
}

/// The kinds of notifications.
pub(crate) mod notification {
    pub(crate) const ASSOCIATION_CHANGE: u16 = 1;
    pub(crate) const PEER_ADDRESS_CHANGE: u16 = 2;
    pub(crate) const SHUTDOWN: u16 = 5;
    pub(crate) const ADAPTATION: u16 = 6;
}

pub(crate) const MESSAGE_IS_NOTIFICATION: libc::c_int = 0x2000;
pub(crate) const BIND_ADD: libc::c_int = 0x8001;
pub(crate) const SEND_WITH_INFORMATION: libc::c_uint = 1;
/// Ends the association at once (`SCTP_ABORT`).
pub(crate) const SEND_ABORT: u16 = 0x0200;
/// MPTCP-like concurrent multipath transfer (`SCTP_CMT_MPTCP`).
pub(crate) const CMT_MPTCP: u32 = 4;
/// `SCTP_ACTIVE`: the path is reachable.
pub(crate) const PATH_ACTIVE: i32 = 1;
/// `SCTP_UNCONFIRMED`: no packet was received over the path yet.
pub(crate) const PATH_UNCONFIRMED: i32 = 0x200;
/// `SPP_HB_ENABLE`: send heartbeats.
pub(crate) const HEARTBEATS: u32 = 1;

/// `struct sockaddr_storage`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Storage(pub(crate) [u64; 16]);

/// `struct sctp_rtoinfo`, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RtoInfo {
    pub(crate) association: u32,
    pub(crate) initial: u32,
    pub(crate) max: u32,
    pub(crate) min: u32,
}

/// `struct sctp_assocparams`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct AssociationParameters {
    pub(crate) association: u32,
    pub(crate) peer_window: u32,
    pub(crate) local_window: u32,
    pub(crate) cookie_life: u32,
    pub(crate) max_retransmissions: u16,
    pub(crate) peer_destinations: u16,
}

/// `struct sctp_initmsg`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct InitMessage {
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) max_attempts: u16,
    pub(crate) max_timeout: u16,
}

/// `struct sctp_event`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Event {
    pub(crate) association: u32,
    pub(crate) kind: u16,
    pub(crate) on: u8,
    pub(crate) padding: u8,
}

/// `struct sctp_udpencaps`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct UdpEncapsulation {
    pub(crate) address: Storage,
    pub(crate) association: u32,
    /// The port, in network byte order.
    pub(crate) port: u16,
    pub(crate) padding: u16,
}

/// `struct sctp_paddrparams`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct PeerAddressParameters {
    pub(crate) address: Storage,
    pub(crate) association: u32,
    pub(crate) heartbeat_interval: u32,
    pub(crate) path_mtu: u32,
    pub(crate) flags: u32,
    pub(crate) flow_label: u32,
    pub(crate) max_retransmissions: u16,
    pub(crate) dscp: u8,
    pub(crate) padding: u8,
}

/// `struct sctp_paddrinfo`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct PeerAddressInformation {
    pub(crate) address: Storage,
    pub(crate) association: u32,
    pub(crate) state: i32,
    pub(crate) window: u32,
    /// The smoothed round-trip time, in milliseconds.
    pub(crate) srtt: u32,
    /// The retransmission timeout, in milliseconds.
    pub(crate) rto: u32,
    pub(crate) mtu: u32,
}

/// `struct sctp_status`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Status {
    pub(crate) association: u32,
    pub(crate) state: i32,
    pub(crate) peer_window: u32,
    /// Chunks sent and not acknowledged.
    pub(crate) unacknowledged: u16,
    /// Messages accepted and not sent.
    pub(crate) pending: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) outbound_streams: u16,
    pub(crate) fragmentation_point: u32,
    pub(crate) primary: PeerAddressInformation,
}

/// `struct sctp_sndinfo`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct SendInformation {
    pub(crate) stream: u16,
    pub(crate) flags: u16,
    /// The payload protocol identifier, by convention in network byte order.
    pub(crate) protocol: u32,
    pub(crate) context: u32,
    pub(crate) association: u32,
}

/// `struct sctp_rcvinfo`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ReceiveInformation {
    pub(crate) stream: u16,
    pub(crate) sequence: u16,
    pub(crate) flags: u16,
    pub(crate) padding: u16,
    /// The payload protocol identifier, as the peer wrote it.
    pub(crate) protocol: u32,
    pub(crate) tsn: u32,
    pub(crate) cumulative_tsn: u32,
    pub(crate) context: u32,
    pub(crate) association: u32,
}

const _: () = {
    assert!(size_of::<Storage>() == 128);
    assert!(size_of::<RtoInfo>() == 16);
    assert!(size_of::<AssociationParameters>() == 20);
    assert!(size_of::<InitMessage>() == 8);
    assert!(size_of::<Event>() == 8);
    assert!(size_of::<UdpEncapsulation>() == 136);
    assert!(size_of::<PeerAddressParameters>() == 152);
    assert!(size_of::<PeerAddressInformation>() == 152);
    assert!(size_of::<Status>() == 176);
    assert!(size_of::<SendInformation>() == 16);
    assert!(size_of::<ReceiveInformation>() == 28);
};
