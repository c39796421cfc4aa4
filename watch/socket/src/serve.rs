//! Serves subscribers in other processes at a socket.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_bus::Bus;
use serde_json::json;
use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::connection::Connection;
use super::rules::Rules;
pub use crate::local::SocketError;
use crate::local::{Answers, LineError, Lines, Socket, peer};

/// The maximum number of simultaneous connections.
const MAX_CONNECTIONS: usize = 64;
/// The pause after a failed accept.
const REST: Duration = Duration::from_millis(200);
/// The time that a subscriber has to take its last signals.
const FAREWELL: Duration = Duration::from_secs(1);

/// Returns the default path of a process's socket: `$XDG_RUNTIME_DIR/hawser/interact.sock`; see
/// [`usual`](crate::local::usual).
#[must_use]
pub fn usual_socket() -> Option<PathBuf> {
    crate::local::usual("interact")
}

/// Closes the connections when its sender is dropped.
pub(super) type Parting = watch::Receiver<()>;

/// Serves subscribers at a socket (mode 0600; its own user and root only), for as long as the future is
/// polled. `rules` define their rights. The protocol is in `docs/interact.md`.
///
/// # Errors
/// When the socket cannot be opened; returned at once.
pub fn serve(
    bus: Bus,
    path: &Path,
    rules: Rules,
) -> Result<impl Future<Output = ()> + Send + 'static, SocketError> {
    serve_until(bus, path, rules, std::future::pending())
}

/// Serves until `over` completes. It then accepts no more connections. Subscribers receive their queued
/// signals, as far as they take them within a second.
fn serve_until(
    bus: Bus,
    path: &Path,
    rules: Rules,
    over: impl Future<Output = ()> + Send + 'static,
) -> Result<impl Future<Output = ()> + Send + 'static, SocketError> {
    let socket = Socket::open(path)?;
    let rules = Arc::new(rules);
    Ok(async move {
        let (part, parting) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut over = std::pin::pin!(over);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut over => break,
                accepted = socket.listener().accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    // Connections that ended while the server waited for a new one do not count.
                    while connections.try_join_next().is_some() {}
                    if connections.len() >= MAX_CONNECTIONS {
                        warn!(
                            limit = MAX_CONNECTIONS,
                            "a client was rejected: too many are connected"
                        );
                        reject(stream);
                        continue;
                    }
                    let (bus, rules, parting) = (bus.clone(), rules.clone(), parting.clone());
                    connections.spawn(async move { attend(stream, bus, &rules, parting).await });
                }
                Err(error) => {
                    warn!(%error, "cannot accept clients");
                    tokio::time::sleep(REST).await;
                }
            }
        }
        drop((socket, part));
        let _ = timeout(FAREWELL, async {
            while connections.join_next().await.is_some() {}
        })
        .await;
    })
}

/// Subscribers served at a socket, by a separate thread, so that the watched process does not wait for it.
///
/// When it is dropped, subscribers receive their queued signals, for a second at most, so that the last
/// signals of a process are not lost.
#[derive(Debug)]
pub struct Server {
    over: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves as [`serve`] does, until it is dropped.
    ///
    /// # Errors
    /// When the socket cannot be opened, or the thread cannot be started.
    pub fn start(bus: Bus, path: &Path, rules: Rules) -> Result<Server, SocketError> {
        let (over, ends) = oneshot::channel();
        let (begin, began) = std::sync::mpsc::channel();
        let at: PathBuf = path.into();
        // The caller may be inside a runtime, in which another runtime must not be dropped. This one is
        // therefore made and dropped in its own thread, even on failure.
        let serve = move || {
            let system = |error| SocketError::System { path: at.clone(), error };
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(begin.send(Err(system(error)))),
            };
            let opened = {
                let _inside = runtime.enter();
                // It also ends when the sender is dropped.
                serve_until(bus, &at, rules, async { drop(ends.await) })
            };
            match opened {
                Ok(serving) => {
                    let _ = begin.send(Ok(()));
                    runtime.block_on(serving);
                    // A task that still waits for a source's answer is abandoned.
                    runtime.shutdown_background();
                }
                Err(error) => drop(begin.send(Err(error))),
            }
        };
        let system = |error| SocketError::System { path: path.into(), error };
        let thread = std::thread::Builder::new()
            .name("interact".to_owned())
            .spawn(serve)
            .map_err(system)?;
        began
            .recv()
            .map_err(|_| SocketError::ThreadEnded(path.into()))??;
        Ok(Server { over: Some(over), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// Sends the reason without waiting, so that a rejected client delays no other.
fn reject(stream: UnixStream) {
    let line = json!({ "error": format!("{MAX_CONNECTIONS} subscribers are already connected") });
    // The runtime does not know yet whether the stream is writable, so the write bypasses it.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write(format!("{line}\n").as_bytes());
    }
}

async fn attend(stream: UnixStream, bus: Bus, rules: &Rules, parting: Parting) {
    let user = peer(&stream);
    let process = stream
        .peer_cred()
        .ok()
        .and_then(|peer| peer.pid())
        .and_then(|pid| u32::try_from(pid).ok());
    let (reader, writer) = stream.into_split();
    let (mut lines, mut answers) = (Lines::new(reader), Answers::new(writer));
    let end = match user {
        Ok(user) => match Connection::new(bus, rules, user, process) {
            Ok(mut connection) => {
                debug!(user, process, "a client connected");
                connection
                    .converse(&mut lines, &mut answers, rules, user, parting)
                    .await
            }
            Err(error) => Err(LineError::Refused(error.to_string())),
        },
        Err(end) => Err(end),
    };
    match end {
        Ok(()) => debug!(process, "a client disconnected"),
        Err(LineError::Gone) => debug!(process, "the connection to a client broke"),
        Err(LineError::Slow) => info!(process, "a client was disconnected because it does not read"),
        Err(LineError::Refused(why)) => {
            info!(process, why = ?why, "a client was disconnected");
            // The connection ends in any case.
            let _ = answers.send(&json!({ "error": why })).await;
        }
    }
}
