//! `hawser lab`: emulated networks on this machine.
//!
//! Each sub-command that needs a network runs this command again, inside namespaces of its own and with the
//! same arguments: see [`hawser::lab::process_tree`].

mod inside;

use std::path::PathBuf;
use std::process::Command as Process;

use hawser::lab::units::TimeSpan;
use hawser::lab::{LabError, Spec, contain};

use crate::exit::{Exit, Outcome};
use crate::interact::InteractArgs;

/// Emulate a network on this machine, without root
///
/// A lab file (docs/lab.md) names hosts, links with rate, delay, jitter, loss, queues and traces, address
/// translators, filters, names, and changes over time. Hosts are network namespaces, in which every program
/// runs unchanged.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Up(UpArgs),
    Run(RunArgs),
    Shell(ShellArgs),
    Check(CheckArgs),
    SelfTest(SelfTestArgs),
    /// Remove what labs left behind; the kernel removes everything by itself, so this does nothing
    Clean,
}

/// Start a lab, run a command in one of its hosts, and stop the lab
///
/// The timeline of the file begins with the command, and its services run beside it. The exit code is
/// that of the command.
#[derive(clap::Args)]
pub(crate) struct UpArgs {
    /// The lab file
    file: PathBuf,
    /// The host to run the command in; by default the first of the file
    #[arg(long)]
    host: Option<String>,
    /// Print changes of the network and the output of services
    #[arg(long, short)]
    verbose: bool,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
    /// Let the commands of the lab write no file of this machine except in an empty /dev/shm. The option
    /// protects from mistakes, not from malice: a lab file is as powerful as a Makefile
    #[arg(long, conflicts_with = "interact")]
    read_only: bool,
    #[command(flatten)]
    interact: InteractArgs,
    #[arg(long, hide = true)]
    contained: bool,
}

/// Run the commands that a lab file gives to its hosts, with its timeline
///
/// The output of the commands is printed after the names of their hosts. This command fails when one
/// of them does.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The lab file
    file: PathBuf,
    /// Print the report as a JSON object
    #[arg(long)]
    json: bool,
    /// Read the counters of all links at this interval for the report: 100ms
    #[arg(long, value_name = "TIME", requires = "json")]
    every: Option<TimeSpan>,
    /// Let the commands of the lab write no file of this machine except in an empty /dev/shm. The option
    /// protects from mistakes, not from malice: a lab file is as powerful as a Makefile
    #[arg(long, conflicts_with = "interact")]
    read_only: bool,
    #[command(flatten)]
    interact: InteractArgs,
    #[arg(long, hide = true)]
    contained: bool,
}

/// Start a lab and open a shell in one of its hosts
#[derive(clap::Args)]
pub(crate) struct ShellArgs {
    /// The lab file
    file: PathBuf,
    /// The host
    host: String,
    /// Let the commands of the lab write no file of this machine except in an empty /dev/shm. The option
    /// protects from mistakes, not from malice: a lab file is as powerful as a Makefile
    #[arg(long, conflicts_with = "interact")]
    read_only: bool,
    #[command(flatten)]
    interact: InteractArgs,
    #[arg(long, hide = true)]
    contained: bool,
}

/// Check a lab file
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// The lab file
    file: PathBuf,
}

/// Measure emulated links against their configuration, and what this machine can do
///
/// The cases cover rates up to 1 Gbit/s, delays up to 400 ms, and loss. The command fails when a result
/// is out of its bounds.
#[derive(clap::Args)]
pub(crate) struct SelfTestArgs {
    /// Run fewer and shorter cases
    #[arg(long)]
    quick: bool,
    /// Print the report as a JSON object
    #[arg(long)]
    json: bool,
    #[arg(long, hide = true)]
    contained: bool,
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Up(args) if args.contained => inside::up(&args.file, args),
        Command::Up(args) => start(&args.file, args.host.as_deref()),
        Command::Run(args) if args.contained => inside::run(args),
        Command::Run(args) => start(&args.file, None),
        Command::Shell(args) if args.contained => inside::shell(args),
        Command::Shell(args) => start(&args.file, Some(&args.host)),
        Command::Check(args) => read(&args.file).map(drop),
        Command::SelfTest(args) if args.contained => inside::self_test(args),
        Command::SelfTest(_) => contained(),
        Command::Clean => clean(),
    }
}

/// Reads and checks a lab file.
fn read(file: &std::path::Path) -> Result<Spec, Exit> {
    Spec::read(file).map_err(Exit::input)
}

/// Starts this command again in namespaces of its own. The file is checked first, so that its errors are
/// reported first.
fn start(file: &std::path::Path, host: Option<&str>) -> Outcome {
    let spec = read(file)?;
    if let Some(host) = host
        && !spec.host.iter().any(|known| known.name == host)
    {
        let names: Vec<&str> = spec.host.iter().map(|host| host.name.as_str()).collect();
        return Err(Exit::usage(format!(
            "the lab has no host `{host}`; its hosts are {}",
            names.join(", ")
        )));
    }
    contained()
}

/// Runs this command again with the same arguments, as the first process of a process tree of its own.
fn contained() -> Outcome {
    let own = std::env::current_exe().map_err(Exit::environment)?;
    let mut command = Process::new(own);
    let mut arguments = std::env::args_os().skip(1);
    // `lab` and the sub-command, followed by an internal flag that users do not write.
    command
        .args(arguments.by_ref().take(2))
        .arg("--contained")
        .args(arguments);
    match contain(command).map_err(exit_of)? {
        0 => Ok(()),
        code => Err(Exit::reported(code)),
    }
}

/// Maps an error of the lab to an exit.
fn exit_of(error: LabError) -> Exit {
    match error {
        LabError::Spec(_) | LabError::Trace { .. } => Exit::input(error),
        LabError::Unknown { .. } => Exit::usage(error),
        LabError::Namespace(_)
        | LabError::Names(_)
        | LabError::NotACell { .. }
        | LabError::Io { .. }
        | LabError::Stopped => Exit::environment(error),
    }
}

/// Reports that no cleanup is needed, and the reason.
#[allow(clippy::unnecessary_wraps, reason = "as all sub-commands")]
fn clean() -> Outcome {
    println!("there is nothing to clean up: a lab exists only in its processes, which always end together");
    Ok(())
}
