//! Messages and calls between two endpoints on a cable in memory, over programs that carry them and over
//! programs that offer only streams.

#[path = "common/end.rs"]
mod end;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::{Handle, StackConfig};
use hawser_sockets::messages::{Call, Incoming, Socket};
use hawser_sockets::{Endpoint, MessageError, MessageOptions, MessageSocket, Network};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

const STOP_AND_WAIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/stop-and-wait.mtp");

/// One program that carries calls, and three that offer streams.
const PROGRAMS: [&str; 4] = ["homa", "tcp", "selective-repeat", STOP_AND_WAIT];
const OF_STREAMS: [&str; 3] = ["tcp", "selective-repeat", STOP_AND_WAIT];

fn address(end: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, end + 1)), port)
}

/// Both endpoints, with a socket each; 0 is the client, 1 the server.
struct Pair {
    clock: Arc<AtomicU64>,
    ends: [Endpoint; 2],
    sockets: [Socket; 2],
}

impl Pair {
    fn new(program: &str, options: &[MessageOptions; 2]) -> Pair {
        let clock = Arc::new(AtomicU64::new(SECOND));
        let mut ends = endpoints(program, &clock);
        let ports = [0, 7000];
        let sockets = [0, 1].map(|end| {
            let local = address(end as u8, ports[end]);
            ends[end]
                .bind(local, &options[end])
                .unwrap_or_else(|error| panic!("{program}: {error}"))
        });
        Pair { clock, ends, sockets }
    }

    fn with_defaults(program: &str) -> Pair {
        Pair::new(program, &[MessageOptions::default(), MessageOptions::default()])
    }

    fn settle(&mut self) {
        for _ in 0..1_000_000 {
            let busy = self
                .ends
                .each_mut()
                .map(|end| end.poll().expect("a cable does not fail"));
            if busy == [false; 2] {
                return;
            }
        }
        panic!("no rest");
    }

    fn advance(&mut self, time: u64) {
        self.settle();
        let until = self.clock.load(Ordering::Relaxed) + time;
        while let Some(at) = self.ends.iter().filter_map(Endpoint::next_deadline).min()
            && at.as_nanos() <= until
        {
            self.clock.fetch_max(at.as_nanos(), Ordering::Relaxed);
            self.settle();
        }
        self.clock.fetch_max(until, Ordering::Relaxed);
    }

    fn try_call(&mut self, message: &[u8]) -> Result<Option<Call>, MessageError> {
        self.ends[0].call(self.sockets[0], address(1, 7000), message)
    }

    fn call(&mut self, message: &[u8]) -> Call {
        self.try_call(message).expect("no error").expect("there is room")
    }

    fn reply(&mut self, call: Call) -> Result<Option<Vec<u8>>, MessageError> {
        self.ends[0].reply(call)
    }

    fn request(&mut self) -> Option<Incoming> {
        self.ends[1]
            .next_request(self.sockets[1])
            .expect("the socket is well")
    }

    /// Returns requests as they arrive, while time passes as the transport needs it.
    fn requests(&mut self, count: usize) -> Vec<Incoming> {
        let mut all = Vec::new();
        for _ in 0..1000 {
            self.advance(MS);
            while let Some(request) = self.request() {
                all.push(request);
            }
            if all.len() >= count {
                return all;
            }
        }
        panic!(
            "{} requests of {count} came: {:?}",
            all.len(),
            self.ends.each_ref().map(Endpoint::counters)
        );
    }

    /// Waits for the outcome of a call.
    fn wait(&mut self, call: Call) -> Result<Vec<u8>, MessageError> {
        for _ in 0..1000 {
            self.settle();
            if let Some(reply) = self.reply(call)? {
                return Ok(reply);
            }
            self.advance(MS);
        }
        panic!("no outcome: {:?}", self.ends.each_ref().map(Endpoint::counters));
    }
}

fn endpoints(program: &str, clock: &Arc<AtomicU64>) -> [Endpoint; 2] {
    let mut devices = end::cable(clock, &Default::default()).map(Some);
    [0u8, 1].map(|end| {
        let interface = InterfaceConfig {
            addresses: vec![(address(end, 0).ip(), 24)],
            gateways: vec![],
            mtu: 1500,
        };
        let program = hawser_load::programs::resolve(program, &[]).expect("a program");
        let device = devices[usize::from(end)].take().expect("one for each");
        let config = StackConfig::new(interface, u64::from(end));
        Endpoint::new(program, config, Box::new(device)).expect("an endpoint")
    })
}

