//! Questions and answers of a few bytes, one at a time: the round trip from an application's view.

use std::io;
use std::time::{Duration, Instant};

use super::bulk::accept;
use super::spec::{Echo, Measured};
use super::transport::Transport;
use crate::sys;

/// The longest time for which a side sleeps.
const NAP: Duration = Duration::from_millis(200);

/// Connects and asks.
///
/// # Errors
/// The connection failed or ended early.
pub(crate) fn ping<T: Transport>(stack: &mut T, plan: &Echo) -> io::Result<Measured> {
    let mut changed = Vec::new();
    let opening = stack.connect(plan.peer)?;
    let connection = loop {
        if let Some(connection) = stack.opened(opening)? {
            break connection;
        }
        stack.turn(Some(NAP), &mut changed)?;
    };
    let (question, mut answer) = (vec![b'?'; plan.size], vec![0; plan.size]);
    let mut times = Vec::with_capacity(plan.rounds as usize);
    let mut start = (Instant::now(), sys::cpu_time());
    for round in 0..plan.warm_up + plan.rounds {
        if round == plan.warm_up {
            start = (Instant::now(), sys::cpu_time());
        }
        let begin = Instant::now();
        write_all(stack, connection, &question)?;
        if !read_exact(stack, connection, &mut answer)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if round >= plan.warm_up {
            times.push(begin.elapsed().as_nanos() as u64);
        }
    }
    let (begin, (user, system)) = start;
    let (user2, system2) = sys::cpu_time();
    let seconds = begin.elapsed().as_secs_f64();
    stack.shutdown(connection)?;
    while stack.read(connection, &mut answer)? != Some(0) {
        stack.turn(Some(NAP), &mut changed)?;
    }
    stack.close(connection);
    times.sort_unstable();
    Ok(Measured {
        bytes: 2 * times.len() as u64 * plan.size as u64,
        seconds,
        user_s: (user2 - user).as_secs_f64(),
        system_s: (system2 - system).as_secs_f64(),
        round_trips_ns: times,
        ..Measured::default()
    })
}

/// Accepts a connection, and answers until the peer closes it.
///
/// # Errors
/// The connection failed.
pub(crate) fn pong<T: Transport>(stack: &mut T, plan: &Echo) -> io::Result<Measured> {
    let mut changed = Vec::new();
    let connection = accept(stack, &mut changed)?;
    let (begin, (user, system)) = (Instant::now(), sys::cpu_time());
    let (mut question, mut bytes) = (vec![0; plan.size], 0);
    while read_exact(stack, connection, &mut question)? {
        write_all(stack, connection, &question)?;
        bytes += 2 * question.len() as u64;
    }
    let (user2, system2) = sys::cpu_time();
    let seconds = begin.elapsed().as_secs_f64();
    stack.shutdown(connection)?;
    stack.close(connection);
    // Let the last packets leave.
    for _ in 0..8 {
        stack.turn(Some(Duration::from_millis(5)), &mut changed)?;
    }
    Ok(Measured {
        bytes,
        seconds,
        user_s: (user2 - user).as_secs_f64(),
        system_s: (system2 - system).as_secs_f64(),
        ..Measured::default()
    })
}

fn write_all<T: Transport>(stack: &mut T, connection: T::Connection, mut bytes: &[u8]) -> io::Result<()> {
    let mut changed = Vec::new();
    while !bytes.is_empty() {
        match stack.write(connection, bytes)? {
            Some(n) => bytes = &bytes[n..],
            None => stack.turn(Some(NAP), &mut changed)?,
        }
    }
    Ok(())
}

/// Fills `out`, or returns false if the stream ends before its first byte.
fn read_exact<T: Transport>(stack: &mut T, connection: T::Connection, out: &mut [u8]) -> io::Result<bool> {
    let mut changed = Vec::new();
    let mut filled = 0;
    while filled < out.len() {
        match stack.read(connection, &mut out[filled..])? {
            Some(0) if filled == 0 => return Ok(false),
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(n) => filled += n,
            None => {
                changed.clear();
                stack.turn(Some(NAP), &mut changed)?;
            }
        }
    }
    Ok(true)
}
