//! Chains in the kernel, in front of a stack that sleeps.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hawser_engine::StackConfig;
use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_sockets::host::{self, DeviceSpec, StackSetup, XdpOptions, XdpWire};
use hawser_sockets::{Endpoint, Handle};

use crate::swarm::far_v4;
use crate::testbed::{self, DEVICE, TIMEOUT, TestResult, Testbed, Watched, hawser_v4, poll_until, ready};

/// The number of bytes of a stream.
const STREAM: usize = 300_000;
/// The number of bytes of a write.
const PIECE: usize = 1000;
/// The maximum sleep of an end without data to send.
const IDLE: Duration = Duration::from_millis(20);

/// Chains in the kernel have only one stack behind them.
pub(crate) fn shards_are_refused(stage: &Testbed) -> TestResult {
    let program = hawser_load::programs::resolve("tcp", &[])?;
    let setup = StackSetup {
        device: DeviceSpec::XdpChains(DEVICE.to_owned()),
        ..stage.setup().clone()
    };
    let refused = host::open_shards(&program, &setup, 3).err();
    let text = refused.map_or_else(String::new, |error| error.to_string());
    assert!(
        text.contains("one stack") && text.contains("xdp:hawser0"),
        "{text}"
    );
    Ok(())
}

/// The packets of the stream come one by one: nearly all are acknowledged before the stack is awake.
pub(crate) fn acknowledgements_leave_from_the_kernel(stage: &Testbed) -> TestResult {
    let counts = exchange(stage, [STREAM, 0], |_| Duration::from_millis(1))?;
    assert!(
        counts[1] > STREAM as u64 / 1000 / 2,
        "of {counts:?} frames few were answered in the kernel"
    );
    Ok(())
}

/// Both ends of the streams pause at random, so that frames arrive while the stack falls asleep, sleeps,
/// wakes up and is awake.
pub(crate) fn streams_are_whole_for_any_sleep_of_the_stack(stage: &Testbed) -> TestResult {
    let counts = exchange(stage, [3 * STREAM, 2 * STREAM], |random| match random % 16 {
        0 => Duration::from_millis(1),
        1..4 => Duration::from_micros(random >> 32 & 0xff),
        _ => Duration::ZERO,
    })?;
    assert!(
        counts[0] > 50,
        "of {counts:?} frames few were handled in the kernel"
    );
    Ok(())
}

/// A stream of QUIC-Lite in each direction, in datagrams to a port that an application holds, on a connection
/// with several streams.
pub(crate) fn streams_in_datagrams_are_whole(stage: &Testbed) -> TestResult {
    let handled = Handled::default();
    let mut near = endpoint(hawser_load::programs::resolve("quic-lite", &[])?, 7, &handled)?;
    let there = SocketAddr::new(hawser_v4(), 80);
    let listener = near.listen(there, 1)?;
    let far = stage.at_the_far_end("quic-lite", &[], far_v4())?;
    let mut far = far.ok_or("there is a far end")?;
    let (pause, lens) = (|| Duration::from_micros(200), [STREAM, STREAM / 2]);
    let client = std::thread::spawn(move || -> TestResult {
        let connection = far.connect(there)?;
        let stream = poll_until(&mut far, "a stream", |e| ready(e.byte_stream(connection)))?;
        talk(&mut far, &mut [Talk::new(stream, [1, 2], lens)], TIMEOUT, pause)
    });
    let stream = poll_until(&mut near, "its stream", |e| ready(e.accept_stream(listener)))?;
    let own = Talk::new(stream, [2, 1], [lens[1], lens[0]]);
    talk(&mut near, &mut [own], TIMEOUT, pause)?;
    poll_until(&mut near, "the end", |_| Ok(client.is_finished().then_some(())))?;
    client.join().map_err(|_| "the client panicked")??;
    drop(near);
    let counts = handled.counts();
    println!("handled {}, answered {} in the kernel", counts[0], counts[1]);
    assert!(counts[0] > 50, "few frames were handled in the kernel");
    Ok(())
}

