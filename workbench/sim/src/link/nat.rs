//! A network address translator at one end of a link. The other end sees the inside hosts' UDP packets come
//! from ports, and perhaps addresses, that the translator has chosen.
//!
//! At each rebinding time it forgets its choices: a packet from inside gets another port from then on. It
//! drops packets for a former port, and for a port that it has not chosen. Packets of other protocols pass
//! unchanged.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hawser_time::Instant;
use parking_lot::Mutex;

use super::{Rule, Verdict};
use crate::checksum;
use crate::frame::{Frame, Headers};
use crate::rng::Rng;

/// The first port that it assigns; about 20,000 ports follow.
const FIRST_PORT: u16 = 45_000;
const UDP: u8 = 17;

/// The state of a link's translator, shared by both directions.
pub struct Translator {
    /// The rebinding times, in order.
    rebinds: Vec<Instant>,
    /// True if each rebinding also changes the address.
    moves: bool,
    /// The outside address and port, by the inside ones and the number of rebindings so far.
    outside: BTreeMap<(SocketAddr, usize), SocketAddr>,
    /// The reverse mapping.
    inside: BTreeMap<SocketAddr, (SocketAddr, usize)>,
    next: u16,
}

impl Translator {
    /// Creates a translator with these rebinding times; with `moves`, each rebinding also changes the
    /// address.
    #[must_use]
    pub fn new(mut rebinds: Vec<Instant>, moves: bool) -> Arc<Mutex<Translator>> {
        rebinds.sort_unstable();
        Arc::new(Mutex::new(Translator {
            rebinds,
            moves,
            outside: BTreeMap::new(),
            inside: BTreeMap::new(),
            next: FIRST_PORT,
        }))
    }

    /// Returns the number of rebindings so far.
    fn times(&self, now: Instant) -> usize {
        self.rebinds.partition_point(|at| *at <= now)
    }

    /// Returns the outside address and port for the inside ones.
    fn outside_of(&mut self, now: Instant, inside: SocketAddr) -> SocketAddr {
        let times = self.times(now);
        if let Some(known) = self.outside.get(&(inside, times)) {
            return *known;
        }
        let address = if self.moves {
            moved(inside.ip(), times)
        } else {
            inside.ip()
        };
        let outside = SocketAddr::new(address, self.next);
        self.next = self.next.checked_add(1).unwrap_or(FIRST_PORT);
        self.outside.insert((inside, times), outside);
        self.inside.insert(outside, (inside, times));
        outside
    }
}

/// Returns another address of the same network for each rebinding.
fn moved(address: IpAddr, times: usize) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from(v4.to_bits() ^ (times as u32 & 0xff) << 8).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(v6.to_bits() ^ (times as u128 & 0xffff) << 16).into(),
    }
}

/// One direction of a translator.
pub struct NatDirection {
    translator: Arc<Mutex<Translator>>,
    /// True for the direction from inside to outside.
    is_out: bool,
    changed: u64,
}

impl NatDirection {
    /// Creates the direction from inside to outside, or the other one.
    #[must_use]
    pub fn new(translator: &Arc<Mutex<Translator>>, is_out: bool) -> NatDirection {
        NatDirection { translator: Arc::clone(translator), is_out, changed: 0 }
    }
}

impl Rule for NatDirection {
    fn name(&self) -> &'static str {
        "nat"
    }

    fn apply(&mut self, now: Instant, frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        let end = if self.is_out {
            TranslatedEnd::Source
        } else {
            TranslatedEnd::Destination
        };
        let Some((headers, was)) = end.read(frame) else {
            return Verdict::Pass;
        };
        let mut translator = self.translator.lock();
        let to = if self.is_out {
            translator.outside_of(now, was)
        } else {
            match translator.inside.get(&was) {
                Some((inside, times)) if *times == translator.times(now) => *inside,
                _ => return Verdict::Drop,
            }
        };
        end.write(frame, &headers, to);
        self.changed += 1;
        Verdict::Pass
    }

    fn changed(&self) -> u64 {
        self.changed
    }
}

/// The end of a packet whose address and port are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TranslatedEnd {
    Source,
    Destination,
}

