//! `hawser rdma`: writes, reads and changes registered memory of another process, and measures the latency.

mod client;
mod control;
mod serve;

use std::net::SocketAddr;
use std::time::Duration;

use hawser::verbs::VerbsError;

use crate::device::DeviceArgs;
use crate::exit::{Exit, Outcome};

/// The maximum number of bytes of one work request, and of the memory that a server registers for each
/// client.
const MAX_SIZE: u32 = 64 << 20;
/// The maximum number of concurrent work requests of a client.
const MAX_DEPTH: u32 = 128;
/// The maximum number of concurrent clients of a server.
const MAX_CLIENTS: usize = 64;
/// The port of a server's control connections, the same as perftest's.
const PORT: u16 = 18515;
/// The default program.
const PROGRAM: &str = "roce";
/// The maximum time for which a command sleeps.
const SLEEP: Duration = Duration::from_millis(100);

/// Write, read and change registered memory of another process, and measure the latency
///
/// The ends agree over a TCP connection of this host, as perftest's do; the work goes over the program:
///
///   hawser rdma serve --dev packet:hawser0 --addr 10.9.0.1/24 &
///   hawser rdma write --dev packet:hawser1 --addr 10.9.0.2/24 --size 64
#[derive(clap::Subcommand)]
#[command(verbatim_doc_comment)]
pub(crate) enum Command {
    /// Register memory for each client, which the client may use freely
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
    /// Serve this number of clients, then exit
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    clients: Option<u64>,
    /// Poll the device all the time instead of sleeping, which occupies a processor
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
    /// The bytes of each work request; an atomic operation always has 8
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SIZE)))]
    size: u32,
    /// The maximum number of work requests at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    depth: u32,
    /// The number of work requests
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Payload bytes of a packet: 256, 512, 1024, 2048 or 4096, if the device supports it
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = parse_mtu)]
    mtu: u32,
    /// Poll the device all the time instead of sleeping, which occupies a processor
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
        _ => Err("expected 256, 512, 1024, 2048 or 4096".to_owned()),
    }
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Serve(args) => serve::serve(args),
        Command::Write(args) => client::run(args, control::RdmaOperation::Write),
        Command::Read(args) => client::run(args, control::RdmaOperation::Read),
        Command::Send(args) => client::run(args, control::RdmaOperation::Send),
        Command::Atomic(args) => client::run(args, control::RdmaOperation::Atomic),
    }
}

/// Maps a failure of a verb to an exit: the program lacks it, or the connection failed.
fn failed(error: &VerbsError) -> Exit {
    match error {
        VerbsError::Unsupported => Exit::input(format!("{error}: choose one that does, --program roce")),
        VerbsError::Mtu { .. } => Exit::environment(format!("{error}: choose a smaller --mtu")),
        _ => Exit::network(error.to_string()),
    }
}
