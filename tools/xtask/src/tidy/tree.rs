//! The input of the checks: every file of the repository, and cargo's data about the crates of both
//! workspaces.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// The manifests of the workspaces: the product's, and that of its evaluation.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "evaluation/Cargo.toml"];

/// The repository, in memory. Paths are relative to its top, with `/`.
#[derive(Default)]
pub(crate) struct Tree {
    /// The absolute path of the checkout on this machine; empty in tests.
    pub(super) root: String,
    /// The text of each file, by path. A file that is not UTF-8 has an empty text.
    pub(super) files: BTreeMap<String, String>,
    /// The crates of both workspaces.
    pub(super) crates: Vec<Crate>,
}

/// A crate of one of the workspaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Crate {
    /// The name of its package.
    pub(super) name: String,
    pub(super) folder: String,
    /// Its dependencies on crates of the workspaces.
    pub(super) uses: Vec<Use>,
}

/// A dependency of one crate of the workspaces on another.
#[derive(Clone, Debug)]
pub(super) struct Use {
    /// The other crate's folder.
    pub(super) folder: String,
    /// True if the dependency is for tests, examples and benchmarks alone.
    pub(super) dev: bool,
}

impl Tree {
    /// Reads the repository at `root`: the files that git tracks or would track, and the output of `cargo
    /// metadata`.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let listing = output(root, "git", &["ls-files", "-z", "-co", "--exclude-standard"])?;
        let mut files = BTreeMap::new();
        for path in listing.split('\0').filter(|path| !path.is_empty()) {
            // A tracked file may have been deleted without a commit.
            let Ok(bytes) = std::fs::read(root.join(path)) else {
                continue;
            };
            files.insert(path.to_owned(), String::from_utf8(bytes).unwrap_or_default());
        }
        let mut tree = Tree { files, ..Tree::default() };
        for manifest in WORKSPACES {
            let arguments = ["metadata", "--format-version", "1", "--manifest-path", manifest];
            let metadata: Metadata = serde_json::from_str(&output(root, "cargo", &arguments)?)
                .map_err(|error| format!("cargo metadata of {manifest}: {error}"))?;
            if tree.root.is_empty() {
                tree.root.clone_from(&metadata.workspace_root);
            }
            tree.add(metadata);
        }
        Ok(tree)
    }

    /// Adds the crates of a workspace. Two workspaces have crates in common.
    fn add(&mut self, metadata: Metadata) {
        for new in metadata.own_crates(&self.root) {
            if self.crates.iter().all(|known| known.folder != new.folder) {
                self.crates.push(new);
            }
        }
    }

    /// Returns whether a file or folder of this path exists.
    pub(super) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path == "."
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(found, _)| found.starts_with(&folder))
    }

    /// Returns the text of a file, or an empty text if the file does not exist.
    pub(super) fn text(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    /// Returns the files that have one of these extensions.
    pub(crate) fn with_extension(
        &self,
        extensions: &'static [&'static str],
    ) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(move |(path, text)| {
            let (_, extension) = path.rsplit_once('.')?;
            extensions
                .contains(&extension)
                .then_some((path.as_str(), text.as_str()))
        })
    }

    /// Returns the Rust files below a folder.
    pub(super) fn rust_under(&self, folder: &str) -> impl Iterator<Item = (&str, &str)> + use<'_> {
        let folder = format!("{folder}/");
        self.with_extension(&["rs"])
            .filter(move |(path, _)| path.starts_with(&folder))
    }

    /// Makes a tree of these files alone.
    #[cfg(test)]
    pub(crate) fn from_texts(files: &[(&str, &str)]) -> Tree {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        Tree { files, ..Tree::default() }
    }

    /// Adds a crate in each of these folders, named after the folder.
    #[cfg(test)]
    pub(super) fn with_crates(mut self, folders: &[&str]) -> Tree {
        for folder in folders {
            let name = format!("hawser-{}", folder.rsplit('/').next().unwrap_or(folder));
            self.crates
                .push(Crate { name, folder: (*folder).to_owned(), uses: Vec::new() });
        }
        self
    }
}

/// Returns the output of a command.
fn output(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let result = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    if !result.status.success() {
        return Err(format!(
            "{program} {}: {}",
            arguments[0],
            String::from_utf8_lossy(&result.stderr)
        ));
    }
    String::from_utf8(result.stdout).map_err(|error| format!("{program}: {error}"))
}

/// The part of `cargo metadata` that the checks read.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: String,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    source: Option<String>,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    kind: Option<String>,
    path: Option<String>,
}

impl Metadata {
    /// Returns the crates of the repository at `root`.
    fn own_crates(self, root: &str) -> Vec<Crate> {
        let relative = |path: &str| {
            path.strip_prefix(root)
                .map(|rest| rest.trim_start_matches('/').to_owned())
        };
        let own = self
            .packages
            .into_iter()
            .filter(|package| package.source.is_none());
        own.map(|package| {
            let folder = relative(package.manifest_path.trim_end_matches("/Cargo.toml"));
            let uses = package.dependencies.iter().filter_map(|dependency| {
                let folder = relative(dependency.path.as_deref()?)?;
                Some(Use { folder, dev: dependency.kind.as_deref() == Some("dev") })
            });
            let uses = uses.collect();
            Crate { name: package.name, folder: folder.unwrap_or_default(), uses }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_from_outside_are_left_out() {
        let text = r#"{"workspace_root": "/r", "packages": [
            {"name": "a", "version": "1.0.0", "license": "MIT", "source": "registry+x",
             "manifest_path": "/home/a/Cargo.toml", "dependencies": []},
            {"name": "b", "version": "0.1.0", "license": null, "source": null,
             "manifest_path": "/r/lang/b/Cargo.toml",
             "dependencies": [{"kind": "dev", "path": "/r/engine"}, {"kind": null, "path": null}]}]}"#;
        let metadata: Metadata = serde_json::from_str(text).expect("valid");
        let crates = metadata.own_crates("/r");
        assert_eq!(crates.len(), 1);
        assert_eq!(crates[0].folder, "lang/b");
        assert_eq!(crates[0].uses.len(), 1);
        assert!(crates[0].uses[0].dev && crates[0].uses[0].folder == "engine");
    }

    #[test]
    fn a_package_of_both_workspaces_is_added_once() {
        let package = |name: &str, source: &str| {
            format!(
                r#"{{"name": "{name}", "version": "1.0.0", "license": "MIT", "source": {source},
                    "manifest_path": "/r/{name}/Cargo.toml", "dependencies": []}}"#
            )
        };
        let mut tree = Tree { root: "/r".to_owned(), ..Tree::default() };
        for (top, own) in [("/r", "a"), ("/r/evaluation", "evaluation/b")] {
            let packages = [
                package("shared", "null"),
                package(own, "null"),
                package("x", "\"registry+x\""),
            ];
            let text = format!(
                r#"{{"workspace_root": "{top}", "packages": [{}]}}"#,
                packages.join(",")
            );
            tree.add(serde_json::from_str(&text).expect("valid"));
        }
        let folders: Vec<&str> = tree.crates.iter().map(|krate| krate.folder.as_str()).collect();
        assert_eq!(folders, ["shared", "a", "evaluation/b"]);
    }

    #[test]
    fn folders_exist_when_they_hold_a_file() {
        let tree = Tree::from_texts(&[("docs/a.md", ""), ("docs-old", "")]);
        assert!(tree.exists("docs") && tree.exists("docs/") && tree.exists("docs/a.md"));
        assert!(!tree.exists("doc") && !tree.exists("docs/b.md"));
    }
}
