//! Fuzz targets: functions that take any bytes, and panic when an invariant does not hold.
//!
//! The test `kept` runs every target over the stored inputs in `seeds/`, and over mutations of them.
//! `scripts/fuzz` runs a target under libFuzzer, which looks for inputs that reach new code.

#![forbid(unsafe_code)]

mod targets;

// The command is not a library, so targets include its modules by path.
#[allow(dead_code, unreachable_pub)] // They use a part of it.
#[path = "../../../apps/cli/src/exit.rs"]
mod exit;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../apps/cli/src/output.rs"]
mod output;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../apps/cli/src"]
mod cli {
    pub mod http;
}
#[allow(dead_code, unreachable_pub)]
#[path = "../../../apps/cli/src/session"]
mod session {
    pub mod file;
    mod target;
}

#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the target and of its folder in `seeds/`.
    pub name: &'static str,
    /// Takes any bytes, and panics when an invariant does not hold.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        &[$(Target { name: stringify!($name), run: targets::$name::fuzz }),*]
    };
}

pub const TARGETS: &[Target] = targets![
    diag,
    documents,
    faults,
    file,
    frames,
    gateway,
    http,
    ide,
    interact,
    library,
    names,
    packets,
    policy,
    program,
    proxy,
    race,
    recording,
    rights,
    scripts,
    sctp,
    session,
    session_documents,
    steps,
    translator,
];

/// Returns the fuzz target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
