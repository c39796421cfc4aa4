//! Reading of documents into types.

use crate::fault::{self, Fault, TextPosition};
use crate::messages::{self, Format};
use ::toml::de::DeTable;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Reads a TOML document into a type; the caller checks the document's meaning afterwards.
///
/// # Errors
/// The fault, with the key and the place, if the text is not such a document.
pub fn toml<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let table = DeTable::parse(text).map_err(|error| of_toml(text, String::new(), &error))?;
    // The reader would turn dates into tables with a key of its own.
    if let Some(fault) = fault::date_in(text, table.get_ref()) {
        return Err(fault);
    }
    serde_path_to_error::deserialize(::toml::Deserializer::from(table))
        .map_err(|error| of_toml(text, path_of(error.path()), error.inner()))
}

/// Reads a JSON document into a type; the caller checks the document's meaning afterwards.
///
/// # Errors
/// The fault, with the key and the place, if the text is not such a document.
pub fn json<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let is_json = error.is_data() || serde_json::from_str::<IgnoredAny>(text).is_ok();
        // The path is determined only after a fault, because that costs as much as the reading.
        let mut input = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut input) {
            Err(error) if is_json => of_json(path_of(error.path()), error.inner(), true),
            Ok(_) | Err(_) => of_json(String::new(), &error, is_json),
        }
    })
}

/// Reads a JSON document, given as bytes, into a type.
///
/// # Errors
/// As [`json`], and if the bytes are not UTF-8.
pub fn json_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::new("", "the text is not UTF-8"))?;
    json(text)
}

/// Returns the fault of a JSON value that is not such a document.
#[must_use]
pub fn fault_of_value(error: &serde_json::Error) -> Fault {
    of_json(String::new(), error, true)
}

/// Formats a path as people write it; empty for the whole document.
fn path_of(path: &serde_path_to_error::Path) -> String {
    let path = path.to_string();
    // A `?` stands for a step that the reader does not report.
    path.trim_end_matches(['.', '?']).to_owned()
}

fn of_toml(text: &str, path: String, error: &::toml::de::Error) -> Fault {
    let message = error.message().trim();
    let span = error.span();
    let shown = span.clone().and_then(|span| text.get(span)).unwrap_or_default();
    let fault = Fault {
        path,
        place: span.map(|span| TextPosition::from_offset(text, span.start)),
        message: messages::plain(message, Format::Toml, shown),
        hint: fault::hint_for(message),
    };
    fault.located(text)
}

/// Returns the fault of a text, which may or may not be JSON.
fn of_json(path: String, error: &serde_json::Error, is_json: bool) -> Fault {
    let whole = error.to_string();
    let message = match whole.rsplit_once(" at line ") {
        Some((message, _)) if error.line() > 0 => message,
        _ => whole.as_str(),
    };
    // If a name or an object with one key is expected, the reader reports a value of another form as a syntax
    // error.
    let is_choice = is_json && message == "expected value";
    Fault {
        path,
        place: (error.line() > 0).then(|| TextPosition { line: error.line(), column: error.column().max(1) }),
        message: match is_choice {
            true => messages::no_choice(Format::Json),
            false => messages::plain(message, Format::Json, ""),
        },
        hint: fault::hint_for(message),
    }
}
