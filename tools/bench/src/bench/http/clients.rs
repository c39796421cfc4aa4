//! Who fetches: threads with blocking sockets of Linux, each with one request at a time (a closed loop).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hawser::lab::{Host, LabError};

/// How long nothing may come before a fetch fails.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server may take to start, and one attempt to reach it.
const START: Duration = Duration::from_secs(10);
const ATTEMPT: Duration = Duration::from_millis(100);
/// The longest header of a response.
const HEADER: usize = 4096;

/// What is fetched.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) server: SocketAddr,
    /// Its path on the server, without the slash.
    pub(super) path: String,
    /// What it consists of.
    pub(super) bytes: Arc<[u8]>,
    /// One connection for all fetches of a client.
    pub(super) keeps_alive: bool,
}

/// When fetches count: those that begin in between.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) from: Instant,
    pub(super) until: Instant,
}

/// A client under way, which ends with the times that its fetches took, in nanoseconds.
pub(super) type Fetching = JoinHandle<Result<io::Result<Vec<u64>>, LabError>>;

impl Target {
    /// Waits until the server answers.
    ///
    /// # Errors
    /// When it does not, or `runs` reports that it never will.
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

    /// Starts a client, on the core that this thread is on.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(super) fn fetch(&self, host: &Host<'_>, window: Window) -> io::Result<Fetching> {
        let target = self.clone();
        let fetching = host.handle().spawn(move || target.fetch_all(window));
        fetching.map_err(io::Error::other)
    }

    fn fetch_all(&self, window: Window) -> io::Result<Vec<u64>> {
        let (mut times, mut kept) = (Vec::new(), None);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let begin = Instant::now();
            // One fetch in any case, however long those before took.
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
                // The server closes first: connections that wait for their end are then not at a client's ports.
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

    /// One request, and its answer to the last byte. Whether the connection takes a further one.
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
                return Err(wrong("more bytes than the file has"));
            };
            if expected != got {
                return Err(wrong("other bytes than the file has"));
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

/// Where the body begins, and whether the server keeps the connection; `None` while the header is not whole.
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
        _ => Err(wrong("a length that is not the file's")),
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server answered with {what}"),
    )
}