/// Returns the n-th message, of `len` bytes.
fn message(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i >> 5) ^ i ^ (n * 37)) as u8).collect()
}

fn errno<T: std::fmt::Debug>(result: Result<T, MessageError>) -> (u32, String) {
    let error = result.expect_err("an error");
    (error.errno().0, error.to_string())
}

const SIZES: [usize; 9] = [1, 2, 100, 1_400, 5_000, 60_000, 60_001, 300_000, 1_000_000];

#[test]
fn calls_of_all_sizes_are_answered_over_every_program() {
    for program in PROGRAMS {
        let mut pair = Pair::with_defaults(program);
        let calls: Vec<Call> = SIZES
            .iter()
            .enumerate()
            .map(|(n, len)| pair.call(&message(n, *len)))
            .collect();
        let mut requests = pair.requests(SIZES.len());
        assert_eq!(requests.len(), SIZES.len(), "{program}");
        // The last request is answered first; each reply identifies its request and has another's size.
        requests.sort_by_key(|request| std::cmp::Reverse(request.message.len()));
        for request in &requests {
            let n = SIZES
                .iter()
                .position(|len| *len == request.message.len())
                .expect("whole");
            assert!(
                request.message == message(n, SIZES[n]) && request.wants_reply,
                "{program}: {n}"
            );
            assert_eq!(request.peer.ip(), address(0, 0).ip());
            let reply = message(n + 100, SIZES[SIZES.len() - 1 - n]);
            pair.ends[1].answer(request.id, &reply).expect("it is taken");
        }
        for (n, call) in calls.into_iter().enumerate() {
            let reply = pair
                .wait(call)
                .unwrap_or_else(|error| panic!("{program}: {error}"));
            assert!(
                reply == message(n + 100, SIZES[SIZES.len() - 1 - n]),
                "{program}: {n}"
            );
        }
        assert!(pair.request().is_none(), "{program}: each comes once");
        pair.advance(SECOND);
        let held = pair.ends.each_ref().map(Endpoint::held_bytes);
        assert_eq!(held, [(0, 0); 2], "{program}");
    }
}

#[test]
fn one_way_messages_arrive_once_and_need_a_stream_program() {
    for program in OF_STREAMS {
        let mut pair = Pair::with_defaults(program);
        let send = pair.ends[0].send(pair.sockets[0], address(1, 7000), b"news");
        let send = send.expect("no error").expect("there is room");
        let requests = pair.requests(1);
        let [request] = &requests[..] else {
            panic!("{program}: {requests:?}");
        };
        assert!(!request.wants_reply && request.message == b"news", "{program}");
        assert_eq!(pair.wait(send).expect("the peer has it"), b"");
        assert!(pair.request().is_none());
    }
    let mut pair = Pair::with_defaults("homa");
    let send = pair.ends[0].send(pair.sockets[0], address(1, 7000), b"news");
    let expected = "the program does not offer the request `message`";
    assert_eq!(errno(send), (95, expected.to_owned()));
}

#[test]
fn a_program_without_messages_and_streams_cannot_be_bound_to() {
    let clock = Arc::new(AtomicU64::new(SECOND));
    let text = "event e : APP_EVENT { }\ncontext c { uint8 x; }\nvoid f(e ev, no_ctx n) { c made = new_ctx{x: 1}; }\n\
                e on_listen(op_t op) { e ev; flow_id id(op.local_port); set_flow_id(ev, id); return ev; }\n\
                dispatch d { e -> {f}; }\n\
                deploy { register_ep_chains(d); register_ev_parser(on_listen, listen); }\n";
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let file = folder.join("only-listens.mtp");
    std::fs::write(&file, text).expect("a file");
    let [mut end, _] = endpoints(file.to_str().expect("a name"), &clock);
    let (errno, text) = errno(end.bind(address(0, 80), &MessageOptions::default()));
    assert_eq!(errno, 95);
    assert!(text.contains("neither messages nor streams"), "{text}");
}

