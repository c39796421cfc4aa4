//! Interoperability with another implementation of SCTP. sctp-proto shares no code with usrsctp, and is a
//! machine without I/O. It is driven here over a UDP socket, which is all that RFC 6951 requires.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser_carriers::sctp::{SctpCarrier, SctpError, SctpOptions, SctpStack};
use hawser_carriers::{Carrier, send};
use hawser_testing::{Need, skip};
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload,
    PayloadProtocolIdentifier, ServerConfig, StreamEvent, Transmit, TransportConfig,
};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The SCTP port, not the UDP port: sctp-proto's own default.
const PORT: u16 = 5_000;
const BYTES: usize = 300_000;
const MESSAGE: usize = 10_000;
const TIMEOUT: Duration = Duration::from_secs(20);

/// The other implementation, on a socket.
struct Other {
    socket: UdpSocket,
    endpoint: Endpoint,
    associations: HashMap<AssociationHandle, Association>,
    /// Bytes that a client still has to send.
    left: Vec<u8>,
    received: Vec<u8>,
    is_client: bool,
    up: bool,
    over: bool,
}

impl Other {
    fn new(is_client: bool) -> Outcome<Self> {
        let socket = UdpSocket::bind((HERE, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(2)))?;
        let server = (!is_client).then(|| Arc::new(ServerConfig::new()));
        Ok(Self {
            socket,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::new()), server),
            associations: HashMap::new(),
            left: Vec::new(),
            received: Vec::new(),
            is_client,
            up: false,
            over: false,
        })
    }

    fn connect(&mut self, to: SocketAddr, bytes: Vec<u8>) -> Outcome {
        let mut config = ClientConfig::new();
        config.transport = Arc::new(
            TransportConfig::default()
                .with_local_port(PORT + 1)
                .with_remote_port(PORT),
        );
        let (handle, association) = self.endpoint.connect(config, to)?;
        self.associations.insert(handle, association);
        self.left = bytes;
        Ok(())
    }

    /// Runs until the association is over.
    fn run(&mut self) -> Outcome {
        let end = Instant::now() + TIMEOUT;
        while !self.over {
            if Instant::now() > end {
                return Err("the other implementation waits for ever".into());
            }
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Outcome {
        let now = Instant::now();
        let mut out: Vec<Transmit> = std::iter::from_fn(|| self.endpoint.poll_transmit()).collect();
        let handles: Vec<AssociationHandle> = self.associations.keys().copied().collect();
        for handle in handles {
            let association = self.associations.get_mut(&handle).ok_or("gone")?;
            if association.poll_timeout().is_some_and(|at| at <= now) {
                association.handle_timeout(now);
            }
            while let Some(event) = association.poll() {
                match event {
                    Event::Connected if !self.is_client => self.up = true,
                    Event::Connected => {
                        self.up = true;
                        let mut stream = association.open_stream(0, PayloadProtocolIdentifier::Binary)?;
                        for message in std::mem::take(&mut self.left).chunks(MESSAGE) {
                            stream.write(message)?;
                        }
                    }
                    Event::Stream(StreamEvent::Opened { .. }) => {
                        association.accept_stream();
                    }
                    Event::Stream(StreamEvent::Readable { id }) => {
                        let mut stream = association.stream(id)?;
                        while let Some(chunks) = stream.read()? {
                            let mut message = vec![0; chunks.len()];
                            chunks.read(&mut message)?;
                            if !self.is_client {
                                stream.write_with_ppi(&message, PayloadProtocolIdentifier::Binary)?;
                            }
                            self.received.extend(message);
                        }
                    }
                    Event::AssociationLost { .. } | Event::HandshakeFailed { .. } => self.over = true,
                    _ => {}
                }
            }
            out.extend(std::iter::from_fn(|| association.poll_transmit(now)));
            // A server's association counts as closed until its handshake is over.
            self.over |= self.up && association.is_closed();
        }
        for transmit in out {
            let Payload::RawEncode(packets) = transmit.payload else {
                continue;
            };
            for packet in packets {
                self.socket.send_to(&packet, transmit.remote)?;
            }
        }
        self.receive()
    }

    fn receive(&mut self) -> Outcome {
        let mut buffer = [0; 2_048];
        // No datagram has arrived, or a host answered one of our packets with an error.
        let Ok((length, from)) = self.socket.recv_from(&mut buffer) else {
            return Ok(());
        };
        let packet = Bytes::copy_from_slice(&buffer[..length]);
        match self.endpoint.handle(Instant::now(), from, None, None, packet) {
            Some((handle, DatagramEvent::NewAssociation(association))) => {
                self.associations.insert(handle, association);
            }
            Some((handle, DatagramEvent::AssociationEvent(event))) => {
                if let Some(association) = self.associations.get_mut(&handle) {
                    association.handle_event(event);
                }
            }
            None => {}
        }
        Ok(())
    }
}

/// Returns bytes whose values depend on their positions.
fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 7 + at / 251) as u8).collect()
}

