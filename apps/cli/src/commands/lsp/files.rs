//! The files of this machine, for the language server.

use std::cell::OnceCell;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hawser::lang::ide::lsp::Files;
use hawser_documents::temporary::Folder;

/// The files of this machine.
#[derive(Default)]
pub(super) struct Local {
    /// The folder of the library's files, created when an editor is first sent to one.
    library: OnceCell<Option<Folder>>,
}

impl Files for Local {
    fn programs(&self, folder: &Path) -> Vec<PathBuf> {
        programs(folder)
    }

    fn scenarios(&self, program: &Path) -> Vec<PathBuf> {
        scenarios(program)
    }

    fn library(&self) -> Option<&Path> {
        let folder = self.library.get_or_init(library).as_ref()?;
        Some(folder)
    }
}

/// The maximum depth of a search, the maximum number of directory entries that it visits, and of programs
/// that it finds.
const MAX_DEPTH: u32 = 12;
const MAX_ENTRIES: usize = 200_000;
const MAX_FILES: usize = 4096;

/// Returns all `.mtp` files below a folder, except in hidden folders and in those of build tools.
fn programs(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut seen) = (Vec::new(), 0);
    search(root, 0, &mut seen, &mut found);
    found
}

fn search(folder: &Path, depth: u32, seen: &mut usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_skipped = name.starts_with('.') || name == "target" || name == "node_modules";
        *seen += 1;
        if found.len() >= MAX_FILES || *seen > MAX_ENTRIES {
            return;
        }
        if is_skipped {
            continue;
        }
        if kind.is_dir() && depth < MAX_DEPTH {
            search(&path, depth + 1, seen, found);
        } else if kind.is_file() && name.ends_with(".mtp") {
            found.push(path);
        }
    }
}

/// Writes the library's files to a read-only folder for an editor. The folder is removed with the server.
fn library() -> Option<Folder> {
    let folder = Folder::new().ok()?;
    for (path, text) in hawser::lang::library() {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent()?).ok()?;
        std::fs::write(&path, text).ok()?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o444)).ok()?;
    }
    Some(folder)
}

/// The maximum size of a scenario, in bytes.
const MAX_SCENARIO: u64 = 1 << 20;

/// Returns the scenarios that name a program. They are in its folder, in `scenarios/` below it, or in
/// `scenarios/` beside it.
fn scenarios(program: &Path) -> Vec<PathBuf> {
    let folder = program.parent().unwrap_or(Path::new(""));
    let folders = [
        folder.to_path_buf(),
        folder.join("scenarios"),
        folder.join("../scenarios"),
    ];
    let mut found: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .filter(|path| names_program(path, program))
        .collect();
    found.sort();
    found
}

/// Returns whether the scenario's `program` is this file.
fn names_program(scenario: &Path, program: &Path) -> bool {
    let is_small = std::fs::metadata(scenario).is_ok_and(|data| data.is_file() && data.len() <= MAX_SCENARIO);
    let text = is_small.then(|| std::fs::read_to_string(scenario).ok()).flatten();
    let text = text.unwrap_or_default();
    let named = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().strip_prefix('"')?.split('"').next()?;
        (key.trim() == "program").then_some(value)
    });
    let named = named.map(|named| scenario.parent().unwrap_or(Path::new("")).join(named));
    match (
        named.and_then(|named| named.canonicalize().ok()),
        program.canonicalize(),
    ) {
        (Some(named), Ok(program)) => named == program,
        _ => false,
    }
}
