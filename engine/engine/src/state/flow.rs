//! The two ends of a connection.

use std::net::SocketAddr;

use hawser_ir::EndpointOffsets;

use crate::net;

/// An address of 16 bytes, and a port.
pub(crate) type FlowEnd = ([u8; 16], u16);

/// The remote end of a listener.
pub(crate) const ANYBODY: FlowEnd = ([0; 16], 0);

/// The two ends of a connection; a listener's remote end is [`ANYBODY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey {
    /// The local address and port.
    pub(crate) local: FlowEnd,
    /// The remote address and port.
    pub(crate) remote: FlowEnd,
}

impl FlowKey {
    /// Reads the two ends from these locations in a context; `None` while it has no local address there.
    pub(crate) fn from_context(context: &[u8], ends: &EndpointOffsets) -> Option<FlowKey> {
        let end = |ip: u32, port: u32| {
            let bytes = |from: u32, len: usize| &context[from as usize..from as usize + len];
            let (ip, port) = (bytes(ip, 16), bytes(port, 2));
            (
                bytemuck::pod_read_unaligned(ip),
                bytemuck::pod_read_unaligned(port),
            )
        };
        let local = end(ends.local_ip, ends.local_port);
        let remote = end(ends.remote_ip, ends.remote_port);
        (local.0 != ANYBODY.0).then_some(FlowKey { local, remote })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        socket_addr(self.local)
    }

    /// Returns the remote end, if there is one.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        (self.remote.0 != ANYBODY.0).then(|| socket_addr(self.remote))
    }
}

fn socket_addr((address, port): FlowEnd) -> SocketAddr {
    SocketAddr::new(net::from_bytes(address), port)
}
