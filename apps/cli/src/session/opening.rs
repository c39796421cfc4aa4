//! Opens a session between two commands: one listens, the other connects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hawser::session::admission::{self, Shares};
use hawser::session::document::Warning;
use hawser::session::{
    AcceptorConfig, Code, CodeError, CodeGate, Connection, Identity, MAX_GUESSES, MtpOptions, Network,
    PlainStream, QuicOptions, SctpOptions, Server, ServerConfig, Session, TcpOptions, open, open_any,
    scheduler, speaks_mptcp,
};
use qrcode::render::unicode::Dense1x2;
use qrcode::types::QrError;
use qrcode::{EcLevel, QrCode};
use serde_json::json;
use tokio::task::JoinSet;

use super::args::{CodeArgs, RequestedRole, SessionArgs, Wait, govern};
use crate::device::{unopened, unusable, without_port};
use crate::exit::Exit;
use crate::output;

/// Builds a runtime with one thread for the session and one for the application.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Exit::environment)
}

/// The maximum number of callers whose codes are checked at once; one network may have a quarter of them. The
/// oldest caller is dropped to admit another.
const CALLERS: usize = 64;

/// A source of sessions.
pub(crate) enum Opening {
    /// This side waits for callers.
    Waiting(WaitingServer),
    /// This side has connected to a server.
    Called(Session, Option<Code>),
}

/// A server whose callers may have to prove that they know a code.
pub(crate) struct WaitingServer {
    server: Server,
    /// The check of the one-time code; `None` admits every caller.
    gate: Option<Arc<CodeGate>>,
    /// Callers that have not yet proved that they know the code.
    examined: tokio::sync::Mutex<JoinSet<Examined>>,
    places: admission::AdmissionGate,
    json: bool,
}

/// A caller and the result of its check; `None` if it was dropped to admit another.
type Examined = (Session, Option<Result<(), CodeError>>);

/// The result of a call.
pub(crate) enum Met {
    Opening(Opening),
    /// The server does not speak Hawser.
    Plain(Box<PlainStream>),
}

impl Opening {
    /// Reads the documents that the options name, and lets other processes watch this one. It must run before
    /// signals are handled: until then, a signal ends the command at once, even while a document is read from
    /// a pipe.
    pub(crate) fn prepare(args: &SessionArgs, json: bool) -> Result<RequestedRole, Exit> {
        output::serve(json).map_err(Exit::environment)?;
        let asked = args.asked()?;
        args.interact.start()?;
        Ok(asked)
    }

    /// Waits or connects as asked. A waiting side prints the command for the other side, which is `other`
    /// with its options.
    pub(crate) async fn arrange(
        asked: RequestedRole,
        code: &CodeArgs,
        other: &str,
        json: bool,
    ) -> Result<Opening, Exit> {
        match asked {
            RequestedRole::Wait(wait) => WaitingServer::open(&wait, code, other, json)
                .await
                .map(Opening::Waiting),
            RequestedRole::Call(document) => {
                let (session, warnings) = open(&document).await.map_err(unopened)?;
                warnings.iter().for_each(|warning| warn(warning, json));
                Ok(Opening::Called(session, code.given()))
            }
        }
    }

    /// Does the same, and also accepts a server that does not speak Hawser, if the document allows it.
    pub(crate) async fn arrange_any(
        asked: RequestedRole,
        code: &CodeArgs,
        other: &str,
        json: bool,
    ) -> Result<Met, Exit> {
        match asked {
            RequestedRole::Wait(wait) => {
                let waiting = WaitingServer::open(&wait, code, other, json).await?;
                Ok(Met::Opening(Opening::Waiting(waiting)))
            }
            RequestedRole::Call(document) => {
                let (connection, warnings) = open_any(&document).await.map_err(unopened)?;
                warnings.iter().for_each(|warning| warn(warning, json));
                match (connection, code.given()) {
                    (Connection::Session(session), code) => Ok(Met::Opening(Opening::Called(session, code))),
                    (Connection::Plain(stream), None) => Ok(Met::Plain(Box::new(stream))),
                    (Connection::Plain(_) | Connection::Streams(_), _) => Err(Exit::network(
                        "the server does not speak Hawser, so it cannot check --code",
                    )),
                }
            }
        }
    }

    /// Returns the next session whose two sides know the code, if there is a code. A calling side has only
    /// one session.
    pub(crate) async fn next(&self) -> Result<Session, Exit> {
        match self {
            Opening::Waiting(waiting) => waiting.next().await,
            Opening::Called(session, code) => {
                session
                    .opened()
                    .await
                    .map_err(|error| Exit::network(format!("the server: {error}")))?;
                if let Some(code) = code {
                    code.prove(session).await.map_err(Exit::network)?;
                }
                Ok(session.clone())
            }
        }
    }
}

