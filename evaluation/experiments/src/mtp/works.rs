//! The two processes between which memory is written and read: by RoCE over a packet socket, or, as the
//! baseline, as bytes over Linux's TCP.
//!
//! The ends of RoCE exchange their parameters over Linux's TCP, as perftest does. A spinning process never
//! sleeps: it polls its device, or reads its socket without blocking.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hawser::Endpoint;
use hawser::host::{DeviceSpec, StackSetup, linux_tcp, open};
use hawser::verbs::{
    Access, CompletionQueue, ConnectionAttributes, MAX_INLINE, MemoryRegion, QueuePair, QueuePairConfig,
    Remote, SendRequest, Status, VerbsError, WorkOperation,
};
use serde::{Deserialize, Serialize};

use super::calls::{CONGESTION_CONTROL, Made, PORT, READY, check, message};
use super::peers::stay_on;
use crate::Error;

/// The variable that marks a process as one of the two. Its value is a [`Role`] in JSON.
pub(super) const ROLE: &str = "HAWSER_EXPERIMENT_WORK";
/// The payload bytes of RoCE's packets on a link with Ethernet's MTU of 1500.
const MTU: u32 = 1024;
/// The longest time for which a side sleeps.
const NAP: Duration = Duration::from_millis(100);

/// The kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// Writes into the server's memory, each measured until its completion.
    Write,
    /// Reads from the server's memory.
    Read,
    /// Bytes to the server and back by Linux's TCP.
    RoundTrip,
    /// Bytes to the server by Linux's TCP, until the server confirms that it has them all.
    Stream,
}

/// The role of one of the two processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Role {
    pub(super) kind: Kind,
    pub(super) is_client: bool,
    /// The addresses of the stacks, its own first.
    pub(super) stacks: [IpAddr; 2],
    /// The address of the server in Linux.
    pub(super) server: IpAddr,
    pub(super) size: usize,
    /// The number of work requests in flight.
    pub(super) depth: usize,
    /// The number of work requests before the measured ones.
    pub(super) warm_up: usize,
    pub(super) count: usize,
    pub(super) spins: bool,
    /// The processor that it is pinned to.
    pub(super) core: Option<usize>,
}

/// Runs one of the two processes if this process was started as one, and returns its result; otherwise
/// returns `None`. A client prints a [`Made`]: the time of each work request or round trip, or the total time
/// of a stream.
///
/// # Errors
/// The work failed.
pub(super) fn serve() -> Option<Result<(), Error>> {
    let role = std::env::var(ROLE).ok()?;
    Some(act(&role))
}

fn act(role: &str) -> Result<(), Error> {
    let role: Role = serde_json::from_str(role)?;
    role.core.map_or(Ok(()), stay_on)?;
    let made = match (role.kind, role.is_client) {
        (Kind::Write | Kind::Read, true) => work(&role)?,
        (Kind::Write | Kind::Read, false) => return serve_memory(&role),
        (_, true) => exchange(&role)?,
        (_, false) => return serve_bytes(&role),
    };
    println!("{}", serde_json::to_string(&made)?);
    Ok(())
}

/// A stack with a queue pair and registered memory.
struct Host {
    endpoint: Endpoint,
    queue: CompletionQueue,
    pair: QueuePair,
    memory: MemoryRegion,
}

impl Host {
    fn new(role: &Role) -> Result<Host, Error> {
        let program = hawser::programs::resolve_with("roce", &[])?;
        let setup = StackSetup::new(DeviceSpec::Packet("eth0".into()), (role.stacks[0], 24));
        let mut endpoint = open(program, &setup)?;
        let mut verbs = endpoint.verbs()?;
        let (domain, queue) = (verbs.protection_domain(), verbs.completion_queue());
        let memory = verbs.register(domain, role.size, Access::ALL)?;
        let pair = verbs.queue_pair(QueuePairConfig {
            domain,
            send_queue: queue,
            receive_queue: queue,
            signal_all: true,
        });
        verbs.to_init(pair)?;
        Ok(Host { endpoint, queue, pair, memory })
    }

    /// Sends this end's queue pair and key to the peer, and connects to the peer's queue pair. Returns the
    /// peer's key.
    fn agree(&mut self, role: &Role, control: &mut TcpStream) -> Result<u32, Error> {
        writeln!(control, "{} {}", self.pair.number(), self.memory.key())?;
        let mut line = String::new();
        BufReader::new(&*control).read_line(&mut line)?;
        let (pair, key) = line
            .trim()
            .split_once(' ')
            .ok_or("the peer names no queue pair and key")?;
        let connection = ConnectionAttributes {
            mtu: MTU,
            access: Access::ALL,
            ..ConnectionAttributes::new(role.stacks[1], pair.parse()?)
        };
        self.endpoint.verbs()?.connect(self.pair, &connection)?;
        Ok(key.parse()?)
    }

    /// Polls until the endpoint is idle for now, or sleeps.
    fn turn(&mut self, spins: bool) -> Result<(), Error> {
        if !self.endpoint.poll()? && !spins {
            self.endpoint.wait(Some(NAP))?;
        }
        Ok(())
    }