async fn read(carrier: &mut SctpCarrier, into: &mut Vec<u8>) -> Outcome<bool> {
    let bytes = poll_fn(|cx| carrier.poll_read(cx)).await?;
    into.extend(&bytes);
    Ok(!bytes.is_empty())
}

/// The other implementation connects, sends, and gets everything back.
async fn called(stack: SctpStack) -> Outcome {
    let listener = stack.listen(&[HERE], PORT, SctpOptions::default())?;
    let to = SocketAddr::new(HERE, stack.udp_port());
    let other = tokio::task::spawn_blocking(move || -> Outcome<Other> {
        let mut other = Other::new(true)?;
        other.connect(to, content())?;
        other.run()?;
        Ok(other)
    });
    let mut carrier = listener.accept().await?;
    assert!(
        !carrier.half_closes(),
        "another implementation does not know how we end a direction"
    );
    let mut received = Vec::new();
    while received.len() < BYTES {
        let before = received.len();
        assert!(read(&mut carrier, &mut received).await?, "it ended early");
        let echo = Bytes::copy_from_slice(&received[before..]);
        send(&mut carrier, &mut VecDeque::from([echo])).await?;
    }
    assert!(received == content(), "bytes were changed in transit to us");
    poll_fn(|cx| carrier.poll_finish(cx)).await?;
    drop(carrier);
    let other = other.await??;
    assert!(other.received == content(), "bytes were changed in transit back");
    Ok(())
}

/// Hawser connects, sends, and gets everything back.
async fn calling(stack: SctpStack) -> Outcome {
    let mut other = Other::new(false)?;
    let options = SctpOptions {
        peer_udp_port: other.socket.local_addr()?.port(),
        ..SctpOptions::default()
    };
    let other = tokio::task::spawn_blocking(move || other.run().map(|()| other));
    let mut carrier = stack
        .connect(&[SocketAddr::new(HERE, PORT)], &[HERE], &options)
        .await?;
    let (content, mut received) = (content(), Vec::new());
    for piece in content.chunks(3 * MESSAGE) {
        send(&mut carrier, &mut VecDeque::from([Bytes::copy_from_slice(piece)])).await?;
        let goal = received.len() + piece.len();
        while received.len() < goal {
            assert!(read(&mut carrier, &mut received).await?, "it ended early");
        }
    }
    assert!(received == content, "bytes were changed");
    assert_eq!(carrier.describe().transport, "sctp");
    poll_fn(|cx| carrier.poll_finish(cx)).await?;
    assert!(
        !read(&mut carrier, &mut received).await?,
        "SHUTDOWN is answered, and nothing more comes"
    );
    drop(carrier);
    assert!(other.await??.received == content);
    Ok(())
}

#[test]
fn the_stack_talks_to_another_implementation() -> Outcome {
    let stack = match SctpStack::open(None) {
        Err(error @ SctpError::NoLibrary { .. }) => {
            skip(Need::Usrsctp, "SCTP against sctp-proto", error);
            return Ok(());
        }
        result => result?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::time::timeout(TIMEOUT, called(stack.clone()))
            .await
            .map_err(|_| "called: too late")??;
        tokio::time::timeout(TIMEOUT, calling(stack))
            .await
            .map_err(|_| "calling: too late")??;
        Ok(())
    })
}
