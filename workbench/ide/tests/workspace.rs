//! A workspace of the repository's files, and of texts in memory.

use std::path::{Path, PathBuf};

use hawser_driver::{Disk, MemoryLoader};
use hawser_ide::Workspace;

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository is there")
}

/// Returns the programs in a folder of the repository.
pub(crate) fn programs(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(folder)).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "mtp"));
    paths.sort();
    assert!(!paths.is_empty(), "{folder}");
    paths
}

/// Opens the files of a folder, which become known.
pub(crate) fn opened(folder: &str) -> (Workspace, Vec<PathBuf>) {
    let mut workspace = Workspace::new(Box::new(Disk));
    let paths = programs(folder);
    workspace.know(paths.clone());
    for path in &paths {
        workspace.open(path, std::fs::read_to_string(path).expect("a program"));
    }
    (workspace, paths)
}

/// Opens texts in memory.
pub(crate) fn in_memory(texts: &[(&str, &str)]) -> Workspace {
    let mut workspace = Workspace::new(Box::new(MemoryLoader::new(texts.iter().copied())));
    workspace.know(texts.iter().map(|(path, _)| PathBuf::from(path)));
    for (path, text) in texts {
        workspace.open(Path::new(path), (*text).to_owned());
    }
    workspace
}

/// Returns the offset of the n-th occurrence of a word in a text, counted from 0.
pub(crate) fn find(text: &str, word: &str, n: usize) -> usize {
    let place = text.match_indices(word).nth(n);
    place.unwrap_or_else(|| panic!("{n} of `{word}` in\n{text}")).0
}
