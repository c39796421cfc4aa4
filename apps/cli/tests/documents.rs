//! Every reader of hand-written documents reports faults in plain words, with the key and the place.
//!
//! Each reader gets a good document, and then many variants that are changed in one place: values of other
//! types and ranges, unknown, missing and repeated keys, and truncated texts.

use std::fs;
use std::path::Path;

use hawser::connect::policy::NameTable;
use hawser::connect::policy::document::{self, Diagnostic, Format, Read};
use hawser::host::Faults;
use hawser::interact::{Rules, parse, record};
use hawser::lab::Spec;
use hawser::lang::capabilities::Capabilities;
use hawser::runs::Scenario;
use hawser::runs::sweep::Sweep;
use hawser::session::document::Document;
use hawser::testkit::script::{Departures, Table};
use serde_json::{Value, json};

/// The jargon of serde, of its formats and of Rust's types, which no message may contain.
const IDIOMS: [&str; 29] = [
    "invalid type",
    "invalid value",
    "invalid length",
    "expected struct",
    "struct ",
    "data did not match",
    "untagged",
    "variant",
    "unknown field",
    "missing field",
    "duplicate field",
    "a sequence",
    "a map",
    "tuple",
    "newtype",
    "EOF",
    "wanted ",
    "identifier",
    "borrowed",
    "i128",
    "u8",
    "u16",
    "u32",
    "u64",
    "i64",
    "f64",
    "usize",
    "Option",
    "__toml",
];

/// Values of many types, and outside many ranges.
const VALUES: [&str; 13] = [
    "5",
    "-5",
    "1e400",
    "1.5",
    "\"x\"",
    "\"\"",
    "true",
    "[]",
    "{}",
    "[[5]]",
    "99999999999999999999",
    "1979-05-27",
    "nan",
];

/// The guaranteed content of a reader's messages.
#[derive(Clone, Copy, PartialEq)]
enum Tells {
    /// The line and the column for every fault.
    Place,
    /// The key, or the place if the text is not valid in its format.
    Key,
    /// Plain words only, because the document is one line.
    Words,
}

/// A reader of documents: its name, a good document, the function, and the guaranteed content of its
/// messages.
struct Reader(&'static str, String, fn(&str) -> Result<(), String>, Tells);

fn example(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(path).expect("the example")
}

fn sweep(text: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("malformed-sweep.toml");
    fs::write(&path, text).expect("a file");
    Sweep::load(&path).map(|_| ()).map_err(|error| error.to_string())
}

fn session(text: &str, format: Format) -> Result<(), String> {
    Document::parse(text, format)
        .map(|_| ())
        .map_err(|errors| listed(&errors))
}

fn listed(all: &[Diagnostic]) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    all.join("\n")
}

fn read<T>(read: Result<Read<T>, Vec<Diagnostic>>) -> Result<(), String> {
    read.map(|_| ()).map_err(|errors| listed(&errors))
}

fn toml_readers() -> Vec<Reader> {
    let mut readers = readers_of_networks();
    readers.extend(readers_of_others());
    readers
}

fn readers_of_networks() -> Vec<Reader> {
    let sweep_text = example("examples/sweeps/windows.toml").replace(
        "../scenarios",
        &format!("{}/../../examples/scenarios", env!("CARGO_MANIFEST_DIR")),
    );
    vec![
        Reader(
            "scenario",
            example("examples/scenarios/tcp-lossy.toml"),
            |text| {
                Scenario::parse(text)
                    .map(|_| ())
                    .map_err(|error| error.to_string())
            },
            Tells::Place,
        ),
        Reader(
            "scenario of a topology",
            example("examples/scenarios/leaf-spine-incast.toml"),
            |text| {
                Scenario::parse(text)
                    .map(|_| ())
                    .map_err(|error| error.to_string())
            },
            Tells::Place,
        ),
        Reader(
            "lab",
            example("examples/lab/nat.toml"),
            |text| Spec::parse(text).map(|_| ()).map_err(|error| error.to_string()),
            Tells::Place,
        ),
        Reader(
            "lab of roaming",
            example("examples/lab/roaming.toml"),
            |text| Spec::parse(text).map(|_| ()).map_err(|error| error.to_string()),
            Tells::Place,
        ),
        Reader("sweep", sweep_text, sweep, Tells::Place),
    ]
}

