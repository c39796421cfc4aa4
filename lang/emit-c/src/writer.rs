//! Lines of C with their indentation.

/// A piece of C that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    /// Writes a line at the current indentation; an empty one stays empty.
    pub(crate) fn line(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", self.depth));
            self.text.push_str(text);
        }
        self.text.push('\n');
    }

    /// Writes a line of the preprocessor.
    pub(crate) fn directive(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Writes `head {`, and indents the following lines.
    pub(crate) fn open(&mut self, head: &str) {
        if head.is_empty() {
            self.line("{");
        } else {
            self.line(&format!("{head} {{"));
        }
        self.depth += 1;
    }

    /// `} tail`
    pub(crate) fn close(&mut self, tail: &str) {
        self.depth -= 1;
        self.line(&format!("}}{tail}"));
    }

    /// `} else {`
    pub(crate) fn otherwise(&mut self) {
        self.depth -= 1;
        self.line("} else {");
        self.depth += 1;
    }

    /// `} else if (condition) {`
    pub(crate) fn otherwise_if(&mut self, condition: &str) {
        self.depth -= 1;
        self.line(&format!("}} else if ({condition}) {{"));
        self.depth += 1;
    }

    /// Returns the text.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}
