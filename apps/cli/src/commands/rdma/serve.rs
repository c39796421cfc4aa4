//! `hawser rdma serve`: registers memory for each client.
//!
//! One thread polls the device and the control connections, and never waits for a client. It reads a client's
//! data as it arrives, each request has a deadline, and another thread fills the memory.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hawser::Endpoint;
use hawser::session::admission::{IDLE_TIMEOUT, Places, Shares};
use hawser::time;
use hawser::verbs::{
    Access, CompletionQueue, ConnectionAttributes, MemoryRegion, QueuePair, QueuePairConfig, Status, Verbs,
    VerbsError,
};
use serde_json::json;

use super::control::{
    self, ClientRequest, LineBuffer, RdmaOperation, Refusal, ServerAnswer, ServerParameters,
};
use super::{MAX_CLIENTS, MAX_DEPTH, MAX_SIZE, SLEEP, Serve, failed};
use crate::exit::{Exit, Outcome};
use crate::{output, signals};

/// The maximum number of callers that have not sent their request yet. The oldest is dropped to admit
/// another.
const MAX_CALLERS: usize = 256;
/// The maximum number of callers accepted at once, so that the device is polled in between.
const ACCEPTED_AT_ONCE: usize = 64;
/// The time in which a client must send its whole request.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The interval at which the control connections are polled, if there are any.
const CONTROL_INTERVAL: Duration = Duration::from_millis(20);

/// The variable of a queue pair that changes with each packet of its client: the number of the next expected
/// packet.
const PROGRESS: &str = "expected";

/// A caller that has not sent its request yet.
struct Caller {
    control: TcpStream,
    from: SocketAddr,
    request: LineBuffer,
    until: Instant,
}

/// A client with memory and a queue pair.
struct ServedClient {
    control: TcpStream,
    prepared: Prepared,
    /// The last value of [`PROGRESS`].
    progress: Option<u64>,
    /// The number of received messages.
    received: u64,
    failure: Option<String>,
}

/// The memory and the queue pair of a client.
struct Prepared {
    kind: RdmaOperation,
    size: u64,
    pair: QueuePair,
    queue: CompletionQueue,
    memory: MemoryRegion,
    /// The pending answer, sent when the memory has been filled.
    due: Option<(ServerParameters, JoinHandle<()>)>,
}

/// The control connections.
struct Control {
    listener: TcpListener,
    callers: Places<Caller>,
    clients: Places<ServedClient>,
    epoch: Instant,
    /// The number of clients that have left.
    served: u64,
}

pub(super) fn serve(args: &Serve) -> Outcome {
    output::serve(args.json).map_err(Exit::environment)?;
    let mut endpoint = args.device.endpoint()?;
    endpoint.verbs().map_err(|error| failed(&error))?;
    let mut control = Control::open(args)?;
    let (ended, is_over) = mpsc::channel();
    signals::end_by(ended)?;
    let mut polled = Instant::now();
    while args.clients.is_none_or(|count| control.served < count) && is_over.try_recv().is_err() {
        let is_busy = endpoint.poll().map_err(Exit::environment)?;
        for (_, client) in control.clients.iter_mut() {
            client.work(&mut endpoint)?;
        }
        if polled.elapsed() > CONTROL_INTERVAL {
            polled = Instant::now();
            control.poll(args, &mut endpoint)?;
        }
        if !is_busy && !args.spin {
            let limit = if control.is_idle() {
                SLEEP
            } else {
                CONTROL_INTERVAL
            };
            endpoint.wait(Some(limit)).map_err(Exit::environment)?;
        }
    }
    Ok(())
}

impl Control {
    fn open(args: &Serve) -> Result<Control, Exit> {
        let cannot =
            |error: io::Error| Exit::environment(format!("cannot listen on {}: {error}", args.control));
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
        Ok(Control {
            listener,
            callers: Places::new(Shares::at(at, MAX_CALLERS)),
            clients: Places::new(Shares::at(at, MAX_CLIENTS)),
            epoch: Instant::now(),
            served: 0,
        })
    }

    fn now(&self) -> time::Instant {
        time::Instant::after(self.epoch.elapsed())
    }

    fn is_idle(&self) -> bool {
        self.callers.taken() + self.clients.taken() == 0
    }

