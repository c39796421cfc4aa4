//! The MTP language: check, format, explain.

pub use hawser_driver::{
    Compilation, attach, attached_places, compile, explain, explain_offload, render, render_json,
};
pub use hawser_syntax::{Diagnostic, OneLine, Printable, SourceMap, format};
