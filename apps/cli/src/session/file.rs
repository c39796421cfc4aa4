//! Transfers a file over a stream of a session.
//!
//! One line of JSON announces the file (`{"name": …, "length": …}`), and its bytes follow to the end of the
//! stream. The receiver answers with one line: `{"length": …, "sha256": …}`, or `{"error": …}`.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use data_encoding::HEXLOWER;
use hawser::session::SessionStream;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::target::{FileSink, check, destination};
use crate::exit::Exit;

/// The maximum length, in bytes, of a line from the other side.
const LINE: usize = 8_192;

/// The number of bytes per read of the file.
const PIECE: usize = 1 << 20;

/// The time in which a sender must announce its file.
pub(crate) const BEGINNING: Duration = Duration::from_secs(30);
/// The period in which a receiver must get this number of bytes, or reach the end of the file: 1 KiB/s. Time
/// in which this side does not read is excluded. A session without any path fails sooner by itself.
const MIN_PROGRESS: (Duration, u64) = (Duration::from_secs(600), 600 * 1024);

/// The result of sending a file.
pub(crate) struct SendResult {
    pub(crate) length: u64,
    pub(crate) sha256: String,
}

/// The result of receiving a file.
pub(crate) struct ReceiveResult {
    /// The file name that the sender announced.
    pub(crate) name: String,
    /// The path of the file, or `None` for standard output.
    pub(crate) path: Option<PathBuf>,
    pub(crate) length: u64,
    pub(crate) sha256: String,
    /// The longest time between two reads.
    pub(crate) longest_pause: Duration,
}

fn lost(error: io::Error) -> Exit {
    Exit::network(error)
}

/// Sends a file, up to its current length, and waits until the other side confirms it.
pub(crate) async fn send(
    stream: &mut SessionStream,
    path: &Path,
    bar: &ProgressBar,
) -> Result<SendResult, Exit> {
    let cannot = |error: io::Error| Exit::input(format!("cannot read {}: {error}", path.display()));
    let mut file = tokio::fs::File::open(path).await.map_err(cannot)?;
    let length = file.metadata().await.map_err(cannot)?.len();
    file.set_max_buf_size(PIECE);
    let name = path
        .file_name()
        .map_or_else(|| "file".into(), |name| name.to_string_lossy());
    let head = format!("{}\n", json!({ "name": name, "length": length }));
    stream.write_bytes(Bytes::from(head)).await.map_err(lost)?;
    let (mut hash, mut sent) = (Sha256::new(), 0);
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE);
        if (&mut file)
            .take(length - sent)
            .read_buf(&mut buffer)
            .await
            .map_err(cannot)?
            == 0
        {
            break;
        }
        let piece = buffer.split().freeze();
        hash.update(&piece);
        sent += piece.len() as u64;
        bar.inc(piece.len() as u64);
        if let Err(error) = stream.write_bytes(piece).await {
            return Err(refusal(stream).await.unwrap_or_else(|| lost(error)));
        }
    }
    if sent < length {
        return Err(Exit::input(format!(
            "{} has shrunk: it had {length} bytes at the beginning and has {sent} now",
            path.display()
        )));
    }
    stream.shutdown().await.map_err(lost)?;
    let sha256 = HEXLOWER.encode(&hash.finalize());
    let answer = answer(stream).await?;
    if answer["length"] == json!(sent) && answer["sha256"] == json!(sha256) {
        return Ok(SendResult { length: sent, sha256 });
    }
    Err(Exit::failed(format!(
        "sent {sent} bytes with SHA-256 {sha256}, and the other side has {} with {}",
        answer["length"], answer["sha256"]
    )))
}

/// Reads the error that the other side sent before it stopped reading.
async fn refusal(stream: &mut SessionStream) -> Option<Exit> {
    tokio::time::timeout(Duration::from_secs(1), answer(stream))
        .await
        .ok()?
        .err()
}

async fn answer(stream: &mut SessionStream) -> Result<Value, Exit> {
    let (line, _) = line(stream).await?;
    let answer: Value = serde_json::from_slice(&line)
        .map_err(|_| Exit::network("the answer of the other side is not JSON"))?;
    match answer["error"].as_str() {
        Some(error) => Err(Exit::network(format!("the other side reported: {error}"))),
        None => Ok(answer),
    }
}