    fn poll(&mut self, args: &Serve, endpoint: &mut Endpoint) -> Outcome {
        self.accept();
        self.hear(args, endpoint)?;
        self.look_after(args, endpoint)
    }

    /// Accepts waiting callers. If an accept fails, it is retried in a later turn.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Ok((control, from)) = self.listener.accept() else {
                return;
            };
            if control.set_nonblocking(true).is_err() {
                continue;
            }
            let caller = Caller {
                control,
                from,
                request: LineBuffer::default(),
                until: Instant::now() + TIMEOUT,
            };
            let now = self.now();
            self.callers.take(from.ip(), caller, now, Duration::ZERO);
        }
    }

    /// Reads the callers' data, and serves the callers whose request is complete.
    fn hear(&mut self, args: &Serve, endpoint: &mut Endpoint) -> Outcome {
        let mut done = Vec::new();
        for (number, caller) in self.callers.iter_mut() {
            match caller.request.poll::<ClientRequest>(&caller.control) {
                Ok(None) if Instant::now() < caller.until => {}
                Ok(None) => done.push((number, Err("the client sent no request in time".to_owned()))),
                Ok(Some(hello)) => done.push((number, Ok(hello))),
                Err(error) => done.push((number, Err(error.to_string()))),
            }
        }
        for (number, asked) in done {
            let Some(Caller { control, from, .. }) = self.callers.leave(number) else {
                continue;
            };
            if let Err(error) = asked.and_then(|hello| self.admit(args, endpoint, control, from, &hello)) {
                eprintln!("warning: the client at {from} is not served: {error}");
            }
        }
        Ok(())
    }

    /// Serves a client, or sends it the reason for the refusal.
    fn admit(
        &mut self,
        args: &Serve,
        endpoint: &mut Endpoint,
        mut control: TcpStream,
        from: SocketAddr,
        hello: &ClientRequest,
    ) -> Result<(), String> {
        let now = self.now();
        let prepared = match self.clients.has_room(from.ip(), now, IDLE_TIMEOUT) {
            true => prepare(args, endpoint, hello),
            false => Err(Refusal::Limit),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => {
                // Best effort: a client that does not read the answer does not learn the reason.
                let _ = control::put(&mut control, &ServerAnswer::Refused(refusal));
                return Err(refusal.to_string());
            }
        };
        let client = ServedClient { control, prepared, progress: None, received: 0, failure: None };
        if let Some((_, Some(mut evicted))) = self.clients.take(from.ip(), client, now, IDLE_TIMEOUT) {
            evicted.failure = Some("the client was idle, and another client needed its place".to_owned());
            self.part(args, endpoint, evicted)
                .map_err(|exit| exit.to_string())?;
        }
        Ok(())
    }

    /// Records the progress of the clients, and releases the resources of those that have gone.
    fn look_after(&mut self, args: &Serve, endpoint: &mut Endpoint) -> Outcome {
        let now = self.now();
        let (mut moved, mut gone) = (Vec::new(), Vec::new());
        for (number, client) in self.clients.iter_mut() {
            if client.has_ended() {
                gone.push(number);
            } else if client.has_moved(endpoint)? {
                moved.push(number);
            }
        }
        moved
            .into_iter()
            .for_each(|number| self.clients.moved(number, now));
        for number in gone {
            if let Some(client) = self.clients.leave(number) {
                self.part(args, endpoint, client)?;
            }
        }
        Ok(())
    }

    /// Releases a client's resources and reports the end.
    fn part(&mut self, args: &Serve, endpoint: &mut Endpoint, client: ServedClient) -> Outcome {
        let ServedClient { prepared, received, failure, .. } = client;
        let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
        prepared.release(&mut verbs).map_err(|error| failed(&error))?;
        self.served += 1;
        let kind = prepared.kind.name();
        match (args.json, failure) {
            (true, why) => println!(
                "{}",
                json!({ "served": kind, "messages": received, "failed": why })
            ),
            (false, None) => println!("a client ({kind}) was served"),
            (false, Some(why)) => println!("a client ({kind}) has failed: {why}"),
        }
        Ok(())
    }
}

