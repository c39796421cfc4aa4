//! The `hawser` command.
//!
//! Each sub-command is one file in `commands/` and returns an [`exit::Exit`] when it fails.

#![forbid(unsafe_code)]

#[macro_use]
mod terminal;
mod trace_file;

mod beside;
mod commands;
mod device;
mod engine;
mod exit;
mod frames;
mod groups;
mod http;
mod interact;
mod interrupt;
mod log;
mod output;
mod progress;
mod screen;
mod session;
mod signals;

use clap::{CommandFactory, FromArgMatches, Parser};

use commands::{
    attach, audit, bench, build, cat, check, cib, debug, demo, detach, dissector, emit, events, experiment,
    explain, fmt, gateway, get, kernel, lab, lsp, modify, mutants, policy, probe, proxy, rdma, recv, replay,
    rpc, script, send, serve, shrink, sim, steer, step, swarm, sweep, trace, watch,
};

/// Hawser: transports written once, as reactions to events, run on many targets.
#[derive(Parser)]
#[command(
    name = "hawser",
    version,
    after_help = "\
Start here:
  hawser check examples/stop-and-wait.mtp        is the program right?
  hawser sim examples/scenarios/tcp-lossy.toml   run it in the simulator
  hawser demo                                    TCP in MTP against Linux's own TCP

Exit codes: 0 done, 1 what was checked is not so, 2 wrong usage, 3 bad input file,
4 device or permission, 5 network or peer, 70 a bug in Hawser."
)]
struct Cli {
    /// The format of the log on standard error. RUST_LOG selects the lines, as in
    /// RUST_LOG=hawser=debug; without it there are warnings and errors alone
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        display_order = 1000
    )]
    log: log::Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Args),
    Fmt(fmt::Args),
    Lsp(lsp::Args),
    Explain(explain::Args),
    Dissector(dissector::Args),
    Emit(emit::Args),
    Build(build::Args),
    Sim(sim::Args),
    Replay(replay::Args),
    Trace(trace::Args),
    Debug(debug::Args),
    Shrink(shrink::Args),
    Script(script::Args),
    Step(step::Args),
    Swarm(swarm::Args),
    Sweep(sweep::Args),
    Mutants(mutants::Args),
    Serve(serve::Args),
    Get(get::Args),
    #[command(subcommand)]
    Rdma(rdma::Command),
    #[command(subcommand)]
    Rpc(rpc::Command),
    Send(send::Args),
    Recv(recv::Args),
    Cat(cat::Args),
    Proxy(proxy::Args),
    Gateway(gateway::Args),
    #[command(subcommand)]
    Lab(lab::Command),
    #[command(subcommand)]
    Policy(policy::Command),
    #[command(subcommand)]
    Cib(cib::Command),
    Events(events::Args),
    Probe(probe::Args),
    Watch(watch::Args),
    Modify(modify::Args),
    Steer(steer::Args),
    Attach(attach::Args),
    Detach(detach::Args),
    Audit(audit::Args),
    Kernel(kernel::Args),
    Experiment(experiment::Args),
    Demo(demo::Args),
    Bench(bench::Args),
}

fn main() -> std::process::ExitCode {
    exit::set_panic_hook();
    let matches = groups::grouped(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    log::start(cli.log);
    let result = match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Fmt(args) => fmt::run(&args),
        Command::Lsp(args) => lsp::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Dissector(args) => dissector::run(&args),
        Command::Emit(args) => emit::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Debug(args) => debug::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Script(args) => script::run(&args),
        Command::Step(args) => step::run(&args),
        Command::Swarm(args) => swarm::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Rdma(command) => rdma::run(&command),
        Command::Rpc(command) => rpc::run(&command),
        Command::Send(args) => send::run(&args),
        Command::Recv(args) => recv::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Lab(command) => lab::run(&command),
        Command::Policy(command) => policy::run(&command),
        Command::Cib(command) => cib::run(&command),
        Command::Events(args) => events::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Modify(args) => modify::run(&args),
        Command::Steer(args) => steer::run(&args),
        Command::Attach(args) => attach::run(&args),
        Command::Detach(args) => detach::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Kernel(args) => kernel::run(&args),
        Command::Experiment(args) => experiment::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
    };
    interact::part();
    exit::finish(result)
}
