//! Connections of controllers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::base::{Base, now};
use super::super::event::{Event, Trouble};
use super::Socket;
use super::protocol::{Command, Filter, LINE, parse, refusal};

/// Connections at once.
const MOST: usize = 32;
/// How long a connection may say nothing, and how long a line may take.
const IDLE: Duration = Duration::from_secs(30);
/// How long an answer may take to be read.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long nobody is accepted after the system could not.
const REST: Duration = Duration::from_millis(200);

/// Serves whoever may connect, for as long as it is polled.
pub(in super::super) async fn serve(socket: Socket, base: Arc<Base>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match socket.listener().accept().await {
            Ok((stream, _)) => {
                let is_full = connections.len() >= MOST;
                let base = Arc::clone(&base);
                if is_full {
                    // Told without waiting: nobody's time is spent on it.
                    let line = json!({ "error": format!("{MOST} controllers are connected already") });
                    let _ = stream.try_write(format!("{line}\n").as_bytes());
                } else {
                    connections.spawn(async move { attend(stream, &base).await });
                }
            }
            Err(error) => {
                base.tell(Event::Trouble(Trouble::Control(error.to_string())));
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// Why a connection ends, beside that its peer closed it.
enum End {
    /// It is told this.
    Told(String),
    /// It does not read what it is told.
    Slow,
    /// It is gone.
    Gone,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Gone
    }
}

async fn attend(stream: UnixStream, base: &Base) {
    let owner = rustix::process::geteuid().as_raw();
    let peer = stream.peer_cred().map(|peer| peer.uid());
    let (reader, writer) = stream.into_split();
    let (mut lines, mut answers) = (Lines::new(reader), Answers(writer));
    let end = match peer {
        Ok(uid) if uid == owner || uid == 0 => converse(&mut lines, &mut answers, base).await,
        Ok(uid) => Err(End::Told(format!("user {uid} is not served here: only {owner} and root are"))),
        Err(_) => Err(End::Gone),
    };
    match end {
        // It ends in any case.
        Err(End::Told(why)) => drop(answers.say(&json!({ "error": why })).await),
        Err(End::Slow) => {
            let why = "a controller that does not read was dropped".to_owned();
            base.tell(Event::Trouble(Trouble::Control(why)));
        }
        Err(End::Gone) | Ok(()) => {}
    }
}

async fn converse(lines: &mut Lines, answers: &mut Answers, base: &Base) -> Result<(), End> {
    while let Some(line) = lines.next().await? {
        let command = match parse(&line) {
            Ok(command) => command,
            Err(findings) => {
                answers.say(&refusal("", &findings)).await?;
                continue;
            }
        };
        match command {
            Command::Put(document) => match base.put(&document, now()) {
                Ok(put) => {
                    let nodes: Vec<Value> = put
                        .nodes
                        .iter()
                        .map(|known| json!({ "uid": &*known.uid, "until": known.until }))
                        .collect();
                    let warnings: Vec<String> = put.warnings.iter().map(ToString::to_string).collect();
                    answers.say(&json!({ "done": "put", "nodes": nodes, "warnings": warnings })).await?;
                }
                Err(findings) => answers.say(&refusal("put", &findings)).await?,
            },
            Command::List(filter) => {
                let all: Vec<_> = base.list(now()).into_iter().filter(|known| filter.takes(known)).collect();
                for known in &all {
                    answers.say(&json!(known)).await?;
                }
                answers.say(&json!({ "done": "list", "nodes": all.len() })).await?;
            }
            Command::Delete(uid) => match base.delete(&uid, now()) {
                Ok(origin) => answers.say(&json!({ "done": "delete", "uid": uid, "source": origin })).await?,
                Err(finding) => answers.say(&refusal("delete", &[finding])).await?,
            },
            Command::Watch(filter) => return watch(lines, answers, base, &filter).await,
        }
    }
    Ok(())
}

/// Tells what becomes known, until the peer closes its side.
async fn watch(lines: &mut Lines, answers: &mut Answers, base: &Base, filter: &Filter) -> Result<(), End> {
    let mut events = base.subscribe();
    answers.say(&json!({ "done": "watch" })).await?;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            // A watcher has nothing more to say; its end is its end.
            more = lines.any() => match more? {
                true => return Err(End::Told("a connection that watches takes no more commands".into())),
                false => return Ok(()),
            },
        };
        match event {
            Ok(event) if is_wanted(&event, filter) => answers.say(&event.to_json()).await?,
            Ok(_) => {}
            Err(RecvError::Lagged(missed)) => {
                return Err(End::Told(format!("too slow: {missed} events were missed; list again")));
            }
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

fn is_wanted(event: &Event, filter: &Filter) -> bool {
    match event {
        Event::Put(known) => filter.takes(known),
        Event::Deleted { uid, origin } | Event::Expired { uid, origin } => filter.takes_name(*origin, uid),
        Event::Loaded { .. } | Event::Refused(_) | Event::Trouble(_) => *filter == Filter::default(),
    }
}

/// Bounded lines of a peer.
struct Lines {
    reader: OwnedReadHalf,
    buffer: Vec<u8>,
}

impl Lines {
    fn new(reader: OwnedReadHalf) -> Lines {
        Lines { reader, buffer: Vec::new() }
    }

    /// The next line that is not empty; none when the peer has closed.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, End> {
        match timeout(IDLE, self.line()).await {
            Ok(line) => line,
            Err(_) => Err(End::Told(format!("no command in {} s", IDLE.as_secs()))),
        }
    }

    async fn line(&mut self) -> Result<Option<Vec<u8>>, End> {
        let mut searched = 0;
        loop {
            if let Some(length) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(searched + length + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(line));
            }
            searched = self.buffer.len();
            if searched > LINE {
                return Err(End::Told(format!("a line has at most {LINE} bytes")));
            }
            if self.fill().await? == 0 {
                // What has no end was not meant to be understood.
                return Ok(None);
            }
        }
    }

    /// Waits for anything more: whether there is, or the peer has closed.
    async fn any(&mut self) -> Result<bool, End> {
        Ok(!self.buffer.is_empty() || self.fill().await? > 0)
    }

    /// May be dropped: what was read is in the buffer.
    async fn fill(&mut self) -> Result<usize, End> {
        // The bound holds for what waits, too: no more is read than a line and its end.
        self.buffer.reserve(4_096);
        let room = (LINE + 2 - self.buffer.len().min(LINE + 1)).min(4_096) as u64;
        Ok((&mut self.reader).take(room).read_buf(&mut self.buffer).await?)
    }
}

/// Answers to a peer that has to read them.
struct Answers(OwnedWriteHalf);

impl Answers {
    async fn say(&mut self, answer: &Value) -> Result<(), End> {
        let line = format!("{answer}\n");
        match timeout(PATIENCE, self.0.write_all(line.as_bytes())).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(End::Slow),
        }
    }
}
