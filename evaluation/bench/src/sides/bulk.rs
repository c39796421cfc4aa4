//! Bulk transfer: one connection or several at once, at full speed for some time.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::spec::{Bulk, Measured};
use super::transport::{CHUNK, Transport};
use crate::sys;

/// The number of bytes after which the data repeats: a prime, so that no two chunks are alike.
const PERIOD: usize = 65_521;
/// The time for which the sender continues after its own measured time, so that the receiver's measured time
/// is full.
const TAIL: Duration = Duration::from_millis(100);
/// The number of small writes after which the stack works. Otherwise a stack in poll mode would gather them,
/// and send less often.
const WRITES: u64 = 32;
/// The longest time for which a side sleeps before it reads the clock again.
const NAP: Duration = Duration::from_millis(50);

/// Returns the data: any `CHUNK` bytes from an offset below [`PERIOD`] can be sent.
fn pattern() -> Vec<u8> {
    let byte = |i: usize| ((i % PERIOD) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..PERIOD + CHUNK).map(|i| byte(i) as u8).collect()
}

/// Measures from the end of the warm-up to the end of the measured time.
struct Window {
    from: Duration,
    until: Duration,
    begin: Instant,
    start: Option<(Duration, u64, (Duration, Duration))>,
    end: Option<(Duration, u64, (Duration, Duration))>,
}

impl Window {
    fn open(plan: &Bulk) -> Window {
        let from = Duration::from_secs_f64(plan.warm_up_s);
        let until = from + Duration::from_secs_f64(plan.seconds);
        Window { from, until, begin: Instant::now(), start: None, end: None }
    }

    /// Notes the bytes so far, and returns true once the time is over.
    fn note(&mut self, bytes: u64) -> bool {
        let elapsed = self.begin.elapsed();
        if self.start.is_none() && elapsed >= self.from {
            self.start = Some((elapsed, bytes, sys::cpu_time()));
        }
        if self.end.is_none() && elapsed >= self.until {
            self.end = Some((elapsed, bytes, sys::cpu_time()));
        }
        self.end.is_some()
    }

    fn measured(mut self, bytes: u64) -> Measured {
        let now = (self.begin.elapsed(), bytes, sys::cpu_time());
        let (from, first, (user, system)) = self.start.take().unwrap_or(now);
        let (until, last, (user2, system2)) = self.end.take().unwrap_or(now);
        Measured {
            bytes,
            counted_bytes: last - first,
            seconds: (until - from).as_secs_f64(),
            user_s: user2.saturating_sub(user).as_secs_f64(),
            system_s: system2.saturating_sub(system).as_secs_f64(),
            ..Measured::default()
        }
    }
}

/// The numbers of connections that were accepted and that ended, of all stacks of a side.
#[derive(Default)]
pub(crate) struct Arrivals {
    accepted: AtomicU32,
    ended: AtomicU32,
}

/// One of the connections.
struct Flow<C> {
    connection: C,
    bytes: u64,
    /// True if the flow had no bytes to read, or no room to write, since its last change.
    waits: bool,
}

impl<C: Copy + Eq> Flow<C> {
    fn new(connection: C) -> Flow<C> {
        Flow { connection, bytes: 0, waits: false }
    }

    /// Returns the offset of the next byte in the pattern.
    fn at(&self) -> usize {
        (self.bytes % PERIOD as u64) as usize
    }
}

/// Opens `flows` connections, sends for the planned time, and waits until the peer has all bytes.
///
/// # Errors
/// A connection failed.
pub(crate) fn send<T: Transport>(stack: &mut T, plan: &Bulk, flows: u32) -> io::Result<Measured> {
    let mut flows = connect(stack, plan, flows)?;
    let pattern = Bytes::from(pattern());
    let mut window = Window::open(plan);
    let (mut sent, mut writes, mut changed) = (0, 0, Vec::new());
    while !window.note(sent) || window.begin.elapsed() < window.until + TAIL {
        for flow in flows.iter_mut().filter(|flow| !flow.waits) {
            let at = flow.at();
            let range = at..at + plan.write.min(CHUNK);
            match stack.write_shared(flow.connection, pattern.slice(range))? {
                Some(n) => {
                    flow.bytes += n as u64;
                    (sent, writes) = (sent + n as u64, writes + 1);
                }
                None => flow.waits = true,
            }
        }
        if all_wait(&flows) || (plan.write < CHUNK && writes % WRITES == 0) {
            wait(stack, &mut flows, &mut changed)?;
        }
    }
    let measured = window.measured(sent);
    for flow in &flows {
        stack.shutdown(flow.connection)?;
    }
    let mut rest = [0; 16];
    for flow in &flows {
        while stack.read(flow.connection, &mut rest)? != Some(0) {
            turn(stack, &mut changed)?;
        }
        stack.close(flow.connection);
    }
    Ok(measured)
}

