//! No circle of files crosses folders: files that import each other in a circle belong together, so one
//! folder holds them. `tools/xtask/circles.toml` names the folders that have such circles, with the reason.
//!
//! An import is a path that begins with `crate`, `super`, `self` or a module of the file, in `use` or in
//! code. Tests do not count. A re-export is not an import of the file that re-exports: it is followed to the
//! item that it names.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::tree::Tree;
use super::{Diagnostic, rust_text};

const LIST: &str = "tools/xtask/circles.toml";
/// The number of re-exports that are followed before the search ends.
const HOPS: usize = 8;

/// A module's path in its crate. The path of the crate itself is empty.
type Path = Vec<String>;

/// The contents of the list of circles.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The reason for each folder that holds a circle.
    #[serde(default)]
    folders: BTreeMap<String, String>,
}

/// Checks that every circle lies in one folder that the list names, and that the list names no other folder.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let list: List = match toml::from_str(tree.text(LIST)) {
        Ok(list) => list,
        Err(error) => return vec![Diagnostic::new(LIST, format!("{error}"), "mend the file")],
    };
    let mut diagnostics = Vec::new();
    let mut seen = BTreeSet::new();
    let all = tree.crates.iter().flat_map(|krate| {
        let circles = circles(tree, &krate.folder).into_iter();
        circles.map(|circle| (&krate.folder, circle))
    });
    for (krate, circle) in all {
        let files: Vec<&str> = circle.keys().map(String::as_str).collect();
        let files = files.join(", ");
        let folders: BTreeSet<&String> = circle.values().collect();
        let place = circle.keys().next().unwrap_or(krate);
        match folders.first() {
            Some(folder) if folders.len() == 1 => {
                seen.insert((*folder).clone());
                if !list.folders.contains_key(*folder) {
                    let remedy =
                        format!("untie it, or give [folders] of {LIST} a row \"{folder}\" with the reason");
                    diagnostics.push(Diagnostic::new(
                        place,
                        format!("a circle of files: {files}"),
                        remedy,
                    ));
                }
            }
            _ => {
                let what = format!("a circle of files crosses folders: {files}");
                let remedy = "move what both sides use into a file that imports neither";
                diagnostics.push(Diagnostic::new(place, what, remedy));
            }
        }
    }
    let idle = list.folders.keys().filter(|name| !seen.contains(*name));
    diagnostics.extend(idle.map(|name| {
        let what = format!("`{name}` has no such circle any more");
        Diagnostic::new(LIST, what, "delete the row")
    }));
    diagnostics
}

/// Returns the circles of a crate: the files of each, with their folders.
fn circles(tree: &Tree, krate: &str) -> Vec<BTreeMap<String, String>> {
    let modules = Modules::of(tree, krate);
    let reach: BTreeMap<&Path, BTreeSet<&Path>> = modules
        .all
        .keys()
        .map(|path| (path, modules.reach(path)))
        .collect();
    let mut circles: Vec<BTreeSet<&Path>> = Vec::new();
    for (path, reached) in &reach {
        let circle: BTreeSet<&Path> = reached
            .iter()
            .copied()
            .filter(|other| reach.get(*other).is_some_and(|back| back.contains(path)))
            .collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    let named = |circle: &BTreeSet<&Path>| {
        let files = circle.iter().filter_map(|path| modules.all.get(*path));
        files
            .map(|module| (module.file.clone(), modules.folder(&module.file)))
            .collect()
    };
    circles.iter().map(named).collect()
}

/// A file of a crate.
struct Module {
    file: String,
    /// The paths that it imports, without re-exports.
    imports: Vec<Path>,
    /// The names that it imports or re-exports, each with the path that it stands for.
    names: BTreeMap<String, Path>,
}

/// The files of a crate, by the path of each module.
struct Modules {
    all: BTreeMap<Path, Module>,
}

impl Modules {
    fn of(tree: &Tree, krate: &str) -> Modules {
        let source = format!("{krate}/src/");
        let texts: BTreeMap<Path, (String, String)> = tree
            .rust_under(krate)
            .filter_map(|(file, text)| {
                let path = module_path(file.strip_prefix(&source)?);
                Some((
                    path,
                    (file.to_owned(), without_tests(&rust_text::code_only(text))),
                ))
            })
            .collect();
        let tests: Vec<Path> = tree
            .rust_under(krate)
            .filter_map(|(file, text)| Some((module_path(file.strip_prefix(&source)?), text)))
            .flat_map(|(path, text)| {
                test_modules(text)
                    .map(move |name| child(&path, &name))
                    .collect::<Vec<_>>()
            })
            .collect();
        let is_test = |path: &Path| tests.iter().any(|test| path.starts_with(test));
        let known: BTreeSet<Path> = texts.keys().cloned().collect();
        let all = texts
            .into_iter()
            .filter(|(path, _)| !is_test(path))
            .map(|(path, (file, code))| {
                let module = Module::read(&path, file, &code, &known);
                (path, module)
            })
            .collect();
        Modules { all }
    }

    /// Returns the file that defines the item of a path.
    fn file_of(&self, path: &[String], hops: usize) -> Option<&Path> {
        let depth = (0..=path.len())
            .rev()
            .find(|depth| self.all.contains_key(&path[..*depth]))?;
        let (home, module) = self.all.get_key_value(&path[..depth])?;
        let onward = path.get(depth).and_then(|name| module.names.get(name));
        match onward {
            Some(onward) if hops > 0 => {
                let rest = [onward, &path[depth + 1..]].concat();
                self.file_of(&rest, hops - 1)
            }
            _ => Some(home),
        }
    }

    /// Returns every file that a file reaches through imports.
    fn reach(&self, from: &Path) -> BTreeSet<&Path> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(path) = open.pop() {
            let imports = self.all.get(path).map_or(&[][..], |module| &module.imports);
            for import in imports {
                if let Some(file) = self.file_of(import, HOPS)
                    && file != path
                    && reached.insert(file)
                {
                    open.push(file);
                }
            }
        }
        reached
    }

    /// Returns the folder that a file belongs to. A file `a.rs` beside a folder `a` belongs to that folder.
    fn folder(&self, file: &str) -> String {
        let own = format!("{}/", file.trim_end_matches(".rs"));
        if self.all.values().any(|module| module.file.starts_with(&own)) {
            return own.trim_end_matches('/').to_owned();
        }
        file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned()
    }
}

