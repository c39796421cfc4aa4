//! Any bytes as a program: loading, parsing, checking, rendering and formatting end, without a
//! panic and with a bounded number of findings; what is formatted stays as it is.

#![no_main]

use std::path::Path;

use hawser_driver::{Memory, compile_with, render_json};
use hawser_syntax::{MAX_DIAGNOSTICS, MAX_TEXT_BYTES, format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let compiled = compile_with(&Memory::new([("main.mtp", bytes)]), Path::new("main.mtp"));
    assert!(compiled.module.is_none() || !compiled.failed());
    let _ = compiled.render(false);
    let _ = render_json(&compiled.diagnostics, &compiled.sources);

    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (_, findings) = parse(text, 0);
    assert!(findings.len() <= MAX_DIAGNOSTICS + 1);
    if let Ok(once) = format(text) {
        assert!(findings.is_empty());
        if once.len() <= MAX_TEXT_BYTES {
            assert_eq!(format(&once).as_deref(), Ok(once.as_str()));
        }
    }
});
