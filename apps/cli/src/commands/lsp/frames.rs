//! Messages on a byte stream: a header with `Content-Length`, an empty line, JSON.

use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::SyncSender;

use lsp_server::Message;

/// The maximum number of bytes of a message; more is not what an editor sends.
const MAX_MESSAGE: u64 = 32 << 20;
/// The maximum number of bytes of a line of a header, and of lines.
const MAX_LINE: u64 = 4096;
const MAX_LINES: usize = 32;

/// What came in.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A message.
    Message(Message),
    /// Whole, but not a message; the next one can be read.
    Malformed(String),
    /// Nothing more can be read, and why; no reason where the stream simply ended.
    End(Option<String>),
}

/// Reads messages until nothing more can be read or nobody wants them.
pub(super) fn read_all(from: &mut impl BufRead, to: &SyncSender<Incoming>) {
    loop {
        let incoming = match body(from) {
            Ok(Some(body)) => match serde_json::from_slice(&body) {
                Ok(message) => Incoming::Message(message),
                Err(error) => Incoming::Malformed(error.to_string()),
            },
            Ok(None) => Incoming::End(None),
            Err(error) => Incoming::End(Some(error.to_string())),
        };
        let ends = matches!(incoming, Incoming::End(_));
        if to.send(incoming).is_err() || ends {
            return;
        }
    }
}

/// The bytes of the next message; nothing at the end of the stream.
fn body(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
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

/// Writes a message.
pub(super) fn write(to: &mut impl Write, message: Message) -> io::Result<()> {
    message.write(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<String> {
        let (to, from) = std::sync::mpsc::sync_channel(16);
        read_all(&mut &bytes[..], &to);
        drop(to);
        from.iter().map(|incoming| format!("{incoming:?}")).collect()
    }

    #[test]
    fn a_length_that_cannot_be_is_the_end() {
        for length in ["99999999999999999999", "-1", "x", "4294967296", ""] {
            let read = read(format!("Content-Length: {length}\r\n\r\n{{}}").as_bytes());
            assert!(read[0].starts_with("End(Some(\"Content-Length is"), "{read:?}");
        }
        assert!(read(b"Content-Length: 10\r\n\r\n{}")[0].contains("2 of 10 bytes"));
        assert!(read(b"Nonsense\r\n\r\n")[0].contains("no header"));
        assert!(read(b"X: y\r\n\r\n")[0].contains("without Content-Length"));
        assert_eq!(read(b""), ["End(None)"]);
    }

    #[test]
    fn what_is_not_a_message_is_skipped() {
        let read = read(b"Content-Length: 3\r\n\r\n{a}Content-Length: 18\r\n\r\n{\"method\":\"exit\"} ");
        assert!(read[0].starts_with("Malformed"), "{read:?}");
        assert!(read[1].starts_with("Message(Notification"), "{read:?}");
    }
}
