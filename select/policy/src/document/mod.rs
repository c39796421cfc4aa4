//! Documents: NEAT's JSON unchanged, and the same structure as TOML.
//!
//! The keys of the structure are fixed: another key is an error with its path. Names of properties are an
//! open set, as in NEAT. A name that looks like a misspelling of a known one is an error. A name with a `/`
//! is private and always accepted. Any other unknown name is accepted with a warning. The schema is
//! `docs/schemas/policy.schema.json`.

mod object;
mod read;
mod tree;
mod write;

use crate::cib::Node;
use crate::names::NameTable;
use crate::pib::{Policy, PolicyStage};
use crate::request::Request;

use read::Reader;

pub use write::{node_json, property_json, value_json};

/// The published JSON schema.
pub const SCHEMA: &str = include_str!("../../../../docs/schemas/policy.schema.json");

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON (RFC 8259).
    Json,
    /// TOML 1.0. In policies, an absent `value` is NEAT's `null`.
    Toml,
}

/// A document is invalid, or a part of it is suspicious.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}{}", if path.is_empty() { String::new() } else { format!("{path}: ") },
        hint.as_deref().map_or_else(String::new, |hint| format!(" ({hint})")))]
pub struct Diagnostic {
    /// The path of the fault: `properties[0].transport.score`; empty for the whole document.
    pub path: String,
    /// A description of the fault.
    pub message: String,
    /// A remedy, if one is known.
    pub hint: Option<String>,
}

/// The result of reading a document, and its warnings.
#[derive(Clone, Debug)]
pub struct Read<T> {
    /// The value that was read.
    pub value: T,
    /// Parts that are valid, but may be unintended.
    pub warnings: Vec<Diagnostic>,
}

/// The result of reading, or all faults of the document (at most
/// [`DIAGNOSTICS`](crate::limits::DIAGNOSTICS)).
pub type Result<T> = std::result::Result<Read<T>, Vec<Diagnostic>>;

/// Reads profiles and policies: one, or a list of them.
///
/// `name` replaces an absent `uid`. `kind` is the kind that the document's place implies, as `.profile` and
/// `.policy` do for NEAT; without it, `policy_type` states the kind.
///
/// # Errors
/// All faults of the document.
pub fn policies(
    text: &str,
    format: Format,
    name: &str,
    kind: Option<PolicyStage>,
    names: &mut NameTable,
) -> Result<Vec<Policy>> {
    let mut reader = Reader::new(names);
    let value = reader
        .document(text, format)
        .map(|tree| reader.policies(&tree, name, kind));
    reader.finish(value)
}

/// Reads nodes of the CIB: one, or a list of them. `name` replaces an absent `uid`.
///
/// # Errors
/// All faults of the document.
pub fn nodes(text: &str, format: Format, name: &str, names: &mut NameTable) -> Result<Vec<Node>> {
    let mut reader = Reader::new(names);
    let value = reader
        .document(text, format)
        .map(|tree| reader.nodes(&tree, name));
    reader.finish(value)
}

/// Reads a request: properties, or a list of such, each of which may be a list of alternatives.
///
/// # Errors
/// All faults of the document.
pub fn request(text: &str, format: Format, names: &mut NameTable) -> Result<Request> {
    let mut reader = Reader::new(names);
    let value = reader
        .document(text, format)
        .and_then(|tree| reader.request(&tree));
    reader.finish(value)
}
