//! Socket options that the libraries in use do not provide: `TCP_INFO`, `MPTCP_INFO`, pacing, the interface
//! by index. This is the only unsafe code of the crate.
#![allow(unsafe_code)] // System calls.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use crate::Statistics;
use socket2::SockRef;

use crate::tcp::options::SMALL_SEGMENT;

const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const SO_MAX_PACING_RATE: libc::c_int = 47;
const TCP_INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// `struct tcp_info` of linux/tcp.h, up to the last field that is read here. The shorter structure of an
/// older kernel leaves the rest zero.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    scales: u8,
    flags: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
}

/// Reads a plain-old-data socket option. Bytes that the kernel does not fill stay zero.
fn get<T: Copy + Default>(fd: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    get_some(fd, level, name).map(|(value, _)| value)
}

/// Does the same, and also returns the number of bytes that the kernel has filled.
fn get_some<T: Copy + Default>(fd: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<(T, usize)> {
    let mut value = MaybeUninit::new(T::default());
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` consists of `length` writable bytes, and the kernel writes no more. `T` holds only
    // integers here, for which every bit pattern is valid.
    let result = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was initialised above.
    Ok((unsafe { value.assume_init() }, length as usize))
}

/// Sets a plain-old-data socket option.
fn set<T: Copy>(fd: RawFd, level: libc::c_int, name: libc::c_int, value: T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` lives during the call and is `length` bytes.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Limits the sending rate to `rate` bytes per second.
pub(crate) fn set_pacing(socket: &SockRef<'_>, rate: u64) -> io::Result<()> {
    set(socket.as_raw_fd(), libc::SOL_SOCKET, SO_MAX_PACING_RATE, rate)
}

/// Sends over the interface of this name, without privilege (IP_UNICAST_IF, IPV6_UNICAST_IF).
pub(crate) fn set_unicast_interface(socket: &SockRef<'_>, name: &str, peer: SocketAddr) -> io::Result<()> {
    let index = rustix::net::netdevice::name_to_index(&**socket, name)?;
    let (level, option) = match peer {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_UNICAST_IF),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_IF),
    };
    // Both options take the index in network byte order (ip(7), ipv6(7)).
    set(socket.as_raw_fd(), level, option, index.to_be())
}

/// Returns true if an MPTCP socket uses MPTCP and did not fall back to TCP.
pub(crate) fn is_mptcp(socket: &SockRef<'_>) -> bool {
    const FALLBACK: u32 = 1;
    // struct mptcp_info begins with eight bytes of counts; its flags follow.
    get::<[u32; 3]>(socket.as_raw_fd(), SOL_MPTCP, MPTCP_INFO).is_ok_and(|info| info[2] & FALLBACK == 0)
}

/// Returns true if an MPTCP connection has lost its last subflow. The kernel keeps such a connection for a
/// minute before it reports the loss (RFC 8684, 3.6). Linux before 6.5 does not report the number of
/// subflows.
pub(crate) fn has_lost_all_subflows(socket: &SockRef<'_>) -> bool {
    /// The offset of the count of all subflows, including the first, in struct mptcp_info of linux/mptcp.h.
    const SUBFLOWS: usize = 80;
    let info = get_some::<[u32; 24]>(socket.as_raw_fd(), SOL_MPTCP, MPTCP_INFO);
    info.is_ok_and(|(info, length)| length > SUBFLOWS && info[SUBFLOWS / 4].to_ne_bytes()[0] == 0)
}

/// Returns the kernel's statistics of a TCP connection, or default values for any other socket.
pub fn statistics(socket: &SockRef<'_>) -> Statistics {
    let Ok(info) = get::<TcpInfo>(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO) else {
        return Statistics::default();
    };
    let mss = u64::from(info.snd_mss);
    let sent = info.bytes_sent.saturating_sub(info.bytes_retrans);
    let in_flight = match info.bytes_sent {
        0 => u64::from(info.unacked) * mss,
        _ => sent.saturating_sub(info.bytes_acked),
    };
    Statistics {
        srtt: Duration::from_micros(info.rtt.into()),
        rttvar: Duration::from_micros(info.rttvar.into()),
        mss: info.snd_mss as usize,
        window: u64::from(info.snd_cwnd) * mss,
        slow_start: info.snd_ssthresh >= TCP_INFINITE_SSTHRESH || info.snd_cwnd < info.snd_ssthresh,
        in_flight,
        queued: info.notsent_bytes.into(),
        acked: info.bytes_acked,
        retransmitted: info.bytes_retrans,
        rate: info.delivery_rate,
        // The receive direction is judged by its largest packet. Before any has arrived, the kernel assumes
        // 536 bytes.
        oversized: info.snd_mss > SMALL_SEGMENT && (in_flight >= mss || info.rcv_mss <= SMALL_SEGMENT),
        blocked: info.unacked == 0 && info.notsent_bytes > 0 && info.snd_wnd < info.snd_mss,
    }
}
