//! Any bytes as a program. Loading, parsing, checking, rendering and formatting end, without a panic and with
//! a bounded number of diagnostics. Formatting is idempotent. The same holds for the bytes as an attachment
//! to a valid program.

use std::path::Path;
use std::sync::LazyLock;

use hawser_driver::{MemoryLoader, attach, compile_with, render_json};
use hawser_ir::Module;
use hawser_syntax::{MAX_DIAGNOSTICS, MAX_TEXT_BYTES, format, parse};

static PROGRAM: LazyLock<Module> = LazyLock::new(|| {
    let text = include_str!("../../../../examples/stop-and-wait.mtp");
    let compiled = compile_with(&MemoryLoader::new([("main.mtp", text)]), Path::new("main.mtp"));
    compiled.module.expect("the example is right")
});

pub(crate) fn fuzz(bytes: &[u8]) {
    let compiled = compile_with(&MemoryLoader::new([("main.mtp", bytes)]), Path::new("main.mtp"));
    assert!(compiled.module.is_none() || !compiled.failed());
    let _ = compiled.render(false);
    let _ = render_json(&compiled.diagnostics, &compiled.sources);

    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let attached = attach(&PROGRAM, &[(Path::new("attached.mtp"), text)]);
    assert!(attached.module.is_none() || !attached.failed());
    let _ = attached.render(false);
    let (_, diagnostics) = parse(text, 0);
    assert!(diagnostics.len() <= MAX_DIAGNOSTICS + 1);
    if let Ok(once) = format(text) {
        assert!(diagnostics.is_empty());
        if once.len() <= MAX_TEXT_BYTES {
            assert_eq!(format(&once).as_deref(), Ok(once.as_str()));
        }
    }
}