impl WaitingServer {
    async fn open(wait: &Wait, code: &CodeArgs, other: &str, json: bool) -> Result<WaitingServer, Exit> {
        let invitation = Invitation { other, code: code.asked()?, qr: code.qr };
        let server = listen(wait, AcceptorConfig::default(), &invitation, json).await?;
        let gate = invitation.code.map(CodeGate::new).map(Arc::new);
        Ok(WaitingServer {
            server,
            gate,
            examined: Default::default(),
            places: admission::AdmissionGate::new(Shares::new(CALLERS)),
            json,
        })
    }

    /// Waits for the next admitted caller. Callers are checked concurrently, so that a slow or idle one
    /// delays no other. Checks continue when this future is dropped.
    async fn next(&self) -> Result<Session, Exit> {
        let Some(gate) = &self.gate else {
            return self.server.accept().await.map_err(Exit::environment);
        };
        let mut examined = self.examined.lock().await;
        loop {
            tokio::select! {
                session = self.server.accept() => {
                    let (session, gate) = (session.map_err(Exit::environment)?, gate.clone());
                    let mut place = self.places.enter(address(&session));
                    examined.spawn(async move {
                        let admitted = gate.admit_in(&mut place, &session).await;
                        (session, admitted)
                    });
                }
                Some(outcome) = examined.join_next() => match outcome.map_err(Exit::failed)? {
                    (session, Some(Ok(()))) => return Ok(session),
                    (session, Some(Err(error))) => self.reject(gate, &session, &error)?,
                    (session, None) => session.reject(),
                },
            }
        }
    }

    /// Reports a rejected caller. It fails when no guesses are left, because no further caller can be
    /// admitted.
    fn reject(&self, gate: &CodeGate, session: &Session, error: &CodeError) -> Result<(), Exit> {
        let reason = match error {
            CodeError::Wrong => "used a wrong code".to_owned(),
            CodeError::Missing | CodeError::Late => "used no code".to_owned(),
            other => other.to_string(),
        };
        let (from, left) = (peer(session), gate.guesses_left());
        if self.json {
            println!(
                "{}",
                json!({ "event": "rejected", "peer": from, "reason": reason, "guesses_left": left })
            );
        } else {
            eprintln!("hawser: rejected {from}, which {reason}; wrong codes until the command ends: {left}");
        }
        match left {
            0 => Err(Exit::network(format!(
                "{MAX_GUESSES} wrong codes were given, so the command serves no further callers; start it again for a new code"
            ))),
            _ => Ok(()),
        }
    }
}

/// The peer's address as text, if the session still knows it.
fn peer(session: &Session) -> String {
    let paths = session.paths();
    paths.first().map_or_else(
        || "a caller".to_owned(),
        |(_, info)| info.description.peer.to_string(),
    )
}

/// The peer's IP address, or the unspecified address if the session has already lost its only path.
pub(crate) fn address(session: &Session) -> IpAddr {
    let paths = session.paths();
    let first = paths.first().map(|(_, path)| path.description.peer.ip());
    first.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

fn warn(warning: &Warning, json: bool) {
    if json {
        println!(
            "{}",
            json!({ "event": "warning", "path": warning.path, "message": warning.message })
        );
    } else {
        eprintln!("hawser: warning: {warning}");
    }
}

/// The instructions for the other side.
pub(crate) struct Invitation<'a> {
    /// The command that the other side runs.
    pub(crate) other: &'a str,
    /// The code that the other side has to know.
    pub(crate) code: Option<Code>,
    /// Show the command as a QR code as well.
    pub(crate) qr: bool,
}

