//! Many short connections: open, a byte each way, close.

use std::io;
use std::time::{Duration, Instant};

use super::spec::{Many, Measured};
use super::transport::Transport;
use crate::sys;

/// The longest time for which a side sleeps.
const NAP: Duration = Duration::from_millis(200);
/// The time for which the server waits for connections to end after the last answer.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The progress of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionProgress {
    Opening,
    Asked,
    Closing,
}

/// Opens all connections, `at_once` at a time.
///
/// # Errors
/// A connection failed.
pub(crate) fn connect<T: Transport>(stack: &mut T, plan: &Many) -> io::Result<Measured> {
    // The first connection resolves the peer's link-layer address, and does not count.
    open_and_close(stack, plan, 1, 1)?;
    let (begin, (user, system)) = (Instant::now(), sys::cpu_time());
    let done = open_and_close(stack, plan, plan.connections, plan.at_once as usize)?;
    let (user2, system2) = sys::cpu_time();
    Ok(Measured {
        bytes: 2 * u64::from(done),
        seconds: begin.elapsed().as_secs_f64(),
        user_s: (user2 - user).as_secs_f64(),
        system_s: (system2 - system).as_secs_f64(),
        connections: u64::from(done),
        ..Measured::default()
    })
}

/// Takes `total` connections from their opening to their end, `at_once` at the same time.
fn open_and_close<T: Transport>(stack: &mut T, plan: &Many, total: u32, at_once: usize) -> io::Result<u32> {
    let mut active: Vec<(T::Connection, ConnectionProgress)> = Vec::new();
    let mut changed = Vec::new();
    let (mut opened, mut done) = (0, 0);
    while done < total {
        changed.clear();
        while opened < total && active.len() < at_once {
            let connection = stack.connect(plan.peer)?;
            changed.push(connection);
            active.push((connection, ConnectionProgress::Opening));
            opened += 1;
        }
        if changed.is_empty() {
            stack.turn(Some(NAP), &mut changed)?;
        }
        for connection in &changed {
            let Some(at) = active.iter().position(|(c, _)| c == connection) else {
                continue;
            };
            if advance(stack, &mut active[at])? {
                active.swap_remove(at);
                done += 1;
            }
        }
    }
    Ok(done)
}

/// Advances a client's connection as far as possible, and returns true at its end.
fn advance<T: Transport>(
    stack: &mut T,
    (connection, stage): &mut (T::Connection, ConnectionProgress),
) -> io::Result<bool> {
    if *stage == ConnectionProgress::Opening {
        let Some(open) = stack.opened(*connection)? else {
            return Ok(false);
        };
        *connection = open;
        if stack.write(open, b"?")?.is_none() {
            return Ok(false);
        }
        *stage = ConnectionProgress::Asked;
    }
    let mut byte = [0];
    if *stage == ConnectionProgress::Asked {
        if stack.read(*connection, &mut byte)?.is_none() {
            return Ok(false);
        }
        stack.shutdown(*connection)?;
        *stage = ConnectionProgress::Closing;
    }
    // Wait for the end of the other direction, so that the whole handshake is measured.
    if stack.read(*connection, &mut byte)? != Some(0) {
        return Ok(false);
    }
    stack.close(*connection);
    Ok(true)
}

/// Answers all connections, and closes each after the client.
///
/// # Errors
/// A connection failed.
pub(crate) fn serve<T: Transport>(stack: &mut T, plan: &Many) -> io::Result<Measured> {
    let mut active: Vec<T::Connection> = Vec::new();
    let mut changed = Vec::new();
    let mut done = 0;
    let (user, system) = sys::cpu_time();
    let (mut begin, mut last) = (None, Instant::now());
    // The client opens one more than it counts.
    while done <= plan.connections && last.elapsed() < END_LIMIT {
        changed.clear();
        stack.turn(Some(NAP), &mut changed)?;
        while let Some(connection) = stack.accept()? {
            begin.get_or_insert_with(Instant::now);
            active.push(connection);
            changed.push(connection);
        }
        for connection in &changed {
            let Some(at) = active.iter().position(|c| c == connection) else {
                continue;
            };
            if answer(stack, *connection)? {
                active.swap_remove(at);
                done += 1;
            }
            last = Instant::now();
        }
    }
    let (user2, system2) = sys::cpu_time();
    let done = done.saturating_sub(1);
    Ok(Measured {
        bytes: 2 * u64::from(done),
        seconds: begin.map_or(0.0, |begin| begin.elapsed().as_secs_f64()),
        user_s: (user2 - user).as_secs_f64(),
        system_s: (system2 - system).as_secs_f64(),
        connections: u64::from(done),
        ..Measured::default()
    })
}

/// Answers a byte, and returns true once the client has closed.
fn answer<T: Transport>(stack: &mut T, connection: T::Connection) -> io::Result<bool> {
    let mut byte = [0];
    loop {
        match stack.read(connection, &mut byte)? {
            None => return Ok(false),
            Some(0) => break,
            // There is always room for one byte.
            Some(_) => drop(stack.write(connection, &byte)?),
        }
    }
    stack.shutdown(connection)?;
    stack.close(connection);
    Ok(true)
}
