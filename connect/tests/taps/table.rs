//! The properties' names, sections, types and defaults are those of RFC 9622, taken by hand from the table
//! beside this file.

use hawser_connect::taps::{Action, Class, Definition, Initial, PropertyValue, Type};

const TABLE: &str = include_str!("properties.tsv");

fn kind(kind: Type) -> String {
    match kind {
        Type::Preference => "Preference".into(),
        Type::Preferences => "Set of (Preference, Enumeration)".into(),
        Type::Boolean => "Boolean".into(),
        Type::Integer { min, or } => {
            let number = if min == 0 {
                "Integer (non-negative)"
            } else {
                "Numeric (positive)"
            };
            or.map_or_else(|| number.to_owned(), |word| format!("{number} or {word}"))
        }
        Type::Time { or } => format!("Numeric (positive) or {or}"),
        Type::Word(words) => format!("Enumeration: {}", words.join("; ")),
    }
}

fn value(definition: &Definition, action: Action) -> String {
    match (definition.initial, definition.value_for(action)) {
        (Initial::ReadOnly, _) => "read-only".into(),
        (Initial::Of(other), _) => format!("as {other}"),
        (_, Some(PropertyValue::Preferences(all))) if all.is_empty() => "Empty".into(),
        (_, value) => value.map_or_else(String::new, |value| value.to_string()),
    }
}

#[test]
fn every_property_has_the_name_type_and_default_of_the_rfc() {
    let mut ours = Vec::new();
    for definition in Definition::ALL {
        let class = match definition.class {
            Class::Selection => "selection",
            Class::Connection => "connection",
            Class::Message => "message",
        };
        let defaults = [Action::Initiate, Action::Listen, Action::Rendezvous]
            .map(|action| value(definition, action))
            .join("\t");
        let (section, name, kind) = (definition.section, definition.name, kind(definition.kind));
        ours.push(format!("{section}\t{class}\t{name}\t{kind}\t{defaults}"));
    }
    let theirs: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(theirs.len(), 50, "18 + 22 + 10");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}

/// Actions and events of RFC 9622, sections 6 to 10.
const WORDS: &[&str] = &[
    "Initiate",
    "InitiateWithSend",
    "Listen",
    "Rendezvous",
    "Resolve",
    "AddFramer",
    "Stop",
    "SetNewConnectionLimit",
    "Clone",
    "GroupedConnections",
    "AddRemote",
    "RemoveRemote",
    "AddLocal",
    "RemoveLocal",
    "SetProperty",
    "GetProperties",
    "Send",
    "StartBatch",
    "EndBatch",
    "Receive",
    "Close",
    "Abort",
    "CloseGroup",
    "AbortGroup",
    "Ready",
    "EstablishmentError",
    "ConnectionReceived",
    "Stopped",
    "RendezvousDone",
    "CloneError",
    "SoftError",
    "PathChange",
    "Sent",
    "Expired",
    "SendError",
    "Received",
    "ReceivedPartial",
    "ReceiveError",
    "Closed",
    "ConnectionError",
];

/// Returns the sources that hold the tests of a module's path.
fn source(module: &str) -> Option<String> {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let module = module.trim_end_matches("::tests").replace("::", "/");
    let (file, folder) = (format!("{module}.rs"), format!("{module}/mod.rs"));
    ["tests/taps", "tests", "src/taps", "src"]
        .iter()
        .flat_map(|root| [here.join(root).join(&file), here.join(root).join(&folder)])
        .find_map(|path| std::fs::read_to_string(path).ok())
}

#[test]
fn the_page_names_every_property_and_existing_tests() {
    let page = include_str!("../../../docs/rfc9622.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let names = Definition::ALL
        .iter()
        .map(|definition| definition.name)
        .chain(WORDS.iter().copied());
    for name in names {
        let begin = format!("| `{name}` | ");
        let row = rows
            .iter()
            .find(|row| row.starts_with(&begin))
            .unwrap_or_else(|| panic!("{name}"));
        let state = row[begin.len()..].split(" | ").next().unwrap_or_default();
        let has_test = row[begin.len()..].contains("::");
        let is_known = ["done", "in part", "not yet"]
            .iter()
            .any(|word| state.starts_with(word));
        assert!(is_known && (has_test || state == "not yet"), "{row}");
    }
    let quoted = page.split('`').skip(1).step_by(2);
    for test in quoted.filter(|word| {
        word.contains("::")
            && word
                .chars()
                .all(|c| c.is_lowercase() || "_:0123456789".contains(c))
    }) {
        let Some((module, function)) = test.rsplit_once("::") else {
            continue;
        };
        if test == "hawser::connect::taps" {
            continue;
        }
        let source = source(module).unwrap_or_else(|| panic!("no source of {test}"));
        assert!(
            source.contains(&format!("fn {function}(")),
            "{test} does not exist"
        );
    }
}
