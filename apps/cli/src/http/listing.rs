//! A listing of a folder as a body. Names are read as they are sent, so that memory use is small and
//! constant, however large the folder and however slow the client.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rustix::fs::{Dir, DirEntry};
use tokio::task::{JoinHandle, spawn_blocking};

use super::files::{Root, SentBytes};

/// The maximum number of names in a listing, 2 MB at 20 bytes each.
const MAX_NAMES: usize = 100_000;
/// The last line of a truncated listing. It cannot be a path, because paths begin with `/`.
const CUT: &str = "# the list omits further names\n";
/// The number of names that are read and sorted as one batch. A folder with fewer names is fully sorted.
const SORTED: usize = 256;
/// The characters of a name that a path contains unencoded (RFC 3986, 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes a name for a URL.
pub(super) fn encoded(name: &[u8]) -> String {
    percent_encode(name, UNRESERVED).to_string()
}

/// A listing of a folder, with one line per name: its path on this server.
pub(super) struct Listing {
    names: Option<Names>,
    /// The thread that reads the next names and then returns them.
    reading: Option<JoinHandle<ListingPart>>,
    sent: SentBytes,
}

/// The reader of a folder, and the lines that it read last.
struct ListingPart {
    names: Names,
    text: io::Result<Vec<u8>>,
}

struct Names {
    dir: Dir,
    root: Arc<Root>,
    /// The URL path of the folder, without a trailing slash.
    base: String,
    left: usize,
    is_over: bool,
}

impl Listing {
    pub(super) fn new(
        folder: OwnedFd,
        root: Arc<Root>,
        base: String,
        sent: SentBytes,
    ) -> io::Result<Listing> {
        let names = Names { dir: Dir::new(folder)?, root, base, left: MAX_NAMES, is_over: false };
        Ok(Listing { names: Some(names), reading: None, sent })
    }
}

impl Names {
    /// Reads the next names on a blocking thread.
    fn read(mut self) -> JoinHandle<ListingPart> {
        spawn_blocking(move || {
            let text = self.next();
            ListingPart { names: self, text }
        })
    }

    /// Returns the next lines, or none at the end.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut names = Vec::new();
        while names.len() < SORTED && !self.is_over {
            let Some(entry) = self.dir.read() else {
                self.is_over = true;
                break;
            };
            let entry: DirEntry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || !self.root.shows(name) {
                continue;
            }
            if self.left == 0 {
                self.is_over = true;
                names.sort_unstable();
                return Ok((self.lines(&names) + CUT).into_bytes());
            }
            self.left -= 1;
            names.push(name.to_vec());
        }
        names.sort_unstable();
        Ok(self.lines(&names).into_bytes())
    }

    fn lines(&self, names: &[Vec<u8>]) -> String {
        names
            .iter()
            .map(|name| format!("{}/{}\n", self.base, encoded(name)))
            .collect()
    }
}

impl Body for Listing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(names) = self.names.take() {
            self.reading = Some(names.read());
        }
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(None);
        };
        let part = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let ListingPart { names, text } = part?;
        let text = text?;
        if text.is_empty() {
            return Poll::Ready(None);
        }
        self.names = Some(names);
        self.sent.add(text.len());
        Poll::Ready(Some(Ok(Frame::data(text.into()))))
    }
}
