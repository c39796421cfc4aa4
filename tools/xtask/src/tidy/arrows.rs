//! The arrows between rooms: the permitted dependencies between crates.
//!
//! A room is a top folder; `lang/ir` names one crate of a room. An arrow that is not listed is forbidden, so
//! a new arrow is a decision that shows in this file.

use super::Diagnostic;
use super::tree::{Crate, Tree, Use};

/// A room, or one crate of it, and the rooms and crates that it may depend on. The rule with the longest
/// match applies.
pub(super) struct Rule {
    pub(super) from: &'static str,
    pub(super) to: &'static [&'static str],
}

/// The arrows of the design, in its order, from the top layer to the lowest.
pub(super) const RULES: &[Rule] = &[
    // Applications depend on the facade alone; the command also runs the other applications.
    Rule { from: "apps", to: &["hawser"] },
    Rule { from: "apps/cli", to: &["hawser", "apps"] },
    Rule { from: "bindings", to: &["hawser"] },
    // The facade contains no machinery: it re-exports the columns under one name.
    Rule {
        from: "hawser",
        to: &[
            "stack",
            "stack/engine",
            "stack/load",
            "lang/dissector",
            "lang/driver",
            "lang/ide",
            "lang/syntax",
            "session/driver",
            "session/relay",
            "select",
            "taps",
            "interact",
            "lab",
            "targets/capabilities",
        ],
    },
    // Write a transport. `stack/net` has the sockets of a program over any device.
    Rule {
        from: "stack/net",
        to: &[
            "stack/verbs",
            "stack/load",
            "targets",
            "stack/engine",
            "lang/ir",
            "interact/bus",
        ],
    },
    // Join paths. A session sees a transport only through the trait `Carrier`.
    Rule { from: "session/machine", to: &["carriers/carrier", "interact/bus"] },
    // The simulator of sessions stands above the session, and runs it over a real transport on the event
    // core.
    Rule {
        from: "session/sim",
        to: &[
            "session/machine",
            "carriers/carrier",
            "select/race",
            "targets/sim",
            "stack/load",
            "stack/engine",
            "lang/ir",
        ],
    },
    // The session's shell names the carriers. It resolves and orders names by the same code as selection.
    Rule {
        from: "session/driver",
        to: &[
            "session/machine",
            "carriers",
            "stack/net",
            "stack/load",
            "select/policy",
            "select/race",
            "select/resolve",
            "interact/bus",
            "interact/socket",
        ],
    },
    Rule { from: "session/relay", to: &["session/driver"] },
    Rule { from: "carriers", to: &["carriers/carrier", "carriers/tls"] },
    Rule { from: "carriers/carrier", to: &[] },
    // A transport that is a program is used through its sockets.
    Rule {
        from: "carriers/mtp",
        to: &["carriers/carrier", "carriers/tls", "stack/net"],
    },
    // Choose a path. The machines do not know the transports: they rank and race descriptions.
    Rule { from: "select/policy", to: &[] },
    Rule { from: "select/race", to: &[] },
    Rule { from: "select/resolve", to: &["select/race"] },
    // The shell of selection opens the candidate that won: a plain connection, a session, or a stream of a
    // gateway's session.
    Rule {
        from: "select/connect",
        to: &[
            "select/policy",
            "select/race",
            "select/resolve",
            "session/driver",
            "session/relay",
            "carriers",
            "stack/net",
            "interact/bus",
            "interact/socket",
        ],
    },
    Rule {
        from: "select/knowledge",
        to: &[
            "select/connect",
            "select/policy",
            "select/race",
            "session/driver",
            "interact/bus",
        ],
    },
    // The transport services are an interface to selection.
    Rule {
        from: "taps",
        to: &[
            "select/connect",
            "select/race",
            "select/resolve",
            "session/driver",
        ],
    },
    // The bus does not know its publishers.
    Rule { from: "interact/bus", to: &[] },
    Rule { from: "interact", to: &["interact/bus"] },
    // `interact/linux` queries the kernel's TCP through the host's netlink.
    Rule { from: "interact/linux", to: &["interact/bus", "targets/host"] },
    // The model for a fuzzer runs a real program.
    Rule {
        from: "interact/socket",
        to: &["interact/bus", "stack/engine", "stack/load", "stack/net"],
    },
    // Adapters that put the interpreter and generated code behind the engine's `Program`.
    Rule { from: "stack/load", to: &["lang", "stack/engine"] },
    // An interface of the engine's requests; tests run it over programs.
    Rule { from: "stack/verbs", to: &["stack/engine", "stack/load", "lang/ir"] },
    // A trace has the interpreter repeat the events of a stack.
    Rule { from: "stack/trace", to: &["stack/engine", "lang"] },
    // A debugger repeats the events of a simulated run, and checks expressions over them.
    Rule {
        from: "stack/debug",
        to: &["stack/engine", "stack/trace", "targets/sim", "lang"],
    },
    Rule { from: "targets", to: &["stack/engine", "lang/ir"] },
    // The capabilities of targets, and their consequences for a program, are computed from its intermediate
    // form alone.
    Rule { from: "targets/capabilities", to: &["lang/ir"] },
    // A wire by AF_XDP reads interfaces in the same way as the host's other wires. It runs chains by a
    // program's tables if they can run there.
    Rule {
        from: "targets/xdp",
        to: &["stack/engine", "targets/host", "targets/capabilities", "lang/ir"],
    },
    // A wire by DPDK reads interfaces in the same way as the host's other wires. For the AF_XDP sockets that
    // DPDK opens, it attaches the same program as `targets/xdp`.
    Rule {
        from: "targets/dpdk",
        to: &["stack/engine", "targets/host", "targets/xdp"],
    },
    // The simulator's scenarios are a crate of their own; its applications use queue pairs through the verbs.
    Rule {
        from: "targets/sim",
        to: &["targets/scenario", "stack/verbs", "stack/engine", "lang/ir"],
    },
    // The lab applies the simulator's rules for links between namespaces of the host's kernel.
    Rule {
        from: "lab",
        to: &["targets", "stack/engine", "lang/ir", "interact/bus"],
    },
    // The scripted peer is the other end of a wire; the program under test is found by its name.
    Rule {
        from: "stack/script",
        to: &["stack/engine", "stack/load", "lang/ir", "targets"],
    },
    // Steps are the other end of a simulated wire, and name the line that sent a packet.
    Rule {
        from: "stack/step",
        to: &["stack/engine", "stack/load", "stack/trace", "lang", "targets/sim"],
    },
    // A picture is drawn from a trace's account of events, and from packets in the notation of steps.
    Rule {
        from: "stack/picture",
        to: &["stack/engine", "stack/step", "stack/trace", "lang", "targets/sim"],
    },
    // `stack/runs` combines a scenario with its programs and with the observers of its runs.
    Rule {
        from: "stack/runs",
        to: &[
            "stack/engine",
            "stack/load",
            "stack/trace",
            "stack/debug",
            "stack/picture",
            "targets/sim",
            "lang",
            "interact/bus",
        ],
    },
    Rule { from: "stack/engine", to: &["lang/ir", "interact/bus"] },
    // The language depends on no runtime crate.
    Rule { from: "lang", to: &["lang"] },
    Rule { from: "lang/ir", to: &[] },
    // The grammar has no dependencies in the workspace.
    Rule { from: "editors", to: &[] },
    Rule { from: "documents", to: &[] },
    Rule { from: "files", to: &[] },
    Rule { from: "temporary", to: &[] },
    Rule { from: "time", to: &[] },
];

