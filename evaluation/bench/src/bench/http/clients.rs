//! The clients: threads with blocking sockets of Linux, each with one request at a time (a closed loop).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hawser::lab::{Host, LabError};

/// The time without received bytes after which a fetch fails.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest time for a server to start, and for one attempt to reach it.
const START: Duration = Duration::from_secs(10);
const ATTEMPT: Duration = Duration::from_millis(100);
/// The longest header of a response, in bytes.
const HEADER: usize = 4096;

/// The file to fetch, and its server.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) server: SocketAddr,
    /// The file's path on the server, without the slash.
    pub(super) path: String,
    /// The expected contents.
    pub(super) bytes: Arc<[u8]>,
    /// True if a client uses one connection for all its fetches.
    pub(super) keeps_alive: bool,
}

/// The measured period: fetches that begin within it count.
#[derive(Clone, Copy)]
pub(super) struct MeasuredPeriod {
    pub(super) from: Instant,
    pub(super) until: Instant,
}

/// A running client, which returns the durations of its fetches, in nanoseconds.
pub(super) type Fetching = JoinHandle<Result<io::Result<Vec<u64>>, LabError>>;

impl Target {
    /// Waits until the server answers.
    ///
    /// # Errors
    /// The server does not answer, or `runs` reports that it has ended.
    pub(super) fn reach(&self, host: &Host<'_>, mut runs: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            runs()?;
            let attempt = host.run(|| TcpStream::connect_timeout(&self.server, ATTEMPT));
            match attempt.map_err(io::Error::other)? {
                Ok(_) => return Ok(()),
                Err(error) if begin.elapsed() > START => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Starts a client on the core of this thread.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn fetch(&self, host: &Host<'_>, window: MeasuredPeriod) -> io::Result<Fetching> {
        let target = self.clone();
        let fetching = host.handle().spawn(move || target.fetch_all(window));
        fetching.map_err(io::Error::other)
    }

    fn fetch_all(&self, window: MeasuredPeriod) -> io::Result<Vec<u64>> {
        let (mut times, mut kept) = (Vec::new(), None);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let begin = Instant::now();
            // At least one fetch counts, even if those before took too long.
            if begin >= window.until && !times.is_empty() {
                return Ok(times);
            }
            let mut stream = match kept.take() {
                Some(stream) => stream,
                None => self.connect()?,
            };
            let is_kept = self.fetch_once(&mut stream, &mut buffer)?;
            if begin >= window.from {
                times.push(begin.elapsed().as_nanos() as u64);
            }
            if is_kept && self.keeps_alive {
                kept = Some(stream);
            } else {
                // The server closes first, so that connections in TIME-WAIT do not occupy a client's ports.
                stream.read_to_end(&mut Vec::new())?;
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }

    /// Sends one request, and receives its answer to the last byte. Returns whether the connection accepts a
    /// further request.
    fn fetch_once(&self, stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<bool> {
        let connection = if self.keeps_alive { "keep-alive" } else { "close" };
        let request = format!(
            "GET /{} HTTP/1.1\r\nHost: {}\r\nConnection: {connection}\r\n\r\n",
            self.path,
            self.server.ip()
        );
        stream.write_all(request.as_bytes())?;
        let mut filled = 0;
        let (header, is_kept) = loop {
            match stream.read(&mut buffer[filled..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => filled += n,
            }
            match header(&buffer[..filled], self.bytes.len())? {
                Some(header) => break header,
                None if filled >= HEADER => return Err(wrong("a header without an end")),
                None => {}
            }
        };
        let mut left = &self.bytes[..];
        let mut got = &buffer[header..filled];
        loop {
            let Some((expected, rest)) = left.split_at_checked(got.len()) else {
                return Err(wrong("the response has more bytes than the file"));
            };
            if expected != got {
                return Err(wrong("the response differs from the file"));
            }
            left = rest;
            if left.is_empty() {
                return Ok(is_kept);
            }
            match stream.read(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => got = &buffer[..n],
            }
        }
    }
}

/// Returns the offset of the body, and whether the server keeps the connection. Returns `None` while the
/// header is incomplete.
fn header(bytes: &[u8], expected: usize) -> io::Result<Option<(usize, bool)>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(bytes).map_err(io::Error::other)? else {
        return Ok(None);
    };
    if response.code != Some(200) {
        return Err(wrong(&format!("status {:?}", response.code)));
    }
    let find = |name: &str| {
        let mut headers = response.headers.iter();
        let found = headers.find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value)
    };
    match find("content-length") {
        Some(value) if value == expected.to_string().as_bytes() => {
            Ok(Some((length, find("connection") != Some(b"close"))))
        }
        _ => Err(wrong("the response states a wrong length")),
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server answered with {what}"),
    )
}
