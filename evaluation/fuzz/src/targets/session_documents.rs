//! Any text as a session document, in JSON and in TOML: it is parsed, or rejected with a bounded number of
//! errors.

use hawser::session::document::{Document, Format};

pub(crate) fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for format in [Format::Json, Format::Toml] {
        if let Err(errors) = Document::parse(text, format) {
            assert!(!errors.is_empty());
        }
    }
}
