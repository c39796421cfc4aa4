//! The arrows between rooms: the permitted dependencies between crates.
//!
//! A room is a top folder; `lang/ir` names one crate of a room. An arrow that is not listed is forbidden, so
//! a new arrow is a decision that shows in this file. Rooms lie on floors, and arrows lead downwards.

use super::Diagnostic;
use super::tree::{Crate, Tree, Use};

/// A room, or one crate of it, and the rooms and crates that it may depend on. The rule with the longest
/// match applies.
pub(super) struct Rule {
    pub(super) from: &'static str,
    pub(super) to: &'static [&'static str],
}

/// The top folders, from the highest floor to the lowest. Arrows lead downwards, those of tests included.
/// `tools` and `evaluation` may use every floor, and `editors` uses none. A test compares the table with it.
#[cfg(test)]
const FLOORS: &[&str] = &[
    "apps",
    "bindings",
    "hawser",
    "connect",
    "session",
    "watch",
    "select",
    "sockets",
    "lab",
    "workbench",
    "wires",
    "engine",
    "lang",
    "bus",
];

/// The arrows of the design, from the highest floor to the lowest.
pub(super) const RULES: &[Rule] = &[
    // Applications depend on the facade alone; the command also runs the other applications.
    Rule { from: "apps", to: &["hawser"] },
    Rule { from: "apps/cli", to: &["hawser", "apps"] },
    Rule { from: "bindings", to: &["hawser"] },
    // The facade contains no machinery: it re-exports the floors below under one name.
    Rule {
        from: "hawser",
        to: &[
            "connect",
            "session/driver",
            "watch",
            "sockets",
            "lab",
            "workbench/ide",
            "workbench/inspect",
            "workbench/runs",
            "workbench/testkit",
            "engine",
            "lang/ir",
            "lang/driver",
            "lang/syntax",
            "select",
            "bus",
        ],
    },
    // The racer opens the candidate that won: a plain connection, a session, or a stream of a gateway's session.
    Rule {
        from: "connect",
        to: &[
            "session/driver",
            "session/carriers",
            "watch/socket",
            "sockets",
            "select",
            "bus/bus",
        ],
    },
    // A session sees a transport only through the trait `Carrier`. Its simulator, a feature, runs it over a real
    // transport on the event core.
    Rule {
        from: "session/machine",
        to: &[
            "session/carriers",
            "workbench/sim",
            "engine/engine",
            "engine/load",
            "lang/ir",
            "select/race",
            "bus/bus",
        ],
    },
    // The session's shell names the carriers. It resolves and orders names by the same code as selection.
    Rule {
        from: "session/driver",
        to: &[
            "session/machine",
            "session/carriers",
            "watch/socket",
            "sockets",
            "engine/load",
            "select",
            "bus/bus",
        ],
    },
    // A transport that is a program is used through its sockets.
    Rule { from: "session/carriers", to: &["sockets"] },
    // The model for a fuzzer runs a real program.
    Rule {
        from: "watch/socket",
        to: &["sockets", "engine/engine", "engine/load", "bus/bus"],
    },
    // `watch/linux` queries the kernel's TCP through the host's netlink.
    Rule { from: "watch/linux", to: &["wires/host", "bus/bus"] },
    // The machines of selection do not know the transports: they rank and race descriptions.
    Rule { from: "select/policy", to: &[] },
    Rule { from: "select/race", to: &[] },
    // The sockets of a program over any device. Faults in front of a device are those of the simulator.
    Rule {
        from: "sockets",
        to: &["workbench/sim", "wires", "engine", "lang/ir", "bus/bus"],
    },
    // The lab applies the simulator's rules for links between namespaces of the host's kernel.
    Rule {
        from: "lab",
        to: &["workbench/sim", "wires", "engine/engine", "lang/ir", "bus/bus"],
    },
    // `workbench/runs` combines a scenario with its programs and with the observers of its runs. Pictures have
    // packets in the notation of steps.
    Rule {
        from: "workbench/runs",
        to: &[
            "workbench/inspect",
            "workbench/sim",
            "workbench/testkit",
            "engine/engine",
            "engine/load",
            "lang",
            "bus/bus",
        ],
    },
    // A scripted peer is the other end of a wire. Steps are the other end of a simulated wire, and name the
    // line that sent a packet.
    Rule {
        from: "workbench/testkit",
        to: &[
            "workbench/inspect",
            "workbench/sim",
            "wires",
            "engine/engine",
            "engine/load",
            "lang",
        ],
    },
    // A trace has the interpreter repeat the events of a stack. A debugger repeats those of a simulated run,
    // and checks expressions over them.
    Rule {
        from: "workbench/inspect",
        to: &["workbench/sim", "engine/engine", "lang"],
    },
    // The simulator's applications use queue pairs through the verbs.
    Rule { from: "workbench/sim", to: &["engine/engine", "lang/ir"] },
    // Services over a program's text and tables.
    Rule { from: "workbench/ide", to: &["lang"] },
    Rule { from: "wires", to: &["engine/engine", "lang/ir"] },
    // A wire by AF_XDP reads interfaces in the same way as the host's other wires. It runs chains by a
    // program's tables if they can run there.
    Rule { from: "wires/xdp", to: &["wires/host", "engine/engine", "lang/ir"] },
    // A wire by DPDK reads interfaces in the same way as the host's other wires. For the AF_XDP sockets that
    // DPDK opens, it attaches the same program as `wires/xdp`.
    Rule { from: "wires/dpdk", to: &["wires/host", "wires/xdp", "engine/engine"] },
    // Adapters that put the interpreter and generated code behind the engine's `Program`.
    Rule { from: "engine/load", to: &["engine/engine", "lang"] },
    Rule { from: "engine/engine", to: &["lang/ir", "bus/bus"] },
    // The language depends on no runtime crate.
    Rule { from: "lang", to: &["lang"] },
    Rule { from: "lang/ir", to: &[] },
    // The bus does not know its publishers.
    Rule { from: "bus/bus", to: &[] },
    Rule { from: "bus/documents", to: &[] },
    Rule { from: "bus/time", to: &[] },
    // The grammar has no dependencies in the workspace.
    Rule { from: "editors", to: &[] },
];

