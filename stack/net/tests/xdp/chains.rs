//! Chains in the kernel, in front of a stack that sleeps.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hawser_engine::StackConfig;
use hawser_engine::front::{Front, Ran};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::wire::{Caps, RxFrame, TxFrame, Wire};
use hawser_net::host::{XdpOptions, XdpWire};
use hawser_net::{Device, Endpoint, Handle};

use crate::stage::{self, DEVICE, Stage, TIMEOUT, TestResult, hawser_v4, linux_v4, poll_until, ready};

/// Bytes of a stream.
const STREAM: usize = 300_000;

/// A stream whose packets come one by one: nearly all are acknowledged before the stack is awake.
pub(crate) fn acknowledgements_leave_from_the_kernel(stage: &Stage) -> TestResult {
    let counts = exchange(stage, [STREAM, 0], |_| Duration::from_millis(1))?;
    assert!(
        counts[1] > STREAM as u64 / 1000 / 2,
        "of {counts:?} frames few were answered in the kernel"
    );
    Ok(())
}

/// Streams both ways between two ends that pause at random, so that frames come while the stack falls asleep, sleeps,
/// wakes up and is awake.
pub(crate) fn streams_are_whole_however_the_stack_sleeps(stage: &Stage) -> TestResult {
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

/// Sends so many bytes to a stack whose chains run in the kernel, and from it, in pieces between which both ends wait;
/// gives how many frames were handled and answered in the kernel.
fn exchange(stage: &Stage, lens: [usize; 2], pause: fn(u64) -> Duration) -> TestResult<[u64; 2]> {
    let handled = Handled::default();
    let program = hawser_load::programs::resolve("selective-repeat", &[])?;
    let mut near = endpoint(program, &handled)?;
    let listener = near.listen(SocketAddr::new(hawser_v4(), 80), 1)?;
    let far = stage
        .at_the_far_end("selective-repeat", &[], linux_v4())?
        .ok_or("there is a far end")?;
    let sender = std::thread::spawn(move || client(far, lens, pause).map_err(|error| error.to_string()));
    let connection = poll_until(&mut near, "a connection", |e| ready(e.accept(listener)))?;
    talk(&mut near, connection, [lens[1], lens[0]], pause)?;
    poll_until(&mut near, "the end", |_| Ok(sender.is_finished().then_some(())))?;
    sender.join().map_err(|_| "the client panicked")??;
    let counts = handled.0.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("handled {}, answered {} in the kernel", counts[0], counts[1]);
    Ok(counts)
}

fn client(mut far: Endpoint, lens: [usize; 2], pause: fn(u64) -> Duration) -> TestResult {
    let connection = far.connect(SocketAddr::new(hawser_v4(), 80))?;
    poll_until(&mut far, "the connection", |e| {
        Ok(e.connected(connection)?.then_some(()))
    })?;
    talk(&mut far, connection, lens, pause)
}

/// Sends and receives so many bytes, to the ends of both directions.
fn talk(
    endpoint: &mut Endpoint,
    connection: Handle,
    [to_send, to_receive]: [usize; 2],
    pause: fn(u64) -> Duration,
) -> TestResult {
    let (mut random, mut sent, mut received) = (to_send as u64 + 1, 0, 0);
    let mut chunk = vec![0; 1 << 16];
    let mut is_shut = false;
    let (begin, mut next) = (Instant::now(), Instant::now());
    loop {
        while endpoint.poll()? {}
        let now = Instant::now();
        if sent < to_send && now >= next {
            // Xorshift (Marsaglia, 2003).
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            next = now + pause(random);
            let piece: Vec<u8> = (sent..to_send.min(sent + 1000)).map(byte).collect();
            sent += ready(endpoint.write(connection, &piece))?.unwrap_or(0);
        } else if sent == to_send && !is_shut {
            endpoint.shutdown(connection);
            is_shut = true;
        }
        while let Some(n) = ready(endpoint.read(connection, &mut chunk))? {
            if n == 0 && is_shut {
                assert_eq!(received, to_receive);
                while endpoint.poll()? {}
                return Ok(());
            } else if n == 0 {
                break;
            }
            let expected = (received..received + n).map(byte);
            assert!(
                expected.eq(chunk[..n].iter().copied()),
                "bytes from {received} on differ"
            );
            received += n;
        }
        if begin.elapsed() > TIMEOUT {
            return Err(format!("{sent} bytes were sent and {received} received in {TIMEOUT:?}").into());
        }
        if !endpoint.poll()? {
            endpoint.wait(Some(
                next.saturating_duration_since(now).max(Duration::from_millis(1)),
            ))?;
        }
    }
}

/// A byte of either stream.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(31) >> 3) as u8
}

/// Frames that the kernel has handled, and answered.
#[derive(Clone, Default)]
struct Handled(Arc<[AtomicU64; 2]>);

/// An endpoint over AF_XDP, its program's chains in the kernel.
fn endpoint(program: Arc<dyn Program>, handled: &Handled) -> TestResult<Endpoint> {
    let options = XdpOptions {
        addresses: vec![hawser_v4(), stage::hawser_v6()],
        answers: true,
        ..XdpOptions::default()
    };
    let mut wire = XdpWire::open(DEVICE, &options)?;
    let c = hawser_load::emit_chains(program.module(), hawser_xdp::chains_in_kernel(program.module()))?;
    wire.run_chains(program.module(), &c)?;
    let interface = InterfaceConfig {
        addresses: vec![(hawser_v4(), 24), (stage::hawser_v6(), 64)],
        gateways: vec![],
        mtu: 1500,
    };
    let device = Box::new(Counted {
        wire,
        handled: handled.clone(),
    });
    Ok(Endpoint::new(program, StackConfig::new(interface, 7), device)?)
}

/// A wire that counts what its chains handle.
struct Counted {
    wire: XdpWire,
    handled: Handled,
}

impl Wire for Counted {
    fn caps(&self) -> &Caps {
        self.wire.caps()
    }

    fn receive(&mut self, max: usize) -> std::io::Result<usize> {
        let (handled, answered) = self.wire.handled();
        self.handled.0[0].store(handled, Ordering::Relaxed);
        self.handled.0[1].store(answered, Ordering::Relaxed);
        self.wire.receive(max)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        self.wire.frame(i)
    }

    fn release(&mut self) {
        self.wire.release();
    }

    fn room(&mut self) -> usize {
        self.wire.room()
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> std::io::Result<usize> {
        self.wire.transmit(frames)
    }

    fn ran(&self, i: usize) -> Option<Ran<'_>> {
        self.wire.ran(i)
    }

    fn front(&mut self) -> Option<&mut dyn Front> {
        self.wire.front()
    }
}

impl Device for Counted {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }

    fn wait(&self, limit: Option<Duration>) -> std::io::Result<()> {
        self.wire.wait(limit)
    }
}
