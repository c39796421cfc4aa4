//! The two processes that exchange messages on one connection of a transport program, over a packet socket.
//! If the program's connections have streams, each message has its own stream; otherwise the messages follow
//! each other on the single stream.
//!
//! A message is its length in eight bytes and that many bytes; its reply is [`REPLY`] bytes.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hawser::host::{DeviceSpec, StackSetup, open};
use hawser::{Direction, Endpoint, Handle};
use serde::{Deserialize, Serialize};

use super::calls::{Made, PORT, READY};
use crate::Error;

/// The variable that marks a process as one of the two. Its value is a [`ProcessRole`] in JSON.
pub(super) const END: &str = "HAWSER_EXPERIMENT_MESSAGES";
const REPLY: usize = 16;
/// The number of bytes before a message.
const HEADER: usize = 8;
/// The longest time for which a side sleeps.
const NAP: Duration = Duration::from_millis(100);
/// The number of bytes that are read or written at a time.
const PIECE: usize = 1 << 18;

/// The role of one of the two processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ProcessRole {
    pub(super) program: String,
    pub(super) has_streams: bool,
    pub(super) own: IpAddr,
    /// For a client: the server, and the due time of each message in nanoseconds with its size in bytes.
    pub(super) due: Option<(IpAddr, Vec<(u64, usize)>)>,
}

/// Runs one of the two processes if this process was started as one, and returns its result; otherwise
/// returns `None`. A client prints a [`Made`]: for each message, the time from when it was due to its reply.
///
/// # Errors
/// The exchange failed.
pub(super) fn serve() -> Option<Result<(), Error>> {
    let end = std::env::var(END).ok()?;
    Some(act(&end))
}

fn act(end: &str) -> Result<(), Error> {
    let end: ProcessRole = serde_json::from_str(end)?;
    let program = hawser::programs::resolve_with(&end.program, &[])?;
    let endpoint = open(
        program,
        &StackSetup::new(DeviceSpec::Packet("eth0".into()), (end.own, 24)),
    )?;
    match &end.due {
        Some((server, due)) => {
            let made = Client::connect(endpoint, &end, *server)?.send_all(due)?;
            println!("{}", serde_json::to_string(&made)?);
            Ok(())
        }
        None => answer(endpoint, &end),
    }
}

/// Turns an operation that would block into `None`.
fn now<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

struct Client {
    endpoint: Endpoint,
    connection: Handle,
    has_streams: bool,
    /// The messages on each stream that wait to be sent or to be answered.
    lanes: BTreeMap<Handle, Lane>,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Lane {
    /// The messages that are not completely written: the size of each without its header, and the bytes of it
    /// written so far, header included.
    unsent: VecDeque<(usize, usize)>,
    /// The numbers of the messages without a reply. `received` counts the bytes of the first one's reply.
    unanswered: VecDeque<usize>,
    received: usize,
}

impl Client {
    /// Opens a connection, and waits until it is established.
    fn connect(mut endpoint: Endpoint, end: &ProcessRole, server: IpAddr) -> Result<Client, Error> {
        let connection = endpoint.connect(SocketAddr::new(server, PORT))?;
        while !endpoint.connected(connection)? {
            if !endpoint.poll()? {
                endpoint.wait(Some(NAP))?;
            }
        }
        Ok(Client {
            endpoint,
            connection,
            has_streams: end.has_streams,
            lanes: BTreeMap::new(),
            bytes: vec![0; PIECE],
        })
    }

    /// Sends each message when it is due, independent of other messages in flight, until all have their
    /// replies.
    fn send_all(mut self, due: &[(u64, usize)]) -> Result<Made, Error> {
        let mut times = vec![0; due.len()];
        let (mut begun, mut done) = (0, 0);
        let begin = Instant::now();
        while done < due.len() {
            while let Some(&(at, size)) = due.get(begun)
                && begin.elapsed() >= Duration::from_nanos(at)
                && let Some(handle) = self.stream()?
            {
                let lane = self.lanes.entry(handle).or_default();
                lane.unsent.push_back((size, 0));
                lane.unanswered.push_back(begun);
                begun += 1;
            }
            let mut is_busy = self.endpoint.poll()?;
            for handle in self.lanes.keys().copied().collect::<Vec<_>>() {
                is_busy |= self.write(handle)?;
                for number in self.read(handle)? {
                    let waited = begin.elapsed() - Duration::from_nanos(due[number].0);
                    times[number] = waited.as_nanos() as u64;
                    done += 1;
                    is_busy = true;
                }
            }
            if !is_busy {
                let next = due.get(begun).map_or(NAP, |(at, _)| {
                    Duration::from_nanos(*at).saturating_sub(begin.elapsed())
                });
                self.endpoint.wait(Some(next.min(NAP)))?;
            }
        }
        Ok(Made { times, failed: 0 })
    }

    /// Returns the stream for the next message, or `None` while the peer permits no further stream.
    fn stream(&mut self) -> io::Result<Option<Handle>> {
        match self.has_streams {
            true => now(self.endpoint.open_stream(self.connection, Direction::Both)),
            false => Ok(Some(self.connection)),
        }
    }

