//! The library that any program imports from: `import "std/rtt.mtp";` means the same wherever the program
//! lies, and reads no file.

use std::path::{Component, Path, PathBuf};

/// Its files: path, as programs and diagnostics name it, and text.
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

/// The files of the library: paths and texts, in order of their paths.
pub fn library() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().copied()
}

/// Whether a file of a program is the library's.
#[must_use]
pub fn is_library(path: &str) -> bool {
    FILES.iter().any(|(known, _)| *known == path)
}

/// The path in the library that an import means, if it means one there: it begins with `std`, or stands in a
/// file of the library.
pub(crate) fn meant(from: &Path, written: &str) -> Option<PathBuf> {
    let written = Path::new(written);
    if written.components().next() == Some(Component::Normal("std".as_ref())) {
        return Some(written.to_path_buf());
    }
    let is_inside = from.to_str().is_some_and(is_library);
    is_inside.then(|| from.parent().unwrap_or(Path::new("")).join(written))
}

/// The text of a file of the library.
pub(crate) fn text(path: &Path) -> Option<&'static str> {
    let known = |(known, _): &&(&str, &str)| Path::new(known) == path;
    FILES.iter().find(known).map(|(_, text)| *text)
}

/// The names of its files, for hints.
pub(crate) fn names() -> String {
    let names: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
    names.join(", ")
}
