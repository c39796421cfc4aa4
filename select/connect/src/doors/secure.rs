//! Connections under TLS 1.3: sessions, and plain peers with the application's own protocols, told apart
//! by what they agree on (RFC 7301).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_carrier::Carrier;
use hawser_carrier_quic::{QuicDoor, QuicGuest, QuicOptions};
use hawser_carrier_tcp::{Door, Guest as Stranger, TcpOptions};
use hawser_carrier_tls::TlsServer;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{DoorWish, Guest};
use crate::Duplex;
use crate::kinds::{QuicDuplex, STREAMS, SessionDuplex};
use hawser_session_driver::places::{Gate, Shares};
use hawser_session_driver::{
    ALPN, AcceptorConfig, Identity, PlainStream, Server, ServerConfig, Session, scheduler,
};

/// Peers at once that have not come in yet, of each kind: those who shake hands over TCP, over QUIC, and
/// sessions without a stream. The oldest make room for further ones.
const STRANGERS: usize = 256;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a session, or a QUIC connection, may take to open its first stream.
const FIRST_STREAM: Duration = Duration::from_secs(30);
/// A pause after an error of a listening socket (no file descriptors left, as a rule).
const AFTER_ERROR: Duration = Duration::from_millis(50);
/// Ports that are tried where any will do: one must be free for TCP and UDP.
const PORTS: usize = 16;

/// What the tasks of a door share.
struct House {
    sessions: Server,
    tcp: Gate,
    quic: Gate,
    guests: mpsc::Sender<Guest>,
}