/// Registers a client's memory and connects its queue pair.
fn prepare(args: &Serve, endpoint: &mut Endpoint, hello: &ClientRequest) -> Result<Prepared, Refusal> {
    let address = args.device.address(Some(hello.address));
    let address = address.filter(|own: &IpAddr| own.is_ipv4() == hello.address.is_ipv4());
    let address = address.ok_or(Refusal::Family)?;
    if hello.size > MAX_SIZE || hello.depth > MAX_DEPTH {
        return Err(Refusal::Size);
    }
    let mut prepared = begin(endpoint, hello).map_err(|error| match error {
        VerbsError::Mtu { .. } => Refusal::Mtu,
        _ => Refusal::Resources,
    })?;
    let answer = ServerParameters {
        address,
        pair: prepared.pair.number(),
        first_packet: 0,
        key: prepared.memory.key(),
    };
    let (region, fills) = (
        prepared.memory.region().clone(),
        hello.kind == RdmaOperation::Read,
    );
    let filling = std::thread::spawn(move || {
        if fills {
            let bytes = super::client::patterned(region.len());
            region.bytes().copy_from_slice(&bytes);
        }
    });
    prepared.due = Some((answer, filling));
    Ok(prepared)
}

fn begin(endpoint: &mut Endpoint, hello: &ClientRequest) -> Result<Prepared, VerbsError> {
    let mut verbs = endpoint.verbs()?;
    let (domain, queue) = (verbs.protection_domain(), verbs.completion_queue());
    let len = hello.size.max(8) as usize;
    let memory = verbs.register(domain, len, Access::ALL)?;
    let pair = verbs.queue_pair(QueuePairConfig {
        domain,
        send_queue: queue,
        receive_queue: queue,
        signal_all: false,
    });
    let prepared = Prepared { kind: hello.kind, size: len as u64, pair, queue, memory, due: None };
    match prepared.connect(&mut verbs, hello) {
        Ok(()) => Ok(prepared),
        Err(error) => {
            prepared.release(&mut verbs)?;
            Err(error)
        }
    }
}

impl Prepared {
    /// Releases the client's memory and queue pair.
    fn release(&self, verbs: &mut Verbs<'_>) -> Result<(), VerbsError> {
        verbs.destroy(self.pair);
        verbs.deregister(&self.memory);
        verbs.destroy_queue(self.queue)
    }

    fn connect(&self, verbs: &mut Verbs<'_>, hello: &ClientRequest) -> Result<(), VerbsError> {
        verbs.to_init(self.pair)?;
        if hello.kind == RdmaOperation::Send {
            for id in 0..u64::from(hello.depth) {
                verbs.post_receive(self.pair, id, self.memory.slice(0, self.size))?;
            }
        }
        let connection = ConnectionAttributes {
            expected_packet: hello.first_packet,
            mtu: hello.mtu,
            access: Access::ALL,
            ..ConnectionAttributes::new(hello.address, hello.pair)
        };
        verbs.connect(self.pair, &connection)
    }
}

impl ServedClient {
    /// Posts memory again for each received message.
    fn work(&mut self, endpoint: &mut Endpoint) -> Outcome {
        let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
        let Prepared { pair, queue, ref memory, size, .. } = self.prepared;
        while let Some(completion) = verbs.poll(queue) {
            if completion.status != Status::Success {
                self.failure.get_or_insert_with(|| completion.status.to_string());
                continue;
            }
            self.received += 1;
            if let Err(error) = verbs.post_receive(pair, completion.id, memory.slice(0, size)) {
                self.failure.get_or_insert_with(|| error.to_string());
            }
        }
        Ok(())
    }

    /// Sends the pending answer when the memory is filled. Returns whether the client has made progress since
    /// the last call.
    fn has_moved(&mut self, endpoint: &mut Endpoint) -> Result<bool, Exit> {
        if let Some((answer, _)) = self.prepared.due.take_if(|(_, filling)| filling.is_finished()) {
            // A fresh connection has buffer space for a line; if the write fails, the client has gone.
            let _ = control::put(&mut self.control, &ServerAnswer::Served(answer));
            return Ok(true);
        }
        let verbs = endpoint.verbs().map_err(|error| failed(&error))?;
        let progress = verbs.observe(self.prepared.pair, PROGRESS);
        let has_moved = self.prepared.due.is_some() || progress != self.progress;
        self.progress = progress;
        Ok(has_moved)
    }

    /// Returns whether the control connection has ended.
    fn has_ended(&mut self) -> bool {
        match self.control.read(&mut [0; 64]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}
