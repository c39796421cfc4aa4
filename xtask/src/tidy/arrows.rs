//! The arrows between rooms: who may depend on whom.
//!
//! A room is a top folder; `lang/ir` names one crate of a room. What is not listed is forbidden,
//! so a new arrow is a decision that shows in this file.

use super::Finding;
use super::tree::{Crate, Tree, Use};

/// A room, or one crate of it, and what its crates may depend on. The longest match counts.
struct Rule {
    from: &'static str,
    to: &'static [&'static str],
}

/// The arrows of the design, in its order, from the top of the house to its ground.
const RULES: &[Rule] = &[
    // Applications speak to the public crate alone; the command puts others behind its words.
    Rule { from: "apps", to: &["hawser"] },
    Rule { from: "apps/cli", to: &["hawser", "apps"] },
    Rule { from: "bindings", to: &["hawser"] },
    // Only the public crate names concrete combinations.
    Rule {
        from: "hawser",
        to: &[
            "session",
            "select",
            "interact",
            "carriers",
            "stack",
            "stack/load",
            "targets",
            "lab",
            "stack/script",
            "stack/engine",
            "lang/ir",
            "lang/driver",
            "lang/syntax",
        ],
    },
    // Sockets of a program over a device, whatever the device.
    Rule { from: "stack/net", to: &["stack/load", "targets", "stack/engine", "lang/ir", "interact/bus"] },
    // A session sees a transport only through the trait `Carrier`.
    Rule { from: "session", to: &["carriers/carrier", "interact/bus"] },
    // Its simulator stands above it, and runs it over a real transport on the event core.
    Rule {
        from: "session/sim",
        to: &[
            "session",
            "carriers/carrier",
            "select/race",
            "targets/sim",
            "stack/load",
            "stack/engine",
            "lang/ir",
        ],
    },
    // Selection sees no transport: it ranks and races descriptions.
    Rule { from: "select", to: &["select", "interact/bus"] },
    Rule { from: "carriers", to: &["carriers/carrier", "carriers/tls"] },
    Rule { from: "carriers/carrier", to: &[] },
    // A transport that is a program is reached by its sockets.
    Rule { from: "carriers/mtp", to: &["carriers/carrier", "carriers/tls", "stack/net"] },
    // The bus knows none of those who publish to it.
    Rule { from: "interact/bus", to: &[] },
    Rule { from: "interact", to: &["interact/bus"] },
    // Adapters that put the interpreter and generated code behind the engine's `Program`.
    Rule { from: "stack/load", to: &["lang", "stack/engine"] },
    Rule { from: "targets", to: &["stack/engine", "lang/ir"] },
    // The lab puts the simulator's rules for links between namespaces of the host's kernel.
    Rule { from: "lab", to: &["targets", "stack/engine", "lang/ir"] },
    // The scripted peer is the other end of a wire; the program under test comes in as a value.
    Rule { from: "stack/script", to: &["stack/engine", "lang/ir", "targets"] },
    Rule { from: "stack/engine", to: &["lang/ir", "interact/bus"] },
    // The language knows no runtime crate.
    Rule { from: "lang", to: &["lang"] },
    Rule { from: "lang/ir", to: &[] },
    Rule { from: GROUND, to: &[] },
];

/// What every room may depend on, and depends on none: temporary folders.
const GROUND: &str = "temporary";

/// Rooms of tools: they may use anything, and nothing may use them.
const TOOLS: &[&str] = &["xtask", "fuzz", "bench", "experiments"];

/// Arrows for tests, examples and benchmarks alone, beside those of [`RULES`].
const DEV_ARROWS: &[(&str, &[&str])] = &[
    // The engine and the simulator are tested with real programs.
    ("stack/engine", &["stack/load", "lang"]),
    ("targets", &["stack/load", "lang", "targets"]),
    // A law that is written twice, in Rust and in MTP, is compared with itself.
    ("stack/load", &["interact"]),
    // Scripts are run on the programs that they are about.
    ("stack/script", &["stack/load"]),
    // Names are looked up in a lab, where a server of its own answers.
    ("select/resolve", &["lab"]),
    // An association over several paths needs a network that has them.
    ("carriers/sctp", &["lab"]),
    // Congestion controllers are compared on networks that lose and overtake packets.
    ("carriers/quic", &["lab"]),
    // What clients are told of broken networks is tried on such.
    ("apps/proxy", &["lab"]),
    // The kernel's TCP is watched on networks that lose and delay.
    ("interact/kernel", &["lab"]),
    // A server is tried with a thousand clients in a network of its own.
    ("apps/cli", &["lab"]),
    // Who may be reached is tried on networks with such addresses.
    ("apps/gateway", &["lab"]),
];

