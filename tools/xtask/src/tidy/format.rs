//! Every transport program has the layout that `hawser fmt` gives it.

use super::Diagnostic;
use super::tree::Tree;

/// Programs that are exempt: incorrect ones, and the formatter's own inputs.
const UNTIDY: &[&str] = &["lang/tests/fail/", "lang/tests/format/"];

/// Reports files that are not programs, or do not have the layout of the formatter.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let programs = tree.with_extension(&["mtp"]);
    let meant = |path: &str| UNTIDY.iter().any(|folder| path.starts_with(folder));
    programs
        .filter(|(path, _)| !meant(path))
        .filter_map(|(path, text)| judge(path, text))
        .collect()
}

fn judge(path: &str, text: &str) -> Option<Diagnostic> {
    match hawser_syntax::format(text) {
        Ok(formatted) if formatted == text => None,
        Ok(_) => Some(Diagnostic::new(
            path,
            "it is not formatted",
            format!("hawser fmt {path}"),
        )),
        Err(_) => Some(Diagnostic::new(
            path,
            "it cannot be parsed",
            format!("hawser check {path}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_in_another_style_are_found() {
        let (tidy, untidy) = ("context c {\n    uint32 x;\n}\n", "context   c { uint32 x; }\n");
        let tree = Tree::from_texts(&[
            ("examples/tidy.mtp", tidy),
            ("examples/untidy.mtp", untidy),
            ("examples/wrong.mtp", "context {"),
            ("lang/tests/fail/untidy.mtp", untidy),
            ("lang/tests/format/untidy.mtp", untidy),
        ]);
        let places: Vec<String> = check(&tree)
            .into_iter()
            .map(|diagnostic| diagnostic.place)
            .collect();
        assert_eq!(places, ["examples/untidy.mtp", "examples/wrong.mtp"]);
    }
}
