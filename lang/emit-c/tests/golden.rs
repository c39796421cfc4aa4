//! The expected C of small programs, kept beside them as `tests/golden/NAME.mtp` and `NAME.c`. They are
//! change detectors ([`expect_file`]).
//!
//! Only the functions are kept, without the runtime, the types and the code for packets.

use crate::common;

use std::path::Path;

use hawser_emit_c::{Marks, Options, emit};
use hawser_testing::expect_file;

/// Returns the program's own functions, which stand between two headlines of the output.
fn functions(c: &str) -> &str {
    let start = c.find("/* ---- Functions ---- */").unwrap_or(0);
    let end = c[start..]
        .find("static uint64_t mtp_react(")
        .map_or(c.len(), |at| start + at);
    &c[start..end]
}

#[test]
fn small_programs_become_the_c_that_is_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut failures = Vec::new();
    for name in ["containers", "control", "instructions", "numbers"] {
        let module = common::module(&folder.join(format!("{name}.mtp")));
        // Messages and marks name a program by the path under which it was given.
        let module = hawser_ir::Module {
            files: vec![(format!("{name}.mtp"), module.files[0].1.clone())],
            ..module
        };
        let options = Options { marks: Marks::Comments, loadable: false, ..Options::default() };
        let emitted = emit(&module, &options);
        assert_eq!(
            emitted.c,
            emit(&module, &options).c,
            "{name}: the same module gives the same text"
        );
        common::compile(&module, &format!("golden_{name}"), &["-O2"]);
        let found = functions(&emitted.c);
        failures.extend(expect_file(&folder.join(format!("{name}.c")), found).err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
