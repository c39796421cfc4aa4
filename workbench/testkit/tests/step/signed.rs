//! Variants of enums with negative numbers are written and shown by their names.

use std::path::Path;

use super::steps_in;

#[test]
fn a_negative_variant_is_written_and_shown_by_its_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/step");
    let run = |rest: &str| steps_in(&format!("program signed.mtp\n{rest}\n"), &folder, None);
    let report = run("< head{level: BELOW}\n> head{level: -3}\n< head{level: -127}\n> head{level: LOWEST}");
    assert!(report.passed(), "{}", report.explain("f.steps"));
    let report = run("< head{level: -127}\n> head{level: ABOVE}");
    let text = report.explain("f.steps");
    assert!(text.contains("level is LOWEST, not ABOVE"), "{text}");
    let report = run("< head{level: -1}\n> head{level: ABOVE}");
    let text = report.explain("f.steps");
    assert!(text.contains("level is BELOW, not ABOVE"), "{text}");
}
