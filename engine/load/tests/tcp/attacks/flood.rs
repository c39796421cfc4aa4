//! SYN floods (RFC 4987), and peers that read no data.

use hawser_time::Instant;

use hawser_engine::{Handle, Notice};

use super::each;
use crate::testbed::{Testbed, spoofed};
use crate::bench::{Bench, MS, SECOND};
use crate::segment::Segment;

/// The virtual time until the connection has found the link's rate. Slow start overshoots it by a queue.
const WARM_UP: u32 = 1;

/// A connection in use, from stack `from` to stack `1 - from`.
#[derive(Clone, Copy)]
struct Flow {
    from: usize,
    sender: Handle,
    reader: Handle,
}

/// Returns the bytes that each flow moves in a second of virtual time, while `act` continues.
fn rates<const N: usize>(stage: &mut Testbed, flows: [Flow; N], mut act: impl FnMut(&mut Testbed)) -> [u64; N] {
    let mut read = [0; N];
    let data = [7; 65_536];
    let mut room = [0; 65_536];
    stage.run(SECOND, |stage| {
        act(stage);
        let now = stage.now;
        for (flow, read) in flows.iter().zip(&mut read) {
            while stage.stacks[flow.from].send(Instant::from_nanos(now), flow.sender, &data).expect("open") > 0 {}
            loop {
                match stage.stacks[1 - flow.from].recv(Instant::from_nanos(now), flow.reader, &mut room).expect("open") {
                    0 => break,
                    n => *read += n as u64,
                }
            }
        }
    });
    read
}

/// Like `rates`, over two seconds.
fn rates_of_two<const N: usize>(
    stage: &mut Testbed,
    flows: [Flow; N],
    mut act: impl FnMut(&mut Testbed),
) -> [u64; N] {
    let first = rates(stage, flows, &mut act);
    let second = rates(stage, flows, &mut act);
    std::array::from_fn(|i| first[i] + second[i])
}

fn established(stage: &mut Testbed) -> (Handle, Handle) {
    let client = stage.connect(80);
    stage.run(100 * MS, |_| {});
    (client, *stage.accepted().last().expect("accepted"))
}

/// Starts a flow to the host.
fn upload(stage: &mut Testbed) -> Flow {
    let (sender, reader) = established(stage);
    Flow { from: 1, sender, reader }
}

/// Starts a flow from the host, which delays the answers to a flood.
fn download(stage: &mut Testbed) -> Flow {
    let (reader, sender) = established(stage);
    Flow { from: 0, sender, reader }
}

/// Two thousand spoofed SYNs in a second, beside a link that is full in both directions. Established
/// connections keep 90 % of their rate, honest clients still connect, and the embryonic limit bounds the
/// memory.
#[test]
fn a_syn_flood_does_not_lock_out_clients() {
    let mut stage = Testbed::new(&["MIN_RTO=200ms"]);
    let listener = stage.listen(80);
    let flows = [upload(&mut stage), download(&mut stage)];
    for _ in 0..WARM_UP {
        let _ = rates(&mut stage, flows, |_| {});
    }
    let calm = rates_of_two(&mut stage, flows, |_| {});

    let (mut sent, began): (u64, u64) = (0, stage.now);
    let chains = stage.stacks[0].counters().chains;
    let mut flood = |stage: &mut Testbed| {
        while sent < (stage.now - began) * 2_000 / SECOND {
            let syn = Segment {
                source: 1024 + (sent % 60_000) as u16,
                destination: 80,
                seq: sent as u32,
                syn: true,
                window: 1000,
                mss: Some(1460),
                ..Segment::default()
            };
            stage.send(0, syn.packet_from(spoofed(sent)));
            sent += 1;
        }
    };
    let flooded = rates_of_two(&mut stage, flows, &mut flood);
    let kept: [f64; 2] = std::array::from_fn(|i| 100.0 * flooded[i] as f64 / calm[i] as f64);
    let late = stage.connect(80);
    let connected = |stage: &Testbed| stage.notices[1].contains(&(late, Notice::Connected));
    let start = stage.now;
    let mut took = None;
    stage.run(3 * SECOND, |stage| {
        flood(stage);
        if connected(stage) {
            took.get_or_insert(stage.now - start);
        }
    });
    let took = took.expect("an honest client gets in");
    let observe = |field| stage.stacks[0].observe(listener, field).expect("observable");
    let contexts = stage.stacks[0].contexts();
    let work = stage.stacks[0].counters().chains - chains;
    println!(
        "SYN flood: {sent} spoofed SYNs, {} cookies, {} embryonic; {:.1} % of the rate kept to the host, {:.1} % \
         from it ({calm:?} -> {flooded:?} bytes in two seconds); a new client connects in {} ms; {contexts} contexts, {work} chains",
        observe("cookies"),
        observe("embryonic"),
        kept[0],
        kept[1],
        took / MS,
    );
    assert!(sent > 8_000);
    assert!(kept.iter().all(|kept| *kept >= 90.0), "{calm:?} -> {flooded:?}");
    assert!(contexts <= 256 + 4, "{contexts}");
    assert!(took < 200 * MS, "{took}");
}

