//! Many connections that stay open, some of which carry a request and its answer at a time. Each answer is
//! followed by a request on the next connection, so that all have their turn.

use std::io;
use std::time::{Duration, Instant};

use super::spec::{Measured, StandingSpec};
use super::transport::Transport;
use crate::sys;

/// The number of connections that are being opened, or closed, at a time.
const OPENING: usize = 100;
/// The longest time for which a side sleeps.
const NAP: Duration = Duration::from_millis(50);
/// The number of bytes that are read at a time.
const READ: usize = 4096;

/// A request in flight.
struct Asked<C> {
    connection: C,
    begin: Instant,
    /// The bytes of the answer that are still to come.
    left: usize,
}

/// Opens all connections, asks for the planned time, then once more on each, and closes them.
///
/// # Errors
/// A connection failed or ended.
pub(crate) fn ask<T: Transport>(stack: &mut T, plan: &StandingSpec) -> io::Result<Measured> {
    let before = sys::allocated_bytes();
    let connections = open(stack, plan)?;
    let mut turns = connections.iter().copied().cycle();
    let warm = Instant::now() + Duration::from_secs_f64(plan.warm_up_s);
    ask_each(stack, plan, turns.by_ref().take_while(|_| Instant::now() < warm))?;
    let (begin, (user, system)) = (Instant::now(), sys::cpu_time());
    let until = begin + Duration::from_secs_f64(plan.seconds);
    let mut times = ask_each(stack, plan, turns.take_while(|_| Instant::now() < until))?;
    let (seconds, (user2, system2)) = (begin.elapsed().as_secs_f64(), sys::cpu_time());
    let own = times.capacity() * size_of::<u64>() + connections.capacity() * size_of::<T::Connection>();
    let memory = sys::allocated_bytes().saturating_sub(before + own as u64);
    // A connection without requests could break unnoticed.
    let answered = ask_each(stack, plan, connections.iter().copied())?.len();
    close(stack, &connections)?;
    times.sort_unstable();
    Ok(Measured {
        seconds,
        user_s: (user2 - user).as_secs_f64(),
        system_s: (system2 - system).as_secs_f64(),
        requests: times.len() as u64,
        round_trips_ns: times,
        connections: answered as u64,
        memory,
        ..Measured::default()
    })
}

/// Opens all connections, `OPENING` at a time, evenly over the ports of the server.
fn open<T: Transport>(stack: &mut T, plan: &StandingSpec) -> io::Result<Vec<T::Connection>> {
    let mut connections = Vec::with_capacity(plan.connections as usize);
    let (mut opening, mut changed) = (Vec::new(), Vec::new());
    let mut ports = plan.ports().cycle().take(plan.connections as usize);
    loop {
        for port in ports.by_ref().take(OPENING - opening.len()) {
            let mut peer = plan.peer;
            peer.set_port(port);
            opening.push(stack.connect(peer)?);
        }
        if opening.is_empty() {
            return Ok(connections);
        }
        changed.clear();
        stack.turn(Some(NAP), &mut changed)?;
        let mut at = 0;
        while let Some(connection) = opening.get(at) {
            match stack.opened(*connection)? {
                Some(open) => {
                    connections.push(open);
                    opening.swap_remove(at);
                }
                None => at += 1,
            }
        }
    }
}

/// Asks on each of these connections, a limited number at a time, and waits for all answers. Returns their
/// times in nanoseconds.
fn ask_each<T: Transport>(
    stack: &mut T,
    plan: &StandingSpec,
    mut turns: impl Iterator<Item = T::Connection>,
) -> io::Result<Vec<u64>> {
    let request = vec![b'?'; plan.request];
    let mut active: Vec<Asked<T::Connection>> = Vec::new();
    let (mut times, mut changed) = (Vec::new(), Vec::new());
    loop {
        while active.len() < plan.at_once as usize
            && let Some(connection) = turns.next()
        {
            // A connection whose answer is still outstanding is skipped.
            if !active.iter().any(|asked| asked.connection == connection) {
                let begin = Instant::now();
                write_all(stack, connection, &request)?;
                let left = plan.answer;
                active.push(Asked { connection, begin, left });
            }
        }
        if active.is_empty() {
            return Ok(times);
        }
        changed.clear();
        stack.turn(Some(NAP), &mut changed)?;
        for connection in &changed {
            let at = active.iter().position(|asked| asked.connection == *connection);
            if let Some(at) = at
                && is_answered(stack, &mut active[at])?
            {
                times.push(active.swap_remove(at).begin.elapsed().as_nanos() as u64);
            }
        }
    }
}

/// Writes a request on a connection without a request in flight, which always has room for it.
fn write_all<T: Transport>(stack: &mut T, connection: T::Connection, bytes: &[u8]) -> io::Result<()> {
    match stack.write(connection, bytes)? {
        Some(n) if n == bytes.len() => Ok(()),
        _ => Err(io::Error::other("a connection has no room for a request")),
    }
}

