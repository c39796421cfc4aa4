//! Messages on a byte stream: a header with `Content-Length`, an empty line, and JSON.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::SyncSender;

use hawser::lang::ide::lsp::{Incoming, Message};

use crate::frames;

/// Reads messages until the stream ends or the receiver is dropped.
pub(super) fn read_all(from: &mut impl BufRead, to: &SyncSender<Incoming>) {
    loop {
        let incoming = match frames::read(from) {
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
