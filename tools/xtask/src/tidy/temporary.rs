//! Only one helper makes temporary folders.
//!
//! A path below `temp_dir()` that is made elsewhere has a name that another user can predict and create
//! first. Its mode may depend on the umask.

use super::Diagnostic;
use super::rust_text::{code_only, line_of};
use super::tree::Tree;

const HELPER: &str = "bus/documents/";
/// Calls that return the folder for temporary files, or that make a file or folder in it with a name or mode
/// of their own.
const CALLS: &[&str] = &["temp_dir(", "tempfile::"];

/// Checks that no source but the helper asks for the folder for temporary files. A script must not use its
/// process id as a name there.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let sources = tree
        .files
        .iter()
        .filter(|(path, _)| path.ends_with(".rs") && !path.starts_with(HELPER));
    let calls = sources.flat_map(|(path, text)| {
        let code = code_only(text);
        let found = CALLS.iter().flat_map(|call| code.match_indices(call));
        let places: Vec<String> = found
            .map(|(at, _)| format!("{path}:{}", line_of(&code, at)))
            .collect();
        places
    });
    let scripts = tree
        .files
        .iter()
        .filter(|(path, text)| path.ends_with(".sh") || text.starts_with("#!"));
    let names = scripts.flat_map(|(path, text)| {
        let lines = text.lines().enumerate();
        lines
            .filter(|(_, line)| is_named_by_process(line))
            .map(move |(index, _)| format!("{path}:{}", index + 1))
    });
    let remedy = "use hawser_documents::temporary::Folder (in a shell: mktemp -d; in Python: tempfile.TemporaryDirectory)";
    calls
        .chain(names)
        .map(|place| {
            Diagnostic::new(
                place,
                "a temporary file or folder is made without the helper",
                remedy,
            )
        })
        .collect()
}

/// Returns whether a line of a script has a path below `/tmp` that contains the process id.
fn is_named_by_process(line: &str) -> bool {
    let mut paths = line.split("/tmp/").skip(1).chain(line.split("TMPDIR").skip(1));
    paths.any(|rest| {
        rest.split_whitespace()
            .next()
            .is_some_and(|path| path.contains("$$"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_the_temporary_folder_are_found() {
        let asks =
            "//! A.\nfn f() {\n    std::env::temp_dir().join(format!(\"x-{}\", std::process::id()));\n}\n";
        let named = "#!/bin/sh\nmkdir /tmp/x-$$\nkill -INT $$ # not /tmp/x\n";
        let tree = Tree::of(&[
            ("a/src/a.rs", asks),
            ("bus/documents/src/temporary.rs", asks),
            ("scripts/a", named),
        ]);
        let places: Vec<String> = check(&tree)
            .into_iter()
            .map(|diagnostic| diagnostic.place)
            .collect();
        assert_eq!(places, ["a/src/a.rs:3", "scripts/a:2"]);
    }

    #[test]
    fn comments_about_temporary_folders_are_not_found() {
        let tree = Tree::of(&[
            ("a/src/a.rs", "//! Not `std::env::temp_dir()`.\n"),
            ("scripts/a", "#!/bin/sh\nmktemp -d\n"),
        ]);
        assert_eq!(check(&tree), []);
    }
}
