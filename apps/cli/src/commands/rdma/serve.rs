//! `hawser rdma serve`: memory for each client.

use std::io::{self, Read};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hawser::Endpoint;
use hawser::verbs::{
    Access, CompletionQueue, Connection, MemoryRegion, QueuePair, QueuePairConfig, Status, VerbsError,
};
use serde_json::json;

use super::control::{self, Answer, Hello, Kind};
use super::{MAX_SIZE, SLEEP, Serve, failed};
use crate::exit::{Exit, Outcome};
use crate::signals;

/// The maximum number of clients at a time.
const MAX_CLIENTS: usize = 64;
/// How long a client may take to say what it wants.
const TIMEOUT: Duration = Duration::from_secs(2);
/// While somebody is served, the control connections are polled at so often.
const CONTROL_INTERVAL: Duration = Duration::from_millis(20);

/// A client that is served.
struct Served {
    control: TcpStream,
    kind: Kind,
    size: u64,
    pair: QueuePair,
    queue: CompletionQueue,
    memory: MemoryRegion,
    /// Messages that came.
    received: u64,
    failure: Option<Status>,
}

pub(super) fn serve(args: &Serve) -> Outcome {
    let mut endpoint = args.device.endpoint()?;
    endpoint.verbs().map_err(|error| failed(&error))?;
    let cannot = |error: io::Error| Exit::environment(format!("cannot listen on {}: {error}", args.control));
    let listener = TcpListener::bind(args.control).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    match args.json {
        true => println!(
            "{}",
            json!({ "listening": at.to_string(), "engine": args.device.engine().name() })
        ),
        false => println!("listening on {at}"),
    }
    let mut clients: Vec<Served> = Vec::new();
    let (ended, is_over) = mpsc::channel();
    signals::end_by(ended)?;
    let (mut served, mut polled) = (0, Instant::now());
    while args.clients.is_none_or(|count| served < count) && is_over.try_recv().is_err() {
        let is_busy = endpoint.poll().map_err(Exit::environment)?;
        for client in &mut clients {
            client.work(&mut endpoint)?;
        }
        if polled.elapsed() > CONTROL_INTERVAL {
            polled = Instant::now();
            if clients.len() < MAX_CLIENTS
                && let Some(client) = accept(args, &listener, &mut endpoint)?
            {
                clients.push(client);
            }
            served += part(args, &mut endpoint, &mut clients)?;
        }
        if !is_busy && !args.spin {
            let limit = if clients.is_empty() {
                SLEEP
            } else {
                CONTROL_INTERVAL
            };
            endpoint.wait(Some(limit)).map_err(Exit::environment)?;
        }
    }
    Ok(())
}

/// Takes the next client, if one waits.
fn accept(args: &Serve, listener: &TcpListener, endpoint: &mut Endpoint) -> Result<Option<Served>, Exit> {
    let (control, from) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(Exit::environment(error)),
    };
    match agree(args, control, endpoint) {
        Ok(client) => Ok(Some(client)),
        Err(error) => {
            eprintln!("warning: the client at {from} is not served: {error}");
            Ok(None)
        }
    }
}

fn agree(args: &Serve, control: TcpStream, endpoint: &mut Endpoint) -> Result<Served, String> {
    control
        .set_nonblocking(false)
        .map_err(|error| error.to_string())?;
    control
        .set_read_timeout(Some(TIMEOUT))
        .map_err(|error| error.to_string())?;
    let hello: Hello = control::take(&control).map_err(|error| error.to_string())?;
    let address = args.device.address(Some(hello.address));
    let address = address.filter(|own: &IpAddr| own.is_ipv4() == hello.address.is_ipv4());
    let address = address.ok_or("this stack has no address of its family")?;
    if hello.size > MAX_SIZE || hello.depth > 128 {
        return Err("it wants more than a server gives".to_owned());
    }
    let mut client = begin(endpoint, control, &hello).map_err(|error| error.to_string())?;
    let answer = Answer {
        address,
        pair: client.pair.number(),
        first_packet: 0,
        key: client.memory.key(),
    };
    control::put(&mut client.control, &answer).map_err(|error| error.to_string())?;
    client
        .control
        .set_nonblocking(true)
        .map_err(|error| error.to_string())?;
    Ok(client)
}

/// Registers a client's memory and connects its queue pair.
fn begin(endpoint: &mut Endpoint, control: TcpStream, hello: &Hello) -> Result<Served, VerbsError> {
    let mut verbs = endpoint.verbs()?;
    let (domain, queue) = (verbs.protection_domain(), verbs.completion_queue());
    let len = hello.size.max(8) as usize;
    let memory = verbs.register(domain, len, Access::ALL)?;
    if hello.kind == Kind::Read {
        let bytes: Vec<u8> = (0..len).map(super::client::pattern).collect();
        memory.write(0, &bytes);
    }
    let pair = verbs.queue_pair(QueuePairConfig {
        domain,
        send_queue: queue,
        receive_queue: queue,
        signal_all: false,
    });
    verbs.to_init(pair)?;
    if hello.kind == Kind::Send {
        for id in 0..u64::from(hello.depth) {
            verbs.post_receive(pair, id, memory.slice(0, len as u64))?;
        }
    }
    let connection = Connection {
        expected_packet: hello.first_packet,
        mtu: hello.mtu,
        access: Access::ALL,
        ..Connection::new(hello.address, hello.pair)
    };
    verbs.connect(pair, &connection)?;
    Ok(Served {
        control,
        kind: hello.kind,
        size: len as u64,
        pair,
        queue,
        memory,
        received: 0,
        failure: None,
    })
}

impl Served {
    /// Posts memory again for each message that came.
    fn work(&mut self, endpoint: &mut Endpoint) -> Outcome {
        let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
        while let Some(completion) = verbs.poll(self.queue) {
            if completion.status != Status::Success {
                self.failure.get_or_insert(completion.status);
                continue;
            }
            self.received += 1;
            let memory = self.memory.slice(0, self.size);
            let posted = verbs.post_receive(self.pair, completion.id, memory);
            posted.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Whether its control connection has ended.
    fn has_ended(&mut self) -> bool {
        match self.control.read(&mut [0; 64]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// Gives up what clients had that are gone; how many those are.
fn part(args: &Serve, endpoint: &mut Endpoint, clients: &mut Vec<Served>) -> Result<u64, Exit> {
    let mut gone = 0;
    for mut client in std::mem::take(clients) {
        if !client.has_ended() {
            clients.push(client);
            continue;
        }
        let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
        verbs.destroy(client.pair);
        verbs.deregister(&client.memory);
        gone += 1;
        let why = client.failure.map(|status| status.to_string());
        match (args.json, why) {
            (true, why) => println!(
                "{}",
                json!({ "served": client.kind.name(), "messages": client.received, "failed": why })
            ),
            (false, None) => println!("a client ({}) was served", client.kind.name()),
            (false, Some(why)) => println!("a client ({}) has failed: {why}", client.kind.name()),
        }
    }
    Ok(gone)
}
