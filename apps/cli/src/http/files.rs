//! Files, opened and read directly when all needed data is in the kernel's cache, and otherwise by a blocking
//! thread. A slow disk delays no other request, and a cached file costs no switch of threads.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::task::{JoinHandle, spawn_blocking};

/// The number of bytes per read of a file.
const CHUNK: usize = 64 * 1024;

/// The number of body bytes passed to the connection so far. It excludes data that a disconnected client no
/// longer asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentBytes(Arc<AtomicU64>);

impl SentBytes {
    pub(super) fn new(bytes: u64) -> SentBytes {
        SentBytes(Arc::new(AtomicU64::new(bytes)))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The folder whose files are served.
pub(crate) struct Root {
    folder: OwnedFd,
    policy: Exposure,
}

/// The content of a folder that is served in addition to its plain files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exposure {
    /// Files whose name begins with a dot.
    pub(crate) dot_files: bool,
    /// The targets of links that lead out of the folder.
    pub(crate) outward_links: bool,
}

/// The target of a path.
pub(super) enum ResolvedPath {
    /// A regular file and its length.
    File(File, u64),
    Folder(OwnedFd),
    /// Any other target: a special file, an unreadable file, or a link that leads out of the root.
    Other,
}

impl Root {
    /// Opens a folder.
    ///
    /// # Errors
    /// Fails if the path does not exist, is not a folder, or may not be read.
    pub(crate) fn open(path: &Path, policy: Exposure) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Root { folder, policy })
    }

    /// Returns whether a file with this name may be served.
    pub(super) fn shows(&self, name: &[u8]) -> bool {
        self.policy.dot_files || !name.starts_with(b".")
    }

    /// Opens the target of a path below the root.
    ///
    /// # Errors
    /// Fails if the path does not exist.
    pub(super) async fn find(self: &Arc<Self>, path: &Path) -> io::Result<ResolvedPath> {
        let hides = |part: Component<'_>| !self.shows(part.as_os_str().as_bytes());
        if path.components().any(hides) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match self.look_up(path, ResolveFlags::CACHED) {
            // The lookup would block, or the kernel is older than Linux 5.12.
            Err(Errno::AGAIN | Errno::INVAL) => {
                let (root, path) = (self.clone(), path.to_owned());
                let found = spawn_blocking(move || root.look_up(&path, ResolveFlags::empty())).await?;
                Ok(found?)
            }
            found => Ok(found?),
        }
    }

    /// Looks up a path; with [`ResolveFlags::CACHED`], only in the kernel's cache. No component may lead out
    /// of the root unless the policy allows it.
    fn look_up(&self, path: &Path, more: ResolveFlags) -> rustix::io::Result<ResolvedPath> {
        let within = match self.policy.outward_links {
            true => ResolveFlags::empty(),
            false => ResolveFlags::BENEATH,
        };
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let opened = |flags| {
            let flags = flags | OFlags::CLOEXEC;
            openat2(&self.folder, path, flags, Mode::empty(), within | more)
        };
        let found = match opened(OFlags::PATH) {
            // A link that leads out of the root.
            Err(Errno::XDEV) => return Ok(ResolvedPath::Other),
            found => found?,
        };
        // Opening a device may have side effects, and opening a pipe may block.
        let file = match FileType::from_raw_mode(fstat(found)?.st_mode) {
            FileType::RegularFile => opened(OFlags::RDONLY | OFlags::NONBLOCK),
            FileType::Directory => {
                return opened(OFlags::RDONLY | OFlags::DIRECTORY).map(ResolvedPath::Folder);
            }
            _ => return Ok(ResolvedPath::Other),
        };
        match file {
            Ok(file) => {
                let len = fstat(&file)?.st_size;
                Ok(ResolvedPath::File(file.into(), len as u64))
            }
            Err(Errno::ACCESS) => Ok(ResolvedPath::Other),
            Err(errno) => Err(errno),
        }
    }
}

/// A part of a file, served as a body.
pub(super) struct FileReader {
    file: Arc<File>,
    at: u64,
    left: u64,
    /// The pending read of a thread.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
    sent: SentBytes,
}

