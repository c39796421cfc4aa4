//! Documents: NEAT's JSON as it is, and the same structure as TOML.
//!
//! The keys of the structure are fixed: another one is an error with its path. Names of properties are
//! an open set, as in NEAT. A name that is a slip of a known one is an error; one with a `/` is
//! somebody's own, and is never doubted; any other that is not known is taken, with a warning. The
//! schema is `docs/schemas/policy.schema.json`.

mod object;
mod read;
mod tree;
mod write;

use crate::cib::Node;
use crate::names::Names;
use crate::pib::{Kind, Policy};
use crate::request::Request;

use read::Reader;

pub use write::{node_json, property_json, value_json};

/// The schema, as published.
pub const SCHEMA: &str = include_str!("../../../../docs/schemas/policy.schema.json");

/// What a document is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 8259.
    Json,
    /// TOML 1.0. In policies an absent `value` is NEAT's `null`.
    Toml,
}

/// What is wrong with a document, or doubtful.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}{}", if path.is_empty() { String::new() } else { format!("{path}: ") },
        hint.as_deref().map_or_else(String::new, |hint| format!(" ({hint})")))]
pub struct Diagnostic {
    /// Where: `properties[0].transport.score`; empty for the whole document.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do, where that is known.
    pub hint: Option<String>,
}

/// What was read, and what is doubtful in it.
#[derive(Clone, Debug)]
pub struct Read<T> {
    /// What it says.
    pub value: T,
    /// Nothing is wrong with these, and something else may have been meant.
    pub warnings: Vec<Diagnostic>,
}

/// What was read, or everything that is wrong with it (at most
/// [`DIAGNOSTICS`](crate::limits::DIAGNOSTICS)).
pub type Result<T> = std::result::Result<Read<T>, Vec<Diagnostic>>;

/// Reads profiles and policies: one, or a list of them.
///
/// `name` stands for `uid` where there is none. `kind` is what the place of the document says of it, as
/// `.profile` and `.policy` do for NEAT; else `policy_type` says it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn policies(
    text: &str,
    format: Format,
    name: &str,
    kind: Option<Kind>,
    names: &mut Names,
) -> Result<Vec<Policy>> {
    let mut reader = Reader::new(names);
    let value = reader
        .document(text, format)
        .map(|tree| reader.policies(&tree, name, kind));
    reader.finish(value)
}

/// Reads nodes of the CIB: one, or a list of them. `name` stands for `uid` where there is none.
///
/// # Errors
/// Everything that is wrong with it.
pub fn nodes(text: &str, format: Format, name: &str, names: &mut Names) -> Result<Vec<Node>> {
    let mut reader = Reader::new(names);
    let value = reader
        .document(text, format)
        .map(|tree| reader.nodes(&tree, name));
    reader.finish(value)
}

/// Reads a request: properties, or a list of such, each of which may be a list of alternatives.
///
/// # Errors
/// Everything that is wrong with it.
pub fn request(text: &str, format: Format, names: &mut Names) -> Result<Request> {
    let mut reader = Reader::new(names);
    let value = reader
        .document(text, format)
        .and_then(|tree| reader.request(&tree));
    reader.finish(value)
}
