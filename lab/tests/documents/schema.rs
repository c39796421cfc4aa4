//! `docs/schemas/lab.json` has the same keys and the same words as the parser. It gives the same verdict for
//! every file that can be judged without knowing its names.

use std::collections::BTreeSet;
use std::fs;

use hawser_lab::Spec;
use serde_json::Value;

use crate::validator::faults;
use crate::{BASE, TABLES, blocks, files, keys_of, root};

fn schema() -> Value {
    let text = fs::read_to_string(root().join("docs/schemas/lab.json")).expect("the schema");
    serde_json::from_str(&text).expect("JSON")
}

/// Returns a table's part of the schema.
fn part<'a>(schema: &'a Value, table: &str) -> &'a Value {
    if table.is_empty() {
        schema
    } else {
        &schema["$defs"][table]
    }
}

fn judge(schema: &Value, text: &str) -> Vec<String> {
    let document: Value = toml::from_str(text).expect("TOML");
    faults(schema, schema, &document, "")
}

#[test]
fn schema_keys_equal_the_parsers_keys() {
    let schema = schema();
    for (name, table) in TABLES {
        let of_schema: BTreeSet<&String> = part(&schema, name)["properties"]
            .as_object()
            .expect(name)
            .keys()
            .collect();
        let of_parser = keys_of(table);
        assert_eq!(of_schema, of_parser.iter().collect(), "`{name}`");
    }
}

/// Every key has a description, of its own or by reference.
#[test]
fn every_key_is_described() {
    let schema = schema();
    for (name, _) in TABLES {
        for (key, value) in part(&schema, name)["properties"].as_object().expect(name) {
            assert!(
                value["description"]
                    .as_str()
                    .is_some_and(|text| text.ends_with('.')),
                "{name}.{key}"
            );
        }
    }
}

#[test]
fn schema_enums_equal_the_parsers_words() {
    let link = |key: &str| format!("{BASE}[[link]]\nbetween = [\"a\", \"b\"]\n{key}");
    let schema = schema();
    for (text, words) in [
        (
            link("through = \"zzz\""),
            &schema["$defs"]["link"]["properties"]["through"],
        ),
        (link("state = \"zzz\""), &schema["$defs"]["state"]),
        (
            link("nat = { inside = \"a\", mapping = \"zzz\" }"),
            &schema["$defs"]["dependence"],
        ),
        (
            link("[[dns]]\nname = \"x\"\nboth = { answer = \"zzz\" }"),
            &schema["$defs"]["reply"]["properties"]["answer"],
        ),
    ] {
        let of_schema: Vec<&str> = words["enum"]
            .as_array()
            .expect("words")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(keys_of(&text), of_schema, "{text}");
    }
}

#[test]
fn every_example_satisfies_the_schema() {
    let schema = schema();
    let read = |path| fs::read_to_string(path).expect("an example");
    for text in files().into_iter().map(read).chain(blocks()) {
        assert_eq!(judge(&schema, &text), [""; 0], "{text}");
    }
}

/// The parser and the schema agree on valid and invalid keys of a link, a name or a change.
#[test]
fn schema_and_parser_accept_the_same_texts() {
    let schema = schema();
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\n";
    let cases: &[&str] = &[
        "both = { rate = \"1.5Mbit/s\", queue = 1_000, delay = \"1_000 us\", loss = \"0.5%\" }",
        "both = { rate = 0, queue = 0, delay = 0, loss = 0 }",
        "both = { rate = 10 }",
        "both = { rate = \"10\" }",
        "both = { rate = \"-1Mbit/s\" }",
        "both = { rate = \"1.Mbit/s\" }",
        "both = { delay = 5 }",
        "both = { delay = \"1e3ms\" }",
        "both = { delay = \"1.2.3s\" }",
        "both = { queue = \"64kib\" }",
        "both = { queue = -1 }",
        "both = { loss = 1.5 }",
        "both = { loss = \"101%\" }",
        "both = { loss = \"100%\" }",
        "both = { loss = \"1\" }",
        "both = { burst = 0.5 }",
        "both = { queue_packets = 0 }",
        "both = { drop = [0] }",
        "both = { drop = 1 }",
        "both = { silent = \"yes\" }",
        "both = { block = [\"udp:443\", \"47\", \"mptcp\"] }",
        "both = { block = [\"icmp:1\"] }",
        "both = { block = \"udp\" }",
        "both = { dely = \"1ms\" }",
        "mtu = 67",
        "mtu = 9000",
        "through = \"wire\"",
        "interfaces = [\"wlan0\"]",
        "interfaces = [\"wlan0\", \"an interface\"]",
        "interfaces = [\"wlan0\", \"longer-than-fits\"]",
        "interfaces = [\"wlan0\", \"a:b\"]",
        "interfaces = [\"wlan0\", \"a/b\"]",
        "addresses = [[\"10.1.0.1/24\"], [\"10.1.0.2\"]]",
        "addresses = [[\"10.1.0.1/24\"], [\"10.1.0.2/24\", \"fd01::2/64\"]]",
        "state = \"down\"",
        "state = \"away\"",
        "nat = { inside = \"a\", ports = [1, 2], mapping = \"address\" }",
        "nat = { inside = \"a\", ports = [0, 2] }",
        "nat = { ports = [1, 2] }",
        "[[dns]]\nname = \"x\"\nboth = { delay = \"1s\", answer = \"silence\" }",
        "[[dns]]\naddresses = [\"a\"]",
        "[[at]]\ntime = \"1s\"\nlink = \"a-b\"\nstate = \"up\"",
        "[[at]]\nlink = \"a-b\"\nstate = \"up\"",
        "[[host]]\nname = \"c\"\nrouter = 1",
        "[[host]]\nname = \"not a name\"",
        "[[host]]\nname = \"c\"\nafter = \"2s\"\nrun = \"true\"",
    ];
    let (mut right, mut differ) = (0, Vec::new());
    for case in cases {
        let text = format!("{BASE}{link}{case}\n");
        let (parser, schema) = (Spec::parse(&text), judge(&schema, &text));
        right += usize::from(parser.is_ok());
        if parser.is_ok() != schema.is_empty() {
            let parser = parser.map_or_else(|error| error.to_string(), |_| "right".to_owned());
            differ.push(format!("{case}\n  parser: {parser}\n  schema: {schema:?}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(
        (8..cases.len() - 20).contains(&right),
        "{right} of {} are right",
        cases.len()
    );
}
