//! Runs scripts.
//!
//! * [`run`]: a script from its text to its [`ScriptReport`]
//! * `config`, `shell`, `table`: the settings before it begins
//! * `script`: the events, in order
//! * `world`, `real`, `device`, `cable`: the wire and the clock: virtual, a TUN device's, or a veth pair's by
//!   AF_XDP or DPDK
//! * `flows`, `expect`, `mismatch`, `inject`: packets
//! * `calls`, `info`, `symbols`: system calls and TCP_INFO
//! * `system`: the systems for which scripts were written

mod cable;
mod calls;
mod config;
mod device;
mod expect;
mod flows;
mod info;
mod inject;
mod mismatch;
mod real;
mod report;
mod script;
mod shell;
mod symbols;
mod system;
mod table;
mod world;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::{Stack, StackConfig};
use hawser_load::RunError;
use hawser_time::Instant;

pub use config::IpVersion;
pub use expect::Leniency;
pub use report::{ScriptFailure, ScriptOutcome, ScriptReport};
pub use shell::ReadFile;
pub use system::System;
pub use table::{Table, TableError};

use crate::script::syntax::{Defines, ScriptPosition, parse};
use calls::Kernel;
use config::{BadSetting, Config};
use script::Runner;
use world::{Environment, Virtual};

/// A function that creates the program with these raw params.
pub type MakeProgram<'a> = &'a dyn Fn(&[(String, u64)]) -> Result<Arc<dyn Program>, RunError>;

/// The environment in which scripts run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunTarget {
    /// In virtual time.
    #[default]
    Sim,
    /// In real time, over a TUN device; for scripts of up to [`MAX_TIME_ON_HOST`].
    Host,
    /// In real time, over a veth pair by AF_XDP, with the program's chains in the kernel.
    Xdp,
    /// In real time, over a veth pair by a port of DPDK.
    Dpdk,
}

impl RunTarget {
    /// Returns the reason why this build cannot run scripts there, if there is one.
    #[must_use]
    pub fn missing(self) -> Option<&'static str> {
        match self {
            RunTarget::Xdp if !cfg!(feature = "xdp") => Some(
                "this build has no AF_XDP: build with the feature `xdp` (of the command: `ebpf`), which \
                 needs: apt-get install clang libelf-dev zlib1g-dev pkg-config",
            ),
            RunTarget::Dpdk if !cfg!(feature = "dpdk") => Some(
                "this build has no DPDK: build with the feature `dpdk`, which needs: apt-get install \
                 libdpdk-dev pkg-config",
            ),
            RunTarget::Sim | RunTarget::Host | RunTarget::Xdp | RunTarget::Dpdk => None,
        }
    }
}

/// The maximum duration of a script in real time.
pub const MAX_TIME_ON_HOST: Duration = Duration::from_secs(3);

/// The minimum tolerance in real time, since a busy machine does not wake processes to the millisecond.
const HOST_TOLERANCE: Duration = Duration::from_millis(30);

/// A callback that receives a stack and the time, to observe the stack.
pub type Observe<'a> = &'a dyn Fn(Instant, &mut Stack);

/// The environment of a script's run.
#[derive(Clone)]
pub struct ScriptEnvironment<'a> {
    /// Creates the program under test.
    pub program: MakeProgram<'a>,
    /// The program's declarations.
    pub table: &'a Table,
    /// Reads set-up scripts.
    pub read: ReadFile<'a>,
    /// Words to replace, with their replacements.
    pub defines: Defines,
    /// The IP version of scripts that state none.
    pub version: IpVersion,
    /// The environment in which scripts run.
    pub target: RunTarget,
    /// The system for which scripts were written. Its settings apply unless a script sets others.
    pub system: Option<System>,
    /// The properties that are not compared.
    pub leniency: Leniency,
    /// Called before the run begins.
    pub observe: Option<Observe<'a>>,
}

/// Runs a script. Its set-up scripts are searched for in `folder`.
#[must_use]
pub fn run(text: &str, folder: &Path, bench: &ScriptEnvironment<'_>) -> ScriptReport {
    let mut report = match prepare(text, folder, bench) {
        Ok(runner) => runner.run(),
        Err(verdict) => ScriptReport::new(verdict),
    };
    if let Some(failure) = report.failure() {
        let line = usize::try_from(failure.place.line).unwrap_or(0);
        let source = line.checked_sub(1).and_then(|line| text.lines().nth(line));
        report.source = source.unwrap_or("").to_owned();
    }
    report
}

