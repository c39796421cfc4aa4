//! A file over a stream of a session.
//!
//! One line of JSON says what comes (`{"name": …, "length": …}`), the bytes follow to the stream's end.
//! The receiver answers with one line: `{"length": …, "sha256": …}`, or `{"error": …}`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hawser::session::SessionStream;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::exit::Exit;
use crate::hex::hex;

/// The longest line that either side says.
const LINE: usize = 8_192;

/// Bytes read from the file at once.
const PIECE: usize = 1 << 20;

/// What was sent.
pub(crate) struct Sent {
    pub(crate) length: u64,
    pub(crate) sha256: String,
}

/// What was received.
pub(crate) struct Received {
    /// The sender's name of it.
    pub(crate) name: String,
    /// Where it is; none on standard output.
    pub(crate) path: Option<PathBuf>,
    pub(crate) length: u64,
    pub(crate) sha256: String,
    /// The longest time between two reads.
    pub(crate) longest_pause: Duration,
}

fn lost(error: io::Error) -> Exit {
    Exit::network(error)
}

/// Sends a file and waits until the other side has it.
pub(crate) async fn send(stream: &mut SessionStream, path: &Path, bar: &ProgressBar) -> Result<Sent, Exit> {
    let cannot = |error: io::Error| Exit::input(format!("cannot read {}: {error}", path.display()));
    let mut file = tokio::fs::File::open(path).await.map_err(cannot)?;
    let length = file.metadata().await.map_err(cannot)?.len();
    file.set_max_buf_size(PIECE);
    let name = path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy());
    let head = format!("{}\n", json!({ "name": name, "length": length }));
    stream.write_bytes(Bytes::from(head)).await.map_err(lost)?;
    let (mut hash, mut sent) = (Sha256::new(), 0);
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE);
        if file.read_buf(&mut buffer).await.map_err(cannot)? == 0 {
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
    stream.shutdown().await.map_err(lost)?;
    let sha256 = hex(&hash.finalize());
    let answer = answer(stream).await?;
    if answer["length"] == json!(sent) && answer["sha256"] == json!(sha256) {
        return Ok(Sent { length: sent, sha256 });
    }
    Err(Exit::failed(format!(
        "sent {sent} bytes with SHA-256 {sha256}, and the other side has {} with {}",
        answer["length"], answer["sha256"]
    )))
}

/// What the other side said before it stopped to listen.
async fn refusal(stream: &mut SessionStream) -> Option<Exit> {
    tokio::time::timeout(Duration::from_secs(1), answer(stream)).await.ok()?.err()
}

async fn answer(stream: &mut SessionStream) -> Result<Value, Exit> {
    let (line, _) = line(stream).await?;
    let answer: Value =
        serde_json::from_slice(&line).map_err(|_| Exit::network("the other side's answer is no JSON"))?;
    match answer["error"].as_str() {
        Some(error) => Err(Exit::network(format!("the other side: {error}"))),
        None => Ok(answer),
    }
}

/// Reads up to the end of a line; gives what came behind it, too.
async fn line(stream: &mut SessionStream) -> Result<(Bytes, Bytes), Exit> {
    let mut all = BytesMut::new();
    loop {
        if let Some(end) = all.iter().position(|byte| *byte == b'\n') {
            let line = all.split_to(end).freeze();
            return Ok((line, all.freeze().slice(1..)));
        }
        if all.len() > LINE {
            return Err(Exit::network("the other side sends no file: its first line is too long"));
        }
        let more = stream.read_bytes().await.map_err(lost)?;
        if more.is_empty() {
            return Err(Exit::network("the other side said nothing more"));
        }
        all.extend_from_slice(&more);
    }
}

/// Receives a file to `output`: a file, a directory, `-`, or (none) its own name in this directory.
/// What is there is not overwritten unless `force`.
pub(crate) async fn receive(
    stream: &mut SessionStream,
    output: Option<&Path>,
    force: bool,
    bar: &ProgressBar,
) -> Result<Received, Exit> {
    let result = take(stream, output, force, bar).await;
    let answer = match &result {
        Ok(received) => json!({ "length": received.length, "sha256": received.sha256 }),
        Err(exit) => json!({ "error": exit.to_string() }),
    };
    let told = stream.write_bytes(Bytes::from(format!("{answer}\n"))).await;
    let told = told.and(stream.shutdown().await).map_err(lost);
    result.and_then(|received| told.map(|()| received))
}

