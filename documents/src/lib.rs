//! Documents that people write, as TOML or JSON: they are read into types, and a fault is reported in plain words with
//! its place.
//!
//! Derived code reads them, whose messages name types of Rust ("expected u8", "unknown variant"). Every reader of a
//! document that a person may have written reads it here, so that no such message reaches that person.

#![forbid(unsafe_code)]

mod fault;
mod words;

pub use fault::{Fault, Place, there_are};

use ::toml::de::DeTable;
use serde::de::{DeserializeOwned, IgnoredAny};
use words::Format;

/// Reads a TOML document into a type; the document's meaning is checked afterwards.
///
/// # Errors
/// The fault, with the key and the place where the text is no such document.
pub fn toml<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let table = DeTable::parse(text).map_err(|error| of_toml(text, String::new(), &error))?;
    // Dates would be read as tables with a key of the reader's own.
    if let Some(fault) = fault::date_in(text, table.get_ref()) {
        return Err(fault);
    }
    serde_path_to_error::deserialize(::toml::Deserializer::from(table))
        .map_err(|error| of_toml(text, path_of(error.path()), error.inner()))
}

/// Reads a JSON document into a type; the document's meaning is checked afterwards.
///
/// # Errors
/// The fault, with the key and the place where the text is no such document.
pub fn json<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let is_json = error.is_data() || serde_json::from_str::<IgnoredAny>(text).is_ok();
        // The path is only sought once there is a fault: it costs as much as the reading.
        let mut input = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut input) {
            Err(error) if is_json => of_json(path_of(error.path()), error.inner(), true),
            Ok(_) | Err(_) => of_json(String::new(), &error, is_json),
        }
    })
}

/// Reads a JSON document of bytes into a type.
///
/// # Errors
/// As [`json`], and the bytes are not UTF-8.
pub fn json_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::new("", "it is not UTF-8"))?;
    json(text)
}

/// The fault of a value of JSON that is no such document.
#[must_use]
pub fn fault_of_value(error: &serde_json::Error) -> Fault {
    of_json(String::new(), error, true)
}

/// A path as people write it; empty where it is the whole document.
fn path_of(path: &serde_path_to_error::Path) -> String {
    let path = path.to_string();
    // A `?` stands for a step of which the reader does not tell.
    path.trim_end_matches(['.', '?']).to_owned()
}

fn of_toml(text: &str, path: String, error: &::toml::de::Error) -> Fault {
    let message = error.message().trim();
    let span = error.span();
    let shown = span.clone().and_then(|span| text.get(span)).unwrap_or_default();
    let fault = Fault {
        path,
        place: span.map(|span| Place::of(text, span.start)),
        message: words::plain(message, Format::Toml, shown),
        hint: fault::hint_for(message),
    };
    fault.located(text)
}

/// The fault of a text, which is JSON or is not.
fn of_json(path: String, error: &serde_json::Error, is_json: bool) -> Fault {
    let whole = error.to_string();
    let message = match whole.rsplit_once(" at line ") {
        Some((message, _)) if error.line() > 0 => message,
        _ => whole.as_str(),
    };
    // The reader calls a value of a wrong form wrong syntax, where a name or an object with one key is expected.
    let is_choice = is_json && message == "expected value";
    Fault {
        path,
        place: (error.line() > 0).then(|| Place { line: error.line(), column: error.column().max(1) }),
        message: match is_choice {
            true => words::no_choice(Format::Json),
            false => words::plain(message, Format::Json, ""),
        },
        hint: fault::hint_for(message),
    }
}

#[cfg(test)]
mod tests;
