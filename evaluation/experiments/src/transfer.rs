//! A transfer of bytes from one side to the other, by a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser::lab::Lab;
use hawser::session::document::Document;
use hawser::session::{CarrierId, Notice, Server, Session, SessionStream, open};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use crate::content::{Content, digest};
use crate::{Error, Moment, Pause, Report, Testbed};

/// The interval at which counters are read.
const EVERY: Duration = Duration::from_millis(50);
/// The shortest gap that counts as a pause.
const PAUSE: Duration = Duration::from_millis(10);

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the server to the client.
    Down,
    /// From the client to the server.
    Up,
}

/// An action on the network during a transfer, with its time since the beginning.
pub type Act = (Duration, Box<dyn Fn(&Lab) -> Result<(), Error> + Send>);

/// A transfer of bytes over a session.
pub struct Transfer {
    pub document: Document,
    /// The number of bytes to transfer.
    pub bytes: u64,
    pub direction: Direction,
    /// True if every byte is compared (by SHA-256); otherwise only the number of bytes is.
    pub verify: bool,
    /// Actions on the network, by time since the transfer began.
    pub acts: Vec<Act>,
    /// The time after which the transfer is abandoned.
    pub timeout: Duration,
}

impl Transfer {
    /// Describes a download of `bytes` over a session of `document`.
    pub fn new(document: Document, bytes: u64) -> Self {
        Self {
            document,
            bytes,
            direction: Direction::Down,
            verify: false,
            acts: Vec::new(),
            timeout: Duration::from_secs(120),
        }
    }

    /// Makes it an upload.
    #[must_use]
    pub fn up(mut self) -> Self {
        self.direction = Direction::Up;
        self
    }

    /// Compares every byte.
    #[must_use]
    pub fn verified(mut self) -> Self {
        self.verify = true;
        self
    }

    /// Adds an action on the network at `after`.
    #[must_use]
    pub fn act(mut self, after: Duration, act: impl Fn(&Lab) -> Result<(), Error> + Send + 'static) -> Self {
        self.acts.push((after, Box::new(act)));
        self
    }

    /// Runs the transfer.
    ///
    /// # Errors
    /// The transfer failed or took too long, or the received bytes differ from the sent ones.
    pub fn run(self, stage: &Testbed) -> Result<Report, Error> {
        let Transfer { mut document, bytes, direction, verify, acts, timeout } = self;
        let server = stage.listen(&mut document)?;
        let began = Instant::now();
        let cpu = cpu_seconds();
        let over = Arc::new(AtomicBool::new(false));
        let received = std::thread::scope(|scope| {
            scope.spawn(|| play(&stage.lab, began, acts, &over));
            let work = Work { bytes, direction, verify, began, timeout };
            let received = work.run(stage, server, document);
            over.store(true, Ordering::Relaxed);
            received
        });
        let (mut report, hash) = received?;
        report.cpu_seconds = cpu_seconds() - cpu;
        if report.bytes != bytes {
            return Err(format!("{bytes} bytes were sent, and {} came", report.bytes).into());
        }
        if verify && hash != Some(digest(bytes)) {
            return Err("what came is not what was sent".into());
        }
        Ok(report)
    }
}

/// The work of both sides.
#[derive(Clone, Copy)]
struct Work {
    bytes: u64,
    direction: Direction,
    verify: bool,
    began: Instant,
    timeout: Duration,
}