fn prepare<'a>(
    text: &str,
    folder: &Path,
    bench: &'a ScriptEnvironment<'a>,
) -> Result<Runner<'a>, ScriptOutcome> {
    let failure =
        |place: ScriptPosition, got: String| ScriptFailure { place, got, ..ScriptFailure::default() };
    let wrong = |place: ScriptPosition, got: String| ScriptOutcome::Unreadable(failure(place, got));
    let script = parse(text, &bench.defines).map_err(|error| {
        let hint = if error.hint.is_empty() {
            String::new()
        } else {
            format!("\n  hint: {}", error.hint)
        };
        wrong(error.place, format!("{}{hint}", error.message))
    })?;
    let mut config =
        Config::read(&script, bench.version, folder, bench.table, bench.read).map_err(|bad| match bad {
            BadSetting::Wrong(place, message) => wrong(place, message),
            BadSetting::Beyond(place, what) => {
                ScriptOutcome::Unsupported(failure(place, script::beyond(what)))
            }
        })?;
    let usual = bench.table.scripts().iter();
    for (name, value) in bench
        .system
        .iter()
        .flat_map(|system| bench.table.system(*system))
        .chain(usual)
    {
        config.params.entry(name.clone()).or_insert(*value);
    }
    let start = ScriptPosition { line: 1, column: 1 };
    let program = program(&mut config, bench.program).map_err(|error| wrong(start, error.to_string()))?;
    let mut world: Box<dyn Environment> = match bench.target {
        RunTarget::Sim => Box::new(Virtual::new(config.mtu)),
        RunTarget::Host | RunTarget::Xdp | RunTarget::Dpdk => {
            if script::length(&script.events) > MAX_TIME_ON_HOST {
                let what = "scripts of more than 3 s on a device".to_owned();
                return Err(ScriptOutcome::Unsupported(failure(start, what)));
            }
            config.tolerance = config.tolerance.max(HOST_TOLERANCE);
            let world = device::open(bench.target, &config, &*program);
            world.map_err(|error| wrong(start, error.to_string()))?
        }
    };
    let router = world.router();
    // With a router, the stack and the router are alone on their link.
    let bits = match (config.local.is_ipv4(), router) {
        (true, None) => 16,
        (false, None) => 64,
        (true, Some(_)) => 31,
        (false, Some(_)) => 127,
    };
    let interface = InterfaceConfig {
        addresses: vec![(config.local, bits)],
        gateways: router.into_iter().collect(),
        mtu: config.mtu,
    };
    let mut setup = StackConfig::new(interface, SEED);
    // The limit is as high as a script may set it. Memory is taken only as needed.
    setup.limits.rx_bytes = RECEIVE_BYTES;
    setup.limits.rx_total = RECEIVE_BYTES;
    if let Some(bytes) = config.send_buffer {
        setup.limits.tx_bytes = bytes.clamp(MIN_SEND_BUFFER, setup.limits.tx_bytes);
    }
    // A script's first write is accepted whole.
    setup.limits.first_bytes = setup.limits.tx_bytes;
    let now = world.now();
    let caps = world.wire().caps().clone();
    if caps.mtu < config.mtu {
        let what = format!("packets of more than {} bytes on this device", caps.mtu);
        return Err(ScriptOutcome::Unsupported(failure(start, what)));
    }
    let mut stack = Stack::new(program, setup, &caps).map_err(|error| wrong(start, error.to_string()))?;
    if let Some(observe) = bench.observe {
        observe(now, &mut stack);
    }
    let kernel = Kernel::new(stack, &config, bench.table, (now, bench.system));
    let folder = folder.to_owned();
    Ok(Runner::new(script, (config, folder), bench, world, kernel))
}

/// The seed of all randomness, so that every run of a script is the same.
const SEED: u64 = 1;
/// The maximum memory for received data, in bytes.
const RECEIVE_BYTES: u64 = 1 << 28;
/// The minimum send buffer that a script can set, in bytes.
const MIN_SEND_BUFFER: u64 = 4096;

/// Creates the program with the params that the script sets. Params that the program does not have are noted
/// and left out.
fn program(config: &mut Config, make: MakeProgram<'_>) -> Result<Arc<dyn Program>, RunError> {
    let known = make(&[])?;
    config.defaults = known
        .module()
        .params
        .iter()
        .map(|param| (param.name.clone(), param.default))
        .collect();
    let names = &config.defaults;
    let (have, lack): (Vec<_>, Vec<_>) = config
        .params
        .iter()
        .map(|(name, value)| (name.clone(), *value))
        .partition(|(name, _)| names.contains_key(name));
    config.notes.extend(
        lack.into_iter()
            .map(|(name, value)| format!("the program has no param {name} (={value})")),
    );
    if have.is_empty() { Ok(known) } else { make(&have) }
}
