//! The two processes between which memory is written and read: by RoCE over a packet socket, or, to compare, bytes over
//! Linux's TCP.
//!
//! The ends of RoCE agree over Linux's TCP, as perftest's do. Who spins never sleeps: it polls its device, or reads its
//! socket without blocking.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hawser::Endpoint;
use hawser::host::{DeviceSpec, Setup, linux_tcp, open};
use hawser::verbs::{
    Access, CompletionQueue, Connection, MAX_INLINE, MemoryRegion, Operation, QueuePair, QueuePairConfig,
    Remote, SendRequest, Status, VerbsError,
};
use serde::{Deserialize, Serialize};

use super::calls::{CONGESTION_CONTROL, Made, PORT, READY, check, message};
use super::peers::stay_on;
use crate::Error;

/// Set for a process that is one of the two; its value is a [`Role`] in JSON.
pub(super) const ROLE: &str = "HAWSER_EXPERIMENT_WORK";
/// Payload bytes of RoCE's packets on a link of Ethernet's 1500.
const MTU: u32 = 1024;
/// How long a side sleeps at most.
const NAP: Duration = Duration::from_millis(100);

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// Writes into the server's memory, each until its completion.
    Write,
    /// Reads from it.
    Read,
    /// Bytes to the server and back by Linux's TCP.
    RoundTrip,
    /// Bytes to the server by Linux's TCP, until it says that it has all.
    Stream,
}

/// One of the two.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Role {
    pub(super) kind: Kind,
    pub(super) is_client: bool,
    /// The stacks' addresses, its own first.
    pub(super) stacks: [IpAddr; 2],
    /// The server's address in Linux.
    pub(super) server: IpAddr,
    pub(super) size: usize,
    /// Works under kind at a time.
    pub(super) depth: usize,
    /// Works before those that count.
    pub(super) warm_up: usize,
    pub(super) count: usize,
    pub(super) spins: bool,
    /// The processor that it stays on.
    pub(super) core: Option<usize>,
}

/// Whether this process was started to be one of the two, and how that went. A client prints what it has [`Made`]: the
/// time of each work or round trip, and of a stream its whole time alone.
///
/// # Errors
/// Whatever ended it.
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

/// A stack with a queue pair and memory.
struct Host {
    endpoint: Endpoint,
    queue: CompletionQueue,
    pair: QueuePair,
    memory: MemoryRegion,
}

impl Host {
    fn new(role: &Role) -> Result<Host, Error> {
        let program = hawser::programs::resolve_with("roce", &[])?;
        let setup = Setup::new(DeviceSpec::Packet("eth0".into()), (role.stacks[0], 24));
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

    /// Tells the peer this end's pair and key, and connects to the peer's; the peer's key.
    fn agree(&mut self, role: &Role, control: &mut TcpStream) -> Result<u32, Error> {
        writeln!(control, "{} {}", self.pair.number(), self.memory.key())?;
        let mut line = String::new();
        BufReader::new(&*control).read_line(&mut line)?;
        let (pair, key) = line
            .trim()
            .split_once(' ')
            .ok_or("the peer names no queue pair and key")?;
        let connection = Connection {
            mtu: MTU,
            access: Access::ALL,
            ..Connection::new(role.stacks[1], pair.parse()?)
        };
        self.endpoint.verbs()?.connect(self.pair, &connection)?;
        Ok(key.parse()?)
    }

    /// Polls until there is nothing more to do for now, or sleeps.
    fn turn(&mut self, spins: bool) -> Result<(), Error> {
        if !self.endpoint.poll()? && !spins {
            self.endpoint.wait(Some(NAP))?;
        }
        Ok(())
    }

    /// Does works, as many at a time as the role says, with so many before those whose times count.
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

/// Writes into the server's memory or reads from it, and compares it with what it has to be. With several works under kind
/// their whole time counts, in place of the times of each.
fn work(role: &Role) -> Result<Made, Error> {
    let mut host = Host::new(role)?;
    let mut control = TcpStream::connect(SocketAddr::new(role.server, PORT))?;
    let remote = Remote { key: host.agree(role, &mut control)?, at: 0 };
    let all = host.memory.slice(0, role.size as u64);
    let bytes = message(role.size);
    let read = SendRequest::new(0, Operation::Read(remote), all);
    let request = match role.kind {
        Kind::Write => {
            host.memory.write(0, &bytes);
            match role.size <= MAX_INLINE {
                true => SendRequest::inline(0, Operation::Write(remote), &bytes),
                false => SendRequest::new(0, Operation::Write(remote), all),
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

/// Does not end: its parent ends it.
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

/// Round trips, or a stream, over Linux's TCP.
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

/// Sends back what comes; of a stream a byte when all is there, before what counts and at the end. Does not end: its
/// parent ends it.
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

/// A stream of Linux's, without Nagle's algorithm; who spins does not block.
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
