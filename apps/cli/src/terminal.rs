//! The border to the terminal: the standard macros for printing, which here show what acts on terminals
//! as escapes, wherever a text comes from (a peer's error, a name, a request, a program's source).
//!
//! `println!` and `eprintln!` print one line, whatever is in it: a line feed is shown as an escape, too, so that
//! nobody's text passes for a line of ours. What has several lines is printed with `print!` and `eprint!`.
//!
//! JSON that is printed with them stays JSON with the same meaning. What is coloured on purpose is
//! printed with `std`'s. [`Text`] is the same border for what is written as bytes, and [`write_text`] for files that
//! people read: a table that is shown by `cat` acts on the terminal as well.

use std::io::{self, Write};
use std::path::Path;

use hawser::lang::Printable;

use crate::exit::{Exit, Outcome};

/// A writer of text, which shows what acts on terminals as escapes. Each write has whole characters.
pub(crate) struct Text<W>(pub(crate) W);

impl<W: Write> Write for Text<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) || matches!(byte, b'\n' | b'\t');
        if bytes.iter().all(is_plain) {
            self.0.write_all(bytes)?;
        } else {
            write!(self.0, "{}", Printable(String::from_utf8_lossy(bytes)))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a file of text, with what acts on terminals as escapes. JSON keeps its meaning.
pub(crate) fn write_text(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, Printable(text).to_string())
        .map_err(|error| Exit::environment(format!("cannot write {}: {error}", path.display())))
}

macro_rules! print {
    ($($part:tt)*) => { ::std::print!("{}", ::hawser::lang::Printable(::std::format_args!($($part)*))) };
}

macro_rules! eprint {
    ($($part:tt)*) => { ::std::eprint!("{}", ::hawser::lang::Printable(::std::format_args!($($part)*))) };
}

macro_rules! println {
    () => { ::std::println!() };
    ($($part:tt)*) => { ::std::println!("{}", ::hawser::lang::OneLine(::std::format_args!($($part)*))) };
}

macro_rules! eprintln {
    ($($part:tt)*) => { ::std::eprintln!("{}", ::hawser::lang::OneLine(::std::format_args!($($part)*))) };
}
