//! Processors, subscriptions and T-wares that come and go under load: no memory is leaked, no packet is lost,
//! and every byte comes back.
//!
//! `HAWSER_ATTACH_TIMES` sets the number of times; `cargo xtask long attach` runs 10,000.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hawser_bus::ring::Ring;
use hawser_bus::{
    AuditAction, Bus, Hands, Rights, Schema, Signal, SourceId, Subscriber, Subscription, Tware,
};
use hawser_sockets::{Endpoint, Handle};

use crate::testbed::{
    DEVICE, Missed, TIMEOUT, TestResult, Testbed, linux_listener, linux_v4, pattern, poll_until, ready,
};

/// The default number of times, which takes a few seconds.
const TIMES: usize = 600;
/// The number of changes after which the text is a new one that has to be checked.
const FRESH: usize = 10;
/// The permitted growth of memory between the first and the second half of the changes, in bytes.
const SLACK: u64 = 4 << 20;
/// The maximum number of bytes in flight, which fits into every queue of both hosts.
const WINDOW: usize = 128 << 10;
/// The number of frames in a packet socket's ring, which has room for as many bytes in small segments.
const FRAMES: usize = 4096;
/// Long timeouts, so that only data reported missing is sent again.
const PARAMS: [(&str, u64); 3] = [
    ("MIN_RTO", 2_000_000_000),
    ("PROBES", 0),
    ("RCV_BUF", WINDOW as u64),
];

/// Returns an attachment that caps the window at this many bytes.
fn cap(bytes: u64) -> String {
    format!(
        "void cap(event_t ev, tcp_conn c) {{\n    if (c.cc.cwnd > {bytes}) c.cc.cwnd = {bytes};\n}}\n\
         attach cap after cc;\n"
    )
}