/// The crates that every crate may depend on: documents, files and temporary folders; points in time. They depend
/// on no other crate.
pub(super) const GROUND: &[&str] = &["bus/documents", "bus/time"];

/// The rooms of tools and of the evaluation. They may use any room. No room may use them, except tests, which may
/// use the harness.
const TOP: [&str; 2] = ["tools", "evaluation"];

/// The harness, which the tests of every room may use.
const HARNESS: &str = "tools/testing";

/// Arrows for tests, examples and benchmarks alone, in addition to those of [`RULES`].
const DEV_ARROWS: &[(&str, &[&str])] = &[
    // The engine, the wires and the simulator are tested with real programs.
    ("engine/engine", &["engine/load", "lang"]),
    ("wires", &["engine/load", "lang", "wires"]),
    ("workbench/sim", &["engine/load", "lang"]),
    ("workbench/inspect", &["engine/load"]),
    ("lang/ir", &["lang"]),
    // A controller that exists both in Rust and in MTP is compared with itself.
    ("engine/load", &["bus"]),
    // Names are looked up in a lab, which has a name server of its own.
    ("select/race", &["lab"]),
    // Congestion controllers are compared on networks that lose and reorder packets.
    ("session/carriers", &["lab"]),
    // The proxy's reports to clients about broken networks are tested on broken networks.
    ("apps/proxy", &["lab"]),
    // Knowledge of networks is gathered from emulated networks.
    ("connect", &["lab"]),
    // The kernel's TCP is watched on networks that lose and delay.
    (
        "watch/linux",
        &["lab", "engine/engine", "engine/load", "watch", "bus"],
    ),
    // Tests read the signals of the kernel's TCP through the socket.
    ("watch/socket", &["watch/linux"]),
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
            ("hawser", "workbench/runs"),
            ("workbench/runs", "workbench/sim"),
            ("hawser", "workbench/testkit"),
            ("workbench/testkit", "engine/engine"),
            ("workbench/testkit", "wires/host"),
            ("hawser", "engine/load"),
            ("hawser", "lab"),
            ("lab", "workbench/sim"),
            ("engine/load", "lang/driver"),
            ("engine/load", "engine/engine"),
            ("wires/host", "engine/engine"),
            ("wires/xdp", "wires/host"),
            ("wires/dpdk", "wires/host"),
            ("wires/dpdk", "wires/xdp"),
            ("workbench/sim", "lang/ir"),
            ("engine/engine", "lang/ir"),
            ("engine/engine", "bus/bus"),
            ("session/machine", "session/carriers"),
            ("session/driver", "session/carriers"),
            ("connect", "session/driver"),
            ("session/carriers", "sockets"),
            ("lang/check", "lang/syntax"),
            ("tools/xtask", "apps/cli"),
            ("evaluation/bench", "engine/engine"),
            ("engine/load", "bus/documents"),
        ];
        for (from, to) in good {
            assert_eq!(diagnostic(from, to, false), None, "{from} → {to}");
        }
    }

    #[test]
    fn arrows_between_top_folders_lead_downwards() {
        let floor = |folder: &str| FLOORS.iter().position(|floor| *floor == room(folder));
        let rules = RULES.iter().map(|rule| (rule.from, rule.to));
        for (from, to) in rules.chain(DEV_ARROWS.iter().copied()) {
            for to in to {
                assert!(floor(from).is_some() && floor(from) <= floor(to), "{from} → {to}");
            }
        }
    }

    #[test]
    fn upward_arrows_are_rejected() {
        let bad = [
            ("apps/cli", "engine/engine"),
            ("hawser", "apps/cli"),
            ("hawser", "lang/check"),
            ("hawser", "workbench/sim"),
            ("session/machine", "sockets"),
            ("session/driver", "connect"),
            ("hawser", "session/carriers"),
            ("select/race", "engine/engine"),
            ("session/carriers", "engine/engine"),
            ("bus/bus", "engine/engine"),
            ("engine/load", "workbench/sim"),
            ("apps/cli", "workbench/testkit"),
            ("workbench/sim", "lang/interp"),
            ("workbench/sim", "wires/host"),
            ("wires/host", "lab"),
            ("wires/host", "wires/xdp"),
            ("engine/engine", "lang/interp"),
            ("lang/interp", "engine/engine"),
            ("lang/ir", "lang/syntax"),
            ("engine/engine", "tools/xtask"),
            ("engine/engine", "tools/testing"),
            ("apps/cli", "evaluation/bench"),
            ("bus/documents", "hawser"),
            ("cellar", "engine/engine"),
        ];
        for (from, to) in bad {
            assert!(diagnostic(from, to, false).is_some(), "{from} → {to}");
        }
    }

    #[test]
    fn tests_have_a_short_list_of_their_own() {
        assert_eq!(diagnostic("engine/engine", "engine/load", true), None);
        assert_eq!(diagnostic("select/race", "lab", true), None);
        assert_eq!(diagnostic("select/race", "tools/testing", true), None);
        assert!(diagnostic("select/policy", "lab", true).is_some());
        assert!(diagnostic("engine/engine", "engine/load", false).is_some());
        assert!(diagnostic("lang/ir", "engine/engine", true).is_some());
    }
}
