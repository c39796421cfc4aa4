//! Documents: the diagnostics of each file of `documents/` are in the `.expected` file beside it. The
//! published schema agrees with the reader. Hostile documents reach a limit quickly.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Tests read files.

use std::fs;
use std::path::{Path, PathBuf};

use hawser_policy::document::{self, Diagnostic, Format, SCHEMA};
use hawser_policy::{Cib, NameTable, Options, Pib, Rows, rank};
use serde_json::{Value, json};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending != "expected"));
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name")
}

/// Returns the definition of the schema that applies to a file.
fn definition(name: &str) -> &'static str {
    if name.contains(".cib.") {
        "nodes"
    } else if name.contains(".request.") {
        "request"
    } else {
        "policies"
    }
}

fn read(text: &str, format: Format, what: &str) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let mut names = NameTable::default();
    match what {
        "nodes" => document::nodes(text, format, "x", &mut names).map(|read| read.warnings),
        "request" => document::request(text, format, &mut names).map(|read| read.warnings),
        _ => document::policies(text, format, "x", None, &mut names).map(|read| read.warnings),
    }
}

fn format(path: &Path) -> Format {
    if path.extension().is_some_and(|ending| ending == "toml") {
        Format::Toml
    } else {
        Format::Json
    }
}

#[test]
fn diagnostics_match_the_expected_files() {
    let files = files();
    assert!(files.len() >= 15, "{}", files.len());
    let mut wrong = String::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a readable file");
        let (severity, diagnostics) = match read(&text, format(&path), definition(name(&path))) {
            Ok(warnings) => ("warning", warnings),
            Err(errors) => ("error", errors),
        };
        let found: String = diagnostics
            .iter()
            .map(|diagnostic| format!("{severity} {diagnostic}\n"))
            .collect();
        let expected = path.with_file_name(format!("{}.expected", name(&path)));
        let expected = fs::read_to_string(expected).expect("what is expected");
        if found != expected {
            wrong += &format!("{}: expected\n{expected}found\n{found}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn json_and_toml_mean_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let [json, toml] = ["neat.policy.json", "neat.policy.toml"].map(|name| {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).expect("a readable file");
        document::policies(&text, format(&path), "x", None, &mut NameTable::default())
            .expect("policies")
            .value
    });
    assert_eq!(json, toml);
}

/// The schema and the reader accept and reject the same documents, apart from rules that a schema cannot
/// express. These are misspelt names of properties, contradictions, and empty ranges.
#[test]
fn schema_and_reader_judge_alike() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = |what: &str| {
        let mut schema = schema.clone();
        schema.as_object_mut().expect("an object").remove("anyOf");
        schema["$ref"] = json!(format!("#/$defs/{what}"));
        jsonschema::validator_for(&schema).expect("a schema")
    };
    let beyond = ["contradiction.policy.json"];
    for path in files() {
        let name = name(&path);
        let text = fs::read_to_string(&path).expect("a readable file");
        let value: Result<Value, String> = match format(&path) {
            Format::Json => serde_json::from_str(&text).map_err(|error| error.to_string()),
            Format::Toml => continue,
        };
        let what = definition(name);
        let Ok(value) = value else { continue };
        let reader = read(&text, Format::Json, what).is_ok();
        if beyond.contains(&name) || name == "huge.policy.json" || name == "twice.policy.json" {
            assert!(!reader, "{name}");
            continue;
        }
        assert_eq!(validator(what).is_valid(&value), reader, "{name}");
    }
}

/// The schema and the reader know the same keys.
#[test]
fn schema_and_reader_have_the_same_keys() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let wrap = |what: &str, key: &str| match what {
        "policy" => (json!({ key: null }), "policies"),
        "node" => (json!({ key: null }), "nodes"),
        "property" => (json!({ "mtu": { key: null } }), "request"),
        _ => (
            json!({ "mtu": { "value": { key: 1, "start": 0, "end": 1 } } }),
            "request",
        ),
    };
    for what in ["policy", "node", "property", "range"] {
        let keys = schema["$defs"][what]["properties"].as_object().expect("keys");
        for key in keys.keys() {
            let (document, how) = wrap(what, key);
            let text = document.to_string();
            let diagnostics = read(&text, Format::Json, how).err().unwrap_or_default();
            let unknown = diagnostics
                .iter()
                .any(|diagnostic| diagnostic.message.contains("no such key"));
            assert!(
                !unknown,
                "{what}.{key} is in the schema, and the reader does not know it"
            );
        }
        let (document, how) = wrap(what, "nosuch");
        let diagnostics = read(&document.to_string(), Format::Json, how).expect_err("there is no such key");
        assert!(
            diagnostics
                .iter()
                .any(|diagnostic| diagnostic.message.contains("no such key")),
            "{what}"
        );
    }
}