pub(crate) fn attaching_and_detaching_leaks_and_loses_no_bytes(stage: &Testbed) -> TestResult {
    let times = std::env::var("HAWSER_ATTACH_TIMES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(TIMES);
    let listener = linux_listener(linux_v4())?;
    let to = SocketAddr::new(linux_v4(), listener.local_addr()?.port());
    let linux = thread::spawn(move || -> std::io::Result<u64> {
        let (stream, _) = listener.accept()?;
        std::io::copy(&mut stream.try_clone()?, &mut &stream)
    });
    let (mut endpoint, missed) = match stage.endpoint_with_ring(FRAMES, &PARAMS)? {
        Some(with_ring) => with_ring,
        None => (stage.endpoint(&PARAMS)?, Missed::default()),
    };
    let bus = Bus::new();
    let source = endpoint.interact(&bus, None)?;
    let connection = endpoint.connect(to)?;
    poll_until(&mut endpoint, "the connection", |e| {
        Ok(e.connected(connection)?.then_some(()))
    })?;
    let before = losses(stage, &endpoint, connection)?;
    let window = Arc::new(AtomicU64::new(0));
    let changer = {
        let (bus, window) = (bus.clone(), window.clone());
        thread::spawn(move || change(&bus, source, &window, times))
    };
    let bytes = echo_until(&mut endpoint, connection, &window, || changer.is_finished())?;
    let memory = changer
        .join()
        .map_err(|panic| format!("the changes: {}", why(&*panic)))??;
    assert_eq!(losses(stage, &endpoint, connection)?, before, "no packet is lost");
    assert_eq!(linux.join().map_err(|_| "the peer panicked")??, bytes);
    assert!(bytes > 1_000_000, "there was a load: {bytes} bytes");
    assert!(endpoint.attached().is_empty() && bus.subscriptions().is_empty());
    drop(endpoint);
    // The counter is that of a packet socket's ring.
    assert_eq!(missed.load(Ordering::Acquire), 0, "no frame is missed");
    let (early, late) = memory.split_at(memory.len() / 2);
    let peak = |half: &[u64]| half.iter().copied().max().unwrap_or(0);
    println!(
        "{times} times, {bytes} bytes; memory {} KiB, then {} KiB",
        peak(early) >> 10,
        peak(late) >> 10
    );
    assert!(
        peak(late) <= peak(early) + SLACK,
        "{} bytes, then {}",
        peak(early),
        peak(late)
    );
    Ok(())
}

/// The library's own changes are logged with the others, including the attached text.
pub(crate) fn an_applications_attachment_is_logged(stage: &Testbed) -> TestResult {
    let mut endpoint = stage.endpoint(&[])?;
    let bus = Bus::new();
    endpoint.interact(&bus, None)?;
    for bytes in [20_000, 30_000] {
        endpoint.attach("mine", &cap(bytes))?;
    }
    assert!(endpoint.attach("mine", "wrong").is_err());
    assert_eq!(endpoint.attached()[0].text, cap(30_000), "it stays as it was");
    endpoint.detach("mine")?;
    assert!(endpoint.detach("mine").is_err());
    drop(endpoint);
    let log: Vec<_> = bus
        .audit()
        .0
        .into_iter()
        .map(|entry| (entry.who, entry.variable, entry.act))
        .collect();
    let acts = [
        AuditAction::attached(&cap(20_000)),
        AuditAction::attached(&cap(30_000)),
        AuditAction::Detached(String::new()),
    ];
    assert_eq!(
        log,
        acts.map(|act| ("application".to_owned(), "mine".to_owned(), act))
    );
    Ok(())
}

fn why(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}

/// Sends until the test is over, and compares the bytes that come back.
fn echo_until(
    endpoint: &mut Endpoint,
    connection: Handle,
    window: &AtomicU64,
    over: impl Fn() -> bool,
) -> TestResult<u64> {
    let (data, mut chunk) = (pattern(65_521), vec![0; 1 << 16]);
    let (mut sent, mut got, mut ended, mut moved) = (0, 0, false, Instant::now());
    loop {
        while endpoint.poll()? {}
        if !ended && over() {
            endpoint.shutdown(connection);
            ended = true;
        }
        while !ended && sent - got < WINDOW {
            match ready(endpoint.write(connection, &data[sent % data.len()..]))? {
                Some(n) => sent += n,
                None => break,
            }
        }
        while let Some(n) = ready(endpoint.read(connection, &mut chunk))? {
            if n == 0 {
                assert_eq!((sent, ended), (got, true), "everything came back");
                return Ok(sent as u64);
            }
            moved = Instant::now();
            for byte in &chunk[..n] {
                assert_eq!(*byte, data[got % data.len()], "byte {got}");
                got += 1;
            }
        }
        window.store(
            endpoint.observe(connection, "cc.cwnd").unwrap_or(0),
            Ordering::Relaxed,
        );
        if moved.elapsed() > TIMEOUT {
            return Err(format!("nothing moves: {got} bytes of {sent} came back").into());
        }
        if !endpoint.poll()? {
            endpoint.wait(Some(Duration::from_micros(200)))?;
        }
    }
}

/// Attaches and detaches `times` times, while T-wares and subscriptions come and go as well. Returns the
/// memory of the process after each change.
fn change(bus: &Bus, source: SourceId, window: &AtomicU64, times: usize) -> TestResult<Vec<u64>> {
    let subscriber = bus.join("changer", Rights::all(), 1)?;
    let count = Arc::new(AtomicU64::new(0));
    let (mut memory, mut there, mut fresh) = (Vec::new(), false, 0);
    for n in 0..times {
        if n % FRESH == 0 {
            // A new text takes effect as soon as it is attached.
            fresh = 30_000 + (n as u64) % 20_000;
            put(&subscriber, source, &cap(fresh))?;
            there = true;
            until("the window is capped", || {
                (1..=fresh).contains(&window.load(Ordering::Relaxed))
            })?;
        } else if there {
            subscriber.detach(source, "cap", "")?.wait(TIMEOUT)??;
            there = false;
        } else {
            put(&subscriber, source, &cap(fresh))?;
            there = true;
        }
        let counter = count.clone();
        let tware = bus.attach("counter", Rights::all(), 1, move || {
            Box::new(Counter(counter.clone()))
        })?;
        let (queue, mut signals) = Ring::new(16, None);
        let id = subscriber.subscribe(Subscription::new(["tcp.acked"]), &queue)?;
        if n % FRESH == 0 {
            let (before, mut words) = (count.load(Ordering::Relaxed), [0; hawser_bus::ring::SLOT - 1]);
            until("both are notified", || {
                signals.pop(&mut words) && count.load(Ordering::Relaxed) > before
            })?;
        }
        subscriber.unsubscribe(id)?;
        drop(tware);
        memory.push(resident()?);
    }
    if there {
        subscriber.detach(source, "cap", "")?.wait(TIMEOUT)??;
    }
    Ok(memory)
}

fn put(subscriber: &Subscriber, source: SourceId, text: &str) -> TestResult {
    subscriber.attach(source, "cap", text, &[])?.wait(TIMEOUT)??;
    Ok(())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> TestResult {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > TIMEOUT {
            return Err(format!("not within {TIMEOUT:?}: {what}").into());
        }
        thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Counts the signals that it receives, in the loop.
struct Counter(Arc<AtomicU64>);

impl Tware for Counter {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription::new(["tcp.acked"])]
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {}

    fn signal(&mut self, _: usize, _: &Signal<'_>, _: &mut Hands) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> TestResult<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// Returns the counters of lost packets: drops of the device and of our stack, and losses that either TCP
/// detected.
fn losses(stage: &Testbed, endpoint: &Endpoint, connection: Handle) -> TestResult<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    let work = [
        "frames_received",
        "frames_sent",
        "inputs",
        "chains",
        "timers",
        "coalesced",
        "signals",
    ];
    let is_loss = |name: &str| !work.contains(&name) && !name.starts_with("contexts_");
    let rows = endpoint.counters().rows().filter(|(name, _)| is_loss(name));
    all.extend(rows.map(|(name, count)| (name.to_owned(), count)));
    let again = endpoint.observe(connection, "retransmissions").unwrap_or(0);
    all.insert("retransmissions".to_owned(), again);
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    for line in devices.lines().filter(|line| line.contains(DEVICE)) {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .filter_map(|n| n.parse().ok())
            .collect();
        for (name, at) in [("device: received", 3), ("device: transmitted", 11)] {
            all.insert(
                name.to_owned(),
                *numbers.get(at).ok_or("a line that is too short")?,
            );
        }
    }
    assert!(all.contains_key("device: received"), "no device in\n{devices}");
    // Linux hands packets to a veth pair on the processor that it currently runs on, and each processor has
    // its own queue. So some packets overtake others, which Linux takes for a loss until it detects the
    // reordering (TCPSACKReorder, TCPDSACKUndo). With one processor, or with `rps_cpus` set to one, no packet
    // overtakes another.
    if !stage.is_tun() {
        return Ok(all);
    }
    let counts = std::fs::read_to_string("/proc/thread-self/net/netstat")?;
    let lines: Vec<&str> = counts
        .lines()
        .filter(|line| line.starts_with("TcpExt:"))
        .collect();
    let [names, values] = lines[..] else {
        return Err("Linux's counters have another form".into());
    };
    for (name, value) in names.split(' ').zip(values.split(' ')) {
        if [
            "TCPFastRetrans",
            "TCPSackRecovery",
            "TCPRenoRecovery",
            "TCPBacklogDrop",
        ]
        .contains(&name)
        {
            all.insert(format!("Linux: {name}"), value.parse()?);
        }
    }
    Ok(all)
}