/// The rooms that every room may depend on: documents, files, temporary folders, and points in time. They
/// depend on no other room.
pub(super) const GROUND: &[&str] = &["documents", "files", "temporary", "time"];

/// The rooms of tools and of the evaluation. They may use any room. No room may use them, except tests, which may
/// use the harness.
const TOP: [&str; 2] = ["tools", "evaluation"];

/// The harness, which the tests of every room may use.
const HARNESS: &str = "tools/testing";

/// Arrows for tests, examples and benchmarks alone, in addition to those of [`RULES`].
const DEV_ARROWS: &[(&str, &[&str])] = &[
    // The engine and the simulator are tested with real programs.
    ("stack/engine", &["stack/load", "lang"]),
    ("targets", &["stack/load", "lang", "targets"]),
    ("stack/debug", &["stack/load"]),
    // A controller that exists both in Rust and in MTP is compared with itself.
    ("stack/load", &["interact"]),
    // Names are looked up in a lab, which has a name server of its own.
    ("select/resolve", &["lab"]),
    // An association over several paths needs a network that has them.
    ("carriers/sctp", &["lab"]),
    // Congestion controllers are compared on networks that lose and reorder packets.
    ("carriers/quic", &["lab"]),
    // The proxy's reports to clients about broken networks are tested on broken networks.
    ("apps/proxy", &["lab"]),
    // Knowledge of networks is gathered from emulated networks.
    ("select/knowledge", &["lab", "interact/socket"]),
    ("taps", &["lab", "stack/net"]),
    // The kernel's TCP is watched on networks that lose and delay.
    (
        "interact/linux",
        &["lab", "stack/engine", "stack/load", "interact"],
    ),
    // Tests read the signals of the kernel's TCP through the socket.
    ("interact/socket", &["interact/linux"]),
    // A server is tested with a thousand clients in a network of its own.
    ("apps/cli", &["lab"]),
    // The rules for reachable destinations are tested on networks with such addresses.
    ("apps/gateway", &["lab"]),
];