impl Work {
    fn run(
        self,
        stage: &Testbed,
        server: Server,
        document: Document,
    ) -> Result<(Report, Option<[u8; 32]>), Error> {
        let sessions: Arc<Mutex<Vec<(&str, Session)>>> = Arc::default();
        let (here, there) = (sessions.clone(), sessions.clone());
        // The server outlives its session, as servers do, because a client whose last message was lost asks
        // it again.
        let server = Arc::new(server);
        let listening = server.clone();
        let giving = stage.server.spawn(async move {
            let session = listening.accept().await?;
            there.lock().push(("server", session.clone()));
            match self.direction {
                Direction::Up => take(session, self.verify, self.began).await.map(Some),
                Direction::Down => give(&session, self.bytes, self.verify).await.map(|()| None),
            }
        });
        let client = stage.client.spawn(async move {
            let (session, _) = open(&document).await?;
            here.lock().push(("client", session.clone()));
            match self.direction {
                Direction::Down => take(session, self.verify, self.began).await.map(Some),
                Direction::Up => give(&session, self.bytes, self.verify).await.map(|()| None),
            }
        });
        let both = async {
            let (server, client) = tokio::try_join!(flat(giving), flat(client))?;
            server.or(client).ok_or_else(|| Error::from("nobody received"))
        };
        let late = |_| {
            let sessions = sessions.lock();
            let state = |(side, session): &(&str, Session)| {
                format!(
                    "{side}: closed {}, {:?}, {:?}",
                    session.is_closed(),
                    session.counters(),
                    session.paths()
                )
            };
            let states: Vec<_> = sessions.iter().map(state).collect();
            format!("not done after {:?}: {}", self.timeout, states.join("; "))
        };
        stage
            .client
            .block_on(async { tokio::time::timeout(self.timeout, both).await.map_err(late)? })
    }
}

/// The time that opening a session took, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// The time until the server had accepted the session.
    pub first: f64,
    /// The time until every connection of the document was up.
    pub all: f64,
}

/// Opens a session and closes it again.
///
/// # Errors
/// Opening failed, or a connection was not up after 20 s.
pub fn opening(stage: &Testbed, mut document: Document) -> Result<Opened, Error> {
    let server = stage.listen(&mut document)?;
    let accepting = stage.server.spawn(async move {
        let session = server.accept().await?;
        while session.next_event().await.is_some() {}
        Ok::<_, Error>(())
    });
    let client = stage.client.spawn(async move {
        let began = Instant::now();
        let (session, _) = open(&document).await?;
        session.opened().await?;
        let first = began.elapsed().as_secs_f64();
        let mut up = 0;
        while up < document.connections.len() {
            match session.next_event().await {
                Some(Notice::PathUp(_)) => up += 1,
                Some(Notice::PathLost { reason, .. }) => return Err(reason.into()),
                Some(_) => {}
                None => return Err("the session ended".into()),
            }
        }
        let all = began.elapsed().as_secs_f64();
        session.close(0).await?;
        Ok::<_, Error>(Opened { first, all })
    });
    stage.client.block_on(async {
        let late = |_| Error::from("not open after 20 s");
        let opened = tokio::time::timeout(Duration::from_secs(20), flat(client))
            .await
            .map_err(late)??;
        flat(accepting).await?;
        Ok(opened)
    })
}

async fn flat<T>(task: tokio::task::JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    task.await?
}

/// Sends all bytes, and waits until the peer has read them.
async fn give(session: &Session, bytes: u64, verify: bool) -> Result<(), Error> {
    let mut stream = session.open()?;
    for piece in Content::new(bytes, !verify) {
        stream.write_bytes(piece).await?;
    }
    stream.shutdown().await?;
    while session.next_event().await.is_some() {}
    Ok(())
}

/// The state of a running transfer.
struct Record {
    began: Instant,
    read: u64,
    report: Report,
    carriers: Vec<CarrierId>,
}

impl Record {
    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn sample(&mut self, session: &Session) {
        let paths = session.paths();
        for (id, info) in &paths {
            if !self.carriers.contains(id) {
                let description = &info.description;
                let interface = description
                    .interface
                    .clone()
                    .unwrap_or_else(|| description.peer.ip().to_string());
                self.carriers.push(*id);
                if let Some(why) = &description.fallback {
                    self.report
                        .events
                        .push((self.began.elapsed().as_secs_f64(), format!("fell back: {why}")));
                }
                self.report
                    .paths
                    .push(format!("{} {interface}", description.transport));
            }
        }
        let delivered = self.carriers.iter().map(|id| {
            paths
                .iter()
                .find(|(other, _)| other == id)
                .map_or(0, |(_, info)| info.counts.delivered)
        });
        let delivered = delivered.collect();
        self.report
            .moments
            .push(Moment { seconds: self.now(), read: self.read, delivered });
    }
}

