//! Reads a line token by token. The meaning of a character depends on its position, so that parsers ask for
//! the token that they expect.

/// A fault in a line, and its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    /// The column in characters, from 1.
    pub(crate) column: u32,
    pub(crate) message: String,
    pub(crate) hint: String,
}

pub(crate) type LineParse<T> = Result<T, Error>;

impl Error {
    pub(crate) fn new(column: u32, message: impl Into<String>) -> Error {
        Error { column, message: message.into(), hint: String::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = hint.into();
        self
    }
}

/// A position in a line.
#[derive(Clone, Debug)]
pub(crate) struct LineCursor<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> LineCursor<'a> {
    /// Starts at the first token of a line. Text after `//` is ignored, except in quotes.
    pub(crate) fn new(line: &'a str) -> LineCursor<'a> {
        let mut in_text = false;
        let mut end = line.len();
        let mut before = ' ';
        for (at, character) in line.char_indices() {
            match character {
                '"' if before != '\\' => in_text = !in_text,
                '/' if before == '/' && !in_text => {
                    end = at - 1;
                    break;
                }
                _ => {}
            }
            before = if before == '\\' { ' ' } else { character };
        }
        let mut cursor = LineCursor { line: &line[..end], at: 0 };
        cursor.skip();
        cursor
    }

    /// Returns the column of the next token.
    pub(crate) fn column(&self) -> u32 {
        self.line[..self.at].chars().count() as u32 + 1
    }

    /// Returns the text that has not been read.
    pub(crate) fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn starts_with(&self, token: &str) -> bool {
        self.rest().starts_with(token)
    }

    /// Reads a token if it is next.
    pub(crate) fn take(&mut self, token: &str) -> bool {
        let found = self.starts_with(token);
        if found {
            self.pass(token.len());
        }
        found
    }

    /// Reads a whole word if it is next.
    pub(crate) fn keyword(&mut self, word: &str) -> bool {
        let before = self.at;
        if self.word() == word {
            return true;
        }
        self.at = before;
        false
    }

    /// Reads all characters that do not end a value, which may be none.
    pub(crate) fn word(&mut self) -> &'a str {
        self.while_(|c| !c.is_whitespace() && !",{}[]\"".contains(c))
    }

    /// Reads letters, digits and `_`, which may be none.
    pub(crate) fn name(&mut self) -> &'a str {
        self.while_(|c| c.is_alphanumeric() || c == '_')
    }

    /// Reads a text in quotes; `\"` and `\\` stand for `"` and `\`.
    pub(crate) fn text(&mut self) -> LineParse<String> {
        let column = self.column();
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.pass(at + 1);
                    return Ok(text);
                }
                '\\' => text.extend(characters.next().map(|(_, next)| next)),
                other => text.push(other),
            }
        }
        Err(Error::new(column, "the text has no end").hint("write texts between `\"` and `\"`"))
    }

    /// Reads the rest of the line.
    pub(crate) fn remainder(&mut self) -> &'a str {
        let rest = self.rest().trim_end();
        self.at = self.line.len();
        rest
    }

    /// Checks that the line ends here.
    pub(crate) fn end(&self) -> LineParse<()> {
        match self.rest() {
            "" => Ok(()),
            rest => Err(Error::new(
                self.column(),
                format!("unexpected `{}` at the end of the line", rest.trim_end()),
            )),
        }
    }

    fn while_(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.pass(end);
        &rest[..end]
    }

    fn pass(&mut self, bytes: usize) {
        self.at += bytes;
        self.skip();
    }

    fn skip(&mut self) {
        self.at = self.line.len() - self.rest().trim_start().len();
    }
}
