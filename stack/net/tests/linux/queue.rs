//! A slow device, and more to send than it takes: what a program ranks first leaves first.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use hawser_net::host::netns::{Netlink, Shape};
use hawser_net::messages::Call;
use hawser_net::{Endpoint, MessageOptions, Network};

use crate::asynchronous;
use crate::messages::serve;
use crate::stage::{KERNEL_END, Stage, TestResult, hawser_v4, pattern, poll_until};

/// Requests that Homa sends without a grant, as fast as the device takes them.
const LONG: usize = 60_000;
const LONG_CALLS: usize = 16;

const SECOND: u64 = 1_000_000_000;
/// A slow link is no sign that a peer is gone.
const PATIENT: [(&str, u64); 4] = [
    ("RESEND_AFTER", 5 * SECOND),
    ("ACK_AFTER", 5 * SECOND),
    ("TIMEOUT", 60 * SECOND),
    ("LINGER", 60 * SECOND),
];

/// A client behind a device of 10 Mbit/s with a queue of 4 MB, on which the long requests take 0.8 s, and a server that
/// runs until it is dropped.
struct SlowLink {
    client: Endpoint,
    near: SocketAddr,
    server: SocketAddr,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<Result<usize, String>>>,
}

impl SlowLink {
    /// Nothing on a TUN device, at whose other end no stack can be.
    fn new(stage: &Stage) -> TestResult<Option<SlowLink>> {
        let near = SocketAddr::new(IpAddr::from([10, 9, 0, 3]), 0);
        let Some(client) = stage.at_the_far_end("homa", &PATIENT, near.ip())? else {
            return Ok(None);
        };
        let shape = Shape {
            bytes_per_second: 1_250_000,
            burst: 1600,
            queue: 4 << 20,
        };
        Netlink::open()?.shape(KERNEL_END, shape)?;
        let server = stage.endpoint_of("homa", &PATIENT)?;
        let at = SocketAddr::new(hawser_v4(), 7000);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let serving = thread::spawn(move || serve(server, at, &stopped).map_err(|error| error.to_string()));
        Ok(Some(SlowLink {
            client,
            near,
            server: at,
            stop,
            serving: Some(serving),
        }))
    }

    fn served(mut self) -> TestResult<usize> {
        self.stop.store(true, Ordering::Release);
        match self.serving.take().map(JoinHandle::join) {
            Some(Ok(served)) => Ok(served?),
            _ => Err("the server panicked".into()),
        }
    }
}

/// The long requests are handed over first; in a queue of the kernel's they would all be ahead of the short one.
pub(crate) fn a_short_call_overtakes_what_waits_for_a_slow_device(stage: &Stage) -> TestResult {
    let Some(mut link) = SlowLink::new(stage)? else {
        return Ok(());
    };
    let (end, to) = (&mut link.client, link.server);
    let socket = end.bind(link.near, &MessageOptions::default())?;
    // Packets for a neighbour that is not yet known wait for it alone.
    let first = poll_until(end, "room", |end| Ok(end.call(socket, to, b"first")?))?;
    poll_until(end, "the first reply", |end| Ok(end.reply(first)?))?;
    let data = pattern(LONG);
    let begin = Instant::now();
    let mut made: Vec<Call> = Vec::new();
    for _ in 0..LONG_CALLS {
        made.push(poll_until(end, "room", |end| Ok(end.call(socket, to, &data)?))?);
    }
    while end.poll()? {}
    let waiting = Netlink::open()?.queue_counters(KERNEL_END)?.waiting_bytes;
    let short = poll_until(end, "room", |end| Ok(end.call(socket, to, b"short")?))?;
    let asked = Instant::now();
    let reply = poll_until(end, "the short reply", |end| Ok(end.reply(short)?))?;
    let short_took = asked.elapsed();
    assert_eq!(reply, b"shortshort");
    let mut before = 0;
    made.retain(|call| match end.reply(*call) {
        Ok(None) => true,
        _ => {
            before += 1;
            false
        }
    });
    for call in made {
        let reply = poll_until(end, "a long reply", |end| Ok(end.reply(call)?))?;
        assert!(reply == data.repeat(2));
    }
    println!(
        "{waiting} bytes in the kernel; the short call took {short_took:?}, all took {:?}; {before} came before it",
        begin.elapsed()
    );
    assert!(
        waiting < (LONG * LONG_CALLS) as u64 / 4,
        "{waiting} bytes of the long requests wait in the kernel"
    );
    assert!(
        before <= LONG_CALLS / 4,
        "{before} of the long calls were served before the short one"
    );
    assert_eq!(link.served()?, LONG_CALLS + 2);
    Ok(())
}

/// On tokio: the task that drives the stack is woken up when the device takes frames again. No packet of the server's
/// does that before a request is whole.
pub(crate) fn a_slow_device_is_kept_busy_on_tokio(stage: &Stage) -> TestResult {
    let Some(link) = SlowLink::new(stage)? else {
        return Ok(());
    };
    let data = pattern(LONG);
    let SlowLink {
        client,
        near,
        server,
        stop,
        serving,
    } = link;
    asynchronous::run(async {
        let network = Network::start(client)?;
        let socket = network.bind(near)?;
        let calls = (0..LONG_CALLS).map(|_| socket.call(server, &data));
        for call in calls.collect::<Vec<_>>() {
            assert!(call.await? == data.repeat(2));
        }
        Ok(())
    })?;
    stop.store(true, Ordering::Release);
    let served = serving.map(JoinHandle::join);
    assert!(matches!(served, Some(Ok(Ok(LONG_CALLS)))), "{served:?}");
    Ok(())
}
