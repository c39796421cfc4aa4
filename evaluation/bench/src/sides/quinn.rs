//! quinn, QUIC in Rust on an ordinary UDP socket: encrypted, as all of QUIC is.
//!
//! It has one thread, and socket buffers and windows that do not limit it. All other settings are the
//! defaults (segmentation by the kernel, path MTU discovery, CUBIC). Calls sleep until they are done. A side
//! that does not sleep has a task that is always ready.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser::session::{Identity, Trust};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::{Builder, Runtime};

use super::spec::Spec;
use super::transport::Transport;

/// The bytes that may be in flight, on the stream and on the connection.
const WINDOW: u32 = 16 << 20;
/// The size of the socket's buffers in the kernel in each direction, in bytes, as for Hawser.
const BUFFERS: usize = 4 << 20;
/// The name in the server's certificate.
const NAME: &str = "localhost";

/// A socket with at most one connection.
pub(crate) struct Quinn {
    runtime: Runtime,
    address: SocketAddr,
    endpoint: Option<Endpoint>,
    streams: Option<(SendStream, RecvStream)>,
}

impl Quinn {
    /// Makes a side without a connection.
    ///
    /// # Errors
    /// The runtime could not be started.
    pub(crate) fn new(spec: &Spec) -> io::Result<Quinn> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        if !spec.sleeps {
            runtime.spawn(async {
                loop {
                    tokio::task::yield_now().await;
                }
            });
        }
        Ok(Quinn {
            runtime,
            address: SocketAddr::new(spec.address.0, 0),
            endpoint: None,
            streams: None,
        })
    }

    fn open(&self, port: u16, server: Option<ServerConfig>) -> io::Result<Endpoint> {
        let at = SocketAddr::new(self.address.ip(), port);
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_recv_buffer_size(BUFFERS)?;
        socket.set_send_buffer_size(BUFFERS)?;
        socket.bind(&at.into())?;
        let _context = self.runtime.enter();
        Endpoint::new(
            EndpointConfig::default(),
            server,
            socket.into(),
            Arc::new(TokioRuntime),
        )
    }

    fn streams(&mut self) -> io::Result<(&Runtime, &mut SendStream, &mut RecvStream)> {
        let streams = self.streams.as_mut();
        let (send, receive) = streams.ok_or(io::ErrorKind::NotConnected)?;
        Ok((&self.runtime, send, receive))
    }
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.send_window(u64::from(WINDOW));
    transport.receive_window(VarInt::from_u32(WINDOW));
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    Arc::new(transport)
}

impl Transport for Quinn {
    type Connection = ();

    fn listen(&mut self, port: u16) -> io::Result<()> {
        let identity = Identity::generate(vec![NAME.into()]).map_err(io::Error::other)?;
        let tls = identity.server(&[]).map_err(io::Error::other)?;
        let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(transport());
        self.endpoint = Some(self.open(port, Some(config))?);
        Ok(())
    }

    fn accept(&mut self) -> io::Result<Option<()>> {
        let endpoint = self.endpoint.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let accepting = async {
            let incoming = endpoint.accept().await.ok_or(io::ErrorKind::NotConnected)?;
            Ok::<_, io::Error>(incoming.await?.accept_bi().await?)
        };
        self.streams = Some(self.runtime.block_on(accepting)?);
        Ok(Some(()))
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<()> {
        let tls = Trust::Anyone.client(&[]).map_err(io::Error::other)?;
        let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport());
        let endpoint = self.open(0, None)?;
        let connecting = async {
            let connecting = endpoint
                .connect_with(config, to, NAME)
                .map_err(io::Error::other)?;
            Ok::<_, io::Error>(connecting.await?.open_bi().await?)
        };
        self.streams = Some(self.runtime.block_on(connecting)?);
        self.endpoint = Some(endpoint);
        Ok(())
    }

    fn opened(&mut self, (): ()) -> io::Result<Option<()>> {
        Ok(self.streams.as_ref().map(|_| ()))
    }

    fn read(&mut self, (): (), out: &mut [u8]) -> io::Result<Option<usize>> {
        let (runtime, _, receive) = self.streams()?;
        Ok(Some(runtime.block_on(receive.read(out))?.unwrap_or(0)))
    }

    fn write(&mut self, (): (), bytes: &[u8]) -> io::Result<Option<usize>> {
        let (runtime, send, _) = self.streams()?;
        Ok(Some(runtime.block_on(send.write(bytes))?))
    }

    fn shutdown(&mut self, (): ()) -> io::Result<()> {
        let (_, send, _) = self.streams()?;
        send.finish().map_err(io::Error::other)
    }

    /// Keeps the connection until the side ends, because the last bytes may still have to leave.
    fn close(&mut self, (): ()) {}

    fn turn(&mut self, limit: Option<Duration>, _: &mut Vec<()>) -> io::Result<()> {
        // A timer has to be created within the runtime.
        let nap = async { tokio::time::sleep(limit.unwrap_or_default()).await };
        self.runtime.block_on(nap);
        Ok(())
    }
}
