//! `transports/*/README.md`: each feature of a transport, with the RFC's section, the line that obeys it, and
//! the test that shows it.
//!
//! A table stands under `| feature | RFC section | line | test |`. The third cell names files beside the
//! README and their declarations: `` `rack.mtp`: `find_overdue` ``. The fourth names tests, `module::test` of
//! `engine/load` or `crate::module::test`, or a `command: …`. A row without proof says *not yet*. The items
//! that a row names must exist.

use super::tree::Tree;
use super::{Diagnostic, coverage};

const ROOM: &str = "transports/";
const CRATE: &str = "hawser_load";
const HEAD: &str = "| feature | RFC section | line | test |";

/// A row of a table of features.
struct Row<'a> {
    line: usize,
    feature: &'a str,
    lines: &'a str,
    tests: &'a str,
}

/// Checks that the items of every row exist.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let pages = tree.files.iter().filter(|(path, _)| is_readme(path));
    pages
        .flat_map(|(path, text)| {
            let broken = broken(text).map(move |line| {
                let remedy = format!("write `{HEAD}`, and four cells in each row");
                Diagnostic::new(format!("{path}:{line}"), "no row of a table of features", remedy)
            });
            broken.chain(
                rows(text)
                    .into_iter()
                    .flat_map(move |row| judge(tree, path, &row)),
            )
        })
        .collect()
}

/// Returns whether a path is the README of a program.
fn is_readme(path: &str) -> bool {
    let inner = path
        .strip_prefix(ROOM)
        .and_then(|path| path.strip_suffix("/README.md"));
    inner.is_some_and(|folder| !folder.contains('/'))
}

/// Returns the lines, from 1, that cannot be read as such a table. They are line 1 for a page without the
/// head, and each row with another number of cells.
fn broken(text: &str) -> impl Iterator<Item = usize> {
    let headless = !text.lines().any(|line| line == HEAD);
    let mut inside = false;
    let rows = text.lines().enumerate().filter(move |(_, line)| {
        inside = *line == HEAD || inside && line.starts_with('|');
        inside && line.trim_matches('|').split('|').count() != 4
    });
    headless
        .then_some(1)
        .into_iter()
        .chain(rows.map(|(index, _)| index + 1))
}

/// Returns the rows of all tables with this head.
fn rows(text: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        inside = line == HEAD || inside && line.starts_with('|');
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let ([feature, _, lines, tests], true) = (&cells[..], inside && line != HEAD)
            && !feature.starts_with("--")
        {
            rows.push(Row { line: index + 1, feature, lines, tests });
        }
    }
    rows
}

fn judge(tree: &Tree, page: &str, row: &Row<'_>) -> Vec<Diagnostic> {
    let place = format!("{page}:{}", row.line);
    let diagnostic = |what: String| Diagnostic::new(&place, what, "name what exists, or say *not yet*");
    let folder = page.trim_end_matches("README.md");
    let mut diagnostics: Vec<Diagnostic> = missing_lines(tree, folder, row.lines).map(diagnostic).collect();
    if row.tests.starts_with("not yet") {
        return diagnostics;
    }
    if items(row.tests).next().is_none() {
        diagnostics.push(diagnostic(format!("no test shows \"{}\"", row.feature)));
    }
    diagnostics.extend(
        items(row.tests)
            .filter(|item| !shown(tree, item))
            .map(|item| diagnostic(format!("there is no `{item}`"))),
    );
    diagnostics
}

/// Returns the texts between backticks.
fn items(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns the files and declarations that a cell names and that do not exist.
fn missing_lines<'a>(tree: &'a Tree, folder: &'a str, cell: &'a str) -> impl Iterator<Item = String> + 'a {
    let mut file = "";
    items(cell).filter_map(move |item| {
        if item.ends_with(".mtp") {
            file = item;
            return (!tree.exists(&format!("{folder}{file}"))).then(|| format!("there is no `{file}`"));
        }
        let text = tree.text(&format!("{folder}{file}"));
        (!declares(text, item)).then(|| format!("`{file}` declares no `{item}`"))
    })
}

/// Returns whether a program's text declares a name at its top level, or as a chain.
fn declares(text: &str, name: &str) -> bool {
    let at_top = |line: &&str| line.starts_with(|first: char| first.is_ascii_alphabetic());
    let chain = |line: &&str| line.trim_start().starts_with("chain ");
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let heads = code.filter(|line| at_top(line) || chain(line));
    heads
        .map(|line| line.split('{').next().unwrap_or_default())
        .any(|head| {
            head.split('(')
                .next()
                .is_some_and(|declared| words(declared).any(|word| word == name))
        })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Returns whether a test or a command exists.
fn shown(tree: &Tree, item: &str) -> bool {
    match item.strip_prefix("command: ") {
        Some(command) => coverage::command_exists(tree, command),
        None => coverage::test_exists(tree, item) || coverage::test_exists(tree, &format!("{CRATE}::{item}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "// A program. void ghost()\nparam bool PROBES = true;\nstruct cc_t { uint64 cwnd; }\n\
                           dispatch d {\n    chain admit = {check};\n}\nvoid check(tcp_seg ev, tcp_conn c) {\n    \
                           helper(c);\n}\n";

    fn tree_with(lines: &str, tests: &str) -> Tree {
        let page = format!(
            "# P\n\n| feature | source |\n|---|---|\n| `other.mtp` | x |\n\n{HEAD}\n|---|---|---|---|\n\
             | it works | RFC 1 | {lines} | {tests} |\n"
        );
        let files = [
            ("transports/p/README.md", page.as_str()),
            ("transports/p/p.mtp", PROGRAM),
            (
                "engine/load/tests/p/sack.rs",
                "//! S.\n#[test]\nfn holds() {}\nfn helper() {}\n",
            ),
            ("Makefile", "demo: build\n\techo\n"),
        ];
        Tree::of(&files).with_crates(&["engine/load"])
    }

    #[test]
    fn existing_lines_and_tests_pass() {
        for (lines, tests) in [
            ("`p.mtp`", "`sack::holds`"),
            (
                "`p.mtp`: `check`, `PROBES`, `cc_t`, chain `admit`",
                "`hawser_load::sack::holds`",
            ),
            ("", "`command: make demo`"),
            ("`p.mtp`: `d`", "not yet: nobody wrote it"),
        ] {
            assert_eq!(check(&tree_with(lines, tests)), [], "{lines} {tests}");
        }
    }

    #[test]
    fn missing_lines_and_tests_are_found() {
        for (lines, tests) in [
            ("`gone.mtp`", "`sack::holds`"),
            ("`p.mtp`: `helper`", "`sack::holds`"),
            ("`p.mtp`: `ghost`", "`sack::holds`"),
            ("`p.mtp`: `cwnd`", "`sack::holds`"),
            ("`p.mtp`", ""),
            ("`p.mtp`", "`sack::helper`"),
            ("`p.mtp`", "`gone::holds`"),
            ("`p.mtp`", "`command: make gone`"),
            ("`gone.mtp`", "not yet"),
        ] {
            assert_eq!(check(&tree_with(lines, tests)).len(), 1, "{lines} {tests}");
        }
    }

    #[test]
    fn a_table_that_cannot_be_read_is_found() {
        assert_eq!(check(&tree_with("`p.mtp` | `p.mtp`", "`sack::holds`")).len(), 1);
        let headless = [(
            "transports/p/README.md",
            "# P\n\n| feature | line | test |\n|---|---|---|\n| x | y | z |\n",
        )];
        assert_eq!(check(&Tree::of(&headless)).len(), 1);
    }
}
