//! The programs in the editor's folders.

use std::path::{Path, PathBuf};

/// How deep folders are searched, and how many programs are found at most.
const MAX_DEPTH: u32 = 12;
const MAX_FILES: usize = 4096;

/// All `.mtp` files below a folder, hidden folders and those of build tools left out.
pub(super) fn programs(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    search(root, 0, &mut found);
    found
}

fn search(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
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
        if found.len() >= MAX_FILES || is_skipped {
            continue;
        }
        if kind.is_dir() && depth < MAX_DEPTH {
            search(&path, depth + 1, found);
        } else if kind.is_file() && name.ends_with(".mtp") {
            found.push(path);
        }
    }
}
