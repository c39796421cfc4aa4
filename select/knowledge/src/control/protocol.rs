//! Lines to commands and answers to lines: no I/O.

use std::collections::BTreeMap;
use std::fmt;

use hawser_policy::document::Finding;
use serde::Deserialize;
use serde::de::{self, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::event::{Known, Origin};

/// What a controller wants.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Command {
    /// These nodes known: a document of the CIB.
    Put(String),
    /// To be told what is known.
    List(Filter),
    /// A node gone.
    Delete(String),
    /// To be told what becomes known from now on.
    Watch(Filter),
}

/// Which nodes; all conditions have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Filter {
    /// Where they come from.
    #[serde(default)]
    source: Option<Origin>,
    /// The beginning of their names.
    #[serde(default)]
    uid: Option<String>,
    /// The interface that they speak of.
    #[serde(default)]
    interface: Option<String>,
}

impl Filter {
    /// Whether a node is among them.
    pub(in super::super) fn takes(&self, known: &Known) -> bool {
        self.takes_name(known.origin, &known.uid)
            && self
                .interface
                .as_deref()
                .is_none_or(|wanted| speaks_of(&known.node, wanted))
    }

    /// The same by name alone, for a node that is gone.
    pub(in super::super) fn takes_name(&self, origin: Origin, uid: &str) -> bool {
        self.source.is_none_or(|wanted| wanted == origin)
            && self.uid.as_deref().is_none_or(|prefix| uid.starts_with(prefix))
    }
}

/// Whether `interface` has this value somewhere in a node: in what it matches or in what it tells.
fn speaks_of(node: &Value, wanted: &str) -> bool {
    fn within(value: &Value, wanted: &str) -> bool {
        match value {
            Value::Array(all) => all.iter().any(|one| within(one, wanted)),
            Value::Object(properties) => {
                match &properties.get("interface").map(|property| &property["value"]) {
                    Some(Value::String(name)) => name == wanted,
                    Some(Value::Array(names)) => names.iter().any(|name| name == wanted),
                    _ => false,
                }
            }
            _ => false,
        }
    }
    within(&node["properties"], wanted) || within(&node["match"], wanted)
}

/// Understands a line.
pub(in super::super) fn parse(line: &[u8]) -> Result<Command, Vec<Finding>> {
    let wrong = |message: String, hint: Option<&str>| {
        vec![Finding {
            path: String::new(),
            message,
            hint: hint.map(Into::into),
        }]
    };
    let text = std::str::from_utf8(line).map_err(|_| wrong("the line is not UTF-8".into(), None))?;
    let Words(words) = serde_json::from_str(text).map_err(|error| wrong(error.to_string(), Some(HINT)))?;
    let mut words = words.into_iter();
    let (Some((word, value)), None) = (words.next(), words.next()) else {
        return Err(wrong("a line says one thing".into(), Some(HINT)));
    };
    let of_word = |error: serde_json::Error| {
        vec![Finding {
            path: word.clone(),
            message: error.to_string(),
            hint: None,
        }]
    };
    match word.as_str() {
        "put" => Ok(Command::Put(value.get().to_owned())),
        "list" => serde_json::from_str(value.get())
            .map(Command::List)
            .map_err(of_word),
        "delete" => serde_json::from_str(value.get())
            .map(Command::Delete)
            .map_err(of_word),
        "watch" => serde_json::from_str(value.get())
            .map(Command::Watch)
            .map_err(of_word),
        other => {
            let other: String = other.chars().take(40).collect();
            Err(wrong(format!("there is no `{other}`"), Some(HINT)))
        }
    }
}

const HINT: &str = r#"{"put": NODE}, {"list": {}}, {"delete": "UID"} or {"watch": {}}"#;

