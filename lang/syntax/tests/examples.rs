//! Whole programs parse without a diagnostic, and their trees have the expected contents.

use hawser_syntax::ast::ItemKind;
use hawser_syntax::parse;

#[test]
fn stop_and_wait_parses() {
    let (file, diagnostics) = parse(include_str!("../../../examples/stop-and-wait.mtp"), 0);
    assert_eq!(diagnostics, []);
    assert_eq!(
        file.items
            .iter()
            .filter(|item| matches!(item.kind, ItemKind::Event { .. }))
            .count(),
        6
    );
    assert_eq!(
        file.items
            .iter()
            .filter(|item| matches!(item.kind, ItemKind::Func { .. }))
            .count(),
        16
    );
}