impl FileReader {
    /// Reads `len` bytes from offset `first`. `sent` counts the bytes passed on.
    pub(super) fn new(file: File, first: u64, len: u64, sent: SentBytes) -> FileReader {
        FileReader { file: Arc::new(file), at: first, left: len, reading: None, sent }
    }

    /// Reads the next bytes, or none at the end of the file.
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
    use std::os::unix::fs::symlink;

    use http_body_util::BodyExt;

    use super::*;

    async fn read(file: File, first: u64, len: u64) -> io::Result<Vec<u8>> {
        let body = FileReader::new(file, first, len, SentBytes::default());
        Ok(body.collect().await?.to_bytes().to_vec())
    }

    fn root(path: &Path) -> io::Result<Arc<Root>> {
        Root::open(path, Exposure::default()).map(Arc::new)
    }

    #[tokio::test]
    async fn served_bytes_equal_the_file() -> io::Result<()> {
        let folder = hawser_documents::temporary::Folder::new()?;
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at * 31) as u8).collect();
        std::fs::write(folder.join("file"), &bytes)?;
        let root = root(&folder)?;
        let ResolvedPath::File(file, len) = root.find(Path::new("file")).await? else {
            return Err(io::Error::other("it is a file"));
        };
        assert_eq!(len, 300_000);
        assert!(read(file.try_clone()?, 0, len).await? == bytes);
        assert!(read(file.try_clone()?, 70_000, 1000).await? == bytes[70_000..71_000]);
        let beyond = read(file, 299_999, 2).await.map_err(|error| error.kind());
        assert_eq!(beyond, Err(io::ErrorKind::UnexpectedEof));
        assert!(matches!(root.find(Path::new("")).await?, ResolvedPath::Folder(_)));
        assert!(root.find(Path::new("none")).await.is_err());
        let devices = super::tests::root(Path::new("/dev"))?;
        assert!(matches!(
            devices.find(Path::new("zero")).await?,
            ResolvedPath::Other
        ));
        Ok(())
    }

    /// Links within the folder are followed. Links that lead out of it, at any component, and files that
    /// begin with a dot are served only if the root exposes them.
    #[tokio::test]
    async fn outward_links_and_dot_files_are_served_only_when_asked() -> io::Result<()> {
        let (folder, outside) = (
            hawser_documents::temporary::Folder::new()?,
            hawser_documents::temporary::Folder::new()?,
        );
        std::fs::write(outside.join("secret"), "secret")?;
        std::fs::create_dir(folder.join("sub"))?;
        std::fs::create_dir(folder.join(".git"))?;
        for name in ["plain", "sub/plain", ".hidden", ".git/config"] {
            std::fs::write(folder.join(name), "text")?;
        }
        symlink("../plain", folder.join("sub/inward"))?;
        symlink(outside.join("secret"), folder.join("outward"))?;
        symlink(&*outside, folder.join("sub/out"))?;
        let strict = root(&folder)?;
        let everything = Exposure { dot_files: true, outward_links: true };
        let open = Arc::new(Root::open(&folder, everything)?);
        for (path, is_plain) in [
            ("plain", true),
            ("sub/inward", true),
            ("outward", false),
            ("sub/out/secret", false),
            (".hidden", false),
            (".git/config", false),
        ] {
            let served = async |root: &Arc<Root>| {
                matches!(root.find(Path::new(path)).await, Ok(ResolvedPath::File(..)))
            };
            assert_eq!(served(&strict).await, is_plain, "{path}");
            assert!(served(&open).await, "{path}");
        }
        Ok(())
    }

    /// Tests files on a file system that reads only with blocking (procfs).
    #[tokio::test]
    async fn files_without_async_reads_are_read_by_a_thread() -> io::Result<()> {
        let read = read(File::open("/proc/self/status")?, 0, 6).await?;
        assert_eq!(read, b"Name:\t");
        let root = root(Path::new("/proc/self"))?;
        let found = root.look_up(Path::new("status"), ResolveFlags::empty())?;
        assert!(matches!(found, ResolvedPath::File(..)));
        Ok(())
    }
}
