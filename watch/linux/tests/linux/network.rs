//! A client and a server with one link, and TCP between them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hawser_lab::{Lab, Spec};
use hawser_linux::{Diagnostics, EventRecord, Kernel, Options};
use rustix::net::sockopt;

use crate::TestResult;

/// Makes a link with the same rules in both directions.
pub(crate) fn network(rules: &str) -> TestResult<Lab> {
    let text = format!(
        "seed = 5\nhost = [{{ name = \"client\" }}, {{ name = \"server\" }}]\n[[link]]\nname = \"path\"\n\
         between = [\"client\", \"server\"]\n{rules}\n"
    );
    Ok(Lab::up(&Spec::parse(&text)?)?)
}

/// Loads the programs, with a congestion control of the given name.
pub(crate) fn load(name: &str) -> TestResult<Kernel> {
    Ok(Kernel::load(&Options {
        congestion_control: Some(name.to_owned()),
        ..Options::default()
    })?)
}

/// Opens INET_DIAG in the client's namespace.
pub(crate) fn diagnostics(lab: &Lab) -> TestResult<Diagnostics> {
    Ok(lab.host("client")?.run(Diagnostics::open)??)
}

/// Bytes that flow from the client to the server until they are stopped.
pub(crate) struct Transfer {
    pub(crate) stream: TcpStream,
    pub(crate) cookie: u64,
    state: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    pause_reading: AtomicBool,
    written: AtomicU64,
    read: AtomicU64,
}

impl Transfer {
    /// Makes a connection under a congestion control, without traffic yet.
    pub(crate) fn connect(lab: &Lab, congestion_control: &str) -> TestResult<Self> {
        let transfer = Self::connect_as_it_is(lab)?;
        sockopt::set_tcp_congestion(&transfer.stream, congestion_control)?;
        Ok(transfer)
    }

    /// Makes a connection under the default congestion control.
    pub(crate) fn connect_as_it_is(lab: &Lab) -> TestResult<Self> {
        let listener = lab.host("server")?.run(|| TcpListener::bind("0.0.0.0:0"))??;
        let address = lab.host("server")?.ipv4().ok_or("no address")?;
        let to = SocketAddr::new(address, listener.local_addr()?.port());
        let stream = lab.host("client")?.run(|| TcpStream::connect(to))??;
        let (accepted, _) = listener.accept()?;
        // More than any link here holds, and soon full when the server does not read.
        sockopt::set_socket_recv_buffer_size_force(&accepted, 1_000_000)?;
        let state = Arc::new(Shared::default());
        let reader = std::thread::spawn({
            let state = Arc::clone(&state);
            move || read(accepted, &state)
        });
        let cookie = sockopt::socket_cookie(&stream)?;
        Ok(Self { stream, cookie, state, writer: None, reader: Some(reader) })
    }

    /// Makes a connection on which bytes flow.
    pub(crate) fn start(lab: &Lab, congestion_control: &str) -> TestResult<Self> {
        let mut transfer = Self::connect(lab, congestion_control)?;
        transfer.begin(u64::MAX)?;
        Ok(transfer)
    }

    /// Starts to send this many bytes.
    pub(crate) fn begin(&mut self, bytes: u64) -> TestResult {
        self.write(bytes, Duration::ZERO)
    }

    /// Starts to send bytes at no more than 16 MB/s.
    pub(crate) fn begin_slowly(&mut self) -> TestResult {
        self.write(u64::MAX, Duration::from_millis(1))
    }

    fn write(&mut self, bytes: u64, pause: Duration) -> TestResult {
        let (state, stream) = (Arc::clone(&self.state), self.stream.try_clone()?);
        self.writer = Some(std::thread::spawn(move || write(stream, bytes, pause, &state)));
        Ok(())
    }

    /// Stops the writing thread, so that no call on the stream is pending.
    pub(crate) fn hush(&mut self) -> TestResult {
        self.state.stop.store(true, Ordering::Relaxed);
        self.writer
            .take()
            .map_or(Ok(()), JoinHandle::join)
            .map_err(|_| "the writer panicked".into())
    }

    pub(crate) fn port(&self) -> TestResult<u16> {
        Ok(self.stream.local_addr()?.port())
    }

    /// Returns the number of bytes that have arrived.
    pub(crate) fn read(&self) -> u64 {
        self.state.read.load(Ordering::Relaxed)
    }

    /// Pauses or resumes reading at the server.
    pub(crate) fn pause_reading(&self, pause: bool) {
        self.state.pause_reading.store(pause, Ordering::Relaxed);
    }

    /// Waits until this many more bytes have arrived.
    pub(crate) fn wait_for(&self, bytes: u64) -> TestResult {
        let target = self.read() + bytes;
        wait_until("bytes arrive", || self.read() >= target)
    }

    /// Closes in order: all written bytes arrive, and both ends close.
    pub(crate) fn end(mut self) -> TestResult<u64> {
        self.pause_reading(false);
        self.hush()?;
        self.stream.shutdown(Shutdown::Write)?;
        let reader = self.reader.take().ok_or("no reader")?;
        reader.join().map_err(|_| "the reader panicked")?;
        let (written, read) = (self.state.written.load(Ordering::Relaxed), self.read());
        if written == read {
            Ok(read)
        } else {
            Err(format!("{written} written, {read} read").into())
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        // It is already closed if `end` was called.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn write(mut stream: TcpStream, bytes: u64, pause: Duration, state: &Shared) {
    let chunk = vec![7; 16 * 1024];
    let mut left = bytes;
    while left > 0 && !state.stop.load(Ordering::Relaxed) {
        let length = left.min(chunk.len() as u64);
        let Ok(written) = stream.write(&chunk[..length as usize]) else {
            return;
        };
        left -= written as u64;
        state.written.fetch_add(written as u64, Ordering::Relaxed);
        std::thread::sleep(pause);
    }
}

fn read(mut stream: TcpStream, state: &Shared) {
    let mut room = vec![0; 256 * 1024];
    loop {
        while state.pause_reading.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        match stream.read(&mut room) {
            Ok(0) | Err(_) => return,
            Ok(length) => state.read.fetch_add(length as u64, Ordering::Relaxed),
        };
    }
}

/// Waits for a condition, for some seconds at most.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> TestResult {
    let begin = Instant::now();
    while !holds() {
        if begin.elapsed() > Duration::from_secs(20) {
            return Err(format!("in vain: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Reads records for a while.
pub(crate) fn collect(kernel: &mut Kernel, time: Duration, into: &mut Vec<EventRecord>) -> TestResult {
    let begin = Instant::now();
    while begin.elapsed() < time {
        kernel.poll(Some(Duration::from_millis(20)), |record| into.push(*record))?;
    }
    Ok(())
}

/// Returns an error if a condition does not hold.
pub(crate) fn expect(holds: bool, what: impl Into<String>) -> TestResult {
    if holds { Ok(()) } else { Err(what.into().into()) }
}
