//! The errors of JSON and TOML readers in the words of the people who write these texts.
//!
//! The readers come from derived code, whose messages name its own types ("expected u8", "unknown variant").

use serde::de::IgnoredAny;

/// The beginnings of messages about names, what stands before the name and after it, and what introduces the names
/// that there are.
const NAMES: [(&str, &str, &str, &str); 4] = [
    ("unknown variant ", "there is no ", "", "it is one of "),
    ("unknown field ", "", " is no field", "there are "),
    ("missing field ", "the field ", " is missing", ""),
    ("duplicate field ", "the field ", " stands there twice", ""),
];

/// The forms that readers expect, and how people call them.
const FORMS: [(&str, &str); 9] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number from 0 to 18446744073709551615"),
    ("usize", "a whole number from 0 to 18446744073709551615"),
    ("a string", "a text"),
    ("a borrowed string", "a text"),
    ("a sequence", "a list"),
    ("a boolean", "true or false"),
];

/// The reason why a text is no value of the expected type.
pub(crate) fn json(text: &str, error: &serde_json::Error) -> String {
    if let Err(wrong) = serde_json::from_str::<IgnoredAny>(text) {
        return format!("the line is no JSON: it is wrong at column {}", wrong.column());
    }
    if !error.is_data() {
        return "a request is an object with one key, its word".to_owned();
    }
    let whole = error.to_string();
    let message = whole
        .rsplit_once(" at line ")
        .map_or(whole.as_str(), |(message, _)| message);
    message_of(message)
}

/// A reader's message, without its place.
pub(crate) fn message_of(message: &str) -> String {
    let named = NAMES.iter().find_map(|(begins, before, after, others)| {
        let rest = message.strip_prefix(begins)?;
        let (name, expected) = rest.split_once(", ").unwrap_or((rest, ""));
        Some(format!("{before}{name}{after}{}", listed(expected, others)))
    });
    named
        .or_else(|| form(message))
        .unwrap_or_else(|| message.to_owned())
}

/// The names that there are.
fn listed(expected: &str, introduction: &str) -> String {
    let names = expected
        .strip_prefix("expected one of ")
        .or_else(|| expected.strip_prefix("expected "));
    match names {
        Some(names) => format!(": {introduction}{names}"),
        None if expected == "there are no fields" => ": there are none".to_owned(),
        None => String::new(),
    }
}

/// A value of another form than the one that is expected.
fn form(message: &str) -> Option<String> {
    let rest = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|begins| message.strip_prefix(begins))?;
    let (found, expected) = rest.split_once(", expected ")?;
    // `integer `-1`` and `string "x"` name the kind of the value, and show it.
    let found = match found.split_once(' ') {
        Some(("integer" | "string" | "boolean", shown)) => shown.trim_matches('`'),
        Some(("floating", shown)) => shown.trim_start_matches("point ").trim_matches('`'),
        _ => match found {
            "map" => "an object",
            "sequence" => "a list",
            other => other,
        },
    };
    let known = FORMS.iter().find(|(name, _)| *name == expected);
    let expected = match known {
        Some((_, plain)) => plain,
        None if expected.starts_with("struct ") => "an object with named fields",
        None => expected,
    };
    Some(format!("{found} stands where {expected} is expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_readers_are_in_plain_words() {
        for (message, want) in [
            (
                "unknown variant `offer`, expected one of `hello`, `offers`",
                "there is no `offer`: it is one of `hello`, `offers`",
            ),
            (
                "unknown field `nam`, expected `name` or `user`",
                "`nam` is no field: there are `name` or `user`",
            ),
            (
                "unknown field `x`, there are no fields",
                "`x` is no field: there are none",
            ),
            ("missing field `events`", "the field `events` is missing"),
            ("duplicate field `flow`", "the field `flow` stands there twice"),
            (
                "invalid type: integer `-1`, expected u64",
                "-1 stands where a whole number from 0 to 18446744073709551615 is expected",
            ),
            (
                "invalid value: integer `300`, expected u8",
                "300 stands where a whole number from 0 to 255 is expected",
            ),
            (
                "invalid type: floating point `1.5`, expected u32",
                "1.5 stands where a whole number from 0 to 4294967295 is expected",
            ),
            (
                "invalid type: map, expected a sequence",
                "an object stands where a list is expected",
            ),
            (
                "invalid type: null, expected struct Subscribe",
                "null stands where an object with named fields is expected",
            ),
            ("`soon` is no span of time", "`soon` is no span of time"),
        ] {
            assert_eq!(message_of(message), want, "{message}");
        }
    }
}
