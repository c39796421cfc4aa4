//! Opens associations.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::abi::{UdpEncapsulation, option};
use super::address;
use super::association::Association;
use super::library::Socket;
use super::stack::HelperStack;
use super::wakers::WakerRegistration;
use crate::sctp::error::Fault;
use crate::sctp::options::SctpOptions;

/// The maximum number of handshakes, when they are aborted after the peer has answered.
///
/// If INIT was lost and its repetition was answered on another path, the library sends HEARTBEAT on the first
/// path along with its COOKIE ECHO. If HEARTBEAT arrives first, the peer has no association for it and
/// answers with ABORT (RFC 9260, 8.4). This ends the association that is being set up.
const ATTEMPTS: usize = 4;

impl HelperStack {
    /// Connects to the peer that has all these addresses, from all of `locals`, or from any address of this
    /// machine if there are none. Calls `begun` when a handshake has begun. The program limits the time.
    pub(crate) async fn connect(
        &self,
        peers: &[SocketAddr],
        locals: &[IpAddr],
        options: &SctpOptions,
        begun: impl Fn(),
    ) -> Result<Association, Fault> {
        for _ in 1..ATTEMPTS {
            match self.attempt(peers, locals, options, &begun).await {
                Err(Fault::Aborted) => {}
                result => return result,
            }
        }
        self.attempt(peers, locals, options, &begun).await
    }

    /// Performs one handshake.
    async fn attempt(
        &self,
        peers: &[SocketAddr],
        locals: &[IpAddr],
        options: &SctpOptions,
        begun: impl Fn(),
    ) -> Result<Association, Fault> {
        let is_v6 = peers
            .iter()
            .map(SocketAddr::ip)
            .chain(locals.iter().copied())
            .any(|ip| ip.is_ipv6());
        let registration = WakerRegistration::new();
        let socket = self.socket(is_v6, &registration, options)?;
        bind(&socket, locals, 0)?;
        encapsulate(&socket, options.peer_udp_port)?;
        socket.connect(peers)?;
        begun();
        let mut association = Association::new(socket, registration, *self);
        poll_fn(|cx| association.poll_up(cx)).await?;
        Ok(association)
    }
}

/// Binds the socket to the addresses, if there are any.
pub(crate) fn bind(socket: &Socket, locals: &[IpAddr], port: u16) -> Result<(), Fault> {
    if locals.is_empty() {
        return Ok(());
    }
    let addresses: Vec<SocketAddr> = locals.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    socket.bind(&addresses).map_err(|error| Fault::Local {
        addresses: locals.into(),
        error: error.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL),
    })
}

/// Sends this association's packets in UDP to this port.
fn encapsulate(socket: &Socket, port: u16) -> io::Result<()> {
    let encapsulation = UdpEncapsulation {
        // The unspecified address stands for all; the library requires a structure with a family.
        address: address::store((Ipv4Addr::UNSPECIFIED, 0).into()),
        port: port.to_be(),
        ..UdpEncapsulation::default()
    };
    socket.set(option::REMOTE_UDP_PORT, &encapsulation)
}
