//! The socket with a provider behind it: each request, each refusal, and clients that disappear. The same
//! conversations check `docs/interact.md` and the schema in `docs/schemas`.

mod attach;
mod book;
mod cap;
mod manners;
mod places;
mod requests;
mod ring;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hawser_documents::temporary::Folder;
use serde_json::{Value, json};

use super::hostile::Provider;
use super::{Bus, Client, ClientError, Rules, ServerMessage, serve};

/// A bus with a provider, served at a socket.
struct TestServer {
    folder: Folder,
    bus: Bus,
    provider: Provider,
    _runtime: tokio::runtime::Runtime,
}

impl TestServer {
    fn new() -> TestServer {
        TestServer::with(Rules::default())
    }

    fn with(rules: Rules) -> TestServer {
        let folder = Folder::new().expect("a folder");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let bus = Bus::with_wall_clock(super::process::wall);
        let provider = Provider::new(&bus);
        {
            let _inside = runtime.enter();
            let serving = serve(bus.clone(), &folder.join("s"), rules).expect("a socket");
            runtime.spawn(serving);
        }
        TestServer { folder, bus, provider, _runtime: runtime }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }

    fn client(&self, name: &str, priority: u8) -> Client {
        Client::connect(&self.socket(), name, priority).expect("it is served")
    }

    /// Returns the entries of the log: subscriber, act, count.
    fn acts(&self) -> Vec<(String, &'static str, u64)> {
        self.bus
            .audit()
            .0
            .into_iter()
            .map(|e| (e.who, e.act.name(), e.count))
            .collect()
    }
}

/// Starts the program beside these tests, `subscriber.rs`: a client of a socket that does one thing.
fn subscriber(does: &str, socket: &Path) -> Command {
    let mut command = hawser_testing::helper("socket_subscriber");
    command.arg(does).arg(socket);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// Waits for a condition to become true.
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends a request, and checks request and answer against the schema.
fn ask(client: &mut Client, request: &Value) -> Value {
    judge(request);
    let answer = client
        .ask(request)
        .unwrap_or_else(|error| panic!("{request}: {error}"));
    judge(&answer);
    answer
}

/// Returns the reason for which a request is refused.
fn refusal(client: &mut Client, request: &Value) -> String {
    match client.ask(request) {
        Err(ClientError::Refused(why)) => why,
        other => panic!("{request}: {other:?}"),
    }
}

fn receive(client: &mut Client) -> Value {
    match client.receive(Some(Duration::from_secs(10))) {
        Ok(ServerMessage::Signal(signal)) => {
            judge(&json!({ "signal": signal }));
            signal
        }
        other => panic!("no signal: {other:?}"),
    }
}

/// Checks that a line has one of the forms of the schema.
fn judge(line: &Value) {
    static SCHEMA: OnceLock<jsonschema::Validator> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| {
        let text = include_str!("../../../docs/schemas/interact.json");
        let document = serde_json::from_str(text).expect("the schema is JSON");
        jsonschema::validator_for(&document).expect("the schema is a schema")
    });
    let errors: Vec<String> = schema.iter_errors(line).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{line}: {errors:?}");
}

fn flow(number: u8) -> String {
    format!("0:{number}")
}
