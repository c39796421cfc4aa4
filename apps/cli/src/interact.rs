//! The options of commands that can be watched and steered, and of the commands that do so.

use std::path::PathBuf;

use hawser::interact::{self, Bus, Client, ClientError, Rules, Server};
use hawser::lang::OneLine;
use parking_lot::Mutex;
use serde_json::Value;

use crate::exit::Exit;

/// The options that let other processes watch and steer this one.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Interact")]
pub(crate) struct InteractArgs {
    /// Let other processes of this user watch and steer this one at a socket; without PATH at
    /// $XDG_RUNTIME_DIR/hawser/interact.sock (docs/interact.md)
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    interact: Option<Option<PathBuf>>,
    /// A file with the rights of those processes; by default they may do everything that programs declare
    #[arg(long, value_name = "FILE", requires = "interact")]
    rights: Option<PathBuf>,
}

impl InteractArgs {
    /// Returns the bus of this process, if other processes may watch and steer it.
    pub(crate) fn bus(&self) -> Option<Bus> {
        self.interact.is_some().then(interact::open_process_bus)
    }

    /// Opens the socket, if one was requested, for a command whose sources come and go. It is served until
    /// [`part`].
    pub(crate) fn start(&self) -> Result<(), Exit> {
        self.bus().map_or(Ok(()), |bus| self.listen(&bus))
    }

    /// Opens the socket of a bus whose sources already exist, so that a client finds them when it connects.
    /// The socket is at the usual path unless another is given, and is served until [`part`].
    pub(crate) fn listen(&self, bus: &Bus) -> Result<(), Exit> {
        let path = match &self.interact {
            Some(Some(path)) => path.clone(),
            Some(None) | None => usual()?,
        };
        let rules = match &self.rights {
            Some(file) => Rules::load(file).map_err(Exit::input)?,
            None => Rules::default(),
        };
        let server = Server::start(bus.clone(), &path, rules).map_err(Exit::environment)?;
        *SERVER.lock() = Some(server);
        Ok(())
    }
}

/// The server of this process's socket.
static SERVER: Mutex<Option<Server>> = Mutex::new(None);

/// Stops the server at the end of the process. Subscribers receive the last signals first.
pub(crate) fn part() {
    drop(SERVER.lock().take());
}

fn usual() -> Result<PathBuf, Exit> {
    interact::usual_socket().ok_or_else(|| {
        Exit::usage("XDG_RUNTIME_DIR is not set, so there is no default socket: set it to a folder of your own, or give the socket's path \
             (--interact=PATH, --socket PATH)")
    })
}

/// The options that select a running process and the output format.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Interact")]
pub(crate) struct ClientArgs {
    /// The socket of the running process; by default $XDG_RUNTIME_DIR/hawser/interact.sock (for root
    /// without that variable: /run/hawser/interact.sock)
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl ClientArgs {
    /// Connects under `name`, which appears in the log of modifications.
    pub(crate) fn connect(&self, name: &str, priority: u8) -> Result<Client, Exit> {
        let path = match &self.socket {
            Some(path) => path.clone(),
            None => usual()?,
        };
        Client::connect(&path, name, priority).map_err(exit)
    }
}

/// Maps a client error to an exit.
pub(crate) fn exit(error: ClientError) -> Exit {
    match error {
        ClientError::Nobody { .. } | ClientError::OtherUser { .. } => Exit::environment(error),
        ClientError::Refused(_) => Exit::failed(OneLine(error)),
        ClientError::Wrong(diagnostics) => Exit::failed(lines(&diagnostics)),
        ClientError::Gone(_) | ClientError::Closed(_) | ClientError::Ring(_) | ClientError::Protocol(_) => {
            Exit::network(error)
        }
    }
}

/// Formats the diagnostics of a document, one per line.
pub(crate) fn lines(diagnostics: &[String]) -> String {
    let lines: Vec<String> = diagnostics.iter().map(|one| OneLine(one).to_string()).collect();
    lines.join("\nhawser: ")
}

/// Returns the text at `key` of an answer, or an empty text.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the list of objects at `key` of an answer, or an empty list.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Formats a value for people: times have a unit, and enumerated values their name.
pub(crate) fn shown(value: u64, kind: &Value) -> String {
    match kind["kind"].as_str() {
        Some("duration") if value >= 1_000_000_000 => format!("{:.3} s", value as f64 / 1e9),
        Some("duration") if value >= 1_000_000 => format!("{:.3} ms", value as f64 / 1e6),
        Some("duration") => format!("{:.1} µs", value as f64 / 1e3),
        Some("time") => format!("{:.6} s", value as f64 / 1e9),
        Some("bool") => if value == 0 { "no" } else { "yes" }.to_owned(),
        Some("enum") => {
            let name = list(kind, "values")
                .iter()
                .find(|v| v["value"].as_u64() == Some(value));
            name.map_or_else(|| value.to_string(), |v| text(v, "name").to_owned())
        }
        _ => value.to_string(),
    }
}