fn readers_of_others() -> Vec<Reader> {
    let rights = "[[rule]]\nname = \"steering\"\nuser = 1000\nobserve = [\"tcp.*\"]\n\
                  modify = [{ variables = \"tcp.conn.cc.*\", min = 1448, max = 30000000 }]\nattach = true\n\
                  priority = 5\n";
    let document = "remote_host = \"server.example:4433\"\n[[connection_priority]]\ntransport = \"tcp\"\n\
                    interfaces = \"cellular\"\nbackup = false\nquota = \"500 MB\"\nweight = 2\n\
                    [multi_config]\nconnect = \"par\"\nscheduler = \"ecf\"\n[tcp_config]\nnagle = true\n";
    vec![
        Reader(
            "rights",
            rights.to_owned(),
            |text| Rules::parse(text).map(|_| ()).map_err(|error| error.to_string()),
            Tells::Place,
        ),
        Reader(
            "departures",
            example("transports/tcp/scripts/departures.toml"),
            |text| {
                Departures::parse(text)
                    .map(|_| ())
                    .map_err(|error| error.to_string())
            },
            Tells::Key,
        ),
        Reader(
            "table of a script",
            example("transports/tcp/script.toml"),
            |text| Table::parse(text).map(|_| ()).map_err(|error| error.to_string()),
            Tells::Key,
        ),
        Reader(
            "capabilities",
            example("lang/ir/targets/xdp.toml"),
            |text| {
                Capabilities::read(text)
                    .map(|_| ())
                    .map_err(|error| error.to_string())
            },
            Tells::Place,
        ),
        Reader(
            "session",
            document.to_owned(),
            |text| session(text, Format::Toml),
            Tells::Key,
        ),
        Reader(
            "request of a policy",
            example("examples/policy/video.request.toml"),
            |text| read(document::request(text, Format::Toml, &mut NameTable::default())),
            Tells::Key,
        ),
        Reader(
            "node of a policy",
            example("examples/policy/cib/eth0_rtt.cib.toml"),
            |text| {
                read(document::nodes(
                    text,
                    Format::Toml,
                    "x",
                    &mut NameTable::default(),
                ))
            },
            Tells::Key,
        ),
        Reader(
            "policy",
            example("examples/policy/pib/reliable.profile.toml"),
            |text| {
                read(document::policies(
                    text,
                    Format::Toml,
                    "x",
                    None,
                    &mut NameTable::default(),
                ))
            },
            Tells::Key,
        ),
    ]
}

/// Checks the message about a changed document, if the document is refused.
fn check(reader: &Reader, what: &str, key: &str, text: &str) {
    let Reader(name, _, read, tells) = reader;
    let Err(message) = read(text) else { return };
    for idiom in IDIOMS {
        assert!(!message.contains(idiom), "{name}: {what}: {message}: {idiom}");
    }
    let has_place = message.contains("line ") && message.contains("column ");
    let is_reported = match tells {
        Tells::Place => has_place,
        Tells::Key => has_place || message.contains(key),
        Tells::Words => true,
    };
    assert!(is_reported, "{name}: {what}: {message}");
}

/// Returns each line that sets a key: its number, the key and the value.
fn settings(text: &str) -> Vec<(usize, &str, &str)> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with(['#', '[', '{', '"']))
        .filter_map(|(number, line)| {
            let (key, value) = line.split_once('=')?;
            let is_whole = value.matches(['[', '{']).count() == value.matches([']', '}']).count();
            is_whole.then_some((number, key.trim(), value))
        })
        .collect()
}

/// Replaces one line of a text.
fn with_line(text: &str, at: usize, line: &str) -> String {
    let lines = text.lines().enumerate();
    let lines: Vec<&str> = lines
        .map(|(number, old)| if number == at { line } else { old })
        .collect();
    lines.join("\n") + "\n"
}

#[test]
fn faults_of_toml_documents_are_reported_in_plain_words() {
    for reader in toml_readers() {
        let Reader(name, good, read, _) = &reader;
        assert_eq!(read(good), Ok(()), "{name}: the good document");
        for (at, key, value) in settings(good) {
            for other in VALUES {
                let line = format!("{key} = {other}");
                check(&reader, &line, key, &with_line(good, at, &line));
            }
            check(&reader, &format!("no {key}"), key, &with_line(good, at, ""));
            let twice = format!("{key} = {value}\n{key} = {value}");
            check(
                &reader,
                &format!("{key} twice"),
                key,
                &with_line(good, at, &twice),
            );
            let misspelt = format!("{key}x = {value}");
            check(&reader, &misspelt, key, &with_line(good, at, &misspelt));
        }
        for more in [
            "nosuch = 1",
            "[nosuch]\nx = 1",
            "x =",
            "[a",
            "a = \"\\q\"",
            "\u{0}",
            "=",
            "x = [1,",
            "x = 1 2",
        ] {
            check(&reader, more, "nosuch", &format!("{good}\n{more}\n"));
            check(&reader, more, "nosuch", &format!("{more}\n{good}"));
        }
        let cuts = (0..good.len()).step_by(1 + good.len() / 40);
        for cut in cuts.filter(|cut| good.is_char_boundary(*cut)) {
            // A document that is truncated after a value may lack a key, whose place is unknown.
            check(&reader, &format!("{cut} bytes"), "", &good[..cut]);
        }
    }
}

