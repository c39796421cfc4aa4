//! Any text as a session document, in JSON and in TOML: it is read, or refused with a bounded number of
//! errors.

#![no_main]

use hawser::session::document::{Document, Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in [Format::Json, Format::Toml] {
        if let Err(errors) = Document::parse(text, format) {
            assert!(!errors.is_empty());
        }
    }
});