/// Reads one line. Returns the line, and the bytes received after it.
async fn line(stream: &mut SessionStream) -> Result<(Bytes, Bytes), Exit> {
    let mut all = BytesMut::new();
    loop {
        if let Some(end) = all.iter().position(|byte| *byte == b'\n') {
            let line = all.split_to(end).freeze();
            return Ok((line, all.freeze().slice(1..)));
        }
        if all.len() > LINE {
            return Err(Exit::network(
                "the first line from the other side is too long: it does not send a file",
            ));
        }
        let more = stream.read_bytes().await.map_err(lost)?;
        if more.is_empty() {
            return Err(Exit::network(
                "the other side ended before its answer was complete",
            ));
        }
        all.extend_from_slice(&more);
    }
}

/// The number of bytes that one run of `recv` may still receive, over all callers.
pub(crate) struct Budget(AtomicU64);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Budget {
        Budget(AtomicU64::new(bytes))
    }

    /// Reserves bytes for one file, if that many are left.
    fn reserve(&self, bytes: u64) -> Option<Reserved<'_>> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(bytes)
        });
        left.ok().map(|_| Reserved { budget: self, bytes })
    }
}

/// Bytes reserved for one file. They are returned unless the file is kept.
struct Reserved<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Reserved<'_> {
    fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// Enforces the minimum rate of a sender.
#[derive(Default)]
struct MinimumRate {
    waited: Duration,
    bytes: u64,
}

impl MinimumRate {
    /// The time left for the next bytes.
    fn left(&self) -> Duration {
        MIN_PROGRESS.0.saturating_sub(self.waited)
    }

    fn received(&mut self, bytes: usize, waited: Duration) {
        self.waited += waited;
        self.bytes += bytes as u64;
        if self.bytes >= MIN_PROGRESS.1 {
            *self = MinimumRate::default();
        }
    }
}

/// Fails if `work`, which depends on the other side, takes longer than `limit`.
pub(crate) async fn in_time<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Exit> {
    let late = |_| Exit::network(format!("no answer from the other side for {} s", limit.as_secs()));
    tokio::time::timeout(limit, work).await.map_err(late)
}

/// The place of a received file, and the limit of received bytes.
pub(crate) struct Intake {
    /// A file, a directory, or `-`. `None` means the sender's file name in the current directory.
    pub(crate) output: Option<PathBuf>,
    /// Overwrite an existing file.
    pub(crate) force: bool,
    pub(crate) budget: Budget,
}

impl Intake {
    /// Checks that a file can be stored, before the command waits for a sender.
    pub(crate) fn check(&self) -> Result<(), Exit> {
        check(self.output.as_deref(), self.force)
    }
}

/// Receives a file, and calls `progress` after each piece.
pub(crate) async fn receive(
    stream: &mut SessionStream,
    intake: &Intake,
    bar: &ProgressBar,
    progress: impl Fn(),
) -> Result<ReceiveResult, Exit> {
    let result = take(stream, intake, bar, progress).await;
    let answer = match &result {
        Ok(received) => json!({ "length": received.length, "sha256": received.sha256 }),
        // The sender must not learn about files of this machine.
        Err(exit) if exit.is_local() => {
            json!({ "error": "the receiver could not store the file, and reported the reason on its side" })
        }
        Err(exit) => json!({ "error": exit.to_string() }),
    };
    let answered = stream.write_bytes(Bytes::from(format!("{answer}\n"))).await;
    let answered = answered.and(stream.shutdown().await).map_err(lost);
    result.and_then(|received| answered.map(|()| received))
}

