//! Converts between the editor's terms and those of this crate: URIs and paths, positions and bytes.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use lsp_types::{Position, Range, Uri};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::{Edit, Lines};

/// The characters that are percent-encoded in the path of a URI.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Returns the path of a `file:` URI. Any other URI, such as that of an unsaved text, is used as a name.
pub(super) fn path(uri: &Uri) -> PathBuf {
    let written = uri.as_str();
    match written.strip_prefix("file://") {
        Some(rest) => {
            // A host before the path can only be this machine.
            let path = &rest[rest.find('/').unwrap_or(0)..];
            PathBuf::from(percent_decode_str(path).decode_utf8_lossy().into_owned())
        }
        None => PathBuf::from(written),
    }
}

/// Returns the URI of a path.
pub(super) fn uri(path: &Path) -> Option<Uri> {
    let path = path.to_str()?;
    let uri = match path.starts_with('/') {
        true => format!("file://{}", utf8_percent_encode(path, ESCAPED)),
        false => path.to_owned(),
    };
    Uri::from_str(&uri).ok()
}

/// Returns the byte offset of a position.
pub(super) fn byte(text: &str, at: Position) -> usize {
    Lines::new(text).byte(at.line, at.character)
}

/// Returns the byte range of an LSP range. A range that ends before it begins is empty.
pub(super) fn bytes(text: &str, range: Range) -> std::ops::Range<usize> {
    let lines = Lines::new(text);
    let start = lines.byte(range.start.line, range.start.character);
    let end = lines.byte(range.end.line, range.end.character);
    start..end.max(start)
}

/// Returns the LSP range of a byte range.
pub(super) fn range(lines: &Lines<'_>, (start, end): (usize, usize)) -> Range {
    let position = |byte| {
        let (line, character) = lines.position(byte);
        Position { line, character }
    };
    Range { start: position(start), end: position(end) }
}

/// Converts an edit to the editor's terms.
pub(super) fn edit(lines: &Lines<'_>, edit: Edit) -> lsp_types::TextEdit {
    lsp_types::TextEdit {
        range: range(lines, (edit.range.start, edit.range.end)),
        new_text: edit.text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris_and_come_back() {
        for written in ["/a/b.mtp", "/with space/ü/100%#?.mtp", "/[x]/{y}.mtp"] {
            let there = uri(Path::new(written)).expect("it has a URI");
            assert_eq!(path(&there), Path::new(written), "{}", there.as_str());
        }
        let host = Uri::from_str("file://localhost/a/b%20c.mtp").expect("a URI");
        assert_eq!(path(&host), Path::new("/a/b c.mtp"));
        let unsaved = Uri::from_str("untitled:Untitled-1").expect("a URI");
        assert_eq!(path(&unsaved), Path::new("untitled:Untitled-1"));
    }
}