/// Opens a server's listeners and prints the command that connects to it.
pub(crate) async fn listen(
    wait: &Wait,
    acceptor: AcceptorConfig,
    invitation: &Invitation<'_>,
    json: bool,
) -> Result<Server, Exit> {
    let identity = match (&wait.certificate, wait.insecure) {
        (_, true) => None,
        (Some((chain, key)), false) => Some(Identity::read(chain, key).map_err(Exit::input)?),
        (None, false) => Some(Identity::generate(vec!["hawser".to_owned()]).map_err(Exit::environment)?),
    };
    let tls = identity
        .as_ref()
        .map(|identity| identity.server(&[]))
        .transpose()
        .map_err(Exit::input)?;
    let network = Network::open().await.map_err(Exit::environment)?;
    let own: Vec<IpAddr> = network
        .addresses()
        .into_iter()
        .filter(|address| !address.is_loopback())
        .collect();
    let everywhere = || {
        let v6 = network.addresses().iter().any(IpAddr::is_ipv6);
        let v6 = v6.then_some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, wait.port)));
        std::iter::once(SocketAddr::from((Ipv4Addr::UNSPECIFIED, wait.port)))
            .chain(v6)
            .collect()
    };
    let addresses: Vec<SocketAddr> = if wait.addresses.is_empty() {
        everywhere()
    } else {
        wait.addresses.clone()
    };
    let mut tcp = TcpOptions { mptcp: speaks_mptcp(), ..TcpOptions::default() };
    let mut quic = QuicOptions::default();
    if let Some(congestion) = wait.congestion {
        govern(congestion, &mut tcp, &mut quic);
    }
    let name = wait.scheduler.clone();
    let mut server = Server::open(ServerConfig {
        acceptor: AcceptorConfig { insecure: wait.insecure, ..acceptor },
        scheduler: Arc::new(move || scheduler::by_name(&name).expect("a name that was checked")),
        tcp: addresses.iter().map(|address| (*address, tcp.clone())).collect(),
        quic: match tls {
            Some(_) => addresses.iter().map(|address| (*address, quic.clone())).collect(),
            None => Vec::new(),
        },
        tls,
    })
    .map_err(Exit::environment)?;
    let mut addresses = bound(&server);
    let port = addresses.first().map_or(wait.port, SocketAddr::port);
    if wait.sctp {
        // SCTP announces its addresses to the client as paths, so they must be addresses of interfaces, not
        // wildcards.
        let given = wait.addresses.iter().map(SocketAddr::ip);
        let paths: Vec<IpAddr> = if wait.addresses.is_empty() {
            own.clone()
        } else {
            given.collect()
        };
        server
            .listen_sctp(&paths, port, SctpOptions::default())
            .map_err(Exit::environment)?;
    }
    if let Some(described) = &wait.stack {
        let listens_at = described.listens_at(port);
        if let Some(at) = listens_at.iter().find(|at| at.port() == 0) {
            return Err(without_port(*at, port));
        }
        let stack = described.start().map_err(|error| unusable(error.why))?;
        for address in listens_at {
            server
                .listen_mtp(&stack, address, MtpOptions::default())
                .map_err(Exit::environment)?;
            addresses.push(address);
        }
    }
    let pin = identity.map(|identity| identity.fingerprint());
    let reachable = |address: &SocketAddr| match address.ip().is_unspecified() {
        true => own
            .iter()
            .filter(|ip| ip.is_ipv4() == address.is_ipv4())
            .map(|ip| SocketAddr::new(*ip, address.port()))
            .collect(),
        false => vec![*address],
    };
    let reachable: Vec<SocketAddr> = addresses.iter().flat_map(reachable).collect();
    announce(&reachable, port, pin.as_deref(), invitation, json);
    Ok(server)
}

/// Returns the addresses of a server's TCP listeners. If port 0 was requested, they have the port that the
/// system chose.
fn bound(server: &Server) -> Vec<SocketAddr> {
    let listeners = server.addresses().iter();
    let of_tcp = listeners.filter(|(transport, _)| *transport == "tcp");
    of_tcp.map(|(_, address)| *address).collect()
}

/// Prints the command for the other side, one line for each address, and the first as a QR code if requested.
fn announce(reachable: &[SocketAddr], port: u16, pin: Option<&str>, invitation: &Invitation<'_>, json: bool) {
    let Invitation { other, code, qr } = invitation;
    let trust = pin.map_or_else(|| " --insecure".to_owned(), |pin| format!(" --pin {pin}"));
    let proof = code
        .as_ref()
        .map_or_else(String::new, |code| format!(" --code {code}"));
    let here = [SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
    let callable = if reachable.is_empty() {
        &here[..]
    } else {
        reachable
    };
    let lines: Vec<String> = callable
        .iter()
        .map(|address| format!("{other} {address}{trust}{proof}"))
        .collect();
    if json {
        let addresses: Vec<String> = reachable.iter().map(ToString::to_string).collect();
        let code = code.as_ref().map(ToString::to_string);
        println!(
            "{}",
            json!({
                "event": "listening", "addresses": addresses, "pin": pin, "code": code, "line": lines[0],
            })
        );
    } else {
        eprintln!("waiting; on the other side:");
        lines.iter().for_each(|line| eprintln!("  {line}"));
    }
    if *qr {
        match qr_code(&lines[0]) {
            Ok(picture) => eprint!("{picture}\n"),
            Err(error) => eprintln!("hawser: warning: no QR code: {error}"),
        }
    }
}

/// Draws a QR code for terminals that show light text on a dark background, two modules per character.
fn qr_code(line: &str) -> Result<String, QrError> {
    let code = QrCode::with_error_correction_level(line, EcLevel::L)?;
    // A block is a light module; dark modules show the terminal's background.
    Ok(code
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Light)
        .light_color(Dense1x2::Dark)
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ISO/IEC 18004, Tables 1 and 7: 107 to 134 bytes at level L need version 6. It is 41 modules wide, plus
    /// a margin of 4 modules on each side.
    #[test]
    fn a_line_is_a_qr_code_of_version_6_that_fits_a_terminal() {
        let line = format!(
            "hawser recv 192.0.2.7:4433 --pin {} --code 7-crossword-anvil",
            "0f".repeat(32)
        );
        assert!((107..=134).contains(&line.len()), "{}", line.len());
        let picture = qr_code(&line).expect("it is short");
        let rows: Vec<&str> = picture.lines().collect();
        assert_eq!(rows.len(), 49_usize.div_ceil(2));
        assert!(rows.iter().all(|row| row.chars().count() == 49), "{picture}");
        // The margin is light on all sides, because some readers need it.
        assert!(rows[0].chars().all(|module| module == '█'), "{picture}");
        assert!(qr_code(&"x".repeat(3_000)).is_err(), "2,953 bytes are the most");
    }
}
