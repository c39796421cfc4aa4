//! `hawser kernel`: puts the TCP of the kernel on the bus.

use std::path::PathBuf;
use std::time::Duration;

use hawser::interact::kernel::{self, Capability, CapabilitySubject, KernelError, Options};
use hawser::interact::{open_process_bus, parse_span};
use serde_json::json;

use crate::device::runtime;
use crate::exit::{Exit, Outcome};
use crate::interact::InteractArgs;
use crate::interrupt::Interrupts;
use crate::output;

/// Make the TCP of the kernel observable and steerable by eBPF, as provider kernel.tcp
///
/// Loading needs root (CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN); clients need only the socket. The command
/// ends when it is interrupted, or after --for. A flow under another congestion controller gets that of
/// Hawser while it is modified, and its own again when the leases or this command end.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the events and variables that this kernel supports, and exit
    #[arg(long)]
    capabilities: bool,
    /// A cgroup2 folder: flows that begin in it report round-trip times
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// Give flows that begin in the cgroup the congestion controller of Hawser from the start, so that they
    /// can be steered at once; other flows get it while they are modified
    #[arg(long, requires = "cgroup")]
    adopt: bool,
    /// Observe flows of all network namespaces; those of other namespaces cannot be modified
    #[arg(long)]
    all_namespaces: bool,
    /// Load without the congestion controller of Hawser, which needs Linux 6.10: flows can be watched and
    /// probed, not modified
    #[arg(long, conflicts_with_all = ["adopt", "name"])]
    watch_only: bool,
    /// The name of the congestion controller of Hawser in this kernel
    #[arg(long, value_name = "NAME", default_value = "hawser")]
    name: String,
    /// Exit after this time: 10s
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span)]
    length: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    interact: InteractArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let options = Options {
        cgroup: args.cgroup.clone(),
        own_namespace: !args.all_namespaces,
        adopt: args.adopt,
        congestion_control: (!args.watch_only).then(|| args.name.clone()),
        ..Options::default()
    };
    let runtime = runtime()?;
    runtime.block_on(async {
        if args.capabilities {
            return capabilities(&options, args.json);
        }
        output::serve(args.json).map_err(Exit::environment)?;
        let bus = open_process_bus();
        let serving = kernel::serve_kernel(&bus, &options).map_err(exit)?;
        args.interact.listen(&bus)?;
        if args.json {
            println!(
                "{}",
                json!({ "serving": "kernel.tcp", "source": serving.source().0 })
            );
        } else {
            println!("kernel.tcp is source {}", serving.source().0);
        }
        let length = args.length;
        let over = async {
            match length {
                Some(length) => tokio::time::sleep(length).await,
                None => std::future::pending().await,
            }
        };
        let interrupts = Interrupts::new()?;
        tokio::select! {
            () = over => Ok(()),
            _ = interrupts.next() => Ok(()),
        }
    })
}

/// Lists the capabilities by loading the programs if this process may. Otherwise it uses the kernel's
/// description of itself.
fn capabilities(options: &Options, as_json: bool) -> Outcome {
    let mut capabilities = kernel::survey_kernel(options).map_err(exit)?;
    let is_missing = |it: &Capability| it.subject == CapabilitySubject::Load && it.missing.is_some();
    if !capabilities.iter().any(is_missing) {
        let serving = kernel::serve_kernel(&open_process_bus(), options).map_err(exit)?;
        capabilities = serving.capabilities().to_vec();
    }
    capabilities
        .iter()
        .for_each(|capability| show(capability, as_json));
    Ok(())
}

fn exit(error: KernelError) -> Exit {
    match error {
        KernelError::Option { .. } | KernelError::Name(_) => Exit::usage(error),
        _ => Exit::environment(error),
    }
}

fn show(capability: &Capability, as_json: bool) {
    let name = capability.subject.name();
    let missing = capability.missing.as_ref().map(ToString::to_string);
    if as_json {
        println!(
            "{}",
            json!({ "name": name, "given": missing.is_none(), "why": missing, "note": capability.note })
        );
        return;
    }
    let given = missing.map_or_else(|| "yes".to_owned(), |why| format!("no: {why}"));
    let note = if capability.note.is_empty() {
        String::new()
    } else {
        format!(" ({})", capability.note)
    };
    println!("{name}: {given}{note}");
}