fn connect<T: Transport>(stack: &mut T, plan: &Bulk, flows: u32) -> io::Result<Vec<Flow<T::Connection>>> {
    let opening: Vec<_> = (0..flows)
        .map(|_| stack.connect(plan.peer))
        .collect::<io::Result<_>>()?;
    let (mut open, mut changed) = (Vec::new(), Vec::new());
    for opening in opening {
        loop {
            if let Some(connection) = stack.opened(opening)? {
                open.push(Flow::new(connection));
                break;
            }
            turn(stack, &mut changed)?;
        }
    }
    Ok(open)
}

/// Returns whether all flows wait.
fn all_wait<C>(flows: &[Flow<C>]) -> bool {
    flows.iter().all(|flow| flow.waits)
}

/// Lets the stack work, and notes the flows that changed.
fn wait<T: Transport>(
    stack: &mut T,
    flows: &mut [Flow<T::Connection>],
    changed: &mut Vec<T::Connection>,
) -> io::Result<()> {
    turn(stack, changed)?;
    for flow in flows {
        // Some stacks report no changes. In that case every flow may have changed.
        flow.waits &= !changed.is_empty() && !changed.contains(&flow.connection);
    }
    Ok(())
}

/// Accepts connections and receives until all have ended, both of this stack and of the other stacks of this
/// side.
///
/// # Errors
/// A connection failed, or bytes differ from the sent ones.
pub(crate) fn receive<T: Transport>(stack: &mut T, plan: &Bulk, arrivals: &Arrivals) -> io::Result<Measured> {
    let expected = if plan.verify { pattern() } else { Vec::new() };
    let mut chunk = vec![0; CHUNK];
    let (mut flows, mut over) = (Vec::new(), Vec::new());
    let (mut window, mut got, mut changed) = (None, 0, Vec::new());
    while arrivals.ended.load(Ordering::Relaxed) < plan.flows {
        while arrivals.accepted.load(Ordering::Relaxed) < plan.flows
            && let Some(connection) = stack.accept()?
        {
            arrivals.accepted.fetch_add(1, Ordering::Relaxed);
            window.get_or_insert_with(|| Window::open(plan));
            flows.push(Flow::new(connection));
        }
        for flow in flows.iter_mut().filter(|flow| !flow.waits) {
            match stack.read(flow.connection, &mut chunk)? {
                Some(0) => {
                    arrivals.ended.fetch_add(1, Ordering::Relaxed);
                    over.push(flow.connection);
                }
                Some(n) => {
                    if plan.verify && chunk[..n] != expected[flow.at()..flow.at() + n] {
                        return Err(io::Error::other(format!("wrong bytes after {}", flow.bytes)));
                    }
                    flow.bytes += n as u64;
                    got += n as u64;
                }
                None => flow.waits = true,
            }
            if let Some(window) = &mut window {
                window.note(got);
            }
        }
        flows.retain(|flow| !over.contains(&flow.connection));
        if all_wait(&flows) && arrivals.ended.load(Ordering::Relaxed) < plan.flows {
            wait(stack, &mut flows, &mut changed)?;
        }
    }
    // A shard may have had no connections.
    let measured = window.map_or_else(Measured::default, |window| window.measured(got));
    for connection in over {
        stack.shutdown(connection)?;
        stack.close(connection);
    }
    // Let the last packets leave.
    let begin = Instant::now();
    while begin.elapsed() < NAP {
        turn(stack, &mut changed)?;
        std::thread::yield_now();
    }
    Ok(measured)
}

/// Waits for a connection.
///
/// # Errors
/// The stack failed.
pub(crate) fn accept<T: Transport>(
    stack: &mut T,
    changed: &mut Vec<T::Connection>,
) -> io::Result<T::Connection> {
    loop {
        if let Some(connection) = stack.accept()? {
            return Ok(connection);
        }
        turn(stack, changed)?;
    }
}

fn turn<T: Transport>(stack: &mut T, changed: &mut Vec<T::Connection>) -> io::Result<()> {
    changed.clear();
    stack.turn(Some(NAP), changed)
}
