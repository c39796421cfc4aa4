//! Reads documents that people write, as TOML or JSON, into types, and reports a fault in plain words with
//! its place.
//!
//! The types are read by derived code, whose messages name types of Rust ("expected u8", "unknown variant").
//! Every document that a person may have written is read by this crate, so that no such message reaches the
//! person.

#![forbid(unsafe_code)]

#[cfg(feature = "read")]
mod fault;
pub mod files;
#[cfg(feature = "read")]
mod messages;
#[cfg(feature = "read")]
mod read;
pub mod temporary;
#[cfg(all(test, feature = "read"))]
mod tests;

#[cfg(feature = "read")]
pub use fault::{Fault, TextPosition, there_are};
#[cfg(feature = "read")]
pub use read::{fault_of_value, json, json_bytes, toml};
