//! Reads whole files: within a size limit, and without waiting for ever.
//!
//! A file that the user names may be a pipe ([`given`]). A file that another file names must be a regular one
//! ([`named`]). Opening a pipe waits for its writer, and the author of that other file may be another person
//! than its reader. All readers of files that are named in files use [`named`].

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The maximum size of a scenario or a sweep, in bytes.
pub const DOCUMENT_MAX: u64 = 64 << 20;

/// The maximum size of another file that a scenario names (a distribution, a trace), in bytes.
pub const DATA_MAX: u64 = 1 << 30;

/// Reads the text of a file that the user named: a regular file, a pipe, a terminal.
///
/// # Errors
/// When it cannot be read, has more than `limit` bytes, or is not UTF-8.
pub fn given(path: &Path, limit: u64) -> Result<String, Error> {
    text(bytes(File::open(path)?, limit)?)
}

/// Reads the bytes of a file that the user named.
///
/// # Errors
/// When it cannot be read, or has more than `limit` bytes.
pub fn given_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    bytes(File::open(path)?, limit)
}

/// Reads the text of a regular file that another file named.
///
/// # Errors
/// As [`given`], and when it is not a regular file.
pub fn named(path: &Path, limit: u64) -> Result<String, Error> {
    text(named_bytes(path, limit)?)
}

/// Reads the bytes of a regular file that another file named.
///
/// # Errors
/// As [`given_bytes`], and when it is not a regular file.
pub fn named_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let refused = || Error::new(ErrorKind::InvalidInput, "the path is not a regular file");
    // The check comes before the open, which may have an effect on a device.
    if !std::fs::metadata(path)?.is_file() {
        return Err(refused());
    }
    // If a pipe has taken its place in the meantime, the open does not wait for a writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => bytes(file, limit),
        false => Err(refused()),
    }
}

fn bytes(file: File, limit: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("the file has more than the limit of {limit} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "the file is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_files_are_refused_and_named_devices_too() {
        let zero = Path::new("/dev/zero");
        let why = |result: Result<String, Error>| result.expect_err("it is refused").to_string();
        assert_eq!(
            why(given(zero, 100)),
            "the file has more than the limit of 100 bytes"
        );
        assert_eq!(why(named(zero, 100)), "the path is not a regular file");
        let null = Path::new("/dev/null");
        assert_eq!(given(null, 0).expect("it is empty"), "");
        assert_eq!(why(named(null, 0)), "the path is not a regular file");
    }

    #[test]
    fn the_limit_is_the_last_byte_that_is_read() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
        let length = std::fs::metadata(&own).expect("this file").len();
        assert_eq!(named(&own, length).expect("it fits").len() as u64, length);
        let error = named(&own, length - 1).expect_err("a byte more").to_string();
        assert!(error.contains("more than the limit"), "{error}");
    }

    /// The read would wait for a writer without end.
    #[test]
    fn a_pipe_that_a_file_names_is_refused_at_once() {
        let folder = crate::temporary::Folder::new().expect("a folder");
        let pipe = folder.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a pipe");
        let error = named(&pipe, 10).expect_err("it is refused").to_string();
        assert_eq!(error, "the path is not a regular file");
    }
}