async fn take(
    stream: &mut SessionStream,
    intake: &Intake,
    bar: &ProgressBar,
    progress: impl Fn(),
) -> Result<ReceiveResult, Exit> {
    let (head, rest) = in_time(BEGINNING, line(stream)).await??;
    let no_file = || Exit::network("the other side sends no file: its first line is not that of `send`");
    let head: Value = serde_json::from_slice(&head).map_err(|_| no_file())?;
    let (Some(name), Some(expected)) = (head["name"].as_str(), head["length"].as_u64()) else {
        return Err(no_file());
    };
    let Some(reserved) = intake.budget.reserve(expected) else {
        return Err(Exit::network(format!(
            "{expected} bytes are more than --max-bytes of the receiver allows"
        )));
    };
    bar.set_length(expected);
    let path = destination(intake.output.as_deref(), name)?;
    let mut target = FileSink::open(path, intake.force).await?;
    let (mut hash, mut length) = (Sha256::new(), 0);
    let (mut piece, mut last, mut longest_pause) = (rest, Instant::now(), Duration::ZERO);
    let mut pace = MinimumRate::default();
    loop {
        if !piece.is_empty() {
            progress();
            length += piece.len() as u64;
            if length > expected {
                return Err(Exit::network(format!(
                    "{expected} bytes were announced, and more came"
                )));
            }
            hash.update(&piece);
            bar.inc(piece.len() as u64);
            target.write(&piece).await?;
        }
        let asked = Instant::now();
        let Ok(came) = tokio::time::timeout(pace.left(), stream.read_bytes()).await else {
            let (period, bytes) = (MIN_PROGRESS.0.as_secs(), MIN_PROGRESS.1);
            return Err(Exit::network(format!(
                "fewer than {bytes} bytes came in {period} s"
            )));
        };
        piece = came.map_err(lost)?;
        pace.received(piece.len(), asked.elapsed());
        longest_pause = longest_pause.max(last.elapsed());
        last = Instant::now();
        if piece.is_empty() {
            break;
        }
    }
    if length != expected {
        return Err(Exit::failed(format!(
            "{expected} bytes were announced, and {length} came"
        )));
    }
    let path = target.keep().await?;
    reserved.keep();
    Ok(ReceiveResult {
        name: name.to_owned(),
        path,
        length,
        sha256: HEXLOWER.encode(&hash.finalize()),
        longest_pause,
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use hawser::session::{
        AcceptorConfig, Candidate, ClientConfig, Config, PathCandidate, Security, Server, ServerConfig,
        Session, TcpOptions, connect, scheduler,
    };

    use super::*;

    /// Opens a session over loopback. Returns the caller's side, the receiver's side and the server.
    async fn connected() -> (Session, Session, Server) {
        let ecf = || scheduler::by_name("ecf").expect("it comes with Hawser");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let server = Server::open(ServerConfig {
            acceptor: AcceptorConfig { insecure: true, ..AcceptorConfig::default() },
            tcp: vec![(any, TcpOptions::default())],
            ..ServerConfig::default()
        })
        .expect("a server");
        let candidate = PathCandidate::Tcp {
            peer: server.addresses()[0].1,
            local: None,
            options: TcpOptions::default(),
        };
        let caller = connect(ClientConfig {
            session: Config { security: Security::None, ..Config::default() },
            name: None,
            scheduler: ecf(),
            candidates: vec![(candidate, Candidate::new(0))],
            tls: None,
        })
        .expect("a session");
        let receiver = server.accept().await.expect("a session");
        (caller, receiver, server)
    }

    const BUDGET: u64 = 1_000_000;

    fn intake(output: &Path) -> Intake {
        Intake {
            output: Some(output.to_owned()),
            force: false,
            budget: Budget::new(BUDGET),
        }
    }

    /// Receives a file that is announced with `head` and followed by `sent` bytes.
    async fn becomes(head: &Value, sent: usize) -> (Result<ReceiveResult, Exit>, u64) {
        let (caller, receiver, _server) = connected().await;
        let mut stream = caller.open().expect("a stream");
        let head = format!("{head}\n").into_bytes();
        tokio::spawn(async move {
            let _ = stream.write_all(&head).await;
            let _ = stream.write_all(&vec![7; sent]).await;
            let _ = stream.shutdown().await;
            let _ = stream.read_u8().await;
        });
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        let bar = ProgressBar::hidden();
        let mut stream = receiver.accept().await.expect("a stream");
        let received = receive(&mut stream, &intake(&folder), &bar, || ()).await;
        (received, bar.position())
    }

    #[tokio::test]
    async fn a_receiver_rejects_bytes_beyond_the_announced_length() {
        let head = json!({ "name": "a", "length": 100_000 });
        assert_eq!(
            becomes(&head, 100_000)
                .await
                .0
                .ok()
                .map(|received| received.length),
            Some(100_000)
        );
        let (received, written) = becomes(&head, 3_000_000).await;
        assert!(received.is_err_and(|exit| exit.to_string().contains("more")));
        assert!(written <= 100_000, "{written} bytes were written");
        assert!(becomes(&head, 99_999).await.0.is_err());
    }

    #[tokio::test]
    async fn a_file_beyond_the_limit_is_rejected_before_a_byte_is_written() {
        let at_limit = json!({ "name": "a", "length": BUDGET });
        assert!(becomes(&at_limit, BUDGET as usize).await.0.is_ok());
        let beyond = json!({ "name": "a", "length": BUDGET + 1 });
        let (received, written) = becomes(&beyond, BUDGET as usize + 1).await;
        assert!(received.is_err_and(|exit| exit.to_string().contains("--max-bytes")));
        assert_eq!(written, 0);
    }

    #[test]
    fn the_size_limit_counts_kept_files_and_not_lost_ones() {
        let budget = Budget::new(10);
        budget.reserve(6).expect("6 of 10").keep();
        assert!(budget.reserve(5).is_none());
        drop(budget.reserve(4).expect("4 of 4"));
        assert!(
            budget.reserve(4).is_some(),
            "the lost file's bytes are there again"
        );
    }

    #[test]
    fn a_sender_below_1_kib_a_second_times_out() {
        let mut fast = MinimumRate::default();
        (0..10_000).for_each(|_| fast.received(1_024, Duration::from_secs(1)));
        assert!(fast.left() > Duration::ZERO);
        let mut slow = MinimumRate::default();
        (0..600).for_each(|_| slow.received(1_000, Duration::from_secs(1)));
        assert_eq!(slow.left(), Duration::ZERO);
    }

    /// The sender learns neither paths nor file names of this machine.
    #[tokio::test]
    async fn a_local_failure_is_not_described_to_the_sender() {
        let (caller, receiver, _server) = connected().await;
        let mut stream = caller.open().expect("a stream");
        stream
            .write_all(b"{\"name\":\"a\",\"length\":1}\nx")
            .await
            .expect("room");
        stream.shutdown().await.expect("it is open");
        let mut taken = receiver.accept().await.expect("a stream");
        let place = Path::new("/nonexistent-folder-of-hawser/file");
        let bar = ProgressBar::hidden();
        let received = receive(&mut taken, &intake(place), &bar, || ()).await;
        let reason = received.err().expect("there is no such folder").to_string();
        assert!(
            reason.contains("nonexistent-folder"),
            "this side reports: {reason}"
        );
        let refused = answer(&mut stream)
            .await
            .expect_err("it was not stored")
            .to_string();
        assert!(
            refused.contains("could not store the file") && !refused.contains("nonexistent"),
            "{refused}"
        );
    }

    /// The file is announced with its first length and grows afterwards.
    #[tokio::test]
    async fn a_file_that_grows_is_sent_to_its_announced_end() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        let path = folder.join("growing.log");
        std::fs::write(&path, vec![b'x'; 4 << 20]).expect("a file");
        let (caller, receiver, _server) = connected().await;
        let growing = path.clone();
        let sending = tokio::spawn(async move {
            let mut stream = caller.open().expect("a stream");
            send(&mut stream, &growing, &ProgressBar::hidden()).await
        });
        let mut stream = receiver.accept().await.expect("a stream");
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("a file");
        std::io::Write::write_all(&mut file, b"more").expect("room");
        let into = folder.join("received");
        let intake = Intake { budget: Budget::new(1 << 30), ..intake(&into) };
        let bar = ProgressBar::hidden();
        let received = receive(&mut stream, &intake, &bar, || ());
        assert_eq!(received.await.map(|it| it.length).ok(), Some(4 << 20));
        let sent = sending.await.expect("no panic").map(|it| it.length);
        assert_eq!(sent.ok(), Some(4 << 20));
    }

    #[tokio::test]
    async fn a_sender_cannot_choose_a_hidden_name() {
        let (received, _) = becomes(&json!({ "name": ".bashrc", "length": 10 }), 10).await;
        assert!(received.is_err_and(|exit| exit.to_string().contains("-o")));
    }
}
