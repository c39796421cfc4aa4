//! Reads a line token by token. What a character means depends on where it stands, so parsers ask for what they
//! expect.

/// What is wrong in a line, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    /// From 1, in characters.
    pub(crate) column: u32,
    pub(crate) message: String,
    pub(crate) hint: String,
}

pub(crate) type Read<T> = Result<T, Error>;

impl Error {
    pub(crate) fn new(column: u32, message: impl Into<String>) -> Error {
        Error { column, message: message.into(), hint: String::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = hint.into();
        self
    }
}

/// Where a line is read.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the first token of a line; what follows `//` is no part of it, except in a text.
    pub(crate) fn new(line: &'a str) -> Cursor<'a> {
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
        let mut cursor = Cursor { line: &line[..end], at: 0 };
        cursor.skip();
        cursor
    }

    /// The column of the next token.
    pub(crate) fn column(&self) -> u32 {
        self.line[..self.at].chars().count() as u32 + 1
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn starts_with(&self, token: &str) -> bool {
        self.rest().starts_with(token)
    }

    /// Reads a token if it comes next.
    pub(crate) fn take(&mut self, token: &str) -> bool {
        let found = self.starts_with(token);
        if found {
            self.pass(token.len());
        }
        found
    }

    /// Reads a word if it comes next, whole.
    pub(crate) fn keyword(&mut self, word: &str) -> bool {
        let before = self.at;
        if self.word() == word {
            return true;
        }
        self.at = before;
        false
    }

    /// All that does not end a value; empty where there is none.
    pub(crate) fn word(&mut self) -> &'a str {
        self.while_(|c| !c.is_whitespace() && !",{}[]\"".contains(c))
    }

    /// Letters, digits and `_`; empty where there are none.
    pub(crate) fn name(&mut self) -> &'a str {
        self.while_(|c| c.is_alphanumeric() || c == '_')
    }

    /// A text in quotes; `\"` and `\\` stand for `"` and `\`.
    pub(crate) fn text(&mut self) -> Read<String> {
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
        Err(Error::new(column, "the text has no end").hint("texts stand between `\"` and `\"`"))
    }

    /// All that is left.
    pub(crate) fn remainder(&mut self) -> &'a str {
        let rest = self.rest().trim_end();
        self.at = self.line.len();
        rest
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Read<()> {
        match self.rest() {
            "" => Ok(()),
            rest => Err(Error::new(
                self.column(),
                format!("nothing is expected here, and there is `{}`", rest.trim_end()),
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
