//! The two ends of a connection.

use std::net::SocketAddr;

use hawser_ir::abi;

use crate::net;

/// An address, 16 bytes, and a port.
pub(crate) type End = ([u8; 16], u16);

/// The remote end of a listener.
pub(crate) const ANYBODY: End = ([0; 16], 0);

/// The two ends of a connection; a listener's remote one is [`ANYBODY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Local address and port.
    pub(crate) local: End,
    /// The remote end.
    pub(crate) remote: End,
}

impl Flow {
    /// The ends that a program states; nothing where it states none.
    pub(crate) fn stated(flow: &abi::Flow) -> Option<Flow> {
        let local = (flow.local_ip, flow.local_port);
        let remote = (flow.remote_ip, flow.remote_port);
        (flow.local_ip != [0; 16]).then_some(Flow { local, remote })
    }

    /// The local end.
    pub(crate) fn local(&self) -> SocketAddr {
        socket_addr(self.local)
    }

    /// The remote end, if there is one.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        (self.remote.0 != ANYBODY.0).then(|| socket_addr(self.remote))
    }
}

fn socket_addr((address, port): End) -> SocketAddr {
    SocketAddr::new(net::from_bytes(address), port)
}