/// Checks that every dependency between crates of the workspace follows an arrow.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    tree.crates
        .iter()
        .flat_map(|from| from.uses.iter().filter_map(|to| judge(from, to)))
        .collect()
}

fn judge(from: &Crate, to: &Use) -> Option<Diagnostic> {
    let manifest = format!("{}/Cargo.toml", from.folder);
    let room = room(&from.folder);
    if TOP.contains(&room)
        || GROUND.contains(&to.folder.as_str())
        || to.dev && (to.folder == HARNESS || to.folder == from.folder)
    {
        return None;
    }
    let Some(rule) = rule_of(&from.folder) else {
        return Some(Diagnostic::new(
            manifest,
            format!("`{room}` is no room of ARCHITECTURE.md"),
            "move the crate into a room, or give the room its arrows in tools/xtask/src/tidy/arrows.rs and \
             ARCHITECTURE.md",
        ));
    };
    let allowed_for_tests = || {
        DEV_ARROWS
            .iter()
            .any(|(dev, to_dev)| within(&from.folder, dev) && reaches(to_dev, &to.folder))
    };
    if reaches(rule.to, &to.folder) || (to.dev && allowed_for_tests()) {
        return None;
    }
    let what = format!(
        "{} ({}) depends on {}{}",
        from.name,
        from.folder,
        to.folder,
        if to.dev { " for its tests" } else { "" }
    );
    let remedy = match rule.to {
        [] => format!(
            "`{}` may depend on no other room: pass what it needs in as a value",
            rule.from
        ),
        rooms => format!(
            "`{}` may depend on {}: go through these",
            rule.from,
            rooms.join(", ")
        ),
    };
    Some(Diagnostic::new(manifest, what, remedy))
}

pub(super) fn room(folder: &str) -> &str {
    folder.split('/').next().unwrap_or(folder)
}

pub(super) fn rule_of(folder: &str) -> Option<&'static Rule> {
    RULES
        .iter()
        .filter(|rule| within(folder, rule.from))
        .max_by_key(|rule| rule.from.len())
}

