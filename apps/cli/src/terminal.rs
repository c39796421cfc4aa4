//! The output boundary to the terminal. These replacements of the standard printing macros show control
//! sequences as escapes, wherever the text comes from (a peer's error, a name, a request, a program's
//! source).
//!
//! `println!` and `eprintln!` print one line, whatever it contains. A line feed is shown as an escape, too,
//! so that foreign text cannot pass for a line of ours. Text of several lines is printed with `print!` and
//! `eprint!`.
//!
//! Printed JSON stays JSON with the same meaning. Intentionally coloured text is printed with `std`'s macros.
//! [`EscapedWriter`] escapes output that is written as bytes, and [`write_text`] escapes files for people: a
//! table shown by `cat` reaches the terminal as well.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::path::Path;

use hawser::lang::{OneLine, Printable};

use crate::exit::{Exit, Outcome};
use crate::output::{self, Stream};

/// A writer that shows control sequences as escapes. Each write must consist of whole characters.
pub(crate) struct EscapedWriter<W>(pub(crate) W);

impl<W: Write> Write for EscapedWriter<W> {
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

/// Writes a text file with control sequences shown as escapes. JSON keeps its meaning.
pub(crate) fn write_text(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, Printable(text).to_string())
        .map_err(|error| Exit::environment(format!("cannot write {}: {error}", path.display())))
}

macro_rules! print {
    ($($part:tt)*) => { $crate::terminal::text($crate::output::Stream::Output, ::std::format_args!($($part)*)) };
}

macro_rules! eprint {
    ($($part:tt)*) => { $crate::terminal::text($crate::output::Stream::Error, ::std::format_args!($($part)*)) };
}

macro_rules! println {
    () => { $crate::terminal::line($crate::output::Stream::Output, ::std::format_args!("")) };
    ($($part:tt)*) => { $crate::terminal::line($crate::output::Stream::Output, ::std::format_args!($($part)*)) };
}

macro_rules! eprintln {
    ($($part:tt)*) => { $crate::terminal::line($crate::output::Stream::Error, ::std::format_args!($($part)*)) };
}

/// Prints text of any number of lines, for the macros above.
pub(crate) fn text(stream: Stream, text: Arguments<'_>) {
    output::print(stream, Printable(text));
}

/// Prints one line, for the macros above.
pub(crate) fn line(stream: Stream, line: Arguments<'_>) {
    output::print(stream, format_args!("{}\n", OneLine(line)));
}
