//! Files, opened and read at once where all of that is in the kernel's memory, and by a thread that may wait where it is
//! not: a slow disk holds up nobody else, and a file that is asked for again costs no change of threads.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes per read of a file.
const CHUNK: usize = 64 * 1024;

/// How many bytes of a body were handed to the connection so far: what a client that goes away has not
/// asked for any more is not among them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent(Arc<AtomicU64>);

impl Sent {
    pub(super) fn of(bytes: u64) -> Sent {
        Sent(Arc::new(AtomicU64::new(bytes)))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What a path leads to.
pub(super) enum Found {
    /// A regular file and its length.
    File(File, u64),
    Folder,
    /// Neither, or a file that may not be read.
    Other,
}

/// Finds out what a path leads to, and opens it if that is a file.
///
/// # Errors
/// When there is nothing.
pub(super) async fn open(path: &Path) -> io::Result<Found> {
    match open_cached(path) {
        Ok(found) => Ok(found),
        Err(Errno::NOENT | Errno::NOTDIR) => Err(io::ErrorKind::NotFound.into()),
        // The kernel would have to wait for that, or it is older than Linux 5.12.
        Err(_) => {
            let path = path.to_owned();
            spawn_blocking(move || open_slowly(&path)).await?
        }
    }
}

/// Where a path is looked up in the kernel's memory alone (RESOLVE_CACHED).
fn open_cached(path: &Path) -> rustix::io::Result<Found> {
    let opened = |flags| {
        openat2(
            CWD,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::CACHED,
        )
    };
    // To open a device may do something, and a pipe has to be waited for.
    match FileType::from_raw_mode(fstat(opened(OFlags::PATH)?)?.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Ok(Found::Folder),
        _ => return Ok(Found::Other),
    }
    match opened(OFlags::RDONLY | OFlags::NONBLOCK) {
        Ok(file) => {
            let len = fstat(&file)?.st_size;
            Ok(Found::File(file.into(), len as u64))
        }
        Err(Errno::ACCESS) => Ok(Found::Other),
        Err(errno) => Err(errno),
    }
}

fn open_slowly(path: &PathBuf) -> io::Result<Found> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Ok(Found::Folder);
    }
    match metadata.is_file().then(|| File::open(path)) {
        Some(Ok(file)) => Ok(Found::File(file, metadata.len())),
        _ => Ok(Found::Other),
    }
}

/// A part of a file as a body.
pub(super) struct FileReader {
    file: Arc<File>,
    at: u64,
    left: u64,
    /// What a thread reads.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
    sent: Sent,
}

impl FileReader {
    /// `len` bytes from `first` on. What was handed on is counted.
    pub(super) fn new(file: File, first: u64, len: u64, sent: Sent) -> FileReader {
        FileReader {
            file: Arc::new(file),
            at: first,
            left: len,
            reading: None,
            sent,
        }
    }

    /// The next bytes; none at the file's end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        if self.reading.is_none() {
            let mut chunk = vec![0; self.left.min(CHUNK as u64) as usize];
            let pieces = &mut [IoSliceMut::new(&mut chunk)];
            if let Ok(len) = preadv2(&self.file, pieces, self.at, ReadWriteFlags::NOWAIT) {
                chunk.truncate(len);
                return Poll::Ready(Ok(chunk));
            }
            let (file, at) = (self.file.clone(), self.at);
            self.reading = Some(spawn_blocking(move || {
                let len = file.read_at(&mut chunk, at)?;
                chunk.truncate(len);
                Ok(chunk)
            }));
        }
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(Ok(Vec::new()));
        };
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        Poll::Ready(read?)
    }
}

impl Body for FileReader {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let bytes = match ready!(self.poll_read(cx)) {
            Ok(bytes) if bytes.is_empty() => {
                let shrank = io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank");
                return Poll::Ready(Some(Err(shrank)));
            }
            Ok(bytes) => bytes,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        self.at += bytes.len() as u64;
        self.left -= bytes.len() as u64;
        self.sent.add(bytes.len());
        Poll::Ready(Some(Ok(Frame::data(bytes.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn read(file: File, first: u64, len: u64) -> io::Result<Vec<u8>> {
        let body = FileReader::new(file, first, len, Sent::default());
        Ok(body.collect().await?.to_bytes().to_vec())
    }

    #[tokio::test]
    async fn what_is_read_is_the_file() -> io::Result<()> {
        let folder = hawser_temporary::Folder::new()?;
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at * 31) as u8).collect();
        let path = folder.join("file");
        std::fs::write(&path, &bytes)?;
        let Found::File(file, len) = open(&path).await? else {
            return Err(io::Error::other("it is a file"));
        };
        assert_eq!(len, 300_000);
        assert!(read(file.try_clone()?, 0, len).await? == bytes);
        assert!(read(file.try_clone()?, 70_000, 1000).await? == bytes[70_000..71_000]);
        let beyond = read(file, 299_999, 2).await.map_err(|error| error.kind());
        assert_eq!(beyond, Err(io::ErrorKind::UnexpectedEof));
        assert!(matches!(open(&folder).await?, Found::Folder));
        assert!(matches!(open(Path::new("/dev/zero")).await?, Found::Other));
        assert!(open(&folder.join("none")).await.is_err());
        Ok(())
    }

    /// On files whose system reads nothing without waiting (procfs).
    #[tokio::test]
    async fn what_has_to_be_waited_for_is_read_by_a_thread() -> io::Result<()> {
        let path = Path::new("/proc/self/status");
        let read = read(File::open(path)?, 0, 6).await?;
        assert_eq!(read, b"Name:\t");
        assert!(matches!(open_slowly(&path.to_owned())?, Found::File(..)));
        Ok(())
    }
}
