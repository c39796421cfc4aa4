//! The properties' names, sections, types and defaults are those of RFC 9622, which a table beside this
//! file was taken from by hand.

use hawser::taps::{Action, Class, Definition, Initial, Type, Value};

const TABLE: &str = include_str!("properties.tsv");

fn kind(kind: Type) -> String {
    match kind {
        Type::Preference => "Preference".into(),
        Type::Preferences => "Set of (Preference, Enumeration)".into(),
        Type::Boolean => "Boolean".into(),
        Type::Integer { least, or } => {
            let number = if least == 0 { "Integer (non-negative)" } else { "Numeric (positive)" };
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
        (_, Some(Value::Preferences(all))) if all.is_empty() => "Empty".into(),
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
