//! `docs/coverage.md`: each requested capability, with the test or command that shows it.
//!
//! A row names its proof in backticks: `test: crate::path::name`, `file: path` or `command: …`. A row without
//! proof says *not yet*. The items that a row names must exist.

use super::rust_text;
use super::tree::Tree;
use super::{CHECKS, Diagnostic};
use crate::{CHORES, long};

const PAGE: &str = "docs/coverage.md";
const COMMAND_LINE: &str = "apps/cli";

/// A row of the table.
struct Row<'a> {
    line: usize,
    capability: &'a str,
    proof: &'a str,
}

impl<'a> Row<'a> {
    fn is_open(&self) -> bool {
        self.proof.starts_with("not yet")
    }

    /// Returns the items that the row names between backticks.
    fn items(&self) -> impl Iterator<Item = &'a str> {
        self.proof.split('`').skip(1).step_by(2)
    }
}

/// Checks that every row names an item that exists, or says *not yet*.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let rows = rows(tree.text(PAGE));
    if rows.is_empty() {
        return vec![Diagnostic::new(
            PAGE,
            "there is no table",
            "write `| area | capability | test or command |`",
        )];
    }
    let broken = broken_rows(tree.text(PAGE)).map(|line| {
        let remedy = "write `| area | capability | test or command |`, with ` | ` nowhere else";
        Diagnostic::new(
            format!("{PAGE}:{line}"),
            "a row of the table does not have three cells",
            remedy,
        )
    });
    broken
        .chain(rows.iter().flat_map(|row| judge(tree, row)))
        .collect()
}

/// Reports how many rows are proven.
pub(super) fn summary(tree: &Tree) -> String {
    let rows = rows(tree.text(PAGE));
    let open = rows.iter().filter(|row| row.is_open()).count();
    let mut text = format!("{PAGE}: {} capabilities shown, {open} not yet", rows.len() - open);
    for row in rows.iter().filter(|row| row.is_open()) {
        text += &format!("\n    not yet: {}", row.capability);
    }
    text
}

fn judge(tree: &Tree, row: &Row<'_>) -> Vec<Diagnostic> {
    let diagnostic =
        |what: String, remedy: &str| Diagnostic::new(format!("{PAGE}:{}", row.line), what, remedy);
    if row.is_open() {
        return Vec::new();
    }
    if row.items().next().is_none() {
        let what = format!("nothing proves \"{}\"", row.capability);
        return vec![diagnostic(
            what,
            "name a test, file or command in backticks, or say *not yet*",
        )];
    }
    let missing = row.items().filter_map(|item| missing(tree, item));
    missing
        .map(|what| diagnostic(what, "name an existing item, or say *not yet*"))
        .collect()
}

/// Describes the part of an item that does not exist.
fn missing(tree: &Tree, item: &str) -> Option<String> {
    let Some((kind, name)) = item.split_once(": ") else {
        return Some(format!(
            "`{item}` is neither `test: …`, `file: …` nor `command: …`"
        ));
    };
    let found = match kind {
        "test" => test_exists(tree, name),
        "file" => tree.exists(name),
        "command" => command_exists(tree, name),
        _ => return Some(format!("`{kind}:` is neither `test:`, `file:` nor `command:`")),
    };
    (!found).then(|| format!("the {kind} `{name}` does not exist"))
}

/// Returns the lines of the page's tables, from 1, with their cells.
fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let numbered = text.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    numbered.map(|(index, line)| {
        let separator = if line.contains(" | ") { " | " } else { "|" };
        (
            index + 1,
            line.trim_matches('|').split(separator).map(str::trim).collect(),
        )
    })
}

/// Returns the lines of tables that cannot be read as rows.
fn broken_rows(text: &str) -> impl Iterator<Item = usize> {
    lines(text)
        .filter(|(_, cells)| cells.len() != 3)
        .map(|(line, _)| line)
}

/// Returns the rows of the page's tables, without their heads.
fn rows(text: &str) -> Vec<Row<'_>> {
    lines(text)
        .filter_map(|(line, cells)| {
            let [_, capability, proof] = cells[..] else {
                return None;
            };
            let head = proof == "test or command" || proof.starts_with("--");
            (!head).then_some(Row { line, capability, proof })
        })
        .collect()
}

/// Returns whether a crate has this test: `crate_name::module::test_name`.
pub(super) fn test_exists(tree: &Tree, name: &str) -> bool {
    let parts: Vec<&str> = name.split("::").collect();
    let [krate, modules @ .., test] = &parts[..] else {
        return false;
    };
    let Some(krate) = tree
        .crates
        .iter()
        .find(|known| known.name.replace('-', "_") == *krate)
    else {
        return false;
    };
    tree.rust_under(&krate.folder).any(|(path, text)| {
        modules.iter().all(|module| is_in(path, text, module))
            && rust_text::functions(text)
                .iter()
                .any(|function| function.test && function.name == *test)
    }) || modules
        .last()
        .is_some_and(|module| is_listed(tree, &krate.folder, module, test))
}

/// Returns whether a crate passes the test to the harness of `tools/testing`: as `tests![module::test]`, or
/// as `tests![test]` in the file of that module.
fn is_listed(tree: &Tree, folder: &str, module: &str, test: &str) -> bool {
    let lists = |text: &str, name: &str| {
        let names = text
            .split("tests![")
            .skip(1)
            .filter_map(|rest| rest.split_once(']'));
        names
            .flat_map(|(list, _)| list.split(','))
            .any(|listed| listed.trim() == name)
    };
    tree.rust_under(folder).any(|(path, text)| {
        path.contains("/tests/") && lists(text, &format!("{module}::{test}"))
            || path.ends_with(&format!("/tests/{module}.rs")) && lists(text, test)
    })
}