/// After a flood, each SYN has had one answer and `SYN_BACKLOG` embryonic connections exist. After
/// `SYN_TIMEOUT` all are gone.
#[test]
fn spoofed_syns_leave_no_state() {
    const SYNS: u16 = 20_000;
    let mut bench = Bench::new(&[]);
    let listener = bench.listen(80, 100);
    let (before, began) = (bench.stack.contexts(), std::time::Instant::now());
    for i in 0..SYNS {
        let seq = u32::from(i) * 7919;
        let syn = Segment { source: 1024 + i, destination: 80, seq, syn: true, window: 1000, ..Segment::default() };
        bench.inject(&syn);
    }
    let cost = each(began, u64::from(SYNS));
    let answers = bench.sent().len();
    let contexts = bench.stack.contexts() - before;
    bench.advance(200 * SECOND);
    let again = bench.sent().len();
    println!(
        "spoofed SYNs: {SYNS}, {cost}, {answers} answers, {again} sent again; {contexts} contexts, {} after SYN_TIMEOUT",
        bench.stack.contexts() - before,
    );
    assert_eq!(answers, usize::from(SYNS));
    assert_eq!(bench.observe(listener, "cookies"), u64::from(SYNS) - 256);
    assert!(contexts <= 256 + 1, "the embryonic ones, and the secret: {contexts}");
    assert!(again <= 256 * 8, "a second, then twice as long each time: {again}");
    assert!(bench.stack.contexts() - before <= 1 && bench.observe(listener, "embryonic") == 0);
}

/// A hundred receivers that never read hold only their send buffers. Other connections are not affected.
#[test]
fn slow_readers_hold_only_their_own_buffers() {
    const READERS: usize = 100;
    // All their windows take eight seconds to fill.
    let mut stage = Testbed::new(&["MIN_RTO=200ms", "RCV_BUF=200000"]);
    stage.listen(80);
    let flows = [upload(&mut stage)];
    for _ in 0..WARM_UP {
        let _ = rates(&mut stage, flows, |_| {});
    }
    let [calm] = rates_of_two(&mut stage, flows, |_| {});
    let readers: Vec<(Handle, Handle)> = (0..READERS).map(|_| established(&mut stage)).collect();
    let mut given = 0;
    let offer = |stage: &mut Testbed, given: &mut u64| {
        for (_, server) in &readers {
            loop {
                match stage.stacks[0].send(Instant::from_nanos(stage.now), *server, &[1; 65_536]).expect("open") {
                    0 => break,
                    n => *given += n as u64,
                }
            }
        }
    };
    // Runs until all windows are closed and all buffers full.
    stage.run(12 * SECOND, |stage| offer(stage, &mut given));
    let held = stage.stacks[0].held_bytes();
    let before = stage.stacks[0].counters().chains;
    let _ = rates(&mut stage, flows, |stage| offer(stage, &mut given)); // reads the backlog
    let [slow] = rates_of_two(&mut stage, flows, |stage| offer(stage, &mut given));
    let work = stage.stacks[0].counters().chains - before;
    let now_held = stage.stacks[0].held_bytes();
    println!(
        "slow readers: {READERS}; {} KiB held for each, the same two seconds later: {}; {:.1} % of the rate kept \
         ({calm} -> {slow} bytes in two seconds, {work} chains)",
        held.0 / 1024 / READERS as u64,
        held.0 == now_held.0,
        100.0 * slow as f64 / calm as f64,
    );
    // Blocked receivers are probed ever more rarely. The other connections soon fill their buffers.
    stage.run(2 * SECOND, |_| {});
    let before = stage.stacks[0].counters().chains;
    stage.run(10 * SECOND, |_| {});
    let idle = stage.stacks[0].counters().chains - before;
    println!("slow readers: {idle} chains in ten seconds for {READERS} that are stuck");
    assert!(idle <= 4 * READERS as u64, "{idle}");
    assert_eq!(held.0, now_held.0);
    assert!(held.0 <= READERS as u64 * (4 << 20), "{held:?}");
    assert!(slow * 10 >= calm * 9, "{calm} -> {slow}");
}
