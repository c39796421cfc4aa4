//! One process writes into the memory of another, with the registered memory and queue pairs of libibverbs.
//!
//! The server, and then the client, at both ends of a pair of Ethernet devices; they exchange parameters over
//! TCP of this host:
//!
//! ```console
//! # ip link add hawser0 type veth peer name hawser1 && ip link set hawser0 up && ip link set hawser1 up
//! # cargo run --example rdma_write -- packet:hawser0 10.9.0.1/24 &
//! # cargo run --example rdma_write -- packet:hawser1 10.9.0.2/24 10.9.0.1
//! ```

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::Duration;

use hawser::Endpoint;
use hawser::host::{self, StackSetup};
use hawser::verbs::{
    Access, CompletionQueue, ConnectionAttributes, MemoryRegion, QueuePair, QueuePairConfig, Remote,
    SendRequest, Status, WorkOperation,
};

/// The address at which both ends exchange parameters.
const CONTROL: &str = "127.0.0.1:18516";
/// The size of the memory, in bytes.
const SIZE: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("{} bytes were written into the server's memory", run(&arguments)?);
    Ok(())
}

/// Runs the server for one client, or the client. Returns the number of bytes received, or sent.
pub fn run(arguments: &[String]) -> Result<usize, Box<dyn Error>> {
    let [device, own, server @ ..] = arguments else {
        return Err("usage: rdma_write DEVICE OWN-ADDRESS/LEN [SERVER]".into());
    };
    let own = host::parse_address(own)?;
    let program = hawser::programs::resolve("roce", &[])?;
    let mut endpoint = host::open(program, &StackSetup::new(device.parse()?, own))?;
    match server.first() {
        None => serve(&mut endpoint),
        Some(server) => write(&mut endpoint, own.0, server.parse()?),
    }
}

/// Makes a queue pair with its completion queue, and memory for it.
fn prepare(
    endpoint: &mut Endpoint,
    access: Access,
) -> Result<(QueuePair, CompletionQueue, MemoryRegion), Box<dyn Error>> {
    let mut verbs = endpoint.verbs()?;
    let (domain, queue) = (verbs.protection_domain(), verbs.completion_queue());
    let memory = verbs.register(domain, SIZE, access)?;
    let pair = verbs.queue_pair(QueuePairConfig {
        domain,
        send_queue: queue,
        receive_queue: queue,
        signal_all: true,
    });
    verbs.to_init(pair)?;
    Ok((pair, queue, memory))
}

fn serve(endpoint: &mut Endpoint) -> Result<usize, Box<dyn Error>> {
    let (pair, queue, memory) = prepare(endpoint, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let (mut control, _) = TcpListener::bind(CONTROL)?.accept()?;
    let mut line = String::new();
    BufReader::new(&control).read_line(&mut line)?;
    let (address, number) = line.trim().split_once(' ').ok_or("an address and a number")?;
    let mut connection = ConnectionAttributes::new(address.parse()?, number.parse()?);
    connection.access = Access::REMOTE_WRITE;
    let mut verbs = endpoint.verbs()?;
    // The write carries immediate data, which consumes a receive and so notifies this end.
    verbs.post_receive(pair, 1, memory.slice(0, 0))?;
    verbs.connect(pair, &connection)?;
    writeln!(control, "{} {}", pair.number(), memory.key())?;
    let len = wait(endpoint, queue)?;
    // The acknowledgement for the client may have been lost, so this end answers for a while longer.
    let until = std::time::Instant::now() + Duration::from_millis(200);
    while std::time::Instant::now() < until {
        while endpoint.poll()? {}
        endpoint.wait(Some(Duration::from_millis(10)))?;
    }
    let bytes = memory.region().bytes();
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == pattern(at)));
    Ok(len)
}

fn write(endpoint: &mut Endpoint, own: IpAddr, server: IpAddr) -> Result<usize, Box<dyn Error>> {
    let (pair, queue, memory) = prepare(endpoint, Access::LOCAL_WRITE)?;
    let bytes: Vec<u8> = (0..SIZE).map(pattern).collect();
    memory.write(0, &bytes);
    let mut control = TcpStream::connect(CONTROL)?;
    writeln!(control, "{own} {}", pair.number())?;
    let mut line = String::new();
    BufReader::new(&control).read_line(&mut line)?;
    let (number, key) = line.trim().split_once(' ').ok_or("a number and a key")?;
    let mut verbs = endpoint.verbs()?;
    verbs.connect(pair, &ConnectionAttributes::new(server, number.parse()?))?;
    let remote = Remote { key: key.parse()?, at: 0 };
    let request = SendRequest::new(1, WorkOperation::Write(remote), memory.slice(0, SIZE as u64));
    verbs.post_send(pair, &request.immediate(42))?;
    wait(endpoint, queue)
}

/// Waits for the next completion; returns its number of bytes.
fn wait(endpoint: &mut Endpoint, queue: CompletionQueue) -> Result<usize, Box<dyn Error>> {
    loop {
        while endpoint.poll()? {}
        if let Some(completion) = endpoint.verbs()?.poll(queue) {
            return match completion.status {
                Status::Success => Ok(completion.len as usize),
                status => Err(status.to_string().into()),
            };
        }
        endpoint.wait(None)?;
    }
}

fn pattern(at: usize) -> u8 {
    (at * 7 + at / 251) as u8
}
