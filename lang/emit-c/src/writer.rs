//! Lines of C with their indentation.

/// A piece of C being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    /// A line at the present indentation; an empty one stays empty.
    pub(crate) fn line(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", self.depth));
            self.text.push_str(text);
        }
        self.text.push('\n');
    }

    /// A line of the preprocessor.
    pub(crate) fn directive(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// `head {`, and what follows is inside.
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

    /// What was written.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}