/// Every dependency between crates of the workspace follows an arrow.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.crates.iter().flat_map(|from| from.uses.iter().filter_map(|to| judge(from, to))).collect()
}

fn judge(from: &Crate, to: &Use) -> Option<Finding> {
    let manifest = format!("{}/Cargo.toml", from.folder);
    let room = room(&from.folder);
    if TOOLS.contains(&room) || to.folder == GROUND {
        return None;
    }
    let Some(rule) = rule_of(&from.folder) else {
        return Some(Finding::new(
            manifest,
            format!("`{room}` is no room of the house"),
            "move the crate into a room, or give the room its arrows in xtask/src/tidy/arrows.rs and \
             ARCHITECTURE.md",
        ));
    };
    let allowed_for_tests =
        || DEV_ARROWS.iter().any(|(dev, to_dev)| within(&from.folder, dev) && reaches(to_dev, &to.folder));
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
        [] => format!("`{}` may depend on no other room: pass what it needs in as a value", rule.from),
        rooms => format!("`{}` may depend on {}: go through these", rule.from, rooms.join(", ")),
    };
    Some(Finding::new(manifest, what, remedy))
}

fn room(folder: &str) -> &str {
    folder.split('/').next().unwrap_or(folder)
}

fn rule_of(folder: &str) -> Option<&'static Rule> {
    RULES.iter().filter(|rule| within(folder, rule.from)).max_by_key(|rule| rule.from.len())
}

fn reaches(rooms: &[&str], folder: &str) -> bool {
    rooms.iter().any(|room| within(folder, room))
}

/// Whether a folder is `room` or inside it.
fn within(folder: &str, room: &str) -> bool {
    folder.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(from: &str, to: &str, dev: bool) -> Option<Finding> {
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
            ("hawser", "targets/sim"),
            ("hawser", "stack/script"),
            ("stack/script", "stack/engine"),
            ("stack/script", "targets/host"),
            ("hawser", "stack/load"),
            ("hawser", "lab"),
            ("lab", "targets/sim"),
            ("stack/load", "lang/driver"),
            ("stack/load", "stack/engine"),
            ("targets/host", "stack/engine"),
            ("targets/sim", "lang/ir"),
            ("stack/engine", "lang/ir"),
            ("stack/engine", "interact/bus"),
            ("session", "carriers/carrier"),
            ("carriers/mtp", "stack/net"),
            ("lang/check", "lang/syntax"),
            ("xtask", "apps/cli"),
            ("stack/load", "temporary"),
        ];
        for (from, to) in good {
            assert_eq!(finding(from, to, false), None, "{from} → {to}");
        }
    }

    #[test]
    fn no_other_arrow_none_upward() {
        let bad = [
            ("apps/cli", "stack/engine"),
            ("hawser", "apps/cli"),
            ("hawser", "lang/check"),
            ("session", "carriers/tcp"),
            ("select/race", "stack/engine"),
            ("carriers/tcp", "stack/engine"),
            ("interact/bus", "stack/engine"),
            ("stack/load", "targets/sim"),
            ("stack/script", "stack/load"),
            ("apps/cli", "stack/script"),
            ("targets/sim", "lang/interp"),
            ("targets/sim", "targets/host"),
            ("targets/host", "lab"),
            ("stack/engine", "lang/interp"),
            ("lang/interp", "stack/engine"),
            ("lang/ir", "lang/syntax"),
            ("stack/engine", "xtask"),
            ("temporary", "hawser"),
            ("cellar", "stack/engine"),
        ];
        for (from, to) in bad {
            assert!(finding(from, to, false).is_some(), "{from} → {to}");
        }
    }

    #[test]
    fn tests_have_a_short_list_of_their_own() {
        assert_eq!(finding("stack/engine", "stack/load", true), None);
        assert_eq!(finding("select/resolve", "lab", true), None);
        assert!(finding("select/race", "lab", true).is_some());
        assert!(finding("stack/engine", "stack/load", false).is_some());
        assert!(finding("lang/ir", "stack/engine", true).is_some());
    }
}