impl TranslatedEnd {
    /// Returns the places of its address in the IP header, and of its port in the transport header.
    fn places(self, headers: &Headers) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let (at, len) = match (headers.is_v4, self) {
            (true, TranslatedEnd::Source) => (12, 4),
            (true, TranslatedEnd::Destination) => (16, 4),
            (false, TranslatedEnd::Source) => (8, 16),
            (false, TranslatedEnd::Destination) => (24, 16),
        };
        let port = headers.transport + if self == TranslatedEnd::Source { 0 } else { 2 };
        let address = headers.network + at;
        (address..address + len, port..port + 2)
    }

    /// Reads them from an unfragmented UDP packet.
    fn read(self, frame: &Frame) -> Option<(Headers, SocketAddr)> {
        let headers = frame.headers()?;
        if headers.protocol != UDP || headers.is_fragment {
            return None;
        }
        let (address, port) = self.places(&headers);
        let address: IpAddr = match frame.head.get(address)? {
            bytes if headers.is_v4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
            bytes => <[u8; 16]>::try_from(bytes).ok()?.into(),
        };
        let port = frame.head.get(port)?;
        // The UDP checksum must be present too, since it is rewritten.
        frame.head.get(headers.transport + 6..headers.transport + 8)?;
        let port = u16::from_be_bytes([port[0], port[1]]);
        Some((headers, SocketAddr::new(address, port)))
    }

    /// Writes them, and keeps checksums as correct or as wrong as they were.
    fn write(self, frame: &mut Frame, headers: &Headers, to: SocketAddr) {
        let (address, port) = self.places(headers);
        let new_address: Vec<u8> = match to.ip() {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let new_port = to.port().to_be_bytes();
        let old_address = frame.head[address.clone()].to_vec();
        let old_port = [frame.head[port.start], frame.head[port.start + 1]];
        if headers.is_v4 {
            let at = headers.network + 10;
            let sum = checksum::replaced([frame.head[at], frame.head[at + 1]], &old_address, &new_address);
            frame.head[at..at + 2].copy_from_slice(&sum);
        }
        let at = headers.transport + 6;
        let field = [frame.head[at], frame.head[at + 1]];
        let field = match frame.partial {
            // A partial checksum is the sum of the pseudo-header; the device adds the rest, including the
            // ports.
            Some(_) => checksum::complement(checksum::replaced(
                checksum::complement(field),
                &old_address,
                &new_address,
            )),
            // The packet has no checksum.
            None if field == [0, 0] => field,
            None => {
                let sum = checksum::replaced(field, &old_address, &new_address);
                match checksum::replaced(sum, &old_port, &new_port) {
                    [0, 0] => [0xff, 0xff],
                    sum => sum,
                }
            }
        };
        frame.head[at..at + 2].copy_from_slice(&field);
        frame.head[address].copy_from_slice(&new_address);
        frame.head[port].copy_from_slice(&new_port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::samples;

    const PORTS: [u8; 4] = [0x11, 0x51, 0x11, 0x52];

    fn packet(is_v4: bool) -> Frame {
        let mut frame = samples::ipv4(UDP, b"payload");
        frame.head[20..24].copy_from_slice(&PORTS);
        if !is_v4 {
            let mut head = vec![0; 40];
            head[0] = 0x60;
            head[5] = 15;
            head[6] = UDP;
            (head[8], head[23], head[24], head[39]) = (0xfd, 1, 0xfd, 2);
            head.extend_from_slice(&frame.head[20..28]);
            let headers = Headers::find(&head, 0).expect("a whole header");
            let sum = checksum::pseudo_header(&head, &headers, 15).folded();
            head[46..48].copy_from_slice(&sum);
            frame.head = head;
            frame.partial = Some((40, 46));
        }
        frame
    }

    fn verifies(frame: &Frame) -> bool {
        let mut whole = frame.clone();
        whole.flatten();
        let headers = whole.headers().expect("headers");
        let sum = checksum::pseudo_header(&whole.head, &headers, whole.len() - headers.transport);
        let is_ip_right = !headers.is_v4
            || hawser_engine::net::Sum::default()
                .with(&whole.head[..20])
                .is_valid();
        is_ip_right && sum.with(&whole.head[headers.transport..]).is_valid()
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn translated_answers_return_until_the_mapping_is_forgotten() {
        for (is_v4, moves, is_partial) in (0..8).map(|n| (n & 1 == 0, n & 2 == 0, n & 4 == 0)) {
            let translator = Translator::new(vec![at(20), at(10)], moves);
            let (mut out, mut back) = (
                NatDirection::new(&translator, true),
                NatDirection::new(&translator, false),
            );
            let rng = &mut Rng::new(1, "nat");
            let mut sent = |now| {
                let mut frame = packet(is_v4);
                if !is_partial {
                    frame.complete();
                }
                assert_eq!(out.apply(now, &mut frame, rng), Verdict::Pass);
                frame.complete();
                assert!(verifies(&frame), "{is_v4} {moves} {is_partial}");
                frame
            };
            let [first, same, second, third] = [at(1), at(9), at(10), at(25)].map(&mut sent);
            let source = |frame: &Frame| TranslatedEnd::Source.read(frame).expect("a packet").1;
            assert_eq!(source(&first), source(&same));
            assert_ne!(source(&first).port(), 0x1151);
            assert_eq!(source(&first).ip() == source(&second).ip(), !moves);
            let all = [&first, &second, &third].map(source);
            assert!(all[0] != all[1] && all[1] != all[2], "{all:?}");
            let mut answered = |now, to: &Frame| {
                let mut frame = to.clone();
                let (a, b) = (
                    source(to),
                    TranslatedEnd::Destination.read(to).expect("a packet").1,
                );
                let headers = frame.headers().expect("headers");
                TranslatedEnd::Source.write(&mut frame, &headers, b);
                TranslatedEnd::Destination.write(&mut frame, &headers, a);
                let verdict = back.apply(now, &mut frame, rng);
                (verdict, frame)
            };
            let (verdict, answer) = answered(at(9), &first);
            assert_eq!(verdict, Verdict::Pass);
            assert_eq!(
                TranslatedEnd::Destination.read(&answer).map(|(_, to)| to),
                TranslatedEnd::Source.read(&packet(is_v4)).map(|(_, from)| from)
            );
            assert!(verifies(&answer));
            assert_eq!(answered(at(10), &first).0, Verdict::Drop);
            assert_eq!(answered(at(15), &second).0, Verdict::Pass);
        }
    }

    #[test]
    fn packets_other_than_whole_udp_pass_unchanged() {
        let translator = Translator::new(Vec::new(), true);
        let (mut out, mut back) = (
            NatDirection::new(&translator, true),
            NatDirection::new(&translator, false),
        );
        let rng = &mut Rng::new(1, "nat");
        let mut cut = packet(true);
        cut.head.truncate(25);
        for frame in [samples::ipv4(6, b"x"), samples::plain(3), cut] {
            for rule in [&mut out, &mut back] {
                let mut passed = frame.clone();
                assert_eq!(rule.apply(at(1), &mut passed, rng), Verdict::Pass);
                assert_eq!(passed.head, frame.head);
            }
        }
        let mut unknown = packet(true);
        assert_eq!(
            back.apply(at(1), &mut unknown, rng),
            Verdict::Drop,
            "nobody inside has sent anything"
        );
    }
}