pub(super) fn open(
    wish: &DoorWish,
    identity: &Identity,
    guests: mpsc::Sender<Guest>,
) -> io::Result<(SocketAddr, JoinSet<()>)> {
    let tls = identity.server(&wish.protocols)?;
    let (tcp, quic) = listen(wish, &tls)?;
    let address = tcp.local()?;
    let none = "every build has this scheduler";
    let sessions = Server::open(ServerConfig {
        acceptor: AcceptorConfig::default(),
        scheduler: Arc::new(move || scheduler::by_name("ecf").expect(none)),
        tcp: Vec::new(),
        quic: Vec::new(),
        tls: Some(tls),
    })?;
    let (tcp_gate, quic_gate) = (
        Gate::new(Shares::new(STRANGERS)),
        Gate::new(Shares::new(STRANGERS)),
    );
    let house = Arc::new(House {
        sessions,
        tcp: tcp_gate,
        quic: quic_gate,
        guests,
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(take_tcp(Arc::clone(&house), tcp));
    tasks.spawn(take_quic(Arc::clone(&house), quic));
    tasks.spawn(take_sessions(house));
    Ok((address, tasks))
}

/// One port of TCP and UDP.
fn listen(wish: &DoorWish, tls: &Arc<rustls::ServerConfig>) -> io::Result<(Door, QuicDoor)> {
    let tries = if wish.address.port() == 0 { PORTS } else { 1 };
    let mut last = None;
    for _ in 0..tries {
        let options = TcpOptions {
            mptcp: wish.is_multipath,
            interface: wish.interface.clone(),
            ..TcpOptions::default()
        };
        let tcp = Door::open(
            wish.address,
            options,
            Some(TlsServer {
                config: Arc::clone(tls),
            }),
        )?;
        let options = QuicOptions {
            interface: wish.interface.clone(),
            ..QuicOptions::default()
        };
        match QuicDoor::open(tcp.local()?, options, Arc::clone(tls)) {
            Ok(quic) => return Ok((tcp, quic)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

async fn take_tcp(house: Arc<House>, door: Door) {
    loop {
        match door.accept().await {
            Ok(stranger) => {
                let peer = stranger.peer().ip();
                house.meet(&house.tcp, peer, |house| house.meet_tcp(stranger));
            }
            Err(_) => tokio::time::sleep(AFTER_ERROR).await,
        }
    }
}

async fn take_quic(house: Arc<House>, door: QuicDoor) {
    while let Some(stranger) = door.accept().await {
        let peer = stranger.peer().ip();
        house.meet(&house.quic, peer, |house| house.meet_quic(stranger));
    }
}

async fn take_sessions(house: Arc<House>) {
    let gate = Gate::new(Shares::new(STRANGERS));
    while let Ok(session) = house.sessions.accept().await {
        let peer = session
            .paths()
            .first()
            .map(|(_, info)| info.description.peer.ip());
        // One that has lost its only carrier has no address, and is soon gone.
        let mut place = gate.enter(peer.unwrap_or(IpAddr::from([0; 4])));
        let guests = house.guests.clone();
        tokio::spawn(async move { place.hold(first_stream(guests, session)).await });
    }
}

/// A session is somebody when it has a stream.
async fn first_stream(guests: mpsc::Sender<Guest>, session: Session) {
    let stream = tokio::select! {
        stream = timeout(FIRST_STREAM, session.accept()) => stream,
        () = guests.closed() => return,
    };
    if let Ok(Ok(stream)) = stream {
        // Who has closed the door wants nobody.
        let _ = guests
            .send(Guest {
                stream: Box::new(SessionDuplex { stream, session }),
            })
            .await;
    }
}

impl House {
    /// Meets an unauthenticated peer, whose place is free again when the application has it: those who
    /// wait for that are bounded too.
    fn meet<F>(self: &Arc<Self>, gate: &Gate, peer: IpAddr, how: impl FnOnce(Arc<House>) -> F)
    where
        F: Future<Output = Option<Box<dyn Duplex>>> + Send + 'static,
    {
        let mut place = gate.enter(peer);
        let (met, guests) = (how(Arc::clone(self)), self.guests.clone());
        let work = async move {
            let met = tokio::select! {
                met = met => met,
                () = guests.closed() => return,
            };
            if let Some(stream) = met {
                // Who has closed the door wants nobody.
                let _ = guests.send(Guest { stream }).await;
            }
        };
        tokio::spawn(async move { place.hold(work).await });
    }

    async fn meet_tcp(self: Arc<Self>, stranger: Stranger) -> Option<Box<dyn Duplex>> {
        let carrier = timeout(HANDSHAKE, stranger.welcome()).await.ok()?.ok()?;
        if carrier.describe().alpn.as_deref() == Some(ALPN) {
            self.sessions.receive(carrier);
            return None;
        }
        Some(Box::new(PlainStream::new(Box::new(carrier))))
    }

    async fn meet_quic(self: Arc<Self>, stranger: QuicGuest) -> Option<Box<dyn Duplex>> {
        let connection = timeout(HANDSHAKE, stranger.shake()).await.ok()?.ok()?;
        if connection.describe().alpn.as_deref() == Some(ALPN) {
            self.sessions
                .receive(timeout(HANDSHAKE, connection.into_carrier()).await.ok()?.ok()?);
            return None;
        }
        connection.admit(STREAMS);
        let stream = timeout(FIRST_STREAM, connection.accept()).await.ok()?.ok()?;
        Some(Box::new(QuicDuplex { stream }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest whom nobody takes keeps his place.
    #[tokio::test]
    async fn those_who_wait_at_the_door_are_bounded() {
        let none = "every build has this scheduler";
        let sessions = Server::open(ServerConfig {
            acceptor: AcceptorConfig::default(),
            scheduler: Arc::new(move || scheduler::by_name("ecf").expect(none)),
            tcp: Vec::new(),
            quic: Vec::new(),
            tls: None,
        });
        let (sender, mut guests) = mpsc::channel(1);
        let (tcp, quic) = (Gate::new(Shares::unshared(2)), Gate::new(Shares::unshared(2)));
        let sessions = sessions.expect("a server without doors");
        let house = Arc::new(House {
            sessions,
            tcp,
            quic,
            guests: sender,
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let there = listener.local_addr().expect("its address");
        for _ in 0..8 {
            let stream = tokio::net::TcpStream::connect(there)
                .await
                .expect("the kernel takes it");
            house.meet(&house.tcp, there.ip(), |_| async move {
                Some(Box::new(stream) as Box<dyn Duplex>)
            });
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut count = 0;
        while timeout(Duration::from_millis(50), guests.recv()).await.is_ok() {
            count += 1;
        }
        assert_eq!(count, 3, "one at the door, two behind it");
    }
}
