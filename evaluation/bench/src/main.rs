//! `hawser-bench`: measures Hawser beside its peers, in one run, alternating. `hawser bench` starts it.
//!
//! * `bench/`: the benches, one file for each
//! * `sides/`: the two sides of a measurement over a network, each a process of its own
//! * `ring/`: two stacks in one thread, and a wire in memory
//! * `networks`: the namespaces, cables and devices between them
//! * `report`, `table`, `svg`: the output
//! * `engine`: the engines that run Hawser's programs
//! * `handwritten/`: a hand-written TCP in C, as a baseline
//! * `sys`: system calls
//!
//! `unsafe` is confined to `sys`, `handwritten` and `sides/bare`.

#![deny(unsafe_code)]

mod bench;
mod engine;
#[allow(unsafe_code)] // It calls C.
mod handwritten;
mod networks;
mod report;
mod ring;
mod sides;
mod svg;
#[allow(unsafe_code)] // It calls the system.
mod sys;
mod table;

use std::process::ExitCode;

use clap::Parser;

use bench::{
    Common, abi, answers, bulk, callgrind, check, connect, dpdk, fabric, gates, http, memory, policy, race,
    requests, rr, session, sockets, stack,
};
use report::Report;
use table::Style;

/// Measure Hawser beside its peers: in one run, alternating, medians
#[derive(Parser)]
#[command(name = "hawser bench", bin_name = "hawser bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Subcommand)]
enum Command {
    Bulk(bulk::Args),
    Rr(rr::Args),
    Sockets(sockets::Args),
    Connect(connect::Args),
    Dpdk(dpdk::Args),
    Http(http::Args),
    Answers(answers::Args),
    Requests(requests::Args),
    Stack(stack::Args),
    Check(check::Args),
    Callgrind(callgrind::Args),
    Abi(abi::Args),
    Idle(memory::IdleArgs),
    Flows(memory::FlowsArgs),
    Session(session::SessionArgs),
    Crowd(session::CrowdArgs),
    Policy(policy::Args),
    Race(race::Args),
    Fabric(fabric::Args),
    Gates(gates::Args),
    /// Run one side of a measurement; the benches start it
    #[command(hide = true)]
    Side {
        spec: String,
    },
    /// Make one transfer from ring to ring; runs under valgrind
    #[command(hide = true)]
    Once(callgrind::Once),
    /// Make one transfer by a session; runs under valgrind
    #[command(hide = true)]
    OnceSession(session::Once),
    /// Run the ABI measurement once; runs under valgrind
    #[command(hide = true)]
    OnceAbi(abi::Once),
    /// Rank a number of times; runs under valgrind
    #[command(hide = true)]
    OncePolicy(policy::Once),
    /// Select a number of times; runs under valgrind
    #[command(hide = true)]
    OnceRace(race::Once),
    /// Simulate a fabric for some time, in a process of its own
    #[command(hide = true)]
    OnceFabric(fabric::Once),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let common = &cli.common;
    let result = match &cli.command {
        Command::Bulk(args) => bulk::run(args, common),
        Command::Rr(args) => rr::run(args, common),
        Command::Sockets(args) => sockets::run(args, common),
        Command::Connect(args) => connect::run(args, common),
        Command::Dpdk(args) => dpdk::run(args, common),
        Command::Http(args) => http::run(args, common),
        Command::Answers(args) => answers::run(args, common),
        Command::Requests(args) => requests::run(args, common),
        Command::Stack(args) => stack::run(args, common),
        Command::Check(args) => check::run(args, common),
        Command::Abi(args) => abi::run(args, common),
        Command::Callgrind(args) => callgrind::run(args, common),
        Command::Idle(args) => memory::idle(args, common),
        Command::Flows(args) => memory::flows(args, common),
        Command::Session(args) => session::session(args, common),
        Command::Crowd(args) => session::crowd(args, common),
        Command::Policy(args) => policy::run(args, common),
        Command::Race(args) => race::run(args, common),
        Command::Fabric(args) => fabric::run(args, common),
        Command::Gates(_) => {
            return match gates::run(common) {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => ExitCode::FAILURE,
                Err(error) => ended(Err(error)),
            };
        }
        Command::OnceSession(args) => return ended(session::once(args)),
        Command::Side { spec } => return ended(sides::run(spec)),
        Command::OnceAbi(args) => return ended(abi::once(args)),
        Command::OncePolicy(args) => return ended(policy::once(args)),
        Command::OnceRace(args) => {
            race::once(args);
            return ended(Ok(()));
        }
        Command::OnceFabric(args) => return ended(fabric::once(args, common)),
        Command::Once(args) => return ended(callgrind::once(args)),
    };
    ended(result.and_then(|report| show(&report, common)))
}

/// Exits with code 4 on an error: a missing device, permission or resource of this machine
/// (docs/exit-codes.md).
fn ended(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hawser bench: {error}");
            ExitCode::from(4)
        }
    }
}

fn show(report: &Report, common: &Common) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(file) = &common.svg {
        std::fs::write(file, svg::render(report))
            .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    match (common.json, common.markdown) {
        (true, _) => println!("{}", serde_json::to_string_pretty(report)?),
        (false, true) => print!("{}", table::render(report, Style::Markdown)),
        (false, false) => print!("{}", table::render(report, Style::Plain)),
    }
    Ok(())
}
