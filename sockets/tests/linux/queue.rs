//! A slow device with more to send than it takes: packets that a program ranks first leave first.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hawser_sockets::host::netns::{Netlink, ShaperRate};
use hawser_sockets::messages::Call;
use hawser_sockets::{Endpoint, MessageOptions, Network};
use tokio::io::AsyncWriteExt;

use crate::asynchronous;
use crate::datagrams;
use crate::messages::serve;
use crate::testbed::{DEVICE, KERNEL_END, TestResult, Testbed, hawser_v4, linux_v4, pattern, poll_until};

/// The size of requests that Homa sends without a grant, as fast as the device takes them.
const LONG: usize = 60_000;
const LONG_CALLS: usize = 16;

const SECOND: u64 = 1_000_000_000;
/// Long timeouts, because a slow link is no sign that a peer is gone.
const PATIENT: [(&str, u64); 4] = [
    ("RESEND_AFTER", 5 * SECOND),
    ("ACK_AFTER", 5 * SECOND),
    ("TIMEOUT", 60 * SECOND),
    ("LINGER", 60 * SECOND),
];

/// 10 Mbit/s and a queue of 4 MB, on which the long requests take 0.8 s.
const SLOW: ShaperRate = ShaperRate { bytes_per_second: 1_250_000, burst: 1600, queue: 4 << 20 };

/// A client behind a slow device, and a server.
struct SlowLink {
    client: Endpoint,
    near: SocketAddr,
    server: SocketAddr,
    stop: Arc<AtomicBool>,
    serving: JoinHandle<Result<usize, String>>,
}

impl SlowLink {
    /// Creates the two ends; returns `None` on a TUN device, at whose other end a stack cannot be.
    fn new(stage: &Testbed) -> TestResult<Option<SlowLink>> {
        let near = SocketAddr::new(IpAddr::from([10, 9, 0, 3]), 0);
        let Some(client) = stage.at_the_far_end("homa", &PATIENT, near.ip())? else {
            return Ok(None);
        };
        Netlink::open()?.shape(KERNEL_END, SLOW)?;
        let server = stage.endpoint_of("homa", &PATIENT)?;
        let at = SocketAddr::new(hawser_v4(), 7000);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let serving = thread::spawn(move || serve(server, at, &stopped).map_err(|error| error.to_string()));
        Ok(Some(SlowLink { client, near, server: at, stop, serving }))
    }

    /// Stops the server and returns the number of calls that it has answered.
    fn served(self) -> TestResult<usize> {
        self.stop.store(true, Ordering::Release);
        Ok(self.serving.join().map_err(|_| "the server panicked")??)
    }
}

/// The long requests are sent first; in a queue of the kernel they would all be ahead of the short one.
pub(crate) fn a_short_call_overtakes_frames_waiting_for_a_slow_device(stage: &Testbed) -> TestResult {
    let Some(mut link) = SlowLink::new(stage)? else {
        return Ok(());
    };
    let (end, to) = (&mut link.client, link.server);
    let socket = end.bind(link.near, &MessageOptions::default())?;
    // Packets for an unresolved neighbour wait only for that neighbour.
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

/// On tokio, the task that drives the stack is woken when the device takes frames again. The peer sends only
/// one packet, which cannot wake it. The datagrams take 0.05 s; a driver that is not woken checks once a
/// second.
pub(crate) fn a_slow_device_is_kept_busy_on_tokio(stage: &Testbed) -> TestResult {
    const DATAGRAMS: u64 = 400;
    if stage.is_tun() {
        return Ok(());
    }
    let mut netlink = Netlink::open()?;
    let shape = ShaperRate { bytes_per_second: 12_500_000, ..SLOW };
    netlink.shape(DEVICE, shape)?;
    let at = SocketAddr::new(hawser_v4(), 4791);
    let endpoint = datagrams::endpoint(stage)?;
    asynchronous::run(async {
        let network = Network::start(endpoint)?;
        let listener = network.listen(at, 4)?;
        let linux = UdpSocket::bind(SocketAddr::new(linux_v4(), 0))?;
        linux.send_to(b"begin", at)?;
        let mut stream = listener.accept().await?;
        let begin = Instant::now();
        for _ in 0..DATAGRAMS {
            stream.write_all(&[7; 1400]).await?;
        }
        while netlink.queue_counters(DEVICE)?.sent < DATAGRAMS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        Ok(())
    })
}
