//! Malformed documents, and the reported faults.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::*;

/// One key of each kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "its fields are read by derived code alone")]
struct All {
    name: String,
    byte: Option<u8>,
    port: Option<NonZeroU16>,
    signed: Option<i32>,
    share: Option<f64>,
    flag: Option<bool>,
    pair: Option<(u8, u8)>,
    three: Option<[u8; 3]>,
    letter: Option<char>,
    list: Option<Vec<u32>>,
    params: Option<BTreeMap<String, u64>>,
    part: Option<Part>,
    parts: Option<Vec<Part>>,
    kind: Option<Kind>,
    either: Option<Either>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "its fields are read by derived code alone")]
struct Part {
    size: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code, reason = "its fields are read by derived code alone")]
enum Kind {
    Idle,
    Bulk(u32),
    Pair(u8, u8),
    Calls { size: u64 },
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[allow(dead_code, reason = "its fields are read by derived code alone")]
enum Either {
    Number(u8),
    Part(Part),
}

/// The idioms of serde and of Rust, which no message may contain.
const IDIOMS: &[&str] = &[
    "invalid type",
    "invalid value",
    "invalid length",
    "expected struct",
    "untagged",
    "variant",
    "struct ",
    "tuple",
    "enum",
    "sequence",
    "newtype",
    "u8",
    "u16",
    "u32",
    "u64",
    "i32",
    "f64",
    "usize",
    "Option",
    "EOF",
    "unknown field",
    "missing field",
    "wanted",
    "i128",
    "identifier",
    "borrowed",
    "Part",
    "Kind",
    "Either",
];

fn fault<T: DeserializeOwned>(read: Result<T, Fault>, text: &str) -> String {
    let shown = read
        .err()
        .unwrap_or_else(|| panic!("it is read: {text}"))
        .to_string();
    for idiom in IDIOMS {
        assert!(!shown.contains(idiom), "{text}: {shown}: {idiom}");
    }
    shown
}

/// Texts, each with a part of its message.
const TOML: &[(&str, &str)] = &[
    ("", "line 1, column 1: the key `name` is missing"),
    ("name = 5", "line 1, column 8: `name`: expected a text, found 5"),
    (
        "name = \"x\"\nbyte = 300",
        "line 2, column 8: `byte`: expected a whole number from 0 to 255, found 300",
    ),
    (
        "byte = -1",
        "`byte`: expected a whole number from 0 to 255, found -1",
    ),
    (
        "byte = \"x\"",
        "`byte`: expected a whole number from 0 to 255, found \"x\"",
    ),
    (
        "byte = 1.5",
        "`byte`: expected a whole number from 0 to 255, found 1.5",
    ),
    (
        "byte = 1979-05-27",
        "line 1, column 8: `byte`: dates are not supported",
    ),
    ("byte = 99999999999999999999", "found 99999999999999999999"),
    (
        "byte = 9999999999999999999999999999999999999999",
        "`byte`: the number is too large",
    ),
    (
        "port = 0",
        "`port`: expected a whole number from 1 to 65535, found 0",
    ),
    (
        "signed = 3000000000",
        "`signed`: expected a whole number from -2147483648 to",
    ),
    ("share = true", "`share`: expected a number, found true"),
    ("flag = 1", "`flag`: expected true or false, found 1"),
    ("pair = [1]", "`pair`: expected a list of 2, found a list of 1"),
    (
        "three = [1, 2]",
        "`three`: expected a list of 3, found a list of 2",
    ),
    ("pair = {}", "`pair`: expected a list of 2, found a table"),
    (
        "letter = \"ab\"",
        "`letter`: expected one character, found \"ab\"",
    ),
    (
        "list = [1, \"x\"]",
        "`list[1]`: expected a whole number from 0 to 4294967295, found \"x\"",
    ),
    ("list = {}", "`list`: expected a list, found a table"),
    ("params = []", "`params`: expected a table, found a list"),
    (
        "params.x = \"y\"",
        "`params.x`: expected a whole number from 0 to",
    ),
    ("part = 5", "`part`: expected a table with named keys, found 5"),
    ("part = {}", "`part`: the key `size` is missing"),
    (
        "[[parts]]\nsize = 1\n[[parts]]\nsise = 2",
        "line 4, column 1: `parts[1].sise`: unknown key `sise`: the keys are `size`",
    ),
    ("kind = 5", "`kind`: a name, or a table with one key, is expected"),
    (
        "kind = \"none\"",
        "`kind`: unknown value `none`: expected one of `idle`, `bulk`, `pair`, `calls`",
    ),
    ("kind = \"bulk\"", "`kind"),
    ("kind = { idle = 5 }", "a table is expected"),
    (
        "kind = {}",
        "`kind`: a name, or a table with one key, is expected",
    ),
    (
        "kind.pair = [1]",
        "expected a list of 2, found a list of another number",
    ),
    ("kind.calls = {}", "the key `size` is missing"),
    ("kind.calls = 5", "expected a table with named keys, found 5"),
    (
        "either = \"x\"",
        "`either`: the value has none of the permitted forms",
    ),
    (
        "name = \"a\"\nname = \"b\"",
        "line 2, column 1: the key `name` occurs twice",
    ),
    (
        "nam = 5",
        "line 1, column 1: `nam`: unknown key `nam`: the keys are `name`, `byte`",
    ),
    ("name =", "line 1, column 7: "),
    ("list = [1,", "line 1, column "),
    ("[part", "line 1, column "),
    ("\u{0}", "line 1, column 2: "),
];

#[test]
fn faults_of_toml_have_plain_words_a_key_and_a_place() {
    for (text, want) in TOML {
        let shown = fault(toml::<All>(text), text);
        assert!(shown.contains(want), "{text}: {shown}");
        assert!(shown.starts_with("line "), "{text}: {shown}");
    }
    let nested = format!("list = {}", "[".repeat(1000));
    fault(toml::<All>(&nested), "nested lists");
}

/// Texts, each with a part of its message.
const JSON: &[(&str, &str)] = &[
    ("", "line 1, column 1: the text ends where a value is expected"),
    ("{", "line 1, column 1: the text ends within an object"),
    (r#"{"name""#, "the text ends within an object"),
    (r#"{"name" 5}"#, "line 1, column 9: `:` is expected"),
    (
        r#"{"name": "x"} x"#,
        "line 1, column 15: the document continues after its end",
    ),
    (r#"{"name": "x",}"#, "a comma precedes the end"),
    ("{5: 5}", "a key is a text in quotes"),
    ("5", "expected an object with named keys, found 5"),
    ("{}", "the key `name` is missing"),
    (
        "{\n\"name\": 5}",
        "line 2, column 9: `name`: expected a text, found 5",
    ),
    (r#"{"name": null}"#, "`name`: expected a text, found null"),
    (r#"{"byte": 1e400}"#, "the number is too large"),
    (
        r#"{"byte": 300}"#,
        "`byte`: expected a whole number from 0 to 255, found 300",
    ),
    (r#"{"params": []}"#, "`params`: expected an object, found a list"),
    (
        r#"{"parts": [{"size": 1}, {"size": -1}]}"#,
        "`parts[1].size`: expected a whole number",
    ),
    (
        r#"{"kind": 5}"#,
        "`kind`: a name, or an object with one key, is expected",
    ),
    (r#"{"kind": "bulk"}"#, "`kind"),
    (r#"{"kind": {"idle": 5}}"#, "expected null, found 5"),
    (
        r#"{"kind": {"pair": [1]}}"#,
        "expected a list of 2, found a list of 1",
    ),
    (
        r#"{"kind": {}}"#,
        "`kind`: a name, or an object with one key, is expected",
    ),
    (
        r#"{"either": []}"#,
        "`either`: the value has none of the permitted forms",
    ),
    (r#"{"name": "a", "name": "b"}"#, "the key `name` occurs twice"),
    (r#"{"nam": 5}"#, "unknown key `nam`: the keys are `name`, `byte`"),
];

#[test]
fn faults_of_json_have_plain_words_a_key_and_a_place() {
    for (text, want) in JSON {
        let shown = fault(json::<All>(text), text);
        assert!(shown.contains(want), "{text}: {shown}");
        assert!(shown.starts_with("line "), "{text}: {shown}");
    }
    fault(json::<All>(&"[".repeat(1000)), "nested lists");
    let shown = fault(json_bytes::<All>(b"\xff"), "bytes");
    assert_eq!(shown, "the text is not UTF-8");
}

#[test]
fn a_misspelt_key_comes_with_the_nearest_one() {
    let shown = fault(toml::<All>("nam = 5"), "nam");
    assert!(shown.ends_with("\n  hint: did you mean `name`?"), "{shown}");
}