fn json_readers() -> Vec<Reader> {
    let document = json!({
        "remote_host": "server.example:4433",
        "connection_priority": [{ "transport": "tcp", "interfaces": "cellular", "quota": "500 MB" }],
        "multi_config": { "connect": "par", "scheduler": "ecf" },
        "tcp_config": { "nagle": true },
    });
    let request = json!({ "security": { "value": true, "precedence": 2 } });
    let subscribe = json!({ "subscribe": {
        "events": ["tcp.acked"], "with": [".conn.cc.cwnd"], "scope": "remote.port=80", "interval": "1ms",
        "frequency": 1, "priority": 1 } });
    let modify = json!({ "modify": { "flow": "1:1", "variable": "a", "value": 1, "lease": "1s" } });
    let header = json!({ "at": 0, "header": {
        "schema": record::SCHEMA, "process": 1, "began": 1, "pattern": "*", "interval": 0 } });
    let line = |text: &str| {
        parse(text.as_bytes())
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    vec![
        Reader(
            "session",
            document.to_string(),
            |text| session(text, Format::Json),
            Tells::Key,
        ),
        Reader(
            "request of a policy",
            request.to_string(),
            |text| read(document::request(text, Format::Json, &mut NameTable::default())),
            Tells::Key,
        ),
        Reader("subscription", subscribe.to_string(), line, Tells::Words),
        Reader("modification", modify.to_string(), line, Tells::Words),
        Reader(
            "recording",
            header.to_string(),
            |text| record::parse(text).map(|_| ()).map_err(|error| error.to_string()),
            Tells::Words,
        ),
    ]
}

/// Replaces each value of a document in turn. Returns the changed documents with the path of the value.
fn replaced(document: &Value, other: &Value) -> Vec<(String, Value)> {
    let mut all = vec![("the whole".to_owned(), other.clone())];
    let parts: Vec<(String, &Value)> = match document {
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| (format!("/{key}"), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(at, value)| (format!("/{at}"), value))
            .collect(),
        _ => Vec::new(),
    };
    for (step, part) in parts {
        for (path, changed) in replaced(part, other) {
            let mut whole = document.clone();
            *whole.pointer_mut(&step).expect("the part") = changed;
            all.push((format!("{step} {path}"), whole));
        }
    }
    all
}

#[test]
fn faults_of_json_documents_are_reported_in_plain_words() {
    for reader in json_readers() {
        let Reader(name, good, read, _) = &reader;
        assert_eq!(read(good), Ok(()), "{name}: the good document");
        let document: Value = serde_json::from_str(good).expect("JSON");
        let nosuch = json!({ "nosuch": 1 });
        let others = [
            json!(5),
            json!(-5),
            json!(1.5),
            json!("x"),
            json!(true),
            json!(null),
            json!([]),
            json!({}),
            nosuch,
        ];
        for other in &others {
            for (path, changed) in replaced(&document, other) {
                check(&reader, &format!("{path}: {other}"), "", &changed.to_string());
            }
        }
        for (at, _) in good.match_indices(':') {
            let text = format!("{}: 99999999999999999999, \"x\"{}", &good[..at], &good[at..]);
            check(&reader, "a large number", "", &text);
        }
        for cut in 0..good.len() {
            check(&reader, &format!("{cut} bytes"), "", &good[..cut]);
        }
        for text in [
            format!("{good}x"),
            format!("[{good}"),
            good.replace(',', ",,"),
            good.replace('"', "'"),
        ] {
            check(&reader, &text, "", &text);
        }
    }
}

#[test]
fn faults_of_rules_on_one_line_are_reported_in_plain_words() {
    let reader = Reader(
        "faults",
        "loss=1%,reorder=1%,hold=1ms,burst=3".to_owned(),
        |text| {
            text.parse::<Faults>()
                .map(|_| ())
                .map_err(|error| error.to_string())
        },
        Tells::Key,
    );
    for key in ["loss", "hold", "burst", "los", "rate", "mtu"] {
        for other in ["5", "-5", "x", "1e400", "true", "", "nan", "1ms", "10%"] {
            let text = format!("{key}={other}");
            check(&reader, &text, key, &text);
        }
        check(&reader, "twice", key, &format!("{key}=1%,{key}=1%"));
    }
}
