//! The files of one compilation.

/// Texts by number. The number is stored in [`crate::Span::file`].
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path as the user wrote it, for messages.
    pub path: String,
    pub text: String,
    /// The byte offsets at which lines begin; the first is 0.
    line_starts: Vec<u32>,
}

impl SourceMap {
    /// Adds a file and returns its number.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) -> u32 {
        let text = text.into();
        // A lone carriage return ends a line, too, as in the output of old editors and in programs that
        // display the lines.
        let ends_line =
            |(at, end): &(usize, &str)| *end == "\n" || text.as_bytes().get(at + 1) != Some(&b'\n');
        let ends = text.match_indices(['\n', '\r']).filter(ends_line);
        let behind = ends.map(|(at, _)| at as u32 + 1);
        let line_starts = std::iter::once(0).chain(behind).collect();
        self.files
            .push(SourceFile { path: path.into(), text, line_starts });
        (self.files.len() - 1) as u32
    }

    /// Adds a file of another compilation and returns its number.
    pub fn add_file(&mut self, file: SourceFile) -> u32 {
        self.files.push(file);
        (self.files.len() - 1) as u32
    }

    /// Returns the files, by number.
    #[must_use]
    pub fn into_files(self) -> Vec<SourceFile> {
        self.files
    }

    /// Returns the file with this number.
    #[must_use]
    pub fn file(&self, file: u32) -> &SourceFile {
        &self.files[file as usize]
    }

    /// Returns all files, by number.
    #[must_use]
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Returns the text of a span.
    #[must_use]
    pub fn text(&self, span: crate::Span) -> &str {
        let text = &self.file(span.file).text;
        text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// Returns the line and the column of a byte, both counted from 1; columns count characters.
    #[must_use]
    pub fn line_column(&self, file: u32, byte: u32) -> (u32, u32) {
        let SourceFile { text, line_starts, .. } = self.file(file);
        let byte = (byte as usize).min(text.len());
        let line = line_starts.partition_point(|start| *start as usize <= byte);
        let before = &text.as_bytes()[line_starts[line - 1] as usize..byte];
        let column = String::from_utf8_lossy(before).chars().count() as u32 + 1;
        (line as u32, column)
    }
}
