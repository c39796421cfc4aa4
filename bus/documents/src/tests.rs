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
    (
        "name = 5",
        "line 1, column 8: `name`: 5 stands where a text is expected",
    ),
    (
        "name = \"x\"\nbyte = 300",
        "line 2, column 8: `byte`: 300 stands where a whole number from 0 to 255 is expected",
    ),
    (
        "byte = -1",
        "`byte`: -1 stands where a whole number from 0 to 255 is expected",
    ),
    (
        "byte = \"x\"",
        "`byte`: \"x\" stands where a whole number from 0 to 255 is expected",
    ),
    (
        "byte = 1.5",
        "`byte`: 1.5 stands where a whole number from 0 to 255 is expected",
    ),
    (
        "byte = 1979-05-27",
        "line 1, column 8: `byte`: a date is no value",
    ),
    (
        "byte = 99999999999999999999",
        "`byte`: 99999999999999999999 stands where",
    ),
    (
        "byte = 9999999999999999999999999999999999999999",
        "`byte`: the number is too large",
    ),
    (
        "port = 0",
        "`port`: 0 stands where a whole number from 1 to 65535 is expected",
    ),
    (
        "signed = 3000000000",
        "`signed`: 3000000000 stands where a whole number from -2147483648 to",
    ),
    ("share = true", "`share`: true stands where a number is expected"),
    ("flag = 1", "`flag`: 1 stands where true or false is expected"),
    (
        "pair = [1]",
        "`pair`: a list of 1 stands where a list of 2 is expected",
    ),
    (
        "three = [1, 2]",
        "`three`: a list of 2 stands where a list of 3 is expected",
    ),
    (
        "pair = {}",
        "`pair`: a table stands where a list of 2 is expected",
    ),
    (
        "letter = \"ab\"",
        "`letter`: \"ab\" stands where one character is expected",
    ),
    (
        "list = [1, \"x\"]",
        "`list[1]`: \"x\" stands where a whole number from 0 to 4294967295 is expected",
    ),
    ("list = {}", "`list`: a table stands where a list is expected"),
    ("params = []", "`params`: a list stands where a table is expected"),
    (
        "params.x = \"y\"",
        "`params.x`: \"y\" stands where a whole number from 0 to",
    ),
    (
        "part = 5",
        "`part`: 5 stands where a table with named keys is expected",
    ),
    ("part = {}", "`part`: the key `size` is missing"),
    (
        "[[parts]]\nsize = 1\n[[parts]]\nsise = 2",
        "line 4, column 1: `parts[1].sise`: there is no key `sise`: there are `size`",
    ),
    ("kind = 5", "`kind`: a name, or a table with one key, is expected"),
    (
        "kind = \"none\"",
        "`kind`: there is no `none`: it is one of `idle`, `bulk`, `pair`, `calls`",
    ),
    ("kind = \"bulk\"", "`kind"),
    ("kind = { idle = 5 }", "a table is expected"),
    (
        "kind = {}",
        "`kind`: a name, or a table with one key, is expected",
    ),
    (
        "kind.pair = [1]",
        "a list of another number stands where a list of 2 is expected",
    ),
    ("kind.calls = {}", "the key `size` is missing"),
    (
        "kind.calls = 5",
        "5 stands where a table with named keys is expected",
    ),
    (
        "either = \"x\"",
        "`either`: the value has none of the forms that are possible here",
    ),
    (
        "name = \"a\"\nname = \"b\"",
        "line 2, column 1: the key `name` stands there twice",
    ),
    (
        "nam = 5",
        "line 1, column 1: `nam`: there is no key `nam`: there are `name`, `byte`",
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
        "line 1, column 15: the text goes on after its end",
    ),
    (r#"{"name": "x",}"#, "a comma stands before the end"),
    ("{5: 5}", "a key is a text in quotes"),
    ("5", "5 stands where an object with named keys is expected"),
    ("{}", "the key `name` is missing"),
    (
        "{\n\"name\": 5}",
        "line 2, column 9: `name`: 5 stands where a text is expected",
    ),
    (
        r#"{"name": null}"#,
        "`name`: null stands where a text is expected",
    ),
    (r#"{"byte": 1e400}"#, "the number is too large"),
    (
        r#"{"byte": 300}"#,
        "`byte`: 300 stands where a whole number from 0 to 255 is expected",
    ),
    (
        r#"{"params": []}"#,
        "`params`: a list stands where an object is expected",
    ),
    (
        r#"{"parts": [{"size": 1}, {"size": -1}]}"#,
        "`parts[1].size`: -1 stands where a whole number",
    ),
    (
        r#"{"kind": 5}"#,
        "`kind`: a name, or an object with one key, is expected",
    ),
    (r#"{"kind": "bulk"}"#, "`kind"),
    (r#"{"kind": {"idle": 5}}"#, "5 stands where null is expected"),
    (
        r#"{"kind": {"pair": [1]}}"#,
        "a list of 1 stands where a list of 2 is expected",
    ),
    (
        r#"{"kind": {}}"#,
        "`kind`: a name, or an object with one key, is expected",
    ),
    (r#"{"either": []}"#, "`either`: the value has none of the forms"),
    (
        r#"{"name": "a", "name": "b"}"#,
        "the key `name` stands there twice",
    ),
    (r#"{"nam": 5}"#, "there is no key `nam`: there are `name`, `byte`"),
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
    assert_eq!(shown, "it is not UTF-8");
}

#[test]
fn a_misspelt_key_comes_with_the_nearest_one() {
    let shown = fault(toml::<All>("nam = 5"), "nam");
    assert!(shown.ends_with("\n  hint: did you mean `name`?"), "{shown}");
}