fn limit_of(text: &str, what: &str) -> String {
    let diagnostics = read(text, Format::Json, what).expect_err("it is too much");
    diagnostics
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Products, depths and sizes cause an error that names the limit.
#[test]
fn hostile_documents_meet_limits() {
    let two = r#"[{ "mtu": { "value": 1 } }, { "mtu": { "value": 2 } }]"#;
    let product = format!(r#"{{ "properties": [{}] }}"#, vec![two; 60].join(","));
    assert!(limit_of(&product, "policies").contains("more than 256 alternatives"));
    let product = format!(
        r#"[{{ {} }}]"#,
        (0..60)
            .map(|n| format!(r#""a/{n}": [{{}}, {{}}]"#))
            .collect::<Vec<_>>()
            .join(",")
    );
    assert!(limit_of(&product, "request").contains("more than 256 alternatives"));
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(limit_of(&deep, "request").contains("16 levels"));
    let deeper = "[".repeat(100_000);
    assert!(limit_of(&deeper, "request").contains("nested too deeply"));
    let long = format!(
        r#"{{ "application_name": {{ "value": "{}" }} }}"#,
        "x".repeat(2000)
    );
    assert!(limit_of(&long, "request").contains("at most 1024 bytes"));
    let large = format!("[{}]", "{},".repeat(400_000));
    assert!(limit_of(&large, "request").contains("more than 1048576 bytes"));
    let wide = format!(
        "{{ {} }}",
        (0..300)
            .map(|n| format!(r#""a/{n}": {{}}"#))
            .collect::<Vec<_>>()
            .join(",")
    );
    assert!(limit_of(&wide, "request").contains("more than 256 properties"));
    let many = format!("[{}]", vec!["3"; 1000].join(","));
    assert_eq!(read(&many, Format::Json, "nodes").expect_err("numbers").len(), 64);
    assert!(limit_of(r#"{ "a/b": { "value": 1e400 } }"#, "request").contains("the number is too large"));
}

fn cib(nodes: &[Value]) -> Cib {
    let mut names = NameTable::default();
    let read = document::nodes(&json!(nodes).to_string(), Format::Json, "x", &mut names).expect("nodes");
    let mut cib = Cib::default();
    for node in read.value {
        cib.insert(node, 0.0).expect("there is room");
    }
    cib
}

/// Graphs whose paths or products grow without bound.
#[test]
fn hostile_graphs_meet_limits() {
    let root = json!({ "uid": "root", "root": true, "expire": -1 });
    let link = |n: usize, to: &str| json!({ "uid": n.to_string(), "link": true, "expire": -1, "match": [{ "uid": { "value": to } }] });
    // Every node links to every other, so that the number of paths through them is a factorial.
    let every = |n: usize| json!({ "uid": n.to_string(), "link": true, "expire": -1, "match": [{}] });
    let knot: Vec<Value> = std::iter::once(root.clone()).chain((0..40).map(every)).collect();
    let limit = cib(&knot).rows(0.0).expect_err("too many ways");
    assert!(
        ["rows of the CIB", "nodes in a chain of links"].contains(&limit.what),
        "{limit}"
    );
    // A chain.
    let chain: Vec<Value> = std::iter::once(root.clone())
        .chain((0..40).map(|n| {
            link(
                n,
                &if n == 0 {
                    "root".to_owned()
                } else {
                    (n - 1).to_string()
                },
            )
        }))
        .collect();
    assert_eq!(
        cib(&chain).rows(0.0).expect_err("too long").what,
        "nodes in a chain of links"
    );
    // A product of alternatives along a chain.
    let two = json!([[{ "mtu": { "value": 1 } }, { "rtt": { "value": 2 } }]]);
    let mut product = chain[..14].to_vec();
    product
        .iter_mut()
        .for_each(|node| node["properties"] = two.clone());
    assert_eq!(
        cib(&product).rows(0.0).expect_err("too many").what,
        "rows of the CIB"
    );
    // Rows beside rows.
    let beside = |n: usize| json!({ "uid": format!("b{n}"), "root": true, "expire": -1, "match": [{}] });
    let beside: Vec<Value> = (0..70).map(beside).collect();
    assert_eq!(
        cib(&beside).rows(0.0).expect_err("too many").what,
        "rows of the CIB"
    );
}

/// Policies each of which doubles the candidates.
#[test]
fn hostile_policies_meet_limits() {
    let mut names = NameTable::default();
    let mut pib = Pib::default();
    for n in 0..40 {
        let text = json!({ "uid": n.to_string(), "properties": [[{ format!("a/{n}"): {} }, { format!("b/{n}"): {} }]] });
        let read = document::policies(&text.to_string(), Format::Json, "x", None, &mut names).expect("one");
        pib.insert(read.value.into_iter().next().expect("one"))
            .expect("there is room");
    }
    let request = document::request("{}", Format::Json, &mut names)
        .expect("a request")
        .value;
    let limit = rank(&request, &pib, &Rows::default(), &names, &Options::default()).expect_err("too many");
    assert_eq!((limit.what, limit.place.as_str()), ("candidates under way", "12"));
}
