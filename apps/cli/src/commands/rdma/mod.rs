//! `hawser rdma`: registered memory of another process, written, read and changed, and how long that takes.

mod client;
mod control;
mod serve;

use std::net::SocketAddr;
use std::time::Duration;

use hawser::verbs::VerbsError;

use crate::device::DeviceArgs;
use crate::exit::{Exit, Outcome};

/// The most bytes of one work, and of the memory that a server registers for each client.
const MAX_SIZE: u32 = 64 << 20;
/// The maximum number of works of a client that are under way at a time.
const MAX_DEPTH: u32 = 128;
/// The maximum number of clients of a server at a time.
const MAX_CLIENTS: usize = 64;
/// The port of a server's control connections: perftest's.
const PORT: u16 = 18515;
/// The program, unless another is given.
const PROGRAM: &str = "roce";
/// How long a command sleeps at most.
const SLEEP: Duration = Duration::from_millis(100);

/// Write, read and change registered memory of another process, and measure how long it takes
///
/// The ends agree over a TCP connection of this host, as perftest's do; the work goes over the program:
///
///   hawser rdma serve --dev packet:hawser0 --addr 10.9.0.1/24 &
///   hawser rdma write --dev packet:hawser1 --addr 10.9.0.2/24 --size 64
#[derive(clap::Subcommand)]
#[command(verbatim_doc_comment)]
pub(crate) enum Command {
    /// Register memory for each client, which it may use as it likes
    ///
    /// A server has 64 clients at a time with up to 64 MiB each, a quarter of them from one network (an IPv4
    /// address, or an IPv6 /64) unless it listens on loopback. A further client replaces the one that has
    /// been idle for longest, for 5 s or more; otherwise it is refused with LIMIT.
    Serve(Serve),
    /// Write into the server's memory
    Write(Client),
    /// Read from the server's memory
    Read(Client),
    /// Send messages into memory that the server posts
    Send(Client),
    /// Add 1 to a number in the server's memory
    Atomic(Client),
}

#[derive(clap::Args)]
#[command(mut_arg("program", |program| program.default_value(PROGRAM)))]
pub(crate) struct Serve {
    /// ADDRESS:PORT at which clients find this server, by TCP of this host
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT)))]
    control: SocketAddr,
    /// Serve so many clients, then end
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    clients: Option<u64>,
    /// Never sleep: poll the device all the time, which takes a processor
    #[arg(long)]
    spin: bool,
    /// Print JSON, one object per line: `listening`, then `served` for each client
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(clap::Args)]
#[command(mut_arg("program", |program| program.default_value(PROGRAM)))]
pub(crate) struct Client {
    /// ADDRESS:PORT of the server, by TCP of this host
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT)))]
    control: SocketAddr,
    /// Bytes of each work; of an atomic operation always 8
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SIZE)))]
    size: u32,
    /// Works under way at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    depth: u32,
    /// Number of works
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Payload bytes of a packet: 256, 512, 1024, 2048 or 4096, as far as the device takes them
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = parse_mtu)]
    mtu: u32,
    /// Never sleep: poll the device all the time, which takes a processor
    #[arg(long)]
    spin: bool,
    /// Print the result as a JSON object and show no progress
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

fn parse_mtu(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(mtu @ (256 | 512 | 1024 | 2048 | 4096)) => Ok(mtu),
        _ => Err("it is 256, 512, 1024, 2048 or 4096".to_owned()),
    }
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Serve(args) => serve::serve(args),
        Command::Write(args) => client::run(args, control::Kind::Write),
        Command::Read(args) => client::run(args, control::Kind::Read),
        Command::Send(args) => client::run(args, control::Kind::Send),
        Command::Atomic(args) => client::run(args, control::Kind::Atomic),
    }
}

/// Why a verb failed: the program, or this end.
fn failed(error: &VerbsError) -> Exit {
    match error {
        VerbsError::Unsupported => Exit::input(format!("{error}: choose one that does, --program roce")),
        VerbsError::Mtu { .. } => Exit::environment(format!("{error}: choose a smaller --mtu")),
        _ => Exit::network(error.to_string()),
    }
}