#[test]
fn messages_of_invalid_size_are_refused_locally() {
    for program in PROGRAMS {
        let mut pair = Pair::with_defaults(program);
        let expected = "the message has 1000001 bytes; the limit is 1000000";
        let refused = pair.try_call(&vec![0; 1_000_001]);
        assert_eq!(errno(refused), (90, expected.to_owned()), "{program}");
        assert_eq!(errno(pair.try_call(b"")).0, 22, "{program}");
        let call = pair.call(b"x");
        let request = pair.requests(1).remove(0);
        assert_eq!(
            errno(pair.ends[1].answer(request.id, &vec![0; 1_000_001])).0,
            90,
            "{program}"
        );
        pair.ends[1].answer(request.id, b"shorter").expect("it is taken");
        assert_eq!(errno(pair.ends[1].answer(request.id, b"again")).0, 9, "{program}");
        assert_eq!(pair.wait(call).expect("a reply"), b"shorter");
    }
}

/// The program's own limit determines the error.
#[test]
fn a_message_beyond_the_programs_limit_is_refused() {
    let long = MessageOptions { size: 4_000_000, ..MessageOptions::default() };
    let mut pair = Pair::new("homa", &[long.clone(), long]);
    let (errno, text) = errno(pair.try_call(&vec![1; 1_000_001]));
    assert_eq!(
        (errno, &*text),
        (90, "the message of 1000001 bytes is too long for the program")
    );
}

#[test]
fn a_refused_large_call_is_followed_by_a_new_connection() {
    let small = MessageOptions { size: 1_000, ..MessageOptions::default() };
    for program in OF_STREAMS {
        let mut pair = Pair::new(program, &[MessageOptions::default(), small.clone()]);
        let call = pair.call(&[7; 100_000]);
        let (number, text) = errno(pair.wait(call));
        assert_eq!(number, 90, "{program}: {text}");
        assert!(text.starts_with("10.0.0.2:7000 refused: "), "{program}: {text}");
        pair.advance(120 * SECOND);
        let contexts = pair.ends[1].contexts();
        assert_eq!(
            contexts, 1,
            "{program}: the listener alone, the connection has ended"
        );
        let call = pair.call(b"short");
        let request = pair.requests(1).remove(0);
        pair.ends[1].answer(request.id, b"good").expect("it is taken");
        assert_eq!(pair.wait(call).expect("a reply"), b"good");
        // The reverse case: a reply that is too long for its caller.
        pair.sockets.reverse();
        pair.ends.reverse();
        let call = pair.ends[0].call(pair.sockets[0], request.peer, b"question");
        let call = call.expect("no error").expect("there is room");
        let request = pair.requests(1).remove(0);
        pair.ends[1].answer(request.id, &[1; 2_000]).expect("it is taken");
        let expected = "the message has 2000 bytes; the limit is 1000";
        assert_eq!(errno(pair.wait(call)), (90, expected.to_owned()), "{program}");
    }
}

#[test]
fn a_deadline_ends_a_call_and_drops_its_late_reply() {
    for program in PROGRAMS {
        let mut pair = Pair::with_defaults(program);
        // Stop-and-wait accepts its first packet only the second time that it comes, after 100 ms.
        let deadline = Some(Duration::from_millis(300));
        let peer = address(1, 7000);
        let call = pair.ends[0].call_with(pair.sockets[0], peer, b"slow", deadline);
        let call = call.expect("no error").expect("there is room");
        let begun = pair.clock.load(Ordering::Relaxed);
        let request = pair.requests(1).remove(0);
        let expected = (110, "the deadline has passed without a reply".to_owned());
        assert_eq!(errno(pair.wait(call)), expected, "{program}");
        let took = pair.clock.load(Ordering::Relaxed) - begun;
        assert!((300 * MS..=301 * MS).contains(&took), "{program}: {took}");
        pair.ends[1]
            .answer(request.id, b"late")
            .expect("nobody learns that it is late");
        let call = pair.call(b"next");
        let request = pair.requests(1).remove(0);
        assert_eq!(request.message, b"next", "{program}: once");
        pair.ends[1].answer(request.id, b"in time").expect("it is taken");
        assert_eq!(pair.wait(call).expect("a reply"), b"in time", "{program}");
    }
}

