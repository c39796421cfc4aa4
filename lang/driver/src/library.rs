//! The library that every program can import from. `import "std/rtt.mtp";` has the same meaning wherever the
//! program lies, and reads no file.

use std::path::{Component, Path, PathBuf};

/// The library's files: the path, as programs and diagnostics name it, and the text.
const FILES: &[(&str, &str)] = &[
    ("std/deadlines.mtp", include_str!("../../std/deadlines.mtp")),
    ("std/ends.mtp", include_str!("../../std/ends.mtp")),
    ("std/listener.mtp", include_str!("../../std/listener.mtp")),
    ("std/memory.mtp", include_str!("../../std/memory.mtp")),
    ("std/options.mtp", include_str!("../../std/options.mtp")),
    ("std/requests.mtp", include_str!("../../std/requests.mtp")),
    ("std/rtt.mtp", include_str!("../../std/rtt.mtp")),
    ("std/space.mtp", include_str!("../../std/space.mtp")),
    ("std/tags.mtp", include_str!("../../std/tags.mtp")),
];

/// Returns the files of the library, paths and texts, in order of their paths.
pub fn library() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().copied()
}

/// True if a file of a program belongs to the library.
#[must_use]
pub fn is_library(path: &str) -> bool {
    FILES.iter().any(|(known, _)| *known == path)
}

/// Returns the path in the library that an import refers to. It refers to the library if it begins with `std`
/// or stands in a file of the library.
pub(crate) fn meant(from: &Path, written: &str) -> Option<PathBuf> {
    let written = Path::new(written);
    if written.components().next() == Some(Component::Normal("std".as_ref())) {
        return Some(written.to_path_buf());
    }
    let is_inside = from.to_str().is_some_and(is_library);
    is_inside.then(|| from.parent().unwrap_or(Path::new("")).join(written))
}

pub(crate) fn text(path: &Path) -> Option<&'static str> {
    let known = |(known, _): &&(&str, &str)| Path::new(known) == path;
    FILES.iter().find(known).map(|(_, text)| *text)
}

pub(crate) fn names() -> String {
    let names: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
    names.join(", ")
}
