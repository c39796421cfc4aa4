//! Sockets with their options, and the interface that they are bound to.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hawser_carrier::OpenError;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tracing::debug;

use crate::options::TcpOptions;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1_024;

/// A socket for `address` with everything that must be set before it connects or listens.
pub(crate) fn open(address: SocketAddr, options: &TcpOptions) -> Result<Socket, OpenError> {
    let protocol = if options.mptcp {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    let domain = Domain::for_address(address);
    let socket = match Socket::new(domain, Type::STREAM, Some(protocol)) {
        // A kernel without MPTCP: TCP, as it would fall back to.
        Err(error) if options.mptcp && is_unknown_protocol(&error) => {
            debug!(%error, "no MPTCP in this kernel: TCP is used");
            Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?
        }
        result => result?,
    };
    socket.set_nonblocking(true)?;
    if let Some(interface) = &options.interface {
        bind_to(&socket, interface, address).map_err(|error| OpenError::Interface {
            interface: interface.clone(),
            error,
        })?;
    }
    tune(&SockRef::from(&socket), options)?;
    if let Some(bytes) = options.max_segment {
        match socket.set_tcp_mss(bytes) {
            // MPTCP has it since Linux 6.17.
            Err(error) if options.mptcp && error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            result => result.map_err(OpenError::MaxSegment)?,
        }
    }
    Ok(socket)
}

/// A listening socket.
pub(crate) fn listen(address: SocketAddr, options: &TcpOptions) -> Result<Socket, OpenError> {
    let socket = open(address, options)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into()).map_err(|error| OpenError::Listen {
        local: address,
        error,
    })?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// What may be set at any time.
pub(crate) fn tune(socket: &SockRef<'_>, options: &TcpOptions) -> Result<(), OpenError> {
    socket.set_tcp_nodelay(!options.nagle)?;
    socket.set_tcp_notsent_lowat(options.not_sent)?;
    if let Some(timeout) = options.idle_timeout {
        socket.set_tcp_user_timeout(Some(timeout))?;
        let probe = (timeout / 4).max(Duration::from_secs(1));
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(probe).with_interval(probe))?;
    }
    if let Some(name) = &options.congestion {
        let set = socket.set_tcp_congestion(name.as_bytes());
        set.map_err(|error| OpenError::CongestionControl {
            name: name.clone(),
            error,
        })?;
    }
    if let Some(rate) = options.pacing {
        crate::info::set_pacing(socket, rate)?;
    }
    Ok(())
}

/// Ends the connection at once when the socket is closed.
pub(crate) fn reset_on_close(socket: &SockRef<'_>) {
    // A socket that cannot linger is closed all the same.
    let _ = socket.set_linger(Some(Duration::ZERO));
}

/// Makes `socket` use `interface`.
fn bind_to(socket: &Socket, interface: &str, address: SocketAddr) -> io::Result<()> {
    match socket.bind_device(Some(interface.as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            crate::info::set_unicast_interface(&SockRef::from(socket), interface, address)
        }
        result => result,
    }
}

fn is_unknown_protocol(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPROTONOSUPPORT | libc::ENOPROTOOPT | libc::EINVAL)
    )
}
