//! Checks that run for as long as the caller chooses: `cargo xtask long NAME [-- ARGUMENT…]`.
//!
//! A long mode is one row of [`MODES`]: a command of this repository whose arguments set its size. The
//! ordinary tests run a short form of each mode.

use std::process::Command;

struct Mode {
    /// The word after `cargo xtask long`.
    name: &'static str,
    /// The subject of the check, and the arguments that set its size.
    about: &'static str,
    /// The command line of a shell, which the caller's arguments extend.
    command: &'static str,
}

/// The functions of the shell that command lines call. `swarm` runs the swarm of a program; the file
/// `swarm.args` in the program's folder holds its claims and params. `fuzz` runs each target for an hour by
/// default.
const FUNCTIONS: &str = r#"
swarm() {
    program=$1
    shift
    [ $# -gt 0 ] || set -- --runs 2000
    cargo run -q -p hawser-cli -- sim swarm "$program" --engine both $(cat "transports/${program%-irn}/swarm.args") "$@"
}
fuzz() {
    [ $# -gt 0 ] || set -- 3600
    scripts/fuzz "$@"
}
"#;

const MODES: &[Mode] = &[
    Mode {
        name: "swarm",
        about: "TCP through random networks on both engines, its packets watched: `-- --runs 100000`, `-- --first 5000`",
        command: "swarm tcp",
    },
    Mode {
        name: "swarm-homa",
        about: "calls of Homa through random networks on both engines: 2,000, or `-- --runs 100000`",
        command: "swarm homa",
    },
    Mode {
        name: "swarm-ndp",
        about: "calls of NDP, likewise",
        command: "swarm ndp",
    },
    Mode {
        name: "swarm-quic-lite",
        about: "streams of QUIC-Lite through random networks",
        command: "swarm quic-lite",
    },
    Mode {
        name: "swarm-roce",
        about: "works of RoCE, likewise",
        command: "swarm roce",
    },
    Mode {
        name: "swarm-roce-irn",
        about: "works of RoCE with selective repeat through random networks",
        command: "swarm roce-irn",
    },
    Mode {
        name: "stream",
        about: "a TCP stream of more than 4 GiB, every byte checked",
        command: "env HAWSER_STREAM_BYTES=4362076160 cargo test -q -p hawser-load --test tcp -- --nocapture a_stream_survives_sequence_number_wrap",
    },
    Mode {
        name: "trace",
        about: "a trace of a million events in the memory of a hundred thousand, as text and as JSON",
        command: "env HAWSER_LONG_TRACE=1 cargo test -q -p hawser-cli --test tests -- --nocapture a_trace_ten_times_as_long_takes_no_more_memory",
    },
    Mode {
        name: "mutants",
        about: "every condition of TCP negated in turn: all, or `-- --sample 100 --seed 7`, `-- --file rack.mtp`",
        command: "cargo run -q -p xtask -- mutants",
    },
    Mode {
        name: "planted",
        about: "searches 300 seeds for each bug of workbench/runs/tests/planted, and says how long that took",
        command: "env HAWSER_PLANTED=1 cargo test -q -p hawser-runs --test tests -- --nocapture all_planted_bugs_are_found_in_time",
    },
    Mode {
        name: "equality",
        about: "random programs as generated C: `-- --programs 5000 --first 1000`, `-- --level 2`",
        command: "cargo run -q -p hawser-equality -- run --table",
    },
    Mode {
        name: "equality-ebpf",
        about: "random programs in the kernel, as root: 200, or `-- --programs 2000 --first 1000`",
        command: "cargo test -q -p hawser-xdp --features ebpf --test kernel -- random",
    },
    Mode {
        name: "swarm-veth",
        about: "streams over a veth pair with faults, chains in the kernel, as root: 200, or `-- --runs 2000 --first 1000`",
        command: "cargo test -q -p hawser-sockets --features xdp --test xdp -- swarm",
    },
    Mode {
        name: "sessions",
        about: "sessions in labs: 20 killed transfers of 256 MB, aggregation, simult_flows, two minutes away",
        command: "cargo test -q --manifest-path evaluation/Cargo.toml -p hawser-experiments --test sessions -- --long",
    },
    Mode {
        name: "congestion",
        about: "what QUIC's congestion controllers carry on networks that lose, delay and overtake, and beside TCP",
        command: "cargo test -q -p hawser-carriers --features quic --test networks -- --long",
    },
    Mode {
        name: "qvis",
        about: "qlog files against the types and the loader of qvis: `-- CHECKOUT-OF-QVIS FILE.qlog…`",
        command: "scripts/qvis",
    },
    Mode {
        name: "homa-wire",
        about: "Homa's packets beside those of the Linux module's header: `-- CHECKOUT-OF-HOMAMODULE`",
        command: "scripts/homa-wire",
    },
    Mode {
        name: "attach",
        about: "processors, subscriptions and T-wares come and go 10,000 times under load, over TUN and packet socket",
        command: "env HAWSER_ATTACH_TIMES=10000 cargo test -q -p hawser --test linux -- attaching_and_detaching_leaks_and_loses_no_bytes",
    },
    Mode {
        name: "shares",
        about: "1,000 of Linux's clients do not read, or are not read from, over TUN: ten others keep 90 % of their rate",
        command: "env HAWSER_GREEDY=1000 cargo test -q -p hawser --test linux -- leave_others_their_rate",
    },
    Mode {
        name: "greedy",
        about: "`hawser serve` beside 1,000 clients that do not read, and as many whose bodies are not read",
        command: "env HAWSER_GREEDY=1000 cargo test -q -p hawser-cli --test greedy",
    },
    Mode {
        name: "hostile",
        about: "each listener beside 1,000 silent, slow, half-closing and hostile clients: `-- --clients 200 proxy rdma`",
        command: "scripts/hostile",
    },
    Mode {
        name: "browser",
        about: "a browser downloads 1 to 64 MiB through the proxy, over one path and over both, every way",
        command: "env HAWSER_EVERY_SIZE=1 cargo test -q -p hawser-cli --test measured -- --nocapture downloads_take_both_paths_when_they_can",
    },
    Mode {
        name: "fuzz",
        about: "every fuzz target for an hour each, or `-- 60 program steps`: seconds, and which",
        command: "fuzz",
    },
    Mode {
        name: "miri",
        about: "Miri over the rings and shared memory: undefined behaviour and data races (nightly)",
        command: "scripts/miri",
    },
    Mode {
        name: "loom",
        about: "loom over the bus's ring and the wakeups of shards: every order of threads that the memory model allows",
        command: "env CARGO_TARGET_DIR=target/loom 'RUSTFLAGS=--cfg hawser_loom' cargo test -q -p hawser-bus -p hawser-sockets --lib -- orders::",
    },
    Mode {
        name: "sanitized",
        about: "the C of every transport under ASan and UBSan, 300 courses of random events and packets each",
        command: "env HAWSER_SANITIZED_COURSES=300 cargo test -q -p hawser-equality --test sanitized -- --nocapture",
    },
    Mode {
        name: "bare",
        about: "the README followed in a bare Debian 12, as an ordinary user and as root (root runs it)",
        command: "scripts/bare",
    },
];

/// Returns whether a long mode of this name exists.
pub(crate) fn exists(name: &str) -> bool {
    MODES.iter().any(|mode| mode.name == name)
}

/// Runs the mode that the first argument names, with the arguments after `--`. Without a name, lists the
/// modes.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let Some((name, rest)) = arguments.split_first() else {
        for mode in MODES {
            println!("{:<13} {}", mode.name, mode.about);
        }
        return Ok(());
    };
    let Some(mode) = MODES.iter().find(|mode| mode.name == name) else {
        return Err(format!(
            "unknown long mode `{name}`; `cargo xtask long` lists the modes"
        ));
    };
    let rest = rest.strip_prefix(&["--".to_owned()]).unwrap_or(rest);
    println!("{} {}", mode.command, rest.join(" "));
    let script = format!("{FUNCTIONS}{} \"$@\"", mode.command);
    let status = Command::new("sh")
        .args(["-c", &script, name])
        .args(rest)
        .current_dir(crate::root())
        .status()
        .map_err(|error| format!("cannot start a shell: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{name}` failed: {status}"))
    }
}