/// Reads the available bytes of an answer, and returns whether it is complete.
fn is_answered<T: Transport>(stack: &mut T, asked: &mut Asked<T::Connection>) -> io::Result<bool> {
    let mut bytes = [0; READ];
    while asked.left > 0 {
        let room = asked.left.min(READ);
        match stack.read(asked.connection, &mut bytes[..room])? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(n) => asked.left -= n,
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// Closes all connections, `OPENING` at a time, and waits for the other end to do the same.
fn close<T: Transport>(stack: &mut T, connections: &[T::Connection]) -> io::Result<()> {
    let mut changed = Vec::new();
    for some in connections.chunks(OPENING) {
        for connection in some {
            stack.shutdown(*connection)?;
        }
        for connection in some {
            while stack.read(*connection, &mut [0])? != Some(0) {
                changed.clear();
                stack.turn(Some(NAP), &mut changed)?;
            }
            stack.close(*connection);
        }
    }
    Ok(())
}

/// The unfinished work on a connection of the server.
struct Answering<C> {
    connection: C,
    /// The bytes received of a request.
    received: usize,
    /// The bytes of answers that are still to be written.
    pending: usize,
}

/// Accepts all connections, and answers each request until all have been closed.
///
/// # Errors
/// A connection failed.
pub(crate) fn answer<T: Transport>(stack: &mut T, plan: &StandingSpec) -> io::Result<Measured> {
    let before = sys::allocated_bytes();
    let mut server = Server {
        plan,
        text: vec![b'!'; plan.answer],
        unfinished: Vec::new(),
        requests: 0,
        ended: 0,
    };
    let (mut accepted, mut changed) = (0, Vec::new());
    let (mut start, mut load) = (None, None);
    while server.ended < plan.connections {
        changed.clear();
        let pending = server.unfinished.iter().filter(|one| one.pending > 0);
        changed.extend(pending.map(|one| one.connection));
        stack.turn(Some(NAP), &mut changed)?;
        while accepted < plan.connections
            && let Some(connection) = stack.accept()?
        {
            accepted += 1;
            changed.push(connection);
        }
        if accepted == plan.connections {
            start.get_or_insert_with(|| (Instant::now(), sys::cpu_time()));
        }
        for connection in &changed {
            server.serve(stack, *connection)?;
        }
        if server.ended > 0 && load.is_none() {
            load = Some((
                Instant::now(),
                sys::cpu_time(),
                sys::allocated_bytes().saturating_sub(before),
            ));
        }
    }
    // Let the last packets leave.
    let begin = Instant::now();
    while begin.elapsed() < NAP {
        stack.turn(Some(NAP), &mut changed)?;
    }
    let (Some((begin, (user, system))), Some((end, (user2, system2), memory))) = (start, load) else {
        return Err(io::Error::other("no connection was asked for"));
    };
    Ok(Measured {
        seconds: (end - begin).as_secs_f64(),
        user_s: (user2 - user).as_secs_f64(),
        system_s: (system2 - system).as_secs_f64(),
        requests: server.requests,
        connections: u64::from(server.ended),
        memory,
        ..Measured::default()
    })
}

struct Server<'a, C> {
    plan: &'a StandingSpec,
    text: Vec<u8>,
    /// There are few at any time, because the answer to a complete request usually leaves at once.
    unfinished: Vec<Answering<C>>,
    requests: u64,
    ended: u32,
}

impl<C: Copy + Eq> Server<'_, C> {
    /// Serves a connection as far as possible.
    fn serve<T: Transport<Connection = C>>(&mut self, stack: &mut T, connection: C) -> io::Result<()> {
        let known = self
            .unfinished
            .iter()
            .position(|one| one.connection == connection);
        let mut state = known.map_or(Answering { connection, received: 0, pending: 0 }, |at| {
            self.unfinished.swap_remove(at)
        });
        let mut bytes = [0; READ];
        loop {
            if state.pending > 0 {
                match stack.write(connection, &self.text[..state.pending.min(self.text.len())])? {
                    Some(n) => state.pending -= n,
                    None => break,
                }
                continue;
            }
            match stack.read(connection, &mut bytes)? {
                Some(0) => {
                    self.ended += 1;
                    stack.shutdown(connection)?;
                    stack.close(connection);
                    return Ok(());
                }
                Some(n) => {
                    let received = state.received + n;
                    self.requests += (received / self.plan.request) as u64;
                    state.pending += received / self.plan.request * self.plan.answer;
                    state.received = received % self.plan.request;
                }
                None => break,
            }
        }
        if state.pending > 0 || state.received > 0 {
            self.unfinished.push(state);
        }
        Ok(())
    }
}
