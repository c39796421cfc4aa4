//! Asks every question that an editor can ask, at one place of any text. Used for fuzzing and for tests with
//! mutations.

use std::path::Path;

use hawser_driver::MemoryLoader;

use crate::Workspace;

/// The separator between an imported part and the program.
const BETWEEN: char = '\u{1e}';

/// Asks every question about a byte of a text.
///
/// # Panics
/// If an answer lies outside of the text or within a character.
pub fn ask(text: &str, byte: usize) {
    let (part, text) = text.split_once(BETWEEN).unwrap_or(("", text));
    let path = Path::new("main.mtp");
    let mut workspace = Workspace::new(Box::new(MemoryLoader::new([("part.mtp", part)])));
    workspace.know([Path::new("part.mtp").to_path_buf()]);
    workspace.open(path, text.to_owned());
    let inside = |(start, end): (usize, usize)| {
        assert!(text.get(start..end).is_some(), "{start}..{end} of {}", text.len());
    };
    for file in workspace.diagnostics() {
        if file.path == path {
            file.problems
                .iter()
                .for_each(|problem| inside((problem.range.start, problem.range.end)));
        }
    }
    if let Some(hover) = workspace.hover(path, byte) {
        inside(hover.range);
    }
    if let Some(completion) = workspace.completion(path, byte) {
        inside(completion.range);
    }
    if let Some(signature) = workspace.signature(path, byte) {
        for (start, end) in signature.parameters {
            assert!(signature.form.get(start..end).is_some(), "{}", signature.form);
        }
    }
    let places = workspace.definition(path, byte).into_iter();
    for place in places.chain(workspace.references(path, byte, true)) {
        if place.path == path {
            inside(place.range);
        }
    }
    if let Ok(edits) = workspace.rename(path, byte, "another_name") {
        edits
            .get(path)
            .into_iter()
            .flatten()
            .for_each(|edit| inside((edit.range.start, edit.range.end)));
    }
    for fix in workspace.fixes(path, 0..text.len()) {
        inside((fix.edit.range.start, fix.edit.range.end));
    }
    for symbol in workspace.outline(path) {
        inside(symbol.range);
        inside(symbol.name_range);
    }
    let mut last = 0;
    for piece in workspace.colours(path) {
        inside(piece.range);
        assert!(last <= piece.range.0, "pieces overlap");
        last = piece.range.1;
    }
    for hint in workspace.hints(path, &(0..text.len())) {
        inside((hint.byte, hint.byte));
    }
    workspace
        .runnables(path)
        .into_iter()
        .for_each(|runnable| inside(runnable.range));
    let _ = workspace.symbols("");
}
