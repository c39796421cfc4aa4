//! The examples in `docs/lab.md` and `examples/lab/` are valid labs, the reference names every key, and the
//! published schema agrees with the parser.

#[path = "../../../workbench/sim/tests/common/reference.rs"]
mod reference;
mod schema;
mod validator;

use std::fs;
use std::path::{Path, PathBuf};

use hawser_lab::{Spec, SpecError};
use reference::{assert_named, keys_in};

/// The text that completes fragments of the reference.
const BASE: &str = r#"
[[host]]
name = "a"
[[host]]
name = "b"
"#;

/// The tables of a lab file by their names in the schema, each with an unknown key.
const TABLES: &[(&str, &str)] = &[
    ("", "zzz = 1"),
    ("host", "host = [{ zzz = 1 }]"),
    ("link", "link = [{ zzz = 1 }]"),
    ("rules", "link = [{ both = { zzz = 1 } }]"),
    ("nat", "link = [{ nat = { zzz = 1 } }]"),
    ("dns", "dns = [{ zzz = 1 }]"),
    ("service", "dns = [{ services = [{ zzz = 1 }] }]"),
    ("reply", "dns = [{ both = { zzz = 1 } }]"),
    ("at", "at = [{ zzz = 1 }]"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn reference() -> String {
    fs::read_to_string(root().join("docs/lab.md")).expect("the reference")
}

/// Returns the examples of the reference, completed.
fn blocks() -> Vec<String> {
    let complete = |block: &str| {
        let block = block.split("```").next().unwrap_or_default();
        let link = if block.contains("[[link]]") {
            ""
        } else {
            "[[link]]\nbetween = [\"a\", \"b\"]\n"
        };
        if block.contains("[[host]]") {
            block.to_owned()
        } else {
            format!("{BASE}{link}{block}")
        }
    };
    reference().split("```toml\n").skip(1).map(complete).collect()
}

/// Returns the files of the examples.
fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("examples/lab")).expect("the examples");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect()
}

#[test]
fn every_example_of_the_reference_is_a_lab() {
    for block in blocks() {
        if let Err(error) = Spec::parse(&block) {
            panic!("{error}\nin\n{block}");
        }
    }
    assert!(blocks().len() >= 5, "{} examples", blocks().len());
}

#[test]
fn every_example_file_is_a_lab() {
    for path in files() {
        let spec = Spec::read(&path).unwrap_or_else(|error| panic!("{error}"));
        for link in spec.link {
            for trace in link.directions().into_iter().filter_map(|rules| rules.trace) {
                assert!(trace.is_file(), "{}", trace.display());
            }
        }
    }
    assert!(files().len() >= 6, "{} files", files().len());
}

#[test]
fn the_reference_names_every_key() {
    let text = reference();
    for (_, table) in TABLES {
        assert_named(&text, table, &keys_of(table));
    }
}

fn keys_of(table: &str) -> Vec<String> {
    keys_in(&Spec::parse(table).expect_err(table).to_string())
}

fn is_at(error: &SpecError, line: usize, path: &str) -> bool {
    error.place.is_some_and(|place| place.line == line) && error.path == path
}

/// An error names the fault, its place and a remedy: a line and a key, and words of the message.
#[test]
fn errors_name_fault_place_and_remedy() {
    let hosts = "host = [{ name = \"client\" }, { name = \"server\" }]\n";
    let link = "[[link]]\nbetween = [\"client\", \"server\"]\n";
    let cases: &[(&str, usize, &str, &str)] = &[
        (
            "[[link]]\nbetween = [\"client\", \"sever\"]\n",
            3,
            "link[0].between[1]",
            "did you mean `server`?",
        ),
        (
            "[[link]]\nbetween = [\"client\", \"client\"]\n",
            3,
            "link[0].between",
            "two different hosts",
        ),
        (&format!("{link}{link}"), 4, "link[1]", "give it a `name`"),
        (&format!("{link}rat = 1\n"), 4, "link[0].rat", "unknown key `rat`"),
        (
            &format!("{link}both = {{ dely = 1 }}\n"),
            4,
            "link[0].both.dely",
            "did you mean `delay`?",
        ),
        (
            &format!("{link}both = {{ rate = 10 }}\n"),
            4,
            "link[0].both.rate",
            "Mbit/s",
        ),
        (
            &format!("{link}both = {{ loss = 2 }}\n"),
            4,
            "link[0].both.loss",
            "share from 0 to 1",
        ),
        (
            &format!("{link}both = {{ block = [\"tpc\"] }}\n"),
            4,
            "link[0].both.block[0]",
            "tcp, udp, sctp",
        ),
        (
            &format!("{link}both = {{ trace = \"x\", rate = \"1Mbit/s\" }}\n"),
            4,
            "link[0].both.trace",
            "one of the two",
        ),
        (&format!("{link}mtu = 9001\n"), 4, "link[0].mtu", "68 and 9000"),
        (
            &format!("{link}interfaces = [\"lo\", \"eth0\"]\n"),
            4,
            "link[0].interfaces[0]",
            "not `lo`",
        ),
        (
            &format!("{link}addresses = [[\"10.0.0.1\"], []]\n"),
            4,
            "link[0].addresses[0][0]",
            "10.1.0.1/24",
        ),
        (
            &format!("{link}through = \"kernel\"\nboth = {{ delay = \"1ms\" }}\n"),
            4,
            "link[0].through",
            "remove `through`",
        ),
        (
            &format!("{link}nat = {{ inside = \"nobody\" }}\n"),
            4,
            "link[0].nat.inside",
            "client, server",
        ),
        (
            &format!("{link}nat = {{ inside = \"client\", address = \"1.2.3.4\" }}\n"),
            4,
            "link[0].nat.address",
            "not a free address",
        ),
        (
            "[[dns]]\nname = \"x\"\naddresses = [\"1.2.3\"]\n",
            4,
            "dns[0].addresses[0]",
            "the hosts are",
        ),
        (
            "[[at]]\ntime = \"1s\"\nlink = \"a\"\n",
            4,
            "at[0].link",
            "there are no links",
        ),
        (
            &format!("{link}[[at]]\ntime = \"1s\"\nlink = \"client-server\"\n"),
            4,
            "at[0]",
            "state",
        ),
        (
            &format!("{link}[[at]]\ntime = \"1s\"\nlink = \"client-server\"\nrebind = true\n"),
            7,
            "at[0].rebind",
            "give the link `nat",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, line, path, words) in cases {
        let error = Spec::parse(&format!("{hosts}{text}")).expect_err(text);
        if !is_at(&error, *line, path) || !error.to_string().contains(words) {
            wrong.push(format!(
                "{text}{error}\n  expected: line {line}, `{path}`, {words}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
