//! Subscribers in other processes, at a socket.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hawser_bus::Bus;
use serde_json::json;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::guest::Guest;
use super::rules::Rules;
pub use crate::local::SocketError;
use crate::local::{Answers, End, Lines, Socket, peer};

/// Connections at once.
const MOST: usize = 64;
/// How long nobody is accepted after the system could not.
const REST: Duration = Duration::from_millis(200);

/// Where a process listens unless it is told: `$XDG_RUNTIME_DIR/hawser/interact.sock`; nothing where
/// that is not set.
#[must_use]
pub fn usual_socket() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?;
    Some(PathBuf::from(folder).join("hawser/interact.sock"))
}

/// Serves subscribers at a socket (mode 0600; its own user and root alone), as far as `rules` let
/// them, for as long as the future is polled. The protocol is in `docs/interact.md`.
///
/// # Errors
/// Why there is no socket; told at once.
pub fn serve(
    bus: Bus,
    path: &Path,
    rules: Rules,
) -> Result<impl Future<Output = ()> + Send + 'static, SocketError> {
    let socket = Socket::open(path)?;
    let rules = Arc::new(rules);
    Ok(async move {
        let mut connections = JoinSet::new();
        loop {
            match socket.listener().accept().await {
                Ok((stream, _)) => {
                    // Those that ended while nobody came do not count.
                    while connections.try_join_next().is_some() {}
                    if connections.len() >= MOST {
                        turn_away(stream);
                        continue;
                    }
                    let (bus, rules) = (bus.clone(), rules.clone());
                    connections.spawn(async move { attend(stream, bus, &rules).await });
                }
                Err(_) => tokio::time::sleep(REST).await,
            }
        }
    })
}

/// Told without waiting: nobody's time is spent on it.
fn turn_away(stream: UnixStream) {
    let line = json!({ "error": format!("{MOST} subscribers are connected already") });
    // The runtime has not asked yet whether the stream can be written; the system knows.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write(format!("{line}\n").as_bytes());
    }
}

async fn attend(stream: UnixStream, bus: Bus, rules: &Rules) {
    let user = peer(&stream);
    let (reader, writer) = stream.into_split();
    let (mut lines, mut answers) = (Lines::new(reader), Answers::new(writer));
    let end = match user {
        Ok(user) => match Guest::new(bus, rules, user) {
            Ok(mut guest) => guest.converse(&mut lines, &mut answers, rules, user).await,
            Err(error) => Err(End::Told(error.to_string())),
        },
        Err(end) => Err(end),
    };
    if let Err(End::Told(why)) = end {
        // It ends in any case.
        let _ = answers.say(&json!({ "error": why })).await;
    }
}