#[test]
fn a_canceled_call_ends_and_is_withdrawn_if_unserved() {
    for program in PROGRAMS {
        let mut pair = Pair::with_defaults(program);
        let (first, second) = (pair.call(b"first"), pair.call(b"second"));
        pair.ends[0].cancel(first);
        let expected = (125, "the call was canceled".to_owned());
        assert_eq!(errno(pair.reply(first)), expected, "{program}");
        assert_eq!(
            errno(pair.reply(first)).0,
            9,
            "{program}: an outcome is taken once"
        );
        let third = pair.call(b"third");
        pair.advance(10 * MS);
        pair.ends[0].cancel(third);
        let requests = pair.requests(1);
        let second_of = requests.iter().find(|request| request.message == b"second");
        let id = second_of.expect("it is under way").id;
        if program != "homa" {
            assert_eq!(requests.len(), 1, "{program}: {requests:?}");
        }
        pair.ends[1].answer(id, b"good").expect("it is taken");
        assert_eq!(pair.wait(second).expect("a reply"), b"good", "{program}");
    }
}

#[test]
fn bounded_calls_and_requests_are_all_answered() {
    let client = MessageOptions { calls: 20, ..MessageOptions::default() };
    let server = MessageOptions { requests: 4, ..MessageOptions::default() };
    for program in OF_STREAMS {
        let mut pair = Pair::new(program, &[client.clone(), server.clone()]);
        let mut calls: Vec<Call> = (0..20).map(|n| pair.call(&message(n, 2_000))).collect();
        assert_eq!(pair.try_call(b"x").expect("no error"), None, "{program}");
        let mut answered = 0;
        while answered < 20 {
            let requests = pair.requests(4);
            assert_eq!(requests.len(), 4, "{program}");
            for request in requests {
                pair.ends[1].answer(request.id, b"yes").expect("it is taken");
                answered += 1;
            }
        }
        let first = calls.remove(0);
        assert_eq!(pair.wait(first).expect("a reply"), b"yes", "{program}");
        assert!(pair.try_call(b"x").expect("no error").is_some(), "{program}");
        for call in calls {
            assert_eq!(pair.wait(call).expect("a reply"), b"yes", "{program}");
        }
    }
}

/// A request beyond the limit is aborted unread, and comes again.
#[test]
fn requests_beyond_the_limit_of_a_program_of_calls_come_again() {
    let server = MessageOptions { requests: 4, ..MessageOptions::default() };
    let mut pair = Pair::new("homa", &[MessageOptions::default(), server]);
    let calls: Vec<Call> = (0..8).map(|n| pair.call(&message(n, 2_000))).collect();
    let mut seen = Vec::new();
    for _ in 0..2 {
        pair.settle();
        let mut requests = Vec::new();
        while let Some(request) = pair.request() {
            requests.push(request);
        }
        assert_eq!(requests.len(), 4);
        for request in requests {
            pair.ends[1].answer(request.id, b"yes").expect("it is taken");
            seen.push(request.message);
        }
        pair.advance(10 * MS);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 8, "each once");
    for call in calls {
        assert_eq!(pair.wait(call).expect("a reply"), b"yes");
    }
}

#[test]
fn a_broken_connection_fails_its_calls_and_is_replaced() {
    for program in ["tcp", "selective-repeat"] {
        let mut pair = Pair::with_defaults(program);
        let calls = [pair.call(b"one"), pair.call(b"two")];
        pair.requests(2);
        let server = pair.sockets[1];
        pair.ends[1].unbind(server);
        for call in calls {
            let (number, text) = errno(pair.wait(call));
            assert!([104, 125].contains(&number), "{program}: {text}");
        }
        pair.advance(SECOND);
        let call = pair.call(b"nobody");
        let (number, text) = errno(pair.wait(call));
        assert!(
            text.starts_with("the connection to 10.0.0.2:7000 has ended: "),
            "{text}"
        );
        assert!([104, 110, 111].contains(&number), "{program}: {text}");
        let bound = pair.ends[1].bind(address(1, 7000), &MessageOptions::default());
        pair.sockets[1] = bound.expect("it is free");
        let call = pair.call(b"again");
        let request = pair.requests(1).remove(0);
        assert_eq!(request.message, b"again");
        pair.ends[1].answer(request.id, b"here").expect("it is taken");
        assert_eq!(pair.wait(call).expect("a reply"), b"here", "{program}");
    }
}

