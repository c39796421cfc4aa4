//! The framing of editor protocols: a header with `Content-Length`, an empty line, and that number of bytes.

use std::io::{self, BufRead, Read};

/// The maximum number of bytes of a message. Editors send less.
const MAX_MESSAGE: u64 = 32 << 20;
/// The maximum number of bytes in a header line, and of lines in a header.
const MAX_LINE: u64 = 4096;
const MAX_LINES: usize = 32;

/// Reads the next message, or `None` at the end of the stream.
pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut length = None;
    for _ in 0..MAX_LINES {
        let mut line = Vec::new();
        from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() && length.is_none() {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        if !line.ends_with('\n') {
            return Err(invalid(format!(
                "a header's line does not end: {:?}",
                shortened(&line)
            )));
        }
        let line = line.trim_end();
        if line.is_empty() {
            let length = length.ok_or_else(|| invalid("a header without Content-Length".to_owned()))?;
            let mut body = Vec::new();
            from.by_ref().take(length).read_to_end(&mut body)?;
            if body.len() as u64 != length {
                return Err(invalid(format!("{} of {length} bytes of a message", body.len())));
            }
            return Ok(Some(body));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| invalid(format!("no header: {:?}", shortened(line))))?;
        if name.eq_ignore_ascii_case("content-length") {
            let bytes = value.trim().parse().ok().filter(|bytes| *bytes <= MAX_MESSAGE);
            let limit = || invalid(format!("Content-Length is {value}, the limit is {MAX_MESSAGE}"));
            length = Some(bytes.ok_or_else(limit)?);
        }
    }
    Err(invalid("a header with too many lines".to_owned()))
}

fn shortened(line: &str) -> String {
    line.chars().take(40).collect()
}
