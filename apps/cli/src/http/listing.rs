//! The names in a folder as a body: read as they are sent, so that a listing takes the same little memory
//! whatever the folder has, and whoever is slow to read it.

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

use super::files::{Root, Sent};

/// The maximum number of names in a listing: at 20 bytes each, 2 MB.
const MAX_NAMES: usize = 100_000;
/// The last line of a listing that has reached it. It is no path, which begin with `/`.
const CUT: &str = "# further names are not listed\n";
/// The number of names that are read at once, and sorted among each other: a folder with fewer is sorted.
const SORTED: usize = 256;
/// Characters of a name that a path has as they are: RFC 3986, 2.3.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A name as it stands in a URL.
pub(super) fn encoded(name: &[u8]) -> String {
    percent_encode(name, UNRESERVED).to_string()
}

/// A listing of a folder: a line for each name, its path on this server.
pub(super) struct Listing {
    names: Option<Names>,
    /// The thread that reads the next names, and hands them back.
    reading: Option<JoinHandle<Part>>,
    sent: Sent,
}

/// A folder that has been read in part.
struct Part {
    names: Names,
    text: io::Result<Vec<u8>>,
}

struct Names {
    dir: Dir,
    root: Arc<Root>,
    /// The path of the folder, as it stands in a URL, without a slash at its end.
    base: String,
    left: usize,
    is_over: bool,
}

impl Listing {
    pub(super) fn new(folder: OwnedFd, root: Arc<Root>, base: String, sent: Sent) -> io::Result<Listing> {
        let names = Names { dir: Dir::new(folder)?, root, base, left: MAX_NAMES, is_over: false };
        Ok(Listing { names: Some(names), reading: None, sent })
    }
}

impl Names {
    /// Has a thread read the next names.
    fn read(mut self) -> JoinHandle<Part> {
        spawn_blocking(move || {
            let text = self.next();
            Part { names: self, text }
        })
    }

    /// The next lines; none at the end.
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
        let Part { names, text } = part?;
        let text = text?;
        if text.is_empty() {
            return Poll::Ready(None);
        }
        self.names = Some(names);
        self.sent.add(text.len());
        Poll::Ready(Some(Ok(Frame::data(text.into()))))
    }
}
