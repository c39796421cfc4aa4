//! Sockets with their options, and the interface that they are bound to.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::OpenError;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tracing::debug;

use crate::tcp::options::TcpOptions;
use crate::tcp::unsent_limit::MIN_UNSENT;

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1_024;

/// Opens a socket for `address` with all options that must be set before it connects or listens.
pub(crate) fn open(address: SocketAddr, options: &TcpOptions) -> Result<Socket, OpenError> {
    let protocol = if options.mptcp {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    let domain = Domain::for_address(address);
    let socket = match Socket::new(domain, Type::STREAM, Some(protocol)) {
        // If the kernel has no MPTCP, TCP is used, as in a fallback.
        Err(error) if options.mptcp && is_unknown_protocol(&error) => {
            debug!(%error, "this kernel has no MPTCP; TCP is used");
            Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?
        }
        result => result?,
    };
    socket.set_nonblocking(true)?;
    if let Some(interface) = &options.interface {
        bind_to(&socket, interface, address)
            .map_err(|error| OpenError::Interface { interface: interface.clone(), error })?;
    }
    tune(&SockRef::from(&socket), options)?;
    if let Some(bytes) = options.max_segment {
        match socket.set_tcp_mss(bytes) {
            // MPTCP sockets have this option since Linux 6.17.
            Err(error) if options.mptcp && error.raw_os_error().is_some_and(is_lack) => {}
            result => result.map_err(OpenError::MaxSegment)?,
        }
    }
    Ok(socket)
}

/// Opens a listening socket.
pub(crate) fn listen(address: SocketAddr, options: &TcpOptions) -> Result<Socket, OpenError> {
    let socket = open(address, options)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket
        .bind(&address.into())
        .map_err(|error| OpenError::Listen { local: address, error })?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Sets the options that may be set at any time. Options that an MPTCP socket does not take are ignored.
pub(crate) fn tune(socket: &SockRef<'_>, options: &TcpOptions) -> Result<(), OpenError> {
    for (option, result) in set_all(socket, options) {
        match result {
            Err(error) if options.mptcp && error.raw_os_error().is_some_and(is_lack) => {
                debug!(option, %error, "an MPTCP socket lacks an option");
            }
            Err(error) if option == "congestion" => {
                let name = options.congestion.clone().unwrap_or_default();
                return Err(OpenError::CongestionControl { name, error });
            }
            result => result?,
        }
    }
    Ok(())
}

/// Returns the options among these that MPTCP sockets do not take. A kernel without MPTCP lacks none, because
/// TCP is used.
#[must_use]
pub fn lacks_of_mptcp(options: &TcpOptions) -> Vec<&'static str> {
    let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) else {
        return Vec::new();
    };
    let results = set_all(&SockRef::from(&socket), options).into_iter();
    let is_lacking =
        |result: io::Result<()>| result.is_err_and(|error| error.raw_os_error().is_some_and(is_lack));
    results
        .filter_map(|(option, result)| is_lacking(result).then_some(option))
        .collect()
}

/// Sets each option, by its name in [`TcpOptions`].
fn set_all(socket: &SockRef<'_>, options: &TcpOptions) -> Vec<(&'static str, io::Result<()>)> {
    let mut results = vec![
        ("nagle", socket.set_tcp_nodelay(!options.nagle)),
        (
            "not_sent",
            socket.set_tcp_notsent_lowat(options.not_sent.unwrap_or(MIN_UNSENT)),
        ),
    ];
    if let Some(timeout) = options.idle_timeout {
        let probe = (timeout / 4).max(Duration::from_secs(1));
        // If the kernel accepts only one of the two, the connection ends in only one of the two cases.
        let probes = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(probe).with_interval(probe));
        results.push((
            "idle_timeout",
            socket.set_tcp_user_timeout(Some(timeout)).and(probes),
        ));
    }
    if let Some(name) = &options.congestion {
        results.push(("congestion", socket.set_tcp_congestion(name.as_bytes())));
    }
    if let Some(rate) = options.pacing {
        results.push(("pacing", crate::tcp::info::set_pacing(socket, rate)));
    }
    results
}

/// Returns true if the error means that a socket does not have the option.
fn is_lack(number: i32) -> bool {
    matches!(number, libc::EOPNOTSUPP | libc::ENOPROTOOPT)
}

/// Resets the connection when the socket is closed.
pub(crate) fn reset_on_close(socket: &SockRef<'_>) {
    // A socket without this option is closed all the same.
    let _ = socket.set_linger(Some(Duration::ZERO));
}

/// Binds `socket` to `interface`, or only its outgoing packets if the privilege for that is missing.
fn bind_to(socket: &Socket, interface: &str, address: SocketAddr) -> io::Result<()> {
    match socket.bind_device(Some(interface.as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            crate::tcp::info::set_unicast_interface(&SockRef::from(socket), interface, address)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// MULTI's Figure 2 sets an idle timeout, which Linux's MPTCP sockets refuse (TCP_USER_TIMEOUT).
    #[test]
    fn a_socket_of_mptcp_opens_without_the_options_that_it_lacks() {
        let options = TcpOptions {
            mptcp: true,
            idle_timeout: Some(Duration::from_secs(10)),
            pacing: Some(1_000_000),
            ..TcpOptions::default()
        };
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        open(here, &options).expect("a socket");
        let given = ["nagle", "not_sent", "idle_timeout", "pacing"];
        let lacks = lacks_of_mptcp(&options);
        println!("this kernel's MPTCP lacks {lacks:?}");
        assert!(lacks.iter().all(|option| given.contains(option)), "{lacks:?}");
    }

    #[test]
    fn an_unknown_controller_has_its_own_error() {
        let options = TcpOptions { congestion: Some("no-such".to_owned()), ..TcpOptions::default() };
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let error = open(here, &options).expect_err("there is none");
        assert!(matches!(error, OpenError::CongestionControl { .. }), "{error}");
    }
}
