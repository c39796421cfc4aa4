//! A minimal TCP (RFC 9293) that exchanges super-segments with Linux. The cable loses no packets, but may
//! reorder them when the sender moves to another core. This TCP acknowledges all data and sends one burst.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use hawser_engine::wire::Csum;

use crate::TestResult;
use crate::station::{Arrival, HostWire, Payload, Station};

type Error = Box<dyn std::error::Error + Send + Sync>;

const PORT: u16 = 8080;
/// The number of bytes that Linux sends.
const UPWARDS: usize = 1 << 20;
/// The number of bytes that we send, in one super-segment.
const DOWNWARDS: usize = 60_000;
/// Our initial sequence number, chosen so that the data wraps around.
const INITIAL: u32 = u32::MAX - 1000;

/// The window that we advertise: 65,535 scaled by 7.
const WINDOW: u32 = 65_535 << 7;

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761) as u8 ^ (i >> 8) as u8)
        .collect()
}

/// Lets Linux connect to us at `ip`, send 1 MiB and read 60,000 bytes that leave us as one super-segment.
/// `inside` opens the connection in Linux's namespace.
pub(crate) fn exchange<W: HostWire>(
    station: &mut Station<W>,
    ip: IpAddr,
    inside: impl FnOnce(&(dyn Fn() -> Result<TcpStream, Error> + Sync)) -> Result<TcpStream, Error> + Send,
) -> TestResult {
    let connect = move || {
        Ok(TcpStream::connect_timeout(
            &SocketAddr::new(ip, PORT),
            Duration::from_secs(8),
        )?)
    };
    thread::scope(|scope| {
        let client = scope.spawn(move || -> TestResult {
            let mut stream = inside(&connect)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.set_write_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(&pattern(UPWARDS))?;
            let mut received = vec![0; DOWNWARDS];
            stream.read_exact(&mut received)?;
            assert!(received == pattern(DOWNWARDS), "Linux received something else");
            Ok(())
        });
        let mut peer = Peer::default();
        let served = station.run(Duration::from_secs(20), |station, arrival| {
            peer.on(station, arrival)
        });
        client.join().unwrap()?;
        assert!(served?, "the stream ended early: {} bytes", peer.received.len());
        assert!(peer.received == pattern(UPWARDS), "we received something else");
        assert!(
            peer.max_segs > 10,
            "super-segments arrive: at most {} packets each",
            peer.max_segs
        );
        assert_eq!(
            station.wire.counters().refused,
            0,
            "the device takes our super-segment"
        );
        assert!(
            peer.all_trusted,
            "checksums that the kernel left open are trusted"
        );
        Ok(())
    })
}

struct Peer {
    /// The remote address and port. Other segments are left over from an earlier connection.
    remote: Option<(IpAddr, u16)>,
    received: Vec<u8>,
    /// Early data, by its offset in the stream.
    early: BTreeMap<usize, Vec<u8>>,
    next: u32,
    max_segs: u16,
    all_trusted: bool,
    has_sent: bool,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer {
            remote: None,
            received: Vec::new(),
            early: BTreeMap::new(),
            next: 0,
            max_segs: 0,
            all_trusted: true,
            has_sent: false,
        }
    }
}

impl Peer {
    /// Answers a segment. Returns true when the exchange is complete.
    fn on<W: HostWire>(&mut self, station: &mut Station<W>, arrival: Arrival) -> bool {
        let Arrival::Packet { net, bytes, csum } = arrival else {
            return false;
        };
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let flags = bytes[13];
        let data = &bytes[usize::from(bytes[12] >> 4) * 4..];
        let from = hawser_engine::net::from_bytes(net.src_ip);
        let port = u16::from_be_bytes([bytes[0], bytes[1]]);
        if flags & SYN != 0 {
            self.remote = Some((from, port));
        }
        if self.remote != Some((from, port)) {
            return false;
        }
        self.all_trusted &= csum == Csum::Complete;
        if net.segs > 1 {
            self.max_segs = self.max_segs.max(net.segs);
            assert_eq!(usize::from(net.segs), data.len().div_ceil(net.seg_size.into()));
        }
        if flags & SYN != 0 {
            self.next = number(4).wrapping_add(1);
            self.reply(station, from, port, INITIAL, SYN | ACK, Vec::new());
            return false;
        }
        self.keep(number(4), data);
        let ours = INITIAL.wrapping_add(1);
        if self.received.len() == UPWARDS && !self.has_sent {
            self.has_sent = true;
            self.reply(station, from, port, ours, ACK | PSH, pattern(DOWNWARDS));
        } else if !data.is_empty() {
            self.reply(station, from, port, ours, ACK, Vec::new());
        }
        flags & FIN != 0 || (self.has_sent && number(8) == ours.wrapping_add(DOWNWARDS as u32))
    }

    /// Keeps data until the preceding data has arrived.
    fn keep(&mut self, seq: u32, data: &[u8]) {
        let ahead = seq.wrapping_sub(self.next);
        if ahead < WINDOW && !data.is_empty() {
            self.early
                .insert(self.received.len() + ahead as usize, data.to_vec());
        }
        while let Some(data) = self.early.remove(&self.received.len()) {
            self.next = self.next.wrapping_add(data.len() as u32);
            self.received.extend(data);
        }
    }

    fn reply<W: HostWire>(
        &self,
        station: &mut Station<W>,
        to: IpAddr,
        port: u16,
        seq: u32,
        flags: u8,
        bytes: Vec<u8>,
    ) {
        let mut header = Vec::new();
        header.extend(PORT.to_be_bytes());
        header.extend(port.to_be_bytes());
        header.extend(seq.to_be_bytes());
        header.extend(self.next.to_be_bytes());
        header.extend([
            if flags & SYN != 0 { 0x70 } else { 0x50 },
            flags,
            0xff,
            0xff,
            0,
            0,
            0,
            0,
        ]);
        if flags & SYN != 0 {
            // MSS 1400 and window scale 7: larger segments are useful only with a larger window.
            header.extend([2, 4, 0x05, 0x78, 1, 3, 3, 7]);
        }
        let seg_size = if bytes.is_empty() { 0 } else { 1400 };
        station.send(to, 6, &header, 16, Payload { bytes, seg_size });
    }
}
