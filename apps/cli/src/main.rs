//! The `hawser` command.
//!
//! Each sub-command is one file in `commands/` and returns an [`exit::Exit`] when it fails.

#![forbid(unsafe_code)]

#[macro_use]
mod terminal;
mod trace_file;

mod commands;
mod companions;
mod device;
mod engine;
mod exit;
mod former_names;
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
mod version;

use clap::{CommandFactory, FromArgMatches, Parser};

use commands::{
    bench, build, bus, cat, check, completions, demo, doctor, experiment, explain, fmt, gateway, get, kernel,
    lab, lsp, policy, programs, proxy, rdma, recv, rpc, send, serve, sim, test, watch,
};

/// Hawser runs transports that are written once, as reactions to events, on many targets.
#[derive(Parser)]
#[command(
    name = "hawser",
    version,
    long_version = version::LONG.as_str(),
    after_help = "\
Start here:
  hawser check examples/stop-and-wait.mtp            check a program
  hawser sim run examples/scenarios/tcp-lossy.toml   run TCP in the simulator
  hawser demo                                        see TCP in MTP beside Linux's own TCP

Exit codes: 0 success, 1 the check failed, 2 wrong usage, 3 bad input file,
4 device or permission, 5 network or peer, 70 a bug in Hawser."
)]
struct Cli {
    /// The format of the log on standard error. RUST_LOG selects the lines, as in
    /// RUST_LOG=hawser=debug; without it only warnings and errors are logged
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
    Build(build::Args),
    Explain(explain::Args),
    Programs(programs::Args),
    #[command(hide = true)]
    Lsp(lsp::Args),
    #[command(subcommand)]
    Sim(sim::Command),
    Test(test::Args),
    Serve(serve::Args),
    Get(get::Args),
    #[command(subcommand)]
    Rpc(rpc::Command),
    #[command(subcommand)]
    Rdma(rdma::Command),
    Send(send::Args),
    Recv(recv::Args),
    Cat(cat::Args),
    Gateway(gateway::Args),
    Proxy(proxy::Args),
    #[command(subcommand)]
    Policy(policy::Command),
    Watch(watch::Args),
    #[command(subcommand)]
    Bus(bus::Command),
    Kernel(kernel::Args),
    #[command(subcommand)]
    Lab(lab::Command),
    Bench(bench::Args),
    Experiment(experiment::Args),
    Demo(demo::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
}

fn main() -> std::process::ExitCode {
    exit::set_panic_hook();
    let arguments = former_names::arguments(std::env::args_os().collect());
    let matches = groups::grouped(Cli::command()).get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    log::start(cli.log);
    let result = match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Fmt(args) => fmt::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Programs(args) => programs::run(&args),
        Command::Lsp(args) => lsp::run(&args),
        Command::Sim(command) => sim::run(&command),
        Command::Test(args) => test::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Rpc(command) => rpc::run(&command),
        Command::Rdma(command) => rdma::run(&command),
        Command::Send(args) => send::run(&args),
        Command::Recv(args) => recv::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Policy(command) => policy::run(&command),
        Command::Watch(args) => watch::run(&args),
        Command::Bus(command) => bus::run(&command),
        Command::Kernel(args) => kernel::run(&args),
        Command::Lab(command) => lab::run(&command),
        Command::Bench(args) => bench::run(&args),
        Command::Experiment(args) => experiment::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => completions::run(&args),
    };
    interact::part();
    exit::finish(result)
}
