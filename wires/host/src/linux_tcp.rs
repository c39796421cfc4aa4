//! Linux's own TCP as a peer: setting its congestion control, and reading its statistics.

use std::io;
use std::os::fd::AsFd;

use crate::sys;

/// Linux's report of one connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// The number of segments retransmitted since the connection began.
    pub retransmissions: u64,
    /// The smoothed round-trip time in nanoseconds.
    pub srtt_ns: u64,
}

/// Sets a socket's congestion control. Connections that a listener accepts inherit it.
///
/// # Errors
/// Fails if this kernel has no algorithm of that name, or this user may not use it.
pub fn set_congestion_control(socket: &impl AsFd, name: &str) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_congestion(socket, name)?)
}

/// Returns Linux's current report of a connection.
///
/// # Errors
/// Fails if the socket is not a TCP socket.
pub fn info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let info: libc::tcp_info = sys::option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(TcpInfo {
        retransmissions: u64::from(info.tcpi_total_retrans),
        srtt_ns: u64::from(info.tcpi_rtt) * 1000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_reports_a_connection() -> io::Result<()> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        set_congestion_control(&listener, "reno")?;
        let client = std::net::TcpStream::connect(listener.local_addr()?)?;
        let info = super::info(&client)?;
        assert_eq!(info.retransmissions, 0);
        assert!(info.srtt_ns > 0 && info.srtt_ns < 1_000_000_000, "{info:?}");
        Ok(())
    }

    #[test]
    fn an_unknown_congestion_control_is_an_error() -> io::Result<()> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        assert_eq!(
            set_congestion_control(&listener, "nosuch").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        Ok(())
    }
}
