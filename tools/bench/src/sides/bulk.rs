//! Bulk transfer: one connection, as much as goes through in some time.

use std::io;
use std::time::{Duration, Instant};

use super::spec::{Bulk, Measured};
use super::transport::{CHUNK, Transport};
use crate::sys;

/// Bytes after which what is sent repeats: a prime, so that no two chunks look alike.
const PERIOD: usize = 65_521;
/// The sender goes on for a little after its own time is over, so that the receiver's is full.
const TAIL: Duration = Duration::from_millis(100);
/// Small writes after which the stack works: a stack in poll mode would gather them otherwise, and send less often.
const WRITES: u64 = 32;
/// How long a side sleeps at most: it looks at the clock again then.
const NAP: Duration = Duration::from_millis(50);

/// What is sent: any `CHUNK` bytes from an offset below [`PERIOD`].
fn pattern() -> Vec<u8> {
    let byte = |i: usize| ((i % PERIOD) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..PERIOD + CHUNK).map(|i| byte(i) as u8).collect()
}

/// Measures between the warm-up's end and the end of the time that counts.
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
        Window {
            from,
            until,
            begin: Instant::now(),
            start: None,
            end: None,
        }
    }

    /// Notes where things stand; true once the time is over.
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

/// Connects, sends for as long as planned, and waits until the peer has everything.
///
/// # Errors
/// When the connection fails.
pub(crate) fn send<T: Transport>(stack: &mut T, plan: &Bulk) -> io::Result<Measured> {
    let mut changed = Vec::new();
    let opening = stack.connect(plan.peer)?;
    let connection = loop {
        if let Some(connection) = stack.opened(opening)? {
            break connection;
        }
        turn(stack, &mut changed)?;
    };
    let pattern = pattern();
    let mut window = Window::open(plan);
    let (mut sent, mut writes) = (0, 0);
    while !window.note(sent) || window.begin.elapsed() < window.until + TAIL {
        let at = (sent % PERIOD as u64) as usize;
        match stack.write(connection, &pattern[at..at + plan.write.min(CHUNK)])? {
            Some(n) => (sent, writes) = (sent + n as u64, writes + 1),
            None => turn(stack, &mut changed)?,
        }
        if plan.write < CHUNK && writes % WRITES == 0 {
            turn(stack, &mut changed)?;
        }
    }
    let measured = window.measured(sent);
    stack.shutdown(connection)?;
    let mut rest = [0; 16];
    while stack.read(connection, &mut rest)? != Some(0) {
        turn(stack, &mut changed)?;
    }
    stack.close(connection);
    Ok(measured)
}

/// Accepts a connection and receives until its end.
///
/// # Errors
/// When the connection fails, or bytes are not what was sent.
pub(crate) fn receive<T: Transport>(stack: &mut T, plan: &Bulk) -> io::Result<Measured> {
    let mut changed = Vec::new();
    let connection = accept(stack, &mut changed)?;
    let expected = if plan.verify { pattern() } else { Vec::new() };
    let mut chunk = vec![0; CHUNK];
    let mut window = Window::open(plan);
    let mut got = 0;
    loop {
        match stack.read(connection, &mut chunk)? {
            Some(0) => break,
            Some(n) => {
                let at = (got % PERIOD as u64) as usize;
                if plan.verify && chunk[..n] != expected[at..at + n] {
                    return Err(io::Error::other(format!("wrong bytes after {got}")));
                }
                got += n as u64;
            }
            None => turn(stack, &mut changed)?,
        }
        window.note(got);
    }
    let measured = window.measured(got);
    stack.shutdown(connection)?;
    stack.close(connection);
    // What still has to leave does so.
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
/// When the stack fails.
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
