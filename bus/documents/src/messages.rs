//! Rewrites the messages of TOML and JSON readers in the terms of the people who write these texts.
//!
//! The messages of serde, serde_json and toml have fixed forms, each with a row or a function here. A message
//! of another form comes from one of Hawser's own readers and is already plain.

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Toml,
    Json,
}

impl Format {
    /// Returns the format's name for a set of keys with values.
    fn table(self) -> &'static str {
        match self {
            Format::Toml => "a table",
            Format::Json => "an object",
        }
    }
}

/// Rewrites a reader's message, without its place, in plain words. `shown` is the text that it is about, if
/// that is known.
pub(crate) fn plain(message: &str, format: Format, shown: &str) -> String {
    if message == "duplicate key" {
        return format!("the key `{}` occurs twice", shown.trim());
    }
    of_name(message)
        .or_else(|| of_form(message, format))
        .or_else(|| of_length(message, format))
        .or_else(|| of_syntax(message))
        .or_else(|| of_choice(message, format))
        .unwrap_or_else(|| message.replace(", expected nothing", ""))
}

/// The beginnings of messages about names, the text before the name and after it, and the introduction of the
/// known names.
const NAMES: [(&str, &str, &str, &str); 4] = [
    ("unknown variant ", "unknown value ", "", "expected one of "),
    ("unknown field ", "unknown key ", "", "the keys are "),
    ("missing field ", "the key ", " is missing", ""),
    ("duplicate field ", "the key ", " occurs twice", ""),
];

fn of_name(message: &str) -> Option<String> {
    NAMES.iter().find_map(|(begins, before, after, others)| {
        let rest = message.strip_prefix(begins)?;
        let (name, expected) = rest.split_once("`, ").unwrap_or((rest, ""));
        let name = format!("`{}`", name.trim_matches('`'));
        Some(format!("{before}{name}{after}{}", listed(expected, others)))
    })
}

/// Lists the known names.
fn listed(expected: &str, introduction: &str) -> String {
    let names = expected
        .strip_prefix("expected one of ")
        .or_else(|| expected.strip_prefix("expected "));
    match names {
        Some(names) => format!(": {introduction}{names}"),
        None if expected.starts_with("there are no ") => ": no key is expected".to_owned(),
        None => String::new(),
    }
}

/// Rewrites the message about a value that has another form than the expected one.
fn of_form(message: &str, format: Format) -> Option<String> {
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ").or_else(|| {
        let expected = rest.strip_prefix("expected ")?;
        Some(("this", expected))
    })?;
    let expected = expectation(expected, format);
    Some(format!("expected {expected}, found {}", value(found, format)))
}

/// Describes a value that was found.
fn value(found: &str, format: Format) -> String {
    // `integer `-1`` and `string "x"` name the kind of the value, and show it.
    if let Some((kind, shown)) = found.split_once(' ') {
        let shown = shown.trim_end_matches(" as i128").trim_end_matches(" as u128");
        match kind {
            "integer" | "boolean" | "character" => return shown.trim_matches('`').to_owned(),
            "string" => return shown.to_owned(),
            "floating" => return shown.trim_start_matches("point ").trim_matches('`').to_owned(),
            _ => {}
        }
    }
    match found {
        "map" => format.table(),
        "sequence" | "byte array" => "a list",
        "unit value" | "Option value" | "unit" => "null",
        "unit variant" => "a name alone",
        "newtype variant" | "tuple variant" | "struct variant" => "a name with a value",
        "newtype struct" | "enum" => "another value",
        other => other,
    }
    .to_owned()
}

/// The integer types, with their bounds.
const NUMBERS: [(&str, &str, &str); 10] = [
    ("u8", "0", "255"),
    ("u16", "0", "65535"),
    ("u32", "0", "4294967295"),
    ("u64", "0", "18446744073709551615"),
    ("usize", "0", "18446744073709551615"),
    ("i8", "-128", "127"),
    ("i16", "-32768", "32767"),
    ("i32", "-2147483648", "2147483647"),
    ("i64", "-9223372036854775808", "9223372036854775807"),
    ("isize", "-9223372036854775808", "9223372036854775807"),
];

/// Describes an expected value.
fn expectation(expected: &str, format: Format) -> String {
    let (number, is_nonzero) = match expected.strip_prefix("a nonzero ") {
        Some(number) => (number, true),
        None => (expected, false),
    };
    if let Some((_, low, high)) = NUMBERS.iter().find(|(name, _, _)| *name == number) {
        return match (is_nonzero, *low) {
            (false, low) => format!("a whole number from {low} to {high}"),
            (true, "0") => format!("a whole number from 1 to {high}"),
            (true, low) => format!("a whole number from {low} to {high}, but not 0,"),
        };
    }
    if let Some(count) = count_of(expected) {
        return format!("a list of {count}");
    }
    let first = expected.split(' ').next().unwrap_or_default();
    match expected {
        "f32" | "f64" => "a number",
        "a string" | "a borrowed string" | "a borrowed path" | "path string" | "os string" => "a text",
        "a character" => "one character",
        "a boolean" => "true or false",
        "a sequence" | "a byte array" | "byte array" | "a borrowed byte array" => "a list",
        "an empty array" => "an empty list",
        "a map" => format.table(),
        "option" => "a value",
        "unit" => "null",
        "unit variant" => "a name alone",
        "newtype variant" => "a name with a value",
        "map with a single key" | "a map with a single key" => {
            return format!("{} with one key", format.table());
        }
        "variant identifier" | "field identifier" | "key to be a number in quotes" => "a name",
        _ if expected.ends_with(" identifier") => "a name",
        _ => match first {
            "struct" => return format!("{} with named keys", format.table()),
            "enum" | "string" => return choice(format),
            "tuple" | "newtype" => "a list",
            "unit" => "null",
            _ => expected,
        },
    }
    .to_owned()
}