/// Returns a stream to the server's socket, for raw bytes.
fn stream(pair: &mut Pair) -> Handle {
    let handle = pair.ends[0].connect(address(1, 7000)).expect("a connection");
    pair.settle();
    handle
}

fn write(pair: &mut Pair, handle: Handle, bytes: &[u8]) {
    assert_eq!(
        pair.ends[0].write(handle, bytes).expect("there is room"),
        bytes.len()
    );
    pair.advance(MS);
}

/// Returns the received bytes, and true if the connection has ended.
fn read(pair: &mut Pair, handle: Handle) -> (Vec<u8>, bool) {
    let (mut all, mut buffer) = (Vec::new(), [0; 1000]);
    loop {
        match pair.ends[0].read(handle, &mut buffer) {
            Ok(0) => return (all, true),
            Ok(len) => all.extend_from_slice(&buffer[..len]),
            Err(error) => return (all, error.kind() != std::io::ErrorKind::WouldBlock),
        }
    }
}

/// Returns a handwritten frame, after docs/messages.md.
fn frame(kind: u8, number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend([kind, 0, 0, 0, 0, 0, 0, number]);
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn frames_on_the_wire_match_the_documentation() {
    let mut pair = Pair::with_defaults("tcp");
    let raw = stream(&mut pair);
    let both = [frame(1, 7, b"hello"), frame(3, 9, b"news")].concat();
    // The frames are sent in two pieces, cut within the second header.
    write(&mut pair, raw, &both[..20]);
    write(&mut pair, raw, &both[20..]);
    let requests = pair.requests(2);
    let wants = |n: usize| (requests[n].message.clone(), requests[n].wants_reply);
    assert_eq!(wants(0), (b"hello".to_vec(), true));
    assert_eq!(wants(1), (b"news".to_vec(), false));
    pair.ends[1].answer(requests[0].id, b"hi").expect("it is taken");
    pair.advance(MS);
    let (bytes, is_over) = read(&mut pair, raw);
    assert_eq!(bytes, [frame(4, 9, b""), frame(2, 7, b"hi")].concat());
    assert!(!is_over);
}

#[test]
fn a_malformed_frame_ends_only_its_connection() {
    let wrong: [Vec<u8>; 4] = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        frame(9, 1, b""),
        frame(5, 1, b"a cancel has no body"),
        [frame(1, 7, b"one"), frame(1, 7, b"the same number")].concat(),
    ];
    for bytes in wrong {
        let mut pair = Pair::with_defaults("tcp");
        let raw = stream(&mut pair);
        let call = pair.call(b"well");
        write(&mut pair, raw, &bytes);
        pair.advance(MS);
        assert!(read(&mut pair, raw).1, "{bytes:?}");
        let requests = pair.requests(1);
        let request = requests.iter().find(|request| request.message == b"well");
        pair.ends[1]
            .answer(request.expect("it came").id, b"good")
            .expect("it is taken");
        assert_eq!(pair.wait(call).expect("a reply"), b"good");
    }
}

#[test]
fn a_length_beyond_the_limit_allocates_no_memory() {
    let mut pair = Pair::with_defaults("tcp");
    let raw = stream(&mut pair);
    write(
        &mut pair,
        raw,
        &[255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3],
    );
    let (bytes, is_over) = read(&mut pair, raw);
    assert_eq!(bytes, frame(6, 3, &90u32.to_be_bytes()), "refused: EMSGSIZE");
    assert!(is_over);
    pair.ends[0].close(raw);
    pair.advance(120 * SECOND);
    assert_eq!(pair.ends[1].contexts(), 1, "the listener");
}