    /// Executes work requests, `role.depth` at a time. The times of the first `warm_up` requests are not
    /// recorded.
    fn all(&mut self, role: &Role, warm_up: usize, request: &SendRequest) -> Result<Made, Error> {
        let mut made = Made::default();
        let mut posted_at = VecDeque::with_capacity(role.depth);
        let (mut posted, mut done) = (0, 0);
        let total = warm_up + role.count;
        while done < total {
            let mut verbs = self.endpoint.verbs()?;
            while posted < total && posted - done < role.depth {
                let begin = Instant::now();
                match verbs.post_send(self.pair, request) {
                    Ok(()) => posted_at.push_back(begin),
                    Err(VerbsError::Full) => break,
                    Err(error) => return Err(error.into()),
                }
                posted += 1;
            }
            self.turn(role.spins)?;
            let mut verbs = self.endpoint.verbs()?;
            while let Some(completion) = verbs.poll(self.queue) {
                let begin: Instant = posted_at.pop_front().ok_or("a work ended that was not posted")?;
                if completion.status != Status::Success {
                    return Err(completion.status.to_string().into());
                }
                done += 1;
                if done > warm_up {
                    made.times.push(begin.elapsed().as_nanos() as u64);
                }
            }
        }
        Ok(made)
    }
}

/// Writes into the server's memory or reads from it, and compares the contents with the expected ones. With
/// several requests in flight, the total time is recorded in place of the time of each.
fn work(role: &Role) -> Result<Made, Error> {
    let mut host = Host::new(role)?;
    let mut control = TcpStream::connect(SocketAddr::new(role.server, PORT))?;
    let remote = Remote { key: host.agree(role, &mut control)?, at: 0 };
    let all = host.memory.slice(0, role.size as u64);
    let bytes = message(role.size);
    let read = SendRequest::new(0, WorkOperation::Read(remote), all);
    let request = match role.kind {
        Kind::Write => {
            host.memory.write(0, &bytes);
            match role.size <= MAX_INLINE {
                true => SendRequest::inline(0, WorkOperation::Write(remote), &bytes),
                false => SendRequest::new(0, WorkOperation::Write(remote), all),
            }
        }
        _ => read.clone(),
    };
    let once = Role { count: 1, ..role.clone() };
    let mut made = match role.depth {
        1 => host.all(role, role.warm_up, &request)?,
        _ => {
            host.all(&once, role.warm_up, &request)?;
            let begin = Instant::now();
            host.all(role, 0, &request)?;
            whole(begin)
        }
    };
    if role.kind == Kind::Write {
        host.memory.write(0, &vec![0; role.size]);
        host.all(&once, 0, &read)?;
    }
    let mut seen = vec![0; role.size];
    host.memory.read(0, &mut seen);
    check(&seen, &bytes)?;
    made.times.shrink_to_fit();
    Ok(made)
}

/// Serves memory. It does not return; its parent ends the process.
fn serve_memory(role: &Role) -> Result<(), Error> {
    let mut host = Host::new(role)?;
    if role.kind == Kind::Read {
        host.memory.write(0, &message(role.size));
    }
    let listener = TcpListener::bind(SocketAddr::new(role.server, PORT))?;
    println!("{READY}");
    let (mut control, _) = listener.accept()?;
    host.agree(role, &mut control)?;
    loop {
        host.turn(role.spins)?;
    }
}

/// Makes round trips, or sends a stream, over Linux's TCP.
fn exchange(role: &Role) -> Result<Made, Error> {
    let stream = TcpStream::connect(SocketAddr::new(role.server, PORT))?;
    let mut stream = Bytes::new(stream, role)?;
    let bytes = message(role.size);
    let mut seen = vec![0; role.size];
    let mut made = Made::default();
    let mut begin = Instant::now();
    for number in 0..role.warm_up + role.count {
        if role.kind == Kind::Stream {
            if number == role.warm_up {
                stream.receive(&mut [0])?;
                begin = Instant::now();
            }
            stream.send(&bytes)?;
            continue;
        }
        let begin = Instant::now();
        stream.send(&bytes)?;
        stream.receive(&mut seen)?;
        if number >= role.warm_up {
            made.times.push(begin.elapsed().as_nanos() as u64);
        }
        check(&seen, &bytes)?;
    }
    if role.kind == Kind::Stream {
        stream.receive(&mut [0])?;
        return Ok(whole(begin));
    }
    Ok(made)
}

fn whole(begin: Instant) -> Made {
    Made { times: vec![begin.elapsed().as_nanos() as u64], failed: 0 }
}

/// Sends received bytes back. Of a stream, it confirms the whole warm-up and the whole measured part with one
/// byte each. It does not return; its parent ends the process.
fn serve_bytes(role: &Role) -> Result<(), Error> {
    let listener = TcpListener::bind(SocketAddr::new(role.server, PORT))?;
    println!("{READY}");
    let mut stream = Bytes::new(listener.accept()?.0, role)?;
    let mut bytes = vec![0; role.size];
    for number in 1..=role.warm_up + role.count {
        stream.receive(&mut bytes)?;
        match role.kind {
            Kind::Stream if number == role.warm_up || number == role.warm_up + role.count => {
                stream.send(&[1])?;
            }
            Kind::Stream => {}
            _ => stream.send(&bytes)?,
        }
    }
    std::thread::sleep(Duration::MAX);
    Ok(())
}

/// A stream of Linux's TCP without Nagle's algorithm. It does not block if the process spins.
struct Bytes(TcpStream);

impl Bytes {
    fn new(stream: TcpStream, role: &Role) -> Result<Bytes, Error> {
        linux_tcp::set_congestion_control(&stream, CONGESTION_CONTROL)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(role.spins)?;
        Ok(Bytes(stream))
    }

    fn receive(&mut self, mut bytes: &mut [u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match self.0.read(bytes) {
                Ok(0) => return Err("the peer has closed the connection".into()),
                Ok(count) => bytes = &mut bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
