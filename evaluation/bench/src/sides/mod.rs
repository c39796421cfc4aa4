//! One side of a measurement: a stack and its application, in a process of its own, so that its processor
//! time is known exactly.
//!
//! * [`spec`]: the orders of a side, and its measurements
//! * [`process`]: the parent's view of a side
//! * [`transport`]: the common interface of all stacks
//! * [`linux`], [`hawser`], [`smoltcp`], [`quinn`]: the stacks; [`gvisor`] is a program of its own, in Go
//! * `bare`: a port of DPDK without a stack; `port`: such a port for smoltcp
//! * `shards`: several stacks, each with the application in a thread of its own
//! * [`bulk`], [`echo`], [`many`], [`standing`]: the applications
//!
//! A side prints a line `ready` when it can be reached, waits for a line, does its work, and prints its
//! [`spec::Measured`] as JSON.

#[cfg(feature = "dpdk")]
#[allow(unsafe_code)] // It calls C.
mod bare;
pub(crate) mod bulk;
pub(crate) mod echo;
pub(crate) mod gvisor;
pub(crate) mod hawser;
pub(crate) mod linux;
pub(crate) mod many;
#[cfg(feature = "dpdk")]
mod port;
pub(crate) mod process;
pub(crate) mod quinn;
mod shards;
pub(crate) mod smoltcp;
pub(crate) mod spec;
pub(crate) mod standing;
pub(crate) mod transport;

use std::io::{self, BufRead, Write};
use std::time::Duration;

use crate::sys;
use bulk::Arrivals;
use spec::{Measured, Spec, StackKind, Work};
use transport::Transport;

/// Runs a side to its end: the body of the hidden sub-command. An error is reported to the parent.
///
/// # Errors
/// The error could not be reported.
pub(crate) fn run(text: &str) -> Result<(), Box<dyn std::error::Error>> {
    if let Err(error) = obey(text) {
        println!("{}{error}", process::FAILED);
    }
    Ok(io::stdout().flush()?)
}

fn obey(text: &str) -> Result<(), Box<dyn std::error::Error>> {
    let spec: Spec = serde_json::from_str(text)?;
    sys::do_not_outlive(Duration::from_secs(spec.timeout_s));
    // The cores of the process. Once pinned, a thread sees only its own.
    let cores = sys::cores()?;
    if let Some(core) = spec.core {
        sys::pin(core)?;
    }
    let measured = match &spec.stack {
        StackKind::Linux => work(linux::Linux::new(&spec)?, &spec),
        StackKind::Hawser { .. } => shards::work(hawser::Hawser::open(&spec)?, &spec, &cores),
        StackKind::Quinn => work(quinn::Quinn::new(&spec)?, &spec),
        StackKind::Smoltcp { device, .. } => match device.split_once(':') {
            Some(("tap", _)) => work(smoltcp::on_tap(&spec)?, &spec),
            _ => on_port(&spec),
        },
        StackKind::Bare { .. } => on_port(&spec),
        StackKind::Gvisor { .. } => Err(io::ErrorKind::InvalidInput.into()),
    }?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

/// Runs a side on a port of DPDK that is not our own stack.
#[cfg(feature = "dpdk")]
fn on_port(spec: &Spec) -> io::Result<Measured> {
    match &spec.stack {
        StackKind::Bare { .. } => work(bare::Bare::new(spec)?, spec),
        _ => work(port::smoltcp(spec)?, spec),
    }
}

#[cfg(not(feature = "dpdk"))]
fn on_port(_: &Spec) -> io::Result<Measured> {
    Err(io::Error::other(
        "this build has no DPDK: build with the feature `dpdk`, which needs: apt-get install libdpdk-dev \
         pkg-config",
    ))
}

fn work<T: Transport>(mut stack: T, spec: &Spec) -> io::Result<Measured> {
    listen(&mut stack, spec)?;
    wait_for_the_sign()?;
    apply(&mut stack, spec, spec.work.flows(), &Arrivals::default())
}

fn listen<T: Transport>(stack: &mut T, spec: &Spec) -> io::Result<()> {
    let mut ports = spec.work.listens().into_iter();
    ports.try_for_each(|port| stack.listen(port))
}

/// Reports to the parent that the side can be reached, and waits until the parent starts it.
fn wait_for_the_sign() -> io::Result<()> {
    println!("ready");
    io::stdout().flush()?;
    io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

/// Runs the application on one stack. It opens `flows` of its connections, or shares `arrivals` with other
/// stacks.
fn apply<T: Transport>(stack: &mut T, spec: &Spec, flows: u32, arrivals: &Arrivals) -> io::Result<Measured> {
    let mut measured = match &spec.work {
        Work::Send(plan) => bulk::send(stack, plan, flows)?,
        Work::Receive(plan) => bulk::receive(stack, plan, arrivals)?,
        Work::Ping(plan) => echo::ping(stack, plan)?,
        Work::Pong(plan) => echo::pong(stack, plan)?,
        Work::Connect(plan) => many::connect(stack, plan)?,
        Work::Serve(plan) => many::serve(stack, plan)?,
        Work::Ask(plan) => standing::ask(stack, plan)?,
        Work::Answer(plan) => standing::answer(stack, plan)?,
    };
    // In other benches, connections may take longer to end than a measurement lasts.
    if matches!(spec.work, Work::Connect(_) | Work::Serve(_)) {
        measured.left_over = stack.left_over()?;
    }
    measured.notes = stack.notes();
    Ok(measured)
}