#[test]
fn a_peer_stalled_within_a_message_is_reset() {
    let options = MessageOptions { idle: Duration::from_secs(10), ..MessageOptions::default() };
    let mut pair = Pair::new("tcp", &[options.clone(), options]);
    let (within, idle) = (stream(&mut pair), stream(&mut pair));
    write(&mut pair, within, &frame(1, 7, b"hello")[..14]);
    pair.advance(9 * SECOND);
    assert_eq!([within, idle].map(|handle| read(&mut pair, handle).1), [false; 2]);
    pair.advance(2 * SECOND);
    assert_eq!(
        [within, idle].map(|handle| read(&mut pair, handle).1),
        [true, false]
    );
    pair.advance(10 * SECOND);
    assert!(read(&mut pair, idle).1, "twice the time, as the peer opened it");
}

#[test]
fn a_peer_that_does_not_read_its_replies_is_not_read_from() {
    let mut pair = Pair::with_defaults("tcp");
    let raw = stream(&mut pair);
    let (mut sent, mut served) = (0u32, 0);
    // Each call asks for 100 kB.
    for _ in 0..3_000 {
        let ask = frame(1, 0, b"more");
        let mut ask = ask.clone();
        ask[8..12].copy_from_slice(&sent.to_be_bytes());
        if pair.ends[0].write(raw, &ask).is_ok_and(|len| len == ask.len()) {
            sent += 1;
        }
        pair.advance(MS / 10);
        while let Some(request) = pair.request() {
            pair.ends[1]
                .answer(request.id, &[7; 100_000])
                .expect("it is taken");
            served += 1;
        }
    }
    // The stack holds up to 4 MiB of replies, the peer's window 8 MiB, and a megabyte of frames waits.
    assert!(
        sent > 1_000 && served < 140,
        "{served} of {sent} requests were taken"
    );
    // Other callers are served meanwhile.
    let call = pair.call(b"well");
    let request = pair.requests(1).remove(0);
    pair.ends[1].answer(request.id, b"good").expect("it is taken");
    assert_eq!(pair.wait(call).expect("a reply"), b"good");
}

#[test]
fn connections_are_bounded_and_an_idle_one_makes_room() {
    let options = MessageOptions { connections: 3, ..MessageOptions::default() };
    let mut pair = Pair::new("tcp", &[MessageOptions::default(), options]);
    let busy: Vec<Handle> = (0..2)
        .map(|_| {
            let raw = stream(&mut pair);
            write(&mut pair, raw, &frame(1, 1, b"stay"));
            raw
        })
        .collect();
    assert_eq!(pair.requests(2).len(), 2);
    let idle = stream(&mut pair);
    let last = stream(&mut pair);
    pair.advance(MS);
    assert!(read(&mut pair, idle).1);
    write(&mut pair, last, &frame(1, 1, b"stay"));
    assert_eq!(pair.requests(1).len(), 1);
    let refused = stream(&mut pair);
    pair.advance(MS);
    assert!(read(&mut pair, refused).1, "something is under way on all three");
    assert!(busy.into_iter().all(|handle| !read(&mut pair, handle).1));
}

#[test]
fn a_dropped_request_is_answered_by_an_error_or_silence() {
    let mut pair = Pair::with_defaults("tcp");
    let call = pair.call(b"please");
    let request = pair.requests(1).remove(0);
    pair.ends[1].drop_request(request.id);
    let (number, text) = errno(pair.wait(call));
    assert_eq!(number, 125, "{text}");
    let mut pair = Pair::with_defaults("homa");
    let deadline = Some(Duration::from_millis(200));
    let call = pair.ends[0].call_with(pair.sockets[0], address(1, 7000), b"please", deadline);
    let call = call.expect("no error").expect("there is room");
    let request = pair.requests(1).remove(0);
    pair.ends[1].drop_request(request.id);
    assert_eq!(errno(pair.wait(call)).0, 110);
    assert!(pair.request().is_none(), "it does not come a second time");
    pair.advance(120 * SECOND);
    assert_eq!(pair.ends[1].contexts(), 1, "the endpoint alone");
}

#[test]
fn a_served_socket_answers_all_that_came() {
    let mut pair = Pair::with_defaults("homa");
    let calls: Vec<Call> = (0..3u8).map(|n| pair.call(&[n])).collect();
    pair.settle();
    let served = pair.ends[1].serve(pair.sockets[1], |request| vec![request.message[0] + 10]);
    assert_eq!(served.expect("the socket is well"), 3);
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(pair.wait(call).expect("a reply"), [n as u8 + 10]);
    }
}