impl Module {
    fn read(path: &Path, file: String, code: &str, known: &BTreeSet<Path>) -> Module {
        let mut module = Module { file, imports: Vec::new(), names: BTreeMap::new() };
        let mut rest = String::new();
        for statement in code.split_inclusive(';') {
            let Some((before, tree)) = use_statement(statement) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(before);
            let is_exported = before.trim_end().ends_with("pub") || before.trim_end().ends_with(')');
            for (segments, name) in leaves(tree) {
                let Some(target) = resolve(path, &segments, known) else {
                    continue;
                };
                if !is_exported {
                    module.imports.push(target.clone());
                }
                module.names.insert(name, target);
            }
        }
        let inline = paths(&rest).filter_map(|segments| resolve(path, &segments, known));
        module.imports.extend(inline);
        module
    }
}

/// Returns the module path of a file: `a/b.rs` and `a/b/mod.rs` are `a::b`; `lib.rs` and `main.rs` are the
/// crate.
fn module_path(file: &str) -> Path {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" => Path::new(),
        _ => stem.split('/').map(str::to_owned).collect(),
    }
}

fn child(path: &Path, name: &str) -> Path {
    let mut child = path.clone();
    child.push(name.to_owned());
    child
}

/// Returns the names of modules that exist for tests alone and have files of their own.
fn test_modules(text: &str) -> impl Iterator<Item = String> + '_ {
    let behind = text.split("#[cfg(test)]").skip(1);
    behind.filter_map(|rest| {
        let name = rest.trim_start().split_once("mod ")?;
        let plain = ["", "pub ", "pub(crate) ", "pub(super) "].contains(&name.0);
        let end = name.1.find([';', '{'])?;
        (plain && name.1[end..].starts_with(';')).then(|| name.1[..end].trim().to_owned())
    })
}

/// Returns the code before the module of tests, which is the last item of a file.
fn without_tests(code: &str) -> String {
    let tests = code.match_indices("#[cfg(test)]").find(|(at, _)| {
        let rest = code[at + "#[cfg(test)]".len()..].trim_start();
        rest.starts_with("mod ") && rest.find('{') < rest.find(';').or(Some(usize::MAX))
    });
    tests.map_or(code, |(at, _)| &code[..at]).to_owned()
}

/// Splits a statement into the text before `use` and the text after it.
fn use_statement(statement: &str) -> Option<(&str, &str)> {
    let at = statement.match_indices("use ").map(|(at, _)| at).find(|at| {
        let before = statement[..*at].trim_end();
        before.is_empty() || before.ends_with(['}', '{', ';', ']', ')']) || before.ends_with("pub")
    })?;
    let tree = statement[at + "use ".len()..].strip_suffix(';')?;
    Some((&statement[..at], tree))
}

