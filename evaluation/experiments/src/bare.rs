//! The same transfer over a carrier alone, as the baseline for a session.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser::session::{Identity, QuicOptions, TcpOptions, Trust};
use hawser_carriers::quic::{QuicEndpoint, QuicListener};
use hawser_carriers::tcp::TcpListener;
use hawser_carriers::tls::{TlsClient, TlsServer};
use hawser_carriers::{Carrier, send};
use rustls::pki_types::ServerName;

use crate::content::Content;
use crate::transfer::{Direction, cpu_seconds};
use crate::{Error, Moment, Report, Testbed};

/// A transfer over one carrier without a session: `tcp` or `quic`, with the same TLS.
pub struct Bare {
    /// True if the carrier is QUIC.
    pub quic: bool,
    /// The client's interface.
    pub interface: String,
    /// The options requested of TCP.
    pub tcp: TcpOptions,
    /// The number of bytes to transfer.
    pub bytes: u64,
    pub direction: Direction,
    /// The time after which the transfer is abandoned.
    pub timeout: Duration,
}

impl Bare {
    /// Runs the transfer.
    ///
    /// # Errors
    /// The transfer failed or took too long.
    pub fn run(self, stage: &Testbed) -> Result<Report, Error> {
        let port = stage.next_port();
        let peer = SocketAddr::new(stage.address, port);
        let trust = Trust::Pin(stage.identity.digest());
        let (bytes, direction, timeout) = (self.bytes, self.direction, self.timeout);
        let (identity, quic, tcp) = (stage.identity.clone(), self.quic, self.tcp.clone());
        let opening = stage
            .server
            .spawn(async move { Listener::open(&identity, quic, tcp, port) });
        let listener = stage.server.block_on(opening)??;
        let began = Instant::now();
        let cpu = cpu_seconds();
        let server = stage.server.spawn(async move {
            let mut carrier = listener.accept().await?;
            carrier.admit();
            match direction {
                Direction::Up => take(&mut *carrier, began).await.map(Some),
                Direction::Down => {
                    poll_fn(|cx| carrier.poll_read(cx)).await?;
                    give(&mut *carrier, bytes).await.map(|()| None)
                }
            }
        });
        let client = stage.client.spawn(async move {
            let mut carrier = self.connect(peer, &trust).await?;
            match direction {
                Direction::Down => {
                    send(&mut *carrier, &mut [Bytes::from_static(b"?")].into()).await?;
                    take(&mut *carrier, began).await.map(Some)
                }
                Direction::Up => give(&mut *carrier, bytes).await.map(|()| None),
            }
        });
        let both = async {
            let (server, client) = (server.await??, client.await??);
            server.or(client).ok_or_else(|| Error::from("nobody received"))
        };
        let mut report = stage.client.block_on(async {
            tokio::time::timeout(timeout, both)
                .await
                .map_err(|_| format!("not done after {timeout:?}"))?
        })?;
        report.cpu_seconds = cpu_seconds() - cpu;
        if report.bytes != bytes {
            return Err(format!("{bytes} bytes were sent, but {} arrived", report.bytes).into());
        }
        Ok(report)
    }

    async fn connect(&self, peer: SocketAddr, trust: &Trust) -> Result<Box<dyn Carrier>, Error> {
        let tls = trust.client(&[])?;
        let interface = Some(self.interface.clone());
        if self.quic {
            let endpoint =
                QuicEndpoint::open(peer, None, QuicOptions { interface, ..QuicOptions::default() })?;
            return Ok(Box::new(endpoint.connect(peer, "server", tls).await?));
        }
        let tls = TlsClient { config: tls, name: ServerName::try_from("server")? };
        let options = TcpOptions { interface, ..self.tcp.clone() };
        Ok(Box::new(
            hawser_carriers::tcp::connect(peer, None, &options, Some(&tls)).await?,
        ))
    }
}

/// A listener that accepts one carrier.
enum Listener {
    Tcp(TcpListener),
    Quic(QuicListener),
}

impl Listener {
    fn open(identity: &Identity, quic: bool, tcp: TcpOptions, port: u16) -> Result<Self, Error> {
        let tls = identity.server(&[])?;
        let any = SocketAddr::from(([0, 0, 0, 0], port));
        Ok(match quic {
            true => Self::Quic(QuicListener::open(any, QuicOptions::default(), tls)?),
            false => Self::Tcp(TcpListener::open(any, tcp, Some(TlsServer { config: tls }))?),
        })
    }

    async fn accept(self) -> Result<Box<dyn Carrier>, Error> {
        Ok(match self {
            Self::Tcp(listener) => Box::new(listener.accept().await?.accept().await?),
            Self::Quic(listener) => Box::new(
                listener
                    .accept()
                    .await
                    .ok_or("the listener was closed")?
                    .accept()
                    .await?,
            ),
        })
    }
}

/// Sends all bytes, and waits for the other side to close.
async fn give(carrier: &mut dyn Carrier, bytes: u64) -> Result<(), Error> {
    for piece in Content::new(bytes, true) {
        send(carrier, &mut [piece].into()).await?;
    }
    poll_fn(|cx| carrier.poll_flush(cx)).await?;
    poll_fn(|cx| carrier.poll_finish(cx)).await?;
    while let Ok(bytes) = poll_fn(|cx| carrier.poll_read(cx)).await {
        if bytes.is_empty() {
            break;
        }
    }
    Ok(())
}

async fn take(carrier: &mut dyn Carrier, began: Instant) -> Result<Report, Error> {
    let mut report = Report::default();
    let description = carrier.describe();
    report.paths.push(description.transport.to_owned());
    let mut next = Duration::ZERO;
    loop {
        let bytes = poll_fn(|cx| carrier.poll_read(cx)).await?;
        let now = began.elapsed();
        if report.bytes == 0 {
            report.first_byte = now.as_secs_f64();
        }
        report.bytes += bytes.len() as u64;
        if now >= next || bytes.is_empty() {
            next = now + Duration::from_millis(50);
            let delivered = vec![report.bytes];
            report
                .moments
                .push(Moment { seconds: now.as_secs_f64(), read: report.bytes, delivered });
        }
        if bytes.is_empty() {
            report.seconds = now.as_secs_f64();
            poll_fn(|cx| carrier.poll_finish(cx)).await?;
            return Ok(report);
        }
    }
}