// ---- On tokio

/// Returns a socket on each of two networks. The networks have to be kept, because a cable without its other
/// end is not quiet.
async fn sockets(program: &str, options: &MessageOptions) -> ([MessageSocket; 2], [Network; 2]) {
    let clock = Arc::new(AtomicU64::new(SECOND));
    let running = clock.clone();
    tokio::spawn(async move {
        while Arc::strong_count(&running) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            running.fetch_add(MS, Ordering::Relaxed);
        }
    });
    let networks = endpoints(program, &clock).map(|end| Network::start(end).expect("a network"));
    let [client, server] = &networks;
    let sockets = [
        client.bind_with(address(0, 0), options).expect("free"),
        server.bind_with(address(1, 7000), options).expect("free"),
    ];
    (sockets, networks)
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future)
        .await
        .unwrap_or_else(|_| panic!("{what}: in time"))
}

#[tokio::test]
async fn tasks_call_at_once_and_each_gets_its_reply() {
    // Fewer calls at a time than tasks are allowed: the others wait for room.
    let options = MessageOptions { calls: 7, ..MessageOptions::default() };
    for program in PROGRAMS {
        let ([client, server], _networks) = sockets(program, &options).await;
        assert_eq!(server.local(), Some(address(1, 7000)));
        let serving = tokio::spawn(async move {
            let answer = |request: Arc<hawser_sockets::Request>| async move {
                tokio::time::sleep(Duration::from_millis(u64::from(request.message()[0]) % 5)).await;
                request.message().repeat(2)
            };
            server.serve(answer).await
        });
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..30u8 {
            let client = client.clone();
            tasks.spawn(async move {
                let message = vec![n; 1 + usize::from(n) * 1000];
                let reply = client.call(address(1, 7000), &message).await;
                let reply = reply.unwrap_or_else(|error| panic!("{program}: {error}"));
                assert!(reply == message.repeat(2), "{n}");
            });
        }
        soon(program, async {
            while let Some(task) = tasks.join_next().await {
                task.expect("no panic");
            }
        })
        .await;
        serving.abort();
    }
}

#[tokio::test]
async fn a_dropped_or_canceled_call_frees_its_slot() {
    let options = MessageOptions { calls: 1, ..MessageOptions::default() };
    for program in ["homa", "tcp"] {
        let ([client, server], _networks) = sockets(program, &options).await;
        let peer = address(1, 7000);
        let dropped = tokio::time::timeout(Duration::from_millis(20), client.call(peer, b"first")).await;
        assert!(dropped.is_err(), "{program}: nobody has answered");
        let (calling, request) = (client.call(peer, b"second"), server.accept());
        let canceler = calling.canceler();
        let cancel = async {
            let request = soon(program, request).await.expect("the socket is well");
            canceler.cancel();
            request
        };
        let (outcome, _request) = tokio::join!(soon(program, calling), cancel);
        assert_eq!(errno(outcome).0, 125, "{program}");
        let serving = tokio::spawn(async move { server.serve(|_| async { b"good".to_vec() }).await });
        let third = soon(program, client.call(peer, b"third")).await;
        assert_eq!(third.expect("a reply"), b"good", "{program}");
        serving.abort();
    }
}

#[tokio::test]
async fn errors_keep_their_text_for_awaiting_tasks() {
    let ([client, _server], _networks) = sockets("homa", &MessageOptions::default()).await;
    let peer = address(1, 7000);
    assert_eq!(errno(client.call(peer, b"").await).0, 22);
    let (number, text) = errno(client.send(peer, b"news").await);
    assert_eq!(
        (number, &*text),
        (95, "the program does not offer the request `message`")
    );
    let error = std::io::Error::from(
        client
            .call(peer, &vec![0; 1_000_001])
            .await
            .expect_err("too long"),
    );
    assert_eq!(
        error.to_string(),
        "the message has 1000001 bytes; the limit is 1000000"
    );
    // The server accepts no request.
    let (number, text) = errno(
        client
            .call_with(peer, b"x", Some(Duration::from_millis(20)))
            .await,
    );
    assert_eq!((number, &*text), (110, "the deadline has passed without a reply"));
}
