//! How a session is opened between two commands: one listens, the other connects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hawser::places::{self, Shares};
use hawser::session::document::Warning;
use hawser::session::{
    AcceptorConfig, Code, CodeError, Connection, Gate, Identity, MAX_GUESSES, MtpOptions, Network,
    PlainStream, QuicOptions, SctpOptions, Server, ServerConfig, Session, TcpOptions, open, open_any,
    scheduler, speaks_mptcp,
};
use qrcode::render::unicode::Dense1x2;
use qrcode::types::QrError;
use qrcode::{EcLevel, QrCode};
use serde_json::json;
use tokio::task::JoinSet;

use super::args::{Asked, CodeArgs, SessionArgs, Wait, govern};
use crate::device::{unopened, unusable, without_port};
use crate::exit::Exit;
use crate::output;

/// A runtime with a thread for the session beside the one for the application.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Exit::environment)
}

/// Callers whose codes are examined at once, of one network a quarter of them. The oldest makes room for
/// another.
const CALLERS: usize = 64;

/// A place where sessions begin.
pub(crate) enum Opening {
    /// This side waits.
    Waiting(Waiting),
    /// This side has called.
    Called(Session, Option<Code>),
}

/// The side that waits.
pub(crate) struct Waiting {
    server: Server,
    /// Who is served; none: anyone.
    gate: Option<Arc<Gate>>,
    /// Callers who have not proved yet that they know the code.
    examined: tokio::sync::Mutex<JoinSet<Examined>>,
    places: places::Gate,
    json: bool,
}

/// A caller and the outcome of its examination; none if it had to make room for another.
type Examined = (Session, Option<Result<(), CodeError>>);

/// What a call may come to.
pub(crate) enum Met {
    Opening(Opening),
    /// The server does not speak Hawser.
    Plain(Box<PlainStream>),
}

impl Opening {
    /// Reads what the options name, and lets other processes watch this one. Call it before signals are waited for:
    /// until then they end the command at once, also while a document comes through a pipe.
    pub(crate) fn prepare(args: &SessionArgs, json: bool) -> Result<Asked, Exit> {
        output::serve(json).map_err(Exit::environment)?;
        let asked = args.asked()?;
        args.interact.start()?;
        Ok(asked)
    }

    /// Waits or calls as asked, and prints how to be called: `other` is the command for that.
    pub(crate) async fn arrange(
        asked: Asked,
        code: &CodeArgs,
        other: &str,
        json: bool,
    ) -> Result<Opening, Exit> {
        match asked {
            Asked::Wait(wait) => Waiting::open(&wait, code, other, json)
                .await
                .map(Opening::Waiting),
            Asked::Call(document) => {
                let (session, warnings) = open(&document).await.map_err(unopened)?;
                warnings.iter().for_each(|warning| warn(warning, json));
                Ok(Opening::Called(session, code.given()))
            }
        }
    }

    /// The same; a server that does not speak Hawser is taken too, if the document allows that.
    pub(crate) async fn arrange_any(
        asked: Asked,
        code: &CodeArgs,
        other: &str,
        json: bool,
    ) -> Result<Met, Exit> {
        match asked {
            Asked::Wait(wait) => {
                let waiting = Waiting::open(&wait, code, other, json).await?;
                Ok(Met::Opening(Opening::Waiting(waiting)))
            }
            Asked::Call(document) => {
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

    /// The next session whose two sides know the code, if there is one. One that was called is the only one.
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

impl Waiting {
    async fn open(wait: &Wait, code: &CodeArgs, other: &str, json: bool) -> Result<Waiting, Exit> {
        let invitation = Invitation { other, code: code.asked()?, qr: code.qr };
        let server = listen(wait, AcceptorConfig::default(), &invitation, json).await?;
        let gate = invitation.code.map(Gate::new).map(Arc::new);
        Ok(Waiting {
            server,
            gate,
            examined: Default::default(),
            places: places::Gate::new(Shares::new(CALLERS)),
            json,
        })
    }

    /// Several callers are examined at once: one that is slow, or idle, holds up no other. What is begun goes
    /// on when this future is dropped.
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

    /// Reports a caller who was not admitted. An error when nobody will be any more.
    fn reject(&self, gate: &Gate, session: &Session, error: &CodeError) -> Result<(), Exit> {
        let reason = match error {
            CodeError::Wrong => "gave a wrong code".to_owned(),
            CodeError::Missing | CodeError::Late => "gave no code".to_owned(),
            other => other.to_string(),
        };
        let (from, left) = (peer(session), gate.guesses_left());
        if self.json {
            println!(
                "{}",
                json!({ "event": "rejected", "peer": from, "reason": reason, "guesses_left": left })
            );
        } else {
            eprintln!("hawser: rejected {from}, which {reason}; wrong codes that are still taken: {left}");
        }
        match left {
            0 => Err(Exit::network(format!(
                "{MAX_GUESSES} wrong codes were given, so nobody is served any more; start again for a new code"
            ))),
            _ => Ok(()),
        }
    }
}

/// The other end, as far as the session still knows it.
fn peer(session: &Session) -> String {
    let paths = session.paths();
    paths.first().map_or_else(
        || "a caller".to_owned(),
        |(_, info)| info.description.peer.to_string(),
    )
}

/// The address of the other end; that of no host for a session whose only path has gone already.
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

/// How the other side is asked to call.
pub(crate) struct Invitation<'a> {
    /// The command for it.
    pub(crate) other: &'a str,
    /// The code that it has to know.
    pub(crate) code: Option<Code>,
    /// Whether its line is shown as a QR code as well.
    pub(crate) qr: bool,
}

/// Opens a server's listeners and prints how to call it.
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
        // Its addresses are the paths that a client gets, so those of interfaces, not all there are.
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

/// The addresses of a server's TCP listeners; where port 0 was asked for, the system has chosen one.
fn bound(server: &Server) -> Vec<SocketAddr> {
    let listeners = server.addresses().iter();
    let of_tcp = listeners.filter(|(transport, _)| *transport == "tcp");
    of_tcp.map(|(_, address)| *address).collect()
}

/// How the other side calls: a line to copy for each address, the first of them as a QR code if asked for.
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

/// A QR code for terminals that write light on dark, two modules a character.
fn qr_code(line: &str) -> Result<String, QrError> {
    let code = QrCode::with_error_correction_level(line, EcLevel::L)?;
    // Blocks are light: what the code calls dark is the terminal's background.
    Ok(code
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Light)
        .light_color(Dense1x2::Dark)
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ISO/IEC 18004, Tables 1 and 7: 107 to 134 bytes at level L take version 6, which is 41 modules wide, and
    /// 4 are kept free on each side.
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
        // Light all around, for readers that need it.
        assert!(rows[0].chars().all(|module| module == '█'), "{picture}");
        assert!(qr_code(&"x".repeat(3_000)).is_err(), "2,953 bytes are the most");
    }
}