/// Sends bytes to a stack whose chains run in the kernel, and from it, in pieces between which both ends
/// wait. Returns the numbers of frames that were handled and answered in the kernel.
fn exchange(stage: &Testbed, lens: [usize; 2], pause: fn(u64) -> Duration) -> TestResult<[u64; 2]> {
    let handled = Handled::default();
    let program = hawser_load::programs::resolve("selective-repeat", &[])?;
    let mut near = endpoint(program, 7, &handled)?;
    let listener = near.listen(SocketAddr::new(hawser_v4(), 80), 1)?;
    let far = stage
        .at_the_far_end("selective-repeat", &[], far_v4())?
        .ok_or("there is a far end")?;
    let pauses = move |seed| {
        let mut rng = fastrand::Rng::with_seed(seed);
        move || pause(rng.u64(..))
    };
    let sender = std::thread::spawn(move || client(far, lens, pauses(1)));
    let connection = poll_until(&mut near, "a connection", |e| ready(e.accept(listener)))?;
    let own = Talk::accepted(&near, connection, [lens[1], lens[0]])?;
    talk(&mut near, &mut [own], TIMEOUT, pauses(2))?;
    poll_until(&mut near, "the end", |_| Ok(sender.is_finished().then_some(())))?;
    sender.join().map_err(|_| "the client panicked")??;
    drop(near);
    let counts = handled.counts();
    println!("handled {}, answered {} in the kernel", counts[0], counts[1]);
    Ok(counts)
}

fn client(mut far: Endpoint, lens: [usize; 2], pause: impl FnMut() -> Duration) -> TestResult {
    let connection = far.connect(SocketAddr::new(hawser_v4(), 80))?;
    poll_until(&mut far, "the connection", |e| {
        Ok(e.connected(connection)?.then_some(()))
    })?;
    let own = Talk::connected(&far, connection, lens)?;
    talk(&mut far, &mut [own], TIMEOUT, pause)
}

/// The data that one end of a connection sends and receives.
pub(crate) struct Talk {
    pub(crate) connection: Handle,
    /// For the two directions, with the own first: the seed of their bytes, and in further fields their
    /// length and the bytes sent and received.
    streams: [u64; 2],
    lens: [usize; 2],
    done: [usize; 2],
    /// True if it ends its direction after the peer's.
    pub(crate) ends_last: bool,
    is_shut: bool,
    has_ended: bool,
    /// The time at which the next piece may leave.
    next: Instant,
}

impl Talk {
    /// Creates the talk of a connection; both ends identify the connection by the port of the end that
    /// connected.
    pub(crate) fn connected(endpoint: &Endpoint, connection: Handle, lens: [usize; 2]) -> TestResult<Talk> {
        let stream = stream_of(endpoint.local(connection))?;
        Ok(Talk::new(connection, [stream, stream + 1], lens))
    }

    pub(crate) fn accepted(endpoint: &Endpoint, connection: Handle, lens: [usize; 2]) -> TestResult<Talk> {
        let stream = stream_of(endpoint.peer(connection))?;
        Ok(Talk::new(connection, [stream + 1, stream], lens))
    }

    fn new(connection: Handle, streams: [u64; 2], lens: [usize; 2]) -> Talk {
        Talk {
            connection,
            streams,
            lens,
            done: [0; 2],
            ends_last: false,
            is_shut: false,
            has_ended: false,
            next: Instant::now(),
        }
    }