/// Receives all bytes.
async fn take(session: Session, verify: bool, began: Instant) -> Result<(Report, Option<[u8; 32]>), Error> {
    let record = Record { began, read: 0, report: Report::default(), carriers: Vec::new() };
    let record = Arc::new(Mutex::new(record));
    let sampler = tokio::spawn(sample(session.clone(), record.clone()));
    let listener = tokio::spawn(listen(session.clone(), record.clone()));
    let stream = session.accept().await?;
    let result = read(stream, verify, &record).await;
    let read = began.elapsed().as_secs_f64();
    // An error here only means that the other side did not confirm the end.
    let _ = session.close(0).await;
    sampler.abort();
    listener.abort();
    let mut record = record.lock();
    record.report.seconds = read;
    record.sample(&session);
    record.report.bytes = record.read;
    record.report.again = session.counters().duplicate;
    result.map(|hash| (std::mem::take(&mut record.report), hash))
}

async fn read(
    mut stream: SessionStream,
    verify: bool,
    record: &Mutex<Record>,
) -> Result<Option<[u8; 32]>, Error> {
    let mut hash = verify.then(Sha256::new);
    let mut last: Option<Instant> = None;
    loop {
        let bytes = stream.read_bytes().await?;
        let mut record = record.lock();
        let pause = last.map_or(Duration::ZERO, |last| last.elapsed());
        if pause > PAUSE {
            let seconds = pause.as_secs_f64();
            let from = record.now() - seconds;
            record.report.pauses.push(Pause { from, seconds });
        }
        if last.is_none() {
            record.report.first_byte = record.now();
        }
        last = Some(Instant::now());
        record.read += bytes.len() as u64;
        if bytes.is_empty() {
            return Ok(hash.map(|hash| hash.finalize().into()));
        }
        drop(record);
        if let Some(hash) = &mut hash {
            hash.update(&bytes);
        }
    }
}

async fn sample(session: Session, record: Arc<Mutex<Record>>) {
    let mut clock = tokio::time::interval(EVERY);
    loop {
        clock.tick().await;
        record.lock().sample(&session);
    }
}

async fn listen(session: Session, record: Arc<Mutex<Record>>) {
    while let Some(notice) = session.next_event().await {
        let what = match notice {
            Notice::PathUp(carrier) => format!("carrier {} up", carrier.0),
            Notice::PathSuspect(carrier) => format!("carrier {} suspect", carrier.0),
            Notice::PathLive(carrier) => format!("carrier {} live", carrier.0),
            Notice::PathLost { carrier, reason, .. } => format!("carrier {} lost: {reason}", carrier.0),
            Notice::QuotaSpent(path) => format!("quota of path {path} spent"),
            Notice::Stalled => "stalled".to_owned(),
            Notice::Resumed => "resumed".to_owned(),
            Notice::Closed(end) => format!("closed with {}", end.code()),
            _ => continue,
        };
        let mut record = record.lock();
        let now = record.now();
        record.report.events.push((now, what));
    }
}

/// Performs the actions on the network at their times.
fn play(lab: &Lab, began: Instant, mut acts: Vec<Act>, over: &AtomicBool) {
    acts.sort_by_key(|(at, _)| *at);
    for (at, act) in acts {
        while began.elapsed() < at {
            if over.load(Ordering::Relaxed) {
                return;
            }
            let left = at.saturating_sub(began.elapsed());
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
        if let Err(error) = act(lab) {
            eprintln!("the network did not change: {error}");
        }
    }
}

/// Returns the processor time of this process, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = behind
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    // USER_HZ is 100 on every Linux (proc(5)).
    ticks as f64 / 100.0
}
