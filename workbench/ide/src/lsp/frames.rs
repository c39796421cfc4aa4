//! The framing of editor protocols: a header with `Content-Length`, an empty line, and that number of bytes.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::SyncSender;

use super::Incoming;

/// The maximum number of bytes of a message. Editors send less.
const MAX_MESSAGE: u64 = 32 << 20;
/// The maximum number of bytes in a header line, and of lines in a header.
const MAX_LINE: u64 = 4096;
const MAX_LINES: usize = 32;

/// Reads the next message, or `None` at the end of the stream.
///
/// # Errors
/// The stream cannot be read, or its header is malformed.
pub fn read_frame(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
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

/// Reads messages until the stream ends or the receiver is dropped.
pub fn read_all(from: &mut impl BufRead, to: &SyncSender<Incoming>) {
    loop {
        let incoming = match read_frame(from) {
            Ok(Some(body)) => match hawser_documents::json_bytes(&body) {
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

fn shortened(line: &str) -> String {
    line.chars().take(40).collect()
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
    fn a_wrong_content_length_ends_the_connection() {
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
    fn a_malformed_message_is_skipped() {
        let read = read(b"Content-Length: 3\r\n\r\n{a}Content-Length: 18\r\n\r\n{\"method\":\"exit\"} ");
        assert!(read[0].starts_with("Malformed"), "{read:?}");
        assert!(read[1].starts_with("Message(Notification"), "{read:?}");
    }
}
