//! A connection of a transport program as a carrier.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::observables::{self, VARIABLES};
use crate::tls::MaybeTls;
use crate::{Carrier, Description, Statistics};
use bytes::Bytes;
use hawser_sockets::{Observable, Stream};

use crate::mtp::stack::MtpStack;

/// A connection of a transport program.
pub struct MtpCarrier {
    stream: MaybeTls<Stream>,
    stack: MtpStack,
    peer: SocketAddr,
    local: SocketAddr,
    variables: [Option<Observable>; VARIABLES.len()],
}

impl MtpCarrier {
    pub(crate) fn new(stream: MaybeTls<Stream>, stack: MtpStack) -> Self {
        // The addresses are read while the connection exists, because they are forgotten once it is over.
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let (peer, local) = (stream.transport().peer(), stream.transport().local());
        Self {
            variables: stream.transport().observables(VARIABLES),
            stream,
            stack,
            peer: peer.unwrap_or(none),
            local: local.unwrap_or(none),
        }
    }
}

impl Carrier for MtpCarrier {
    fn describe(&self) -> Description {
        Description {
            transport: self.stack.transport(),
            secure: self.stream.is_secure(),
            local: self.local,
            peer: self.peer,
            interface: Some(self.stack.interface().to_owned()),
            fallback: None,
            alpn: self.stream.alpn(),
        }
    }

    fn statistics(&mut self) -> Statistics {
        observables::statistics(self.stream.transport().observe_all(self.variables))
    }

    fn exporter(&self) -> Option<[u8; 32]> {
        self.stream.exporter()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.stream.poll_read(cx)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, queue: &mut VecDeque<Bytes>) -> Poll<io::Result<usize>> {
        self.stream.poll_write(cx, queue)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(cx)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(cx)
    }

    fn abort(&mut self) {
        self.stream.transport().abort();
    }
}
