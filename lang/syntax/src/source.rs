//! The files of one compilation.

/// Texts by number; the number is [`crate::Span::file`].
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

/// One file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path as the user wrote it, for messages.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl SourceMap {
    /// Adds a file and returns its number.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) -> u32 {
        self.files.push(SourceFile { path: path.into(), text: text.into() });
        (self.files.len() - 1) as u32
    }

    /// The file with this number.
    #[must_use]
    pub fn file(&self, file: u32) -> &SourceFile {
        &self.files[file as usize]
    }

    /// All files, by number.
    #[must_use]
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The text of a span.
    #[must_use]
    pub fn text(&self, span: crate::Span) -> &str {
        let text = &self.file(span.file).text;
        text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// Line and column of a byte, both from 1; columns count characters.
    #[must_use]
    pub fn line_column(&self, file: u32, byte: u32) -> (u32, u32) {
        let text = &self.file(file).text;
        let before = &text.as_bytes()[..(byte as usize).min(text.len())];
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        let line = before.iter().filter(|b| **b == b'\n').count() as u32 + 1;
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() as u32 + 1;
        (line, column)
    }
}