async fn take(
    stream: &mut SessionStream,
    output: Option<&Path>,
    force: bool,
    bar: &ProgressBar,
) -> Result<Received, Exit> {
    let (head, rest) = line(stream).await?;
    let no_file = || Exit::network("the other side sends no file: its first line is not what `send` says");
    let head: Value = serde_json::from_slice(&head).map_err(|_| no_file())?;
    let (Some(name), Some(expected)) = (head["name"].as_str(), head["length"].as_u64()) else {
        return Err(no_file());
    };
    bar.set_length(expected);
    let path = destination(output, name)?;
    let mut target = Target::open(path, force).await?;
    let (mut hash, mut length) = (Sha256::new(), 0);
    let (mut piece, mut last, mut longest_pause) = (rest, Instant::now(), Duration::ZERO);
    loop {
        if !piece.is_empty() {
            hash.update(&piece);
            length += piece.len() as u64;
            bar.inc(piece.len() as u64);
            target.write(&piece).await?;
        }
        piece = stream.read_bytes().await.map_err(lost)?;
        longest_pause = longest_pause.max(last.elapsed());
        last = Instant::now();
        if piece.is_empty() {
            break;
        }
    }
    if length != expected {
        return Err(Exit::failed(format!("{expected} bytes were announced, and {length} came")));
    }
    let path = target.keep().await?;
    Ok(Received { name: name.to_owned(), path, length, sha256: hex(&hash.finalize()), longest_pause })
}

/// Where a file goes. None: standard output. A sender's name is never a path.
fn destination(output: Option<&Path>, name: &str) -> Result<Option<PathBuf>, Exit> {
    let own = || match name {
        "" | "." | ".." => Err(Exit::network(format!("{name:?} is no name for a file; use -o"))),
        name if name.contains(['/', '\\', '\0']) || name.len() > 255 => {
            Err(Exit::network(format!("{name:?} is no name for a file; use -o")))
        }
        name => Ok(PathBuf::from(name)),
    };
    match output {
        Some(path) if path.as_os_str() == "-" => Ok(None),
        Some(path) if path.is_dir() => Ok(Some(path.join(own()?))),
        Some(path) => Ok(Some(path.to_owned())),
        None => own().map(Some),
    }
}

/// A file in the making: it has its name when it is whole.
enum Target {
    Output(tokio::io::Stdout),
    File { file: tokio::fs::File, part: PathBuf, path: PathBuf, is_kept: bool },
}

impl Target {
    async fn open(path: Option<PathBuf>, force: bool) -> Result<Target, Exit> {
        let Some(path) = path else { return Ok(Target::Output(tokio::io::stdout())) };
        let name = path.display();
        if path.exists() && !force {
            return Err(Exit::environment(format!("{name} is there already; --force overwrites it")));
        }
        let mut part = path.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = tokio::fs::File::create(&part)
            .await
            .map_err(|error| Exit::environment(format!("cannot write {}: {error}", part.display())))?;
        Ok(Target::File { file, part, path, is_kept: false })
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Exit> {
        let (written, what) = match self {
            Target::Output(output) => (output.write_all(bytes).await, "standard output".to_owned()),
            Target::File { file, part, .. } => (file.write_all(bytes).await, part.display().to_string()),
        };
        written.map_err(|error| Exit::environment(format!("cannot write {what}: {error}")))
    }

    async fn keep(&mut self) -> Result<Option<PathBuf>, Exit> {
        match self {
            Target::Output(output) => {
                output.flush().await.map_err(Exit::environment)?;
                Ok(None)
            }
            Target::File { file, part, path, is_kept } => {
                let kept = match file.flush().await {
                    Ok(()) => tokio::fs::rename(&*part, &*path).await,
                    Err(error) => Err(error),
                };
                kept.map_err(|error| Exit::environment(format!("cannot write {}: {error}", path.display())))?;
                *is_kept = true;
                Ok(Some(path.clone()))
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Target::File { part, is_kept: false, .. } = self {
            // Whoever cannot remove it could not write it either.
            let _ = std::fs::remove_file(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_senders_name_is_never_a_path() {
        for wrong in ["", ".", "..", "/etc/passwd", "../x", "a\\b", "a\0b", &"a".repeat(256)] {
            assert!(destination(None, wrong).is_err(), "{wrong}");
            assert!(destination(Some(Path::new("/tmp")), wrong).is_err(), "{wrong}");
        }
        let to = |output: Option<&str>| destination(output.map(Path::new), "a b.txt").ok().flatten();
        assert_eq!(to(None), Some("a b.txt".into()));
        assert_eq!(to(Some("/tmp")), Some("/tmp/a b.txt".into()));
        assert_eq!(to(Some("/tmp/other")), Some("/tmp/other".into()));
        assert_eq!(to(Some("-")), None);
    }
}
