//! `hawser doctor`: reports what this machine can do, and what is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hawser::host::{TunOptions, TunWire, netns};
use hawser::interact::kernel::{self, CapabilitySubject, Options};
use hawser::testkit::script::RunTarget;
use serde_json::{Value, json};

use crate::companions;
use crate::exit::Outcome;
use crate::version;

/// Report what this machine can do, and how to get what is missing
///
/// Hawser itself needs none of these capabilities. Each line names the commands and options that need the
/// capability. The command creates a TUN device for a moment, changes nothing else, and ends with 0,
/// whatever is missing.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the report as a JSON object
    #[arg(long)]
    json: bool,
}

/// A capability of this machine.
struct Capability {
    name: &'static str,
    /// The commands and options that need it.
    serves: &'static str,
    /// The reason why it is missing, with a remedy.
    missing: Option<String>,
}

/// Programs of other projects: the name, the commands that call it, and the package of Debian.
const TOOLS: [(&str, &str, &str); 8] = [
    ("cc", "hawser build, --engine native for files", "gcc"),
    ("clang", "--dev xdp-chains:NAME, building with ebpf", "clang"),
    ("curl", "hawser demo", "curl"),
    ("ip", "devices for --dev packet:NAME", "iproute2"),
    ("chromium", "hawser demo --story browser", "chromium"),
    (
        "tshark",
        "captures of --pcap, hawser build --as wireshark",
        "tshark",
    ),
    ("dot", "hawser sim picture --show-topology OUT.dot", "graphviz"),
    ("valgrind", "hawser bench callgrind", "valgrind"),
];

pub(crate) fn run(args: &Args) -> Outcome {
    let all = survey();
    if args.json {
        let features: Vec<&str> = version::features().collect();
        let all: Vec<Value> = all.iter().map(Capability::as_json).collect();
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"), "revision": version::REVISION, "target": version::TARGET,
            "features": features, "capabilities": all,
        });
        print!("{report:#}\n");
        return Ok(());
    }
    println!("hawser {}", version::LONG.replace('\n', "; "));
    let width = all.iter().map(|it| it.name.len()).max().unwrap_or(0);
    for Capability { name, serves, missing } in &all {
        let word = if missing.is_none() { "yes" } else { "no" };
        println!("{name:width$}  {word:3}  {serves}");
        if let Some(why) = missing {
            println!("{:width$}       {why}", "");
        }
    }
    Ok(())
}

impl Capability {
    fn as_json(&self) -> Value {
        let Capability { name, serves, missing } = self;
        json!({ "name": name, "serves": serves, "present": missing.is_none(), "missing": missing })
    }
}

/// Returns the reason why this machine lacks a capability, or `None` if it has the capability.
type Check = fn() -> Option<String>;

/// Examines this machine.
fn survey() -> Vec<Capability> {
    let checks: [(&str, &str, Check); 7] = [
        ("TUN", "--dev tun:NAME", tun),
        ("eBPF", "hawser kernel", ebpf),
        ("AF_XDP", "--dev xdp:NAME", xdp),
        ("DPDK", "--dev dpdk:DEVICE", || {
            RunTarget::Dpdk.missing().map(str::to_owned)
        }),
        ("MPTCP", "--over mptcp", mptcp),
        ("SCTP", "--over sctp", sctp),
        ("socket", "--interact, hawser watch, hawser bus", socket),
    ];
    let checks = checks.map(|(name, serves, check)| Capability { name, serves, missing: check() });
    let tools =
        TOOLS.map(|(name, serves, package)| Capability { name, serves, missing: tool(name, package) });
    let beside = [
        ("hawser-bench", "hawser bench"),
        ("hawser-experiment", "hawser experiment"),
    ];
    let beside = beside.map(|(name, serves)| Capability { name, serves, missing: evaluation(name) });
    // This check moves the process into namespaces, so it comes after the others.
    let namespaces = Capability {
        name: "namespaces",
        serves: "hawser lab, hawser demo, hawser test --target host",
        missing: netns::enter_user_namespace().err().map(|error| error.to_string()),
    };
    [namespaces]
        .into_iter()
        .chain(checks)
        .chain(tools)
        .chain(beside)
        .collect()
}

/// Creates a TUN device for a moment: every user may open `/dev/net/tun`, but few may create a device.
fn tun() -> Option<String> {
    if !Path::new("/dev/net/tun").exists() {
        return Some("there is no /dev/net/tun: modprobe tun".to_owned());
    }
    let error = TunWire::open("hwdoctor0", TunOptions::default()).err()?;
    Some(format!(
        "{error}: run as root, or in namespaces (unshare --map-root-user --net), or use --dev udp:ADDRESS:PORT"
    ))
}

/// Returns the reason why eBPF programs cannot be loaded.
fn ebpf() -> Option<String> {
    match kernel::survey_kernel(&Options::default()) {
        Ok(capabilities) => {
            let load = capabilities
                .into_iter()
                .find(|it| it.subject == CapabilitySubject::Load);
            load.and_then(|load| load.missing).map(|why| why.to_string())
        }
        Err(error) => Some(error.to_string()),
    }
}

fn xdp() -> Option<String> {
    match RunTarget::Xdp.missing() {
        Some(why) => Some(why.to_owned()),
        None if rustix::process::geteuid().is_root() && !netns::is_in_user_namespace() => None,
        None => {
            Some("loading programs into the kernel takes root outside of user namespaces: sudo".to_owned())
        }
    }
}

fn mptcp() -> Option<String> {
    match fs::read_to_string("/proc/sys/net/mptcp/enabled") {
        Ok(text) if text.trim() == "1" => None,
        Ok(_) => Some("MPTCP is switched off: sysctl net.mptcp.enabled=1".to_owned()),
        Err(_) => Some("the kernel has no MPTCP: run Linux 5.6 or newer with CONFIG_MPTCP=y".to_owned()),
    }
}

/// Looks for the library of SCTP in the linker's list of libraries.
fn sctp() -> Option<String> {
    const LIBRARY: &str = "libusrsctp.so.2";
    let known = fs::read("/etc/ld.so.cache").unwrap_or_default();
    let is_known = known
        .windows(LIBRARY.len())
        .any(|part| part == LIBRARY.as_bytes());
    (!is_known).then(|| format!("{LIBRARY} is not installed (Debian: apt-get install libusrsctp2)"))
}

fn socket() -> Option<String> {
    let none = hawser::interact::usual_socket().is_none();
    none.then(|| "XDG_RUNTIME_DIR is not set: set it, or give the socket's path (--interact=PATH)".to_owned())
}

fn tool(name: &str, package: &str) -> Option<String> {
    let asked = match name {
        "cc" => std::env::var("CC")
            .ok()
            .and_then(|chosen| chosen.split_whitespace().next().map(PathBuf::from)),
        _ => None,
    };
    let program = asked.unwrap_or_else(|| name.into());
    // A program that starts is installed, whatever it answers.
    match Command::new(&program).arg("--version").output() {
        Ok(_) => None,
        Err(error) => Some(format!(
            "{} does not start ({error}); Debian: apt-get install {package}",
            program.display()
        )),
    }
}

fn evaluation(program: &str) -> Option<String> {
    let is_there =
        companions::beside(program).is_some() || Command::new(program).arg("--help").output().is_ok();
    (!is_there).then(|| format!("there is no {program}: cargo build --manifest-path evaluation/Cargo.toml"))
}