    /// Writes as much as the send buffer takes, and returns whether it took any bytes.
    fn write(&mut self, handle: Handle) -> io::Result<bool> {
        let Some(lane) = self.lanes.get_mut(&handle) else {
            return Ok(false);
        };
        let mut is_busy = false;
        while let Some((size, sent)) = lane.unsent.front_mut() {
            let left = (HEADER + *size - *sent).min(PIECE);
            let mut piece = &self.bytes[..left];
            let header = (*size as u64).to_be_bytes();
            if *sent < HEADER {
                piece = &header[*sent..];
            }
            let Some(written) = now(self.endpoint.write(handle, piece))? else {
                break;
            };
            is_busy = true;
            *sent += written;
            if *sent == HEADER + *size {
                lane.unsent.pop_front();
                if self.has_streams {
                    self.endpoint.shutdown(handle);
                }
            }
        }
        Ok(is_busy)
    }

    /// Returns the numbers of messages whose replies have come. If each message has a stream, the stream ends
    /// with its reply.
    fn read(&mut self, handle: Handle) -> Result<Vec<usize>, Error> {
        let (mut answered, mut reply) = (Vec::new(), [0; 64 * REPLY]);
        let Some(lane) = self.lanes.get_mut(&handle) else {
            return Ok(answered);
        };
        while !lane.unanswered.is_empty() {
            let Some(read) = now(self.endpoint.read(handle, &mut reply))? else {
                return Ok(answered);
            };
            if read == 0 {
                return Err("the server has ended a stream before its reply".into());
            }
            lane.received += read;
            while lane.received >= REPLY {
                lane.received -= REPLY;
                answered.extend(lane.unanswered.pop_front());
            }
        }
        if self.has_streams {
            self.lanes.remove(&handle);
            self.endpoint.close(handle);
        }
        Ok(answered)
    }
}

/// A server's state of a stream.
#[derive(Default)]
struct Coming {
    header: [u8; HEADER],
    /// The number of bytes received of the current message, including its header.
    received: usize,
    unsent: usize,
    ended: bool,
}

impl Coming {
    /// Takes bytes, and queues a reply for each message that they complete.
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let of_header = HEADER.saturating_sub(self.received).min(bytes.len());
            self.header[self.received.min(HEADER)..][..of_header].copy_from_slice(&bytes[..of_header]);
            self.received += of_header;
            bytes = &bytes[of_header..];
            if self.received < HEADER {
                return;
            }
            let size = HEADER + u64::from_be_bytes(self.header) as usize;
            let of_message = (size - self.received).min(bytes.len());
            self.received += of_message;
            bytes = &bytes[of_message..];
            if self.received == size {
                self.received = 0;
                self.unsent += REPLY;
            }
        }
    }
}

/// Answers messages. It does not return; its parent ends the process.
fn answer(mut endpoint: Endpoint, end: &ProcessRole) -> Result<(), Error> {
    let listener = endpoint.listen(SocketAddr::new(end.own, PORT), 4)?;
    println!("{READY}");
    let (mut connections, mut streams) = (Vec::new(), BTreeMap::new());
    let mut bytes = vec![0; PIECE];
    loop {
        let mut is_busy = endpoint.poll()?;
        while let Some(connection) = now(endpoint.accept(listener))? {
            match end.has_streams {
                true => connections.push(connection),
                false => drop(streams.insert(connection, Coming::default())),
            }
        }
        for connection in &connections {
            // A connection that has ended has no streams any more.
            while let Ok(stream) = endpoint.accept(*connection) {
                streams.insert(stream, Coming::default());
            }
        }
        let mut over = Vec::new();
        for (&handle, coming) in &mut streams {
            match go_on(&mut endpoint, handle, coming, &mut bytes) {
                Ok(went_on) => is_busy |= went_on,
                Err(_) => over.push(handle),
            }
            if coming.ended && coming.unsent == 0 {
                over.push(handle);
            }
        }
        for handle in over {
            streams.remove(&handle);
            endpoint.close(handle);
        }
        if !is_busy {
            endpoint.wait(Some(NAP))?;
        }
    }
}

/// Reads the available bytes and writes the replies, and returns whether it made progress.
fn go_on(endpoint: &mut Endpoint, handle: Handle, coming: &mut Coming, bytes: &mut [u8]) -> io::Result<bool> {
    let mut is_busy = false;
    while !coming.ended
        && let Some(read) = now(endpoint.read(handle, bytes))?
    {
        is_busy = true;
        coming.ended = read == 0;
        coming.take(&bytes[..read]);
    }
    while coming.unsent > 0
        && let Some(written) = now(endpoint.write(handle, &[0; REPLY][..coming.unsent.min(REPLY)]))?
    {
        is_busy = true;
        coming.unsent -= written;
    }
    Ok(is_busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_gets_a_reply_however_its_bytes_come() {
        let message = |size: usize| [&(size as u64).to_be_bytes()[..], &vec![7; size]].concat();
        let all = [message(0), message(5), message(300)].concat();
        for piece in 1..all.len() {
            let mut coming = Coming::default();
            all.chunks(piece).for_each(|piece| coming.take(piece));
            assert_eq!((coming.unsent, coming.received), (3 * REPLY, 0), "{piece}");
        }
    }
}