/// The keys of an object, each once, with what they say as it was written: the reader of documents is
/// to see duplicates and numbers for itself.
struct Words(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Words, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Words, A::Error> {
                let mut words = BTreeMap::new();
                while let Some((word, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if words.insert(word, value).is_some() {
                        return Err(de::Error::custom("a key twice"));
                    }
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// What was refused, as an answer. Paths begin with the command's word.
pub(in super::super) fn refusal(word: &str, findings: &[Finding]) -> Value {
    let path = |path: &str| match path {
        "" => word.to_owned(),
        path if path.starts_with('[') => format!("{word}{path}"),
        path if path == word || word.is_empty() => path.to_owned(),
        path => format!("{word}.{path}"),
    };
    let told: Vec<Value> = findings
        .iter()
        .map(
            |Finding {
                 path: at,
                 message,
                 hint,
             }| json!({ "path": path(at), "message": message, "hint": hint }),
        )
        .collect();
    json!({ "error": "refused", "findings": told })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands() {
        let cases = [
            (
                r#"{"put": {"uid":"a", "uid":"b"}}"#,
                Command::Put(r#"{"uid":"a", "uid":"b"}"#.into()),
            ),
            (r#" {"list":{}} "#, Command::List(Filter::default())),
            (r#"{"delete":"a/b"}"#, Command::Delete("a/b".into())),
            (
                r#"{"watch":{"source":"race","uid":"race/eth0","interface":"eth0"}}"#,
                Command::Watch(Filter {
                    source: Some(Origin::Race),
                    uid: Some("race/eth0".into()),
                    interface: Some("eth0".into()),
                }),
            ),
        ];
        for (line, command) in cases {
            assert_eq!(parse(line.as_bytes()), Ok(command), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases: [(&[u8], &str); 11] = [
            (b"", "EOF"),
            (b"[]", "expected an object"),
            (b"{}", "a line says one thing"),
            (br#"{"list":{},"watch":{}}"#, "a line says one thing"),
            (br#"{"list":{},"list":{}}"#, "a key twice"),
            (br#"{"putt":{}}"#, "there is no `putt`"),
            (br#"{"list":{"souce":"race"}}"#, "unknown field `souce`"),
            (br#"{"list":{"source":"rumour"}}"#, "unknown variant `rumour`"),
            (br#"{"delete":7}"#, "expected a string"),
            (b"{\"delete\":\"\xff\"}", "not UTF-8"),
            (br#"{"list":{}} {"list":{}}"#, "trailing characters"),
        ];
        for (line, why) in cases {
            let findings = parse(line).expect_err("it is wrong");
            assert!(findings[0].to_string().contains(why), "{findings:?} for {why}");
        }
        let deep = format!(r#"{{"put":{}1{}}}"#, "[".repeat(9_999), "]".repeat(9_999));
        // What is deep is taken as it is, and refused by the reader of documents.
        assert!(matches!(parse(deep.as_bytes()), Ok(Command::Put(_)) | Err(_)));
    }

    #[test]
    fn paths_begin_with_the_command() {
        let finding = |path: &str| Finding {
            path: path.into(),
            message: "m".into(),
            hint: None,
        };
        let all = refusal(
            "put",
            &[
                finding(""),
                finding("properties.rtt.score"),
                finding("[1].uid"),
                finding("put"),
            ],
        );
        let paths: Vec<&str> = all["findings"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|one| one["path"].as_str())
            .collect();
        assert_eq!(paths, ["put", "put.properties.rtt.score", "put[1].uid", "put"]);
    }

    #[test]
    fn filters_look_at_source_name_and_interface() {
        let known = |uid: &str, origin, node: Value| Known {
            uid: uid.into(),
            origin,
            until: None,
            node: std::sync::Arc::new(node),
        };
        let told = known(
            "a/b",
            Origin::Race,
            json!({ "properties": { "interface": { "value": "eth0" } } }),
        );
        let link = known(
            "c",
            Origin::Controller,
            json!({ "match": [{ "interface": { "value": ["eth0", "x"] } }], "properties": {} }),
        );
        let all = |text: &str| -> Filter { serde_json::from_str(text).expect("a filter") };
        for (filter, takes) in [
            ("{}", [true, true]),
            (r#"{"source":"race"}"#, [true, false]),
            (r#"{"uid":"a/"}"#, [true, false]),
            (r#"{"interface":"eth0"}"#, [true, true]),
            (r#"{"interface":"x"}"#, [false, true]),
            (r#"{"interface":"eth"}"#, [false, false]),
        ] {
            assert_eq!(
                [all(filter).takes(&told), all(filter).takes(&link)],
                takes,
                "{filter}"
            );
        }
    }
}
