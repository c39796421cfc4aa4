//! Fast Open (RFC 7413) with lost packets: the data of the SYN arrives once and in order, whichever packet is
//! lost. The packet scripts are in `transports/tcp/scripts/RFC7413`.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use hawser_time::Instant;
use hawser_engine::Notice;
use hawser_ir::abi::OPT_FAST_OPEN;

use crate::bench::{MS, SECOND};
use crate::transfer::{Application, CALM, Conditions, World, address};

/// The bytes of data from the client and from the server.
const PAYLOAD: [usize; 2] = [5000, 7000];

/// A packet of the second connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeenPacket {
    to: usize,
    syn: bool,
    payload: usize,
}

impl SeenPacket {
    /// Parses an IPv4 packet to an end of the world.
    fn parse(to: usize, packet: &[u8]) -> SeenPacket {
        let header = usize::from(packet[32] >> 4) * 4;
        SeenPacket { to, syn: packet[33] & 2 != 0, payload: packet.len() - 20 - header }
    }
}

/// The packet of the second connection that is lost, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Nothing,
    /// The SYN with its data.
    Syn,
    SynAck,
    /// The client's first data after its SYN.
    Rest,
    /// The server's first data, which need not wait for the handshake.
    Answer,
    /// The client's acknowledgement of the <SYN,ACK>, which carries no data.
    Ack,
}

impl Lost {
    fn is(self, seen: SeenPacket) -> bool {
        let (to_server, syn, data) = (seen.to == 1, seen.syn, seen.payload > 0);
        match self {
            Lost::Nothing => false,
            Lost::Syn => to_server && syn,
            Lost::SynAck => !to_server && syn,
            Lost::Rest => to_server && !syn && data,
            Lost::Answer => !to_server && !syn && data,
            Lost::Ack => to_server && !syn && !data,
        }
    }
}

/// The outcome of the second connection.
struct Outcome {
    packets: Vec<SeenPacket>,
    /// The times of the server's first byte of data, and of the end.
    first: u64,
    over: u64,
}

/// Runs one connection to the server and back, and closes both ends.
fn connection(world: &mut World, server: SocketAddr, data: [usize; 2], name: &str) -> (u64, u64) {
    let start = world.now;
    let mut apps = [Application::new(0, data[0]), Application::new(1, data[1])];
    let handle = world.stacks[0].connect_with(Instant::from_nanos(start), server, None, &[(OPT_FAST_OPEN, 1)]);
    apps[0].handle = Some(handle.expect("a connection"));
    let mut first = None;
    while !apps.iter().all(|app| app.over.is_some()) {
        for (app, stack) in apps.iter_mut().zip(&mut world.stacks) {
            app.act(world.now, stack);
        }
        if apps[1].received > 0 {
            first.get_or_insert(world.now - start);
        }
        assert!(world.step(), "{name}: nothing will ever happen again");
        assert!(world.now < start + 600 * SECOND, "{name}: no end in sight");
    }
    for (app, expected) in apps.iter().zip(data.iter().rev()) {
        assert_eq!((app.received, app.eof, app.over), (*expected, true, Some(Notice::Closed)), "{name}");
    }
    (first.unwrap_or(0), world.now - start)
}

/// Runs a connection that gets a cookie, then one that presents it and loses this packet.
fn run(lost: Lost, conditions: Conditions, seed: u64) -> Outcome {
    let name = format!("{lost:?}, seed {seed}");
    let mut world = World::new(false, CALM, seed);
    let server = SocketAddr::new(address(false, 2), 80);
    let listener = world.stacks[1].listen_with(Instant::ORIGIN, server, 5, &[(OPT_FAST_OPEN, 5)]).expect("a listener");
    connection(&mut world, server, [100, 100], &name);

    let packets = Rc::new(RefCell::new(Vec::new()));
    let (seen, mut spent) = (Rc::clone(&packets), false);
    world.fate = Box::new(move |to, packet| {
        let packet = SeenPacket::parse(to, packet);
        seen.borrow_mut().push(packet);
        let gone = !spent && lost.is(packet);
        spent |= gone;
        gone
    });
    world.conditions = conditions;
    let (first, over) = connection(&mut world, server, PAYLOAD, &name);
    world.conditions = CALM;
    let until = world.now + 300 * SECOND;
    while world.now < until && world.step() {}
    assert_eq!([world.stacks[0].contexts(), world.stacks[1].contexts()], [0, 1], "{name}: the listener is left");
    for field in ["early", "embryonic"] {
        assert_eq!(world.stacks[1].observe(listener, field), Some(0), "{name}: {field}");
    }
    let packets = packets.borrow().clone();
    Outcome { packets, first, over }
}

/// RFC 7413, 2: the server has data half a round trip (of 20 ms) after the SYN. If the SYN or its answer is
/// lost, the handshake begins again without data (4.2.1). Unacknowledged data follows it.
#[test]
fn each_packet_may_be_lost_once() {
    for lost in [Lost::Nothing, Lost::Syn, Lost::SynAck, Lost::Rest, Lost::Answer, Lost::Ack] {
        let outcome = run(lost, CALM, 1);
        let syns: Vec<usize> = outcome.packets.iter().filter(|s| s.to == 1 && s.syn).map(|s| s.payload).collect();
        let bytes: usize = outcome.packets.iter().filter(|s| s.to == 1).map(|s| s.payload).sum();
        println!(
            "{lost:?}: SYNs with {syns:?} bytes, data after {} ms, over after {} ms, {} bytes of data sent twice",
            outcome.first / MS,
            outcome.over / MS,
            bytes - PAYLOAD[0],
        );
        assert!(syns[0] > 1000, "the first SYN carries data: {syns:?}");
        let again = usize::from(lost == Lost::Syn || lost == Lost::SynAck);
        assert_eq!(syns[1..], vec![0; again], "{lost:?}");
        // A SYN is repeated after a second.
        assert_eq!(outcome.first / MS, if lost == Lost::Syn { 1030 } else { 10 }, "{lost:?}");
        // Data of the SYN is sent again only if the SYN was lost. Of the rest, at most the lost data is sent
        // again.
        let twice = match lost {
            Lost::Nothing | Lost::Ack | Lost::Answer | Lost::SynAck => 0,
            Lost::Syn => syns[0],
            Lost::Rest => 1460,
        };
        assert!(bytes - PAYLOAD[0] <= twice, "{lost:?}: {}", bytes - PAYLOAD[0]);
    }
}

/// Any packet may be lost, several times.
#[test]
fn bad_network_conditions_double_no_data() {
    let conditions = Conditions { lost: 150, late: 200, doubled: 100, changed: 30 };
    for seed in 1..=60 {
        run(Lost::Nothing, conditions, seed);
    }
}