    /// Receives available bytes, and sends a piece if one is due. Returns true once both directions have
    /// ended.
    fn go_on(
        &mut self,
        endpoint: &mut Endpoint,
        chunk: &mut [u8],
        pause: &mut impl FnMut() -> Duration,
    ) -> TestResult<bool> {
        while !self.has_ended
            && let Some(n) = ready(endpoint.read(self.connection, chunk))?
        {
            let begin = self.done[1];
            let expected = (begin..begin + n).map(|at| byte(self.streams[1], at));
            if !expected.eq(chunk[..n].iter().copied()) {
                return Err(format!("bytes from {begin} on differ").into());
            }
            self.done[1] += n;
            self.has_ended = n == 0;
        }
        if self.done[1] > self.lens[1] || self.has_ended && self.done[1] < self.lens[1] {
            return Err(format!("the streams ended otherwise: {self}").into());
        }
        let now = Instant::now();
        if self.has_more() && now >= self.next {
            self.next = now + pause();
            let end = self.lens[0].min(self.done[0] + PIECE);
            let piece: Vec<u8> = (self.done[0]..end).map(|at| byte(self.streams[0], at)).collect();
            self.done[0] += ready(endpoint.write(self.connection, &piece))?.unwrap_or(0);
        }
        if !self.has_more() && !self.is_shut && (self.has_ended || !self.ends_last) {
            endpoint.shutdown(self.connection);
            self.is_shut = true;
        }
        Ok(self.is_shut && self.has_ended)
    }

    fn has_more(&self) -> bool {
        self.done[0] < self.lens[0]
    }
}

impl fmt::Display for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([sent, received], [to_send, to_receive]) = (self.done, self.lens);
        write!(
            f,
            "{sent} of {to_send} bytes sent, {received} of {to_receive} received"
        )
    }
}

/// Returns a different number for each direction of a connection.
fn stream_of(client: Option<SocketAddr>) -> TestResult<u64> {
    Ok(u64::from(client.ok_or("a connection has two ends")?.port()) * 2)
}

/// Sends and receives on all connections until both directions of each have ended.
pub(crate) fn talk(
    endpoint: &mut Endpoint,
    talks: &mut [Talk],
    limit: Duration,
    mut pause: impl FnMut() -> Duration,
) -> TestResult {
    let mut chunk = vec![0; 1 << 16];
    let begin = Instant::now();
    loop {
        while endpoint.poll()? {}
        let mut are_over = true;
        for one in &mut *talks {
            are_over &= one.go_on(endpoint, &mut chunk, &mut pause)?;
        }
        if are_over {
            while endpoint.poll()? {}
            return Ok(());
        }
        if begin.elapsed() > limit {
            let all: Vec<String> = talks.iter().map(Talk::to_string).collect();
            return Err(format!("after {limit:?}: {}", all.join("; ")).into());
        }
        if !endpoint.poll()? {
            let due = talks
                .iter()
                .filter(|one| one.has_more())
                .map(|one| one.next)
                .min();
            let wait = due.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()));
            endpoint.wait(Some(wait.max(Duration::from_millis(1))))?;
        }
    }
}

/// Returns a byte of a stream.
fn byte(stream: u64, at: usize) -> u8 {
    ((stream << 32 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The numbers of frames that the kernel has handled and answered, set once the endpoint is gone.
#[derive(Clone, Default)]
pub(crate) struct Handled(Arc<[AtomicU64; 2]>);

impl Handled {
    pub(crate) fn counts(&self) -> [u64; 2] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// Returns an endpoint over AF_XDP with its program's chains in the kernel.
pub(crate) fn endpoint(program: Arc<dyn Program>, seed: u64, handled: &Handled) -> TestResult<Endpoint> {
    let options = XdpOptions {
        addresses: vec![hawser_v4(), testbed::hawser_v6()],
        answers: true,
        ..XdpOptions::default()
    };
    let mut wire = XdpWire::open(DEVICE, &options)?;
    let c = hawser_load::emit_chains(program.module(), hawser_xdp::chains_in_kernel(program.module()))?;
    wire.run_chains(program.module(), &c)?;
    let interface = InterfaceConfig {
        addresses: vec![(hawser_v4(), 24), (testbed::hawser_v6(), 64)],
        gateways: vec![],
        mtu: 1500,
    };
    let counts = handled.clone();
    let device = Watched::new(wire, move |wire: &XdpWire| {
        let (handled, answered) = wire.handled();
        counts.0[0].store(handled, Ordering::Relaxed);
        counts.0[1].store(answered, Ordering::Relaxed);
    });
    Ok(Endpoint::new(
        program,
        StackConfig::new(interface, seed),
        Box::new(device),
    )?)
}