fn reaches(rooms: &[&str], folder: &str) -> bool {
    rooms.iter().any(|room| within(folder, room))
}

/// Returns whether a folder is `room` or inside it.
pub(super) fn within(folder: &str, room: &str) -> bool {
    folder
        .strip_prefix(room)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(from: &str, to: &str, dev: bool) -> Option<Diagnostic> {
        let uses = vec![Use { folder: to.to_owned(), dev }];
        let tree = Tree {
            crates: vec![Crate { name: "x".to_owned(), folder: from.to_owned(), uses }],
            ..Tree::default()
        };
        check(&tree).pop()
    }

    #[test]
    fn the_arrows_of_the_design_hold() {
        let good = [
            ("apps/cli", "hawser"),
            ("hawser", "stack/runs"),
            ("stack/runs", "targets/sim"),
            ("hawser", "stack/script"),
            ("stack/script", "stack/engine"),
            ("stack/script", "targets/host"),
            ("hawser", "stack/load"),
            ("hawser", "lab"),
            ("lab", "targets/sim"),
            ("stack/load", "lang/driver"),
            ("stack/load", "stack/engine"),
            ("targets/host", "stack/engine"),
            ("targets/xdp", "targets/host"),
            ("targets/dpdk", "targets/host"),
            ("targets/dpdk", "targets/xdp"),
            ("targets/sim", "lang/ir"),
            ("hawser", "targets/capabilities"),
            ("stack/engine", "lang/ir"),
            ("stack/engine", "interact/bus"),
            ("session/machine", "carriers/carrier"),
            ("session/driver", "carriers/quic"),
            ("select/connect", "session/relay"),
            ("carriers/mtp", "stack/net"),
            ("lang/check", "lang/syntax"),
            ("tools/xtask", "apps/cli"),
            ("evaluation/bench", "stack/engine"),
            ("stack/load", "temporary"),
        ];
        for (from, to) in good {
            assert_eq!(diagnostic(from, to, false), None, "{from} → {to}");
        }
    }

    #[test]
    fn upward_arrows_are_rejected() {
        let bad = [
            ("apps/cli", "stack/engine"),
            ("hawser", "apps/cli"),
            ("hawser", "lang/check"),
            ("hawser", "targets/sim"),
            ("session/machine", "carriers/tcp"),
            ("session/driver", "select/connect"),
            ("hawser", "carriers/tcp"),
            ("select/race", "stack/engine"),
            ("carriers/tcp", "stack/engine"),
            ("interact/bus", "stack/engine"),
            ("stack/load", "targets/sim"),
            ("apps/cli", "stack/script"),
            ("targets/sim", "lang/interp"),
            ("targets/sim", "targets/host"),
            ("targets/capabilities", "stack/engine"),
            ("targets/host", "lab"),
            ("targets/host", "targets/xdp"),
            ("stack/engine", "lang/interp"),
            ("lang/interp", "stack/engine"),
            ("lang/ir", "lang/syntax"),
            ("stack/engine", "tools/xtask"),
            ("stack/engine", "tools/testing"),
            ("apps/cli", "evaluation/bench"),
            ("temporary", "hawser"),
            ("cellar", "stack/engine"),
        ];
        for (from, to) in bad {
            assert!(diagnostic(from, to, false).is_some(), "{from} → {to}");
        }
    }

    #[test]
    fn tests_have_a_short_list_of_their_own() {
        assert_eq!(diagnostic("stack/engine", "stack/load", true), None);
        assert_eq!(diagnostic("select/resolve", "lab", true), None);
        assert_eq!(diagnostic("select/race", "tools/testing", true), None);
        assert!(diagnostic("select/race", "lab", true).is_some());
        assert!(diagnostic("stack/engine", "stack/load", false).is_some());
        assert!(diagnostic("lang/ir", "stack/engine", true).is_some());
    }
}