/// Returns the number of values in a list whose length is fixed.
fn count_of(expected: &str) -> Option<&str> {
    let count = expected
        .strip_prefix("a tuple of size ")
        .or_else(|| expected.strip_prefix("an array of length "))
        .or_else(|| expected.strip_prefix("tuple with length "))
        .or_else(|| {
            let (form, rest) = expected.rsplit_once(" with ")?;
            let is_list = form.starts_with("tuple ");
            is_list.then(|| rest.trim_end_matches('s').strip_suffix(" element"))?
        })?;
    count.bytes().all(|byte| byte.is_ascii_digit()).then_some(count)
}

/// Rewrites the message about a list that has another length than the expected one.
fn of_length(message: &str, format: Format) -> Option<String> {
    let (found, expected) = match message.strip_prefix("invalid length ") {
        Some(rest) => rest.split_once(", expected ").unwrap_or((rest, "another number")),
        None => ("another number", count_of(message.strip_prefix("expected ")?)?),
    };
    let expected = match expected {
        "fewer elements in sequence" | "fewer elements in map" => "fewer".to_owned(),
        _ if expected.ends_with(" in sequence") || expected.ends_with(" in map") => {
            expected.split(' ').next().unwrap_or_default().to_owned()
        }
        count if count.bytes().all(|byte| byte.is_ascii_digit()) => format!("a list of {count}"),
        form => expectation(form, format),
    };
    Some(format!("expected {expected}, found a list of {found}"))
}

/// Describes the choice of one name, with a value, out of several.
fn choice(format: Format) -> String {
    format!("a name, or {} with one key,", format.table())
}

/// Returns the message about a value that is neither a name nor a table with one key.
pub(crate) fn no_choice(format: Format) -> String {
    format!("{} is expected", choice(format))
}

/// Rewrites a message about a value that may have several forms.
fn of_choice(message: &str, format: Format) -> Option<String> {
    if let Some(rest) = message.strip_prefix("unexpected keys in table: ") {
        let (found, known) = rest.split_once(", available keys: ").unwrap_or((rest, ""));
        return Some(format!("unknown key `{found}`: the keys are {known}"));
    }
    let begins = |begins: &[&str]| begins.iter().any(|begin| message.starts_with(begin));
    if begins(&["wanted ", "expected table with exactly 1 entry"]) {
        return Some(no_choice(format));
    }
    if begins(&["expected table"]) {
        return Some(format!("{} is expected", format.table()));
    }
    begins(&[
        "data did not match any variant",
        "no variant of enum ",
        "can only flatten ",
    ])
    .then(|| "the value has none of the permitted forms".to_owned())
}

/// Messages about the syntax, each with its plain form.
const SYNTAX: [(&str, &str); 26] = [
    ("EOF while parsing a list", "the text ends within a list"),
    ("EOF while parsing an object", "the text ends within an object"),
    (
        "EOF while parsing a string",
        "the text ends within a text in quotes",
    ),
    (
        "EOF while parsing a value",
        "the text ends where a value is expected",
    ),
    ("expected `:`", "`:` is expected"),
    ("expected `,` or `]`", "`,` or `]` is expected"),
    ("expected `,` or `}`", "`,` or `}` is expected"),
    ("expected ident", "a value is expected"),
    ("expected value", "a value is expected"),
    ("expected `\"`", "`\"` is expected"),
    ("expected empty array", "an empty list is expected"),
    ("expected empty table", "an empty table is expected"),
    ("key must be a string", "a key is a text in quotes"),
    ("trailing comma", "a comma precedes the end"),
    ("trailing characters", "the document continues after its end"),
    ("number out of range", "the number is too large"),
    ("integer number overflowed", "the number is too large"),
    ("floating-point number overflowed", "the number is too large"),
    ("u64 value was too large", "the number is too large"),
    ("i128 is not supported", "the number is too large"),
    ("u128 is not supported", "the number is too large"),
    (
        "float key must be finite (got NaN or +/-inf)",
        "a key is a finite number",
    ),
    ("recursion limit exceeded", "it is nested too deeply"),
    ("recursion limit", "it is nested too deeply"),
    (
        "cannot recurse further; max recursion depth met",
        "it is nested too deeply",
    ),
    (
        "unexpected end of hex escape",
        "`\\u` has four hexadecimal digits",
    ),
];

fn of_syntax(message: &str) -> Option<String> {
    let found = SYNTAX.iter().find(|(reader, _)| *reader == message);
    found.map(|(_, plain)| (*plain).to_owned())
}