/// Returns the paths of a `use`, each with the name that it binds.
fn leaves(tree: &str) -> Vec<(Path, String)> {
    let tree = tree.trim();
    if let Some((stem, inner)) = tree.split_once('{') {
        let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
        let stem: Path = words(stem);
        return branches(inner)
            .into_iter()
            .flat_map(leaves)
            .map(|(path, name)| {
                let path: Path = stem
                    .iter()
                    .cloned()
                    .chain(path)
                    .filter(|word| word != "self" || stem.is_empty())
                    .collect();
                let name = if name == "self" {
                    stem.last().cloned().unwrap_or_default()
                } else {
                    name
                };
                (path, name)
            })
            .collect();
    }
    let (path, alias) = tree
        .split_once(" as ")
        .map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let path = words(path);
    let name = alias.map_or_else(
        || path.last().cloned().unwrap_or_default(),
        |alias| alias.trim().to_owned(),
    );
    if path.is_empty() {
        Vec::new()
    } else {
        vec![(path, name)]
    }
}

/// Splits a list between braces into its parts.
fn branches(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

fn words(path: &str) -> Path {
    path.split("::")
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns the paths in code that begin with `crate` or `super`.
fn paths(code: &str) -> impl Iterator<Item = Path> + '_ {
    let starts = ["crate::", "super::"]
        .into_iter()
        .flat_map(|start| code.match_indices(start));
    starts.filter_map(|(at, _)| {
        let before = &code[..at];
        let continues = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$');
        if continues || before.ends_with("in ") {
            return None;
        }
        let end = code[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        Some(words(&code[at..end.map_or(code.len(), |end| at + end)]))
    })
}

/// Resolves a path from the crate's top, or returns `None` for an item of another crate.
fn resolve(from: &Path, segments: &[String], known: &BTreeSet<Path>) -> Option<Path> {
    let mut base = from.clone();
    let mut rest = segments;
    match segments.first()?.as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            while rest.first().is_some_and(|word| word == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
            return Some([&base[..], rest].concat());
        }
        name if known.contains(&child(from, name)) => return Some([&base[..], rest].concat()),
        _ => return None,
    }
    Some([&base[..], &rest[1..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostics(list: &str, files: &[(&str, &str)]) -> Vec<Diagnostic> {
        let named: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("a/src/{path}"), *text))
            .collect();
        let mut all: Vec<(&str, &str)> = named.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        all.push((LIST, list));
        check(&Tree::of(&all).with_crates(&["a"]))
    }

    #[test]
    fn a_circle_across_folders_is_found() {
        let files = [
            ("lib.rs", "mod x;\nmod y;\n"),
            ("x.rs", "mod inner;\n"),
            ("x/inner.rs", "use crate::y::{Y, other::Z};\n"),
            ("y.rs", "fn f() { crate::x::inner::g() }\n"),
        ];
        let found = diagnostics("", &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0]
                .what
                .contains("crosses folders: a/src/x/inner.rs, a/src/y.rs")
        );
        let listed = diagnostics("[folders]\n\"a/src\" = \"why\"", &files);
        assert_eq!(listed.len(), 2, "{listed:?}");
    }

    #[test]
    fn a_circle_in_one_folder_needs_a_reason() {
        let files = [("x.rs", "mod b;\nuse b::B;\n"), ("x/b.rs", "use super::X;\n")];
        let found = diagnostics("", &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].remedy.contains("a row \"a/src/x\""), "{found:?}");
        assert_eq!(diagnostics("[folders]\n\"a/src/x\" = \"why\"", &files), []);
        let untied = [("x.rs", "mod b;\nuse b::B;\n"), ("x/b.rs", "\n")];
        assert_eq!(diagnostics("[folders]\n\"a/src/x\" = \"why\"", &untied).len(), 1);
    }

    #[test]
    fn re_exports_and_tests_make_no_circle() {
        let files = [
            (
                "lib.rs",
                "mod x;\npub use x::X;\nmod y;\npub use y::{Y as Why};\n",
            ),
            (
                "x.rs",
                "pub(in crate::y) struct X;\nuse crate::Why;\n#[cfg(test)]\nmod tests {\n use crate::X;\n}\n",
            ),
            (
                "y.rs",
                "// use crate::x::X;\npub struct Y;\n#[cfg(test)]\nmod checks;\n",
            ),
            ("y/checks.rs", "use crate::x::X;\n"),
        ];
        assert_eq!(diagnostics("", &files), []);
    }
}