/// Returns whether a file is in a module, either by its path or because it declares the module.
fn is_in(path: &str, text: &str, module: &str) -> bool {
    path.split('/').any(|part| part.trim_end_matches(".rs") == module)
        || text.contains(&format!("mod {module} {{"))
}

/// Returns whether the first words of a command exist.
pub(super) fn command_exists(tree: &Tree, command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["make", target, ..] => tree
            .text("Makefile")
            .lines()
            .any(|line| line.starts_with(&format!("{target}:"))),
        ["cargo", "xtask", "tidy", check, ..] => CHECKS.iter().any(|known| known.name == check),
        ["cargo", "xtask", "long", mode, ..] => long::exists(mode),
        ["cargo", "xtask", chore, ..] => CHORES.iter().any(|known| known.name == chore),
        ["cargo", "bench", "-p", krate, ref rest @ ..] => {
            let mut known = tree.crates.iter().filter(|known| known.name == krate);
            let bench = rest.iter().skip_while(|word| **word != "--bench").nth(1);
            let exists = |folder: &str, name: &str| tree.exists(&format!("{folder}/benches/{name}.rs"));
            known.any(|known| bench.is_none_or(|name| exists(&known.folder, name)))
        }
        ["hawser", "--help" | "--version"] => true,
        ["hawser", subcommand, ..] => subcommands(tree).iter().any(|known| known == subcommand),
        [script, ..] => script.contains('/') && tree.exists(script),
        [] => false,
    }
}

/// Returns the sub-commands of `hawser`: the variants of the enums that derive `Subcommand`.
fn subcommands(tree: &Tree) -> Vec<String> {
    let sources = tree
        .rust_under(COMMAND_LINE)
        .map(|(_, text)| rust_text::code_only(text));
    sources
        .flat_map(|code| {
            code.split("#[derive(")
                .skip(1)
                .flat_map(variants)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the variants of the enum after `#[derive(`, if it derives `Subcommand`, as words of a shell.
fn variants(item: &str) -> Vec<String> {
    let Some((derives, rest)) = item.split_once(")]") else {
        return Vec::new();
    };
    let Some((head, body)) = rest.split_once('{') else {
        return Vec::new();
    };
    if !derives.contains("Subcommand") || !head.contains("enum ") {
        return Vec::new();
    }
    let (mut names, mut name, mut depth) = (Vec::new(), String::new(), 0);
    for c in body.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut name)),
            c if depth == 0 && c.is_ascii_alphanumeric() => name.push(c),
            _ => {}
        }
    }
    names.push(name);
    names
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(|name| kebab(&name))
        .collect()
}

fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLI: &str = "//! CLI.\n#[derive(Debug, Subcommand)]\nenum Command {\n    /// Checks.\n    Check(CheckArguments),\n\
                       #[command(alias = \"x\")]\n    DryRun { n: u32 },\n    Sim,\n}\n";

    fn tree_with(row: &str) -> Tree {
        let page = format!("| area | capability | test or command |\n|--|--|--|\n| A | it runs | {row} |\n");
        let files = [
            (PAGE, page.as_str()),
            ("Makefile", "demo: build\n\techo\n"),
            (
                "workbench/sim/tests/own/main.rs",
                "//! O.\nconst TESTS: &[Test] = tests![wire::lives, wire::holds];\n",
            ),
            (
                "workbench/sim/tests/file.rs",
                "//! F.\nconst TESTS: &[Test] = tests![stays];\n",
            ),
            (
                "workbench/sim/src/link.rs",
                "//! L.\n#[test]\nfn drops() {}\nfn helper() {}\n",
            ),
            (
                "workbench/sim/src/rule.rs",
                "//! R.\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn holds() {}\n}\n",
            ),
            ("workbench/sim/benches/speed.rs", "//! S.\n"),
            ("apps/cli/src/main.rs", CLI),
        ];
        Tree::from_texts(&files).with_crates(&["workbench/sim", "apps/cli"])
    }

    #[test]
    fn existing_references_pass() {
        for row in [
            "`test: hawser_sim::link::drops`",
            "`test: hawser_sim::wire::holds`",
            "`test: hawser_sim::file::stays`",
            "`test: hawser_sim::rule::tests::holds`, `file: apps/cli`",
            "`command: make demo`",
            "`command: cargo xtask tidy arrows`",
            "`command: hawser check FILE`",
            "`command: hawser dry-run`",
            "`command: cargo bench -p hawser-sim --bench speed`",
            "not yet: the link is missing",
        ] {
            assert_eq!(check(&tree_with(row)), [], "{row}");
        }
    }

    #[test]
    fn missing_references_are_found() {
        for row in [
            "",
            "works",
            "`test: hawser_sim::link::helper`",
            "`test: hawser_sim::rule::drops`",
            "`test: hawser_sim::wire::drops`",
            "`test: hawser_gone::link::drops`",
            "`file: apps/gone`",
            "`command: make gone`",
            "`command: cargo xtask gone`",
            "`command: cargo xtask tidy gone`",
            "`command: cargo xtask long gone`",
            "`command: hawser gone`",
            "`command: true`",
            "`command: cargo bench -p hawser-sim --bench gone`",
            "works | `test: hawser_sim::link::drops`",
            "`hawser check`",
        ] {
            assert_eq!(check(&tree_with(row)).len(), 1, "{row}");
        }
        assert_eq!(check(&Tree::default()).len(), 1);
    }

    #[test]
    fn rows_without_proof_are_counted() {
        let text = summary(&tree_with("not yet"));
        assert!(text.contains("0 capabilities shown, 1 not yet"), "{text}");
    }
}
