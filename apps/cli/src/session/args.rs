//! The options of a session.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hawser::runs::files;
use hawser::session::document::{
    ConnectionPriority, Document, Format, PORT, Stack, StatePlace, Transport, hex,
};
use hawser::session::{Code, Congestion, QuicOptions, TcpOptions, scheduler};

use crate::device::{RouterArgs, StackArgs};
use crate::exit::Exit;
use crate::interact::InteractArgs;

/// The options of a session. With a SERVER, or a document that names one, this side connects; otherwise it
/// waits for a connection.
#[derive(clap::Args)]
#[command(next_help_heading = "Session")]
pub(crate) struct SessionArgs {
    /// Connect to this server: HOST[:PORT]. Without it, wait for a connection
    #[arg(help_heading = None)]
    server: Option<String>,
    /// A document that configures the session, as JSON or TOML (docs/sessions.md)
    #[arg(long, value_name = "DOCUMENT")]
    config: Option<PathBuf>,
    /// The carriers in order of preference: TRANSPORT[:INTERFACE], as in `quic:wlan0,tcp:wwan0`; `all` stands
    /// for every interface with a route to the server. By default tcp:all. Transports
    /// are tcp, quic, mptcp, sctp (only with --insecure), and programs in MTP on the device of --dev, as in
    /// mtp-tcp
    #[arg(long, value_name = "CARRIERS", value_delimiter = ',', value_parser = parse_carrier)]
    over: Vec<(Transport, Option<String>)>,
    /// The scheduler, which chooses the carrier of each segment: ecf, blest, rr, weighted, lowest-latency,
    /// top-latency:N, top-throughput:N, redundant, cheapest
    #[arg(long, value_name = "NAME", value_parser = parse_scheduler)]
    scheduler: Option<String>,
    /// The congestion controller for what this side sends: cubic, bbr, or tolerant. By default QUIC uses
    /// tolerant and TCP the default of the system (docs/sessions.md, Losses)
    #[arg(long, value_name = "NAME", value_parser = parse_congestion)]
    congestion: Option<Congestion>,
    /// Trust only the certificate with this SHA-256
    #[arg(long, value_name = "HEX", value_parser = parse_pin)]
    pin: Option<[u8; 32]>,
    /// Trust certificates that one of the certificates in this file has signed (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "pin")]
    cacert: Option<PathBuf>,
    /// Do not use TLS: the session has no secrecy, and its carriers are TCP and SCTP alone. Both sides have
    /// to give this option
    #[arg(long, conflicts_with_all = ["pin", "cacert", "cert"])]
    insecure: bool,
    /// Accept SCTP as well, at every address of this machine
    #[arg(long, requires = "insecure", conflicts_with_all = ["server", "config"])]
    sctp: bool,
    /// The file that stores the used quotas, the servers that speak Hawser, and the networks that lose long
    /// packets; by default hawser/state.json in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// The address to listen on; by default port 4433 on all addresses
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["server", "config", "over", "pin", "cacert", "state"])]
    listen: Vec<SocketAddr>,
    /// The certificate of this side, as PEM; by default a new one is generated
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "server")]
    cert: Option<PathBuf>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    #[command(flatten)]
    stack: StackArgs,
    #[command(flatten)]
    routers: RouterArgs,
    #[command(flatten)]
    pub(crate) interact: InteractArgs,
}

/// The options that decide which callers the waiting side serves: those that know a one-time code, or all.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Session")]
pub(crate) struct CodeArgs {
    /// The one-time code that the waiting side printed. On the waiting side: use this code instead of a
    /// generated one; 8 to 64 letters, digits and hyphens
    #[arg(long, value_name = "CODE", conflicts_with = "anyone")]
    code: Option<Code>,
    /// Wait without a one-time code: every caller is served, without authentication
    #[arg(long, conflicts_with_all = ["server", "config"])]
    anyone: bool,
    /// Also show the command for the other side as a QR code
    #[arg(long, conflicts_with_all = ["server", "config"])]
    pub(super) qr: bool,
}

impl CodeArgs {
    /// Returns the code whose knowledge the calling side proves.
    pub(super) fn given(&self) -> Option<Code> {
        self.code.clone()
    }

    /// Returns the code that the waiting side requires, or `None` if it serves every caller.
    pub(super) fn asked(&self) -> Result<Option<Code>, Exit> {
        match (&self.code, self.anyone) {
            (_, true) => Ok(None),
            (Some(code), false) => Ok(Some(code.clone())),
            (None, false) => Code::generate().map(Some).map_err(Exit::environment),
        }
    }
}

/// The role that the options select.
pub(crate) enum RequestedRole {
    /// Connect to a server.
    Call(Box<Document>),
    /// Wait for a connection.
    Wait(Box<Wait>),
}

/// The settings of the waiting side.
pub(crate) struct Wait {
    /// The addresses to listen on; if empty, all addresses.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The port, if `addresses` is empty.
    pub(crate) port: u16,
    pub(crate) scheduler: String,
    pub(crate) congestion: Option<Congestion>,
    pub(crate) insecure: bool,
    /// Accept SCTP as well.
    pub(crate) sctp: bool,
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    /// A stack whose transport is written in MTP, and which accepts as well.
    pub(crate) stack: Option<Stack>,
}

impl SessionArgs {
    pub(crate) fn asked(&self) -> Result<RequestedRole, Exit> {
        if self.server.is_none() && self.config.is_none() {
            return self.wait().map(Box::new).map(RequestedRole::Wait);
        }
        let mut document = match &self.config {
            Some(path) => read(path)?,
            None => Document::new(self.server.as_deref().unwrap_or_default()).map_err(Exit::usage)?,
        };
        if let (Some(server), Some(_)) = (&self.server, &self.config) {
            let named = Document::new(server).map_err(Exit::usage)?;
            (document.host, document.port) = (named.host, named.port);
        }
        if !self.over.is_empty() {
            document.connections = self.over.iter().map(connection).collect();
        } else if self.config.is_none() {
            document.connections = vec![ConnectionPriority::over_all(Transport::Tcp)];
        }
        if let Some(stack) = self.stack.described(&self.routers.routers)? {
            let transport = Transport::Mtp(stack.name().to_owned());
            if self.over.is_empty() && self.config.is_none() {
                document.connections = vec![ConnectionPriority::new(transport.clone())];
            }
            if document
                .connections
                .iter()
                .all(|connection| connection.transport != transport)
            {
                let name = stack.transport();
                return Err(Exit::usage(format!(
                    "--dev needs a carrier over {name}: --over {name}"
                )));
            }
            document.stacks.push(stack);
        }
        let missing = self.over.iter().find_map(|(transport, _)| match transport {
            Transport::Mtp(program) if document.stacks.iter().all(|stack| stack.name() != program) => {
                Some(program)
            }
            _ => None,
        });
        if let Some(program) = missing {
            return Err(Exit::usage(format!(
                "--over mtp-{program} needs a device to run on: --dev tun:NAME or packet:NAME, and --addr ADDR/LEN; for a program in UDP also \
                 --dev udp:0.0.0.0:0"
            )));
        }
        if let Some(name) = &self.scheduler {
            document.scheduler.clone_from(name);
        }
        if let Some(congestion) = self.congestion {
            govern(congestion, &mut document.tcp, &mut document.quic);
        }
        if self.pin.is_some() {
            (document.tls.pin, document.tls.certificate) = (self.pin, None);
        }
        if self.cacert.is_some() {
            (document.tls.certificate, document.tls.pin) = (self.cacert.clone(), None);
        }
        if let Some(path) = &self.state {
            document.state = StatePlace::File(path.clone());
        }
        if self.insecure {
            document.without_tls().map_err(Exit::usage)?;
        } else if self
            .over
            .iter()
            .any(|(transport, _)| *transport == Transport::Sctp)
        {
            return Err(Exit::usage("SCTP has no encryption, so it needs --insecure"));
        }
        Ok(RequestedRole::Call(Box::new(document)))
    }

    fn wait(&self) -> Result<Wait, Exit> {
        for (is_given, flag) in [
            (!self.over.is_empty(), "--over"),
            (self.pin.is_some(), "--pin"),
            (self.cacert.is_some(), "--cacert"),
            (self.state.is_some(), "--state"),
        ] {
            if is_given {
                return Err(Exit::usage(format!("{flag} needs a SERVER to connect to")));
            }
        }
        Ok(Wait {
            addresses: self.listen.clone(),
            port: PORT,
            scheduler: self.scheduler.clone().unwrap_or_else(|| "ecf".to_owned()),
            congestion: self.congestion,
            insecure: self.insecure,
            sctp: self.sctp,
            certificate: self.cert.clone().zip(self.key.clone()),
            stack: self.stack.described(&self.routers.routers)?,
        })
    }
}

pub(super) fn read(path: &Path) -> Result<Document, Exit> {
    let read = files::given(path, files::DOCUMENT_MAX).and_then(|text| Ok((text, std::fs::metadata(path)?)));
    let (text, found) =
        read.map_err(|error| Exit::input(format!("cannot read {}: {error}", path.display())))?;
    let format = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Format::Toml,
        _ => Format::Json,
    };
    let document = Document::parse(&text, format).map_err(|errors| {
        let lines: Vec<String> = errors
            .iter()
            .map(|error| format!("{}: {error}", path.display()))
            .collect();
        Exit::input(lines.join("\nhawser: "))
    })?;
    // The state file is written to, so the document that names it must be trusted.
    if matches!(document.state, StatePlace::File(_)) && !hawser::interact::local::is_own(&found) {
        return Err(Exit::input(format!(
            "{}: state: others may write this document, so the file that it names is not written to: make \
             the document yours alone (chown, chmod go-w), or name the file with --state",
            path.display()
        )));
    }
    Ok(document)
}

fn connection((transport, interface): &(Transport, Option<String>)) -> ConnectionPriority {
    ConnectionPriority {
        interfaces: interface.iter().cloned().collect(),
        ..ConnectionPriority::new(transport.clone())
    }
}

fn parse_carrier(text: &str) -> Result<(Transport, Option<String>), String> {
    let (transport, interface) = text.split_once(':').map_or((text, None), |(t, i)| (t, Some(i)));
    let transport = Transport::by_name(transport).ok_or_else(|| {
        format!(
            "{transport:?} is not a transport; there are: {}",
            Transport::NAMES
        )
    })?;
    match interface {
        Some("") => Err("the interface's name is missing behind the colon".to_owned()),
        interface => Ok((transport, interface.map(str::to_owned))),
    }
}

/// Selects the congestion controller of both transports. The kernel has no tolerant controller, so TCP keeps
/// its default.
pub(super) fn govern(congestion: Congestion, tcp: &mut TcpOptions, quic: &mut QuicOptions) {
    quic.congestion = congestion;
    match congestion {
        Congestion::Tolerant => {}
        Congestion::Cubic => tcp.congestion = Some("cubic".to_owned()),
        Congestion::Bbr => tcp.congestion = Some("bbr".to_owned()),
    }
}

pub(crate) fn parse_congestion(name: &str) -> Result<Congestion, String> {
    let known = || Congestion::NAMES.map(|(name, _)| name).join(", ");
    Congestion::by_name(name).ok_or_else(|| format!("there are {}", known()))
}

fn parse_scheduler(name: &str) -> Result<String, String> {
    match scheduler::by_name(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err("unknown scheduler; --help lists them".to_owned()),
    }
}

pub(super) fn parse_pin(text: &str) -> Result<[u8; 32], String> {
    hex(text).ok_or_else(|| "the SHA-256 of a certificate is 64 hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_are_a_transport_and_perhaps_an_interface() {
        assert_eq!(parse_carrier("quic"), Ok((Transport::Quic, None)));
        assert_eq!(
            parse_carrier("mptcp:eth0"),
            Ok((Transport::Mptcp, Some("eth0".to_owned())))
        );
        assert_eq!(parse_carrier("sctp"), Ok((Transport::Sctp, None)));
        assert!(
            parse_carrier("dccp:eth0")
                .unwrap_err()
                .contains("tcp, quic, mptcp, sctp")
        );
        assert!(parse_carrier("tcp:").unwrap_err().contains("missing"));
    }

    /// A command with only these arguments.
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        session: SessionArgs,
    }

    #[test]
    fn the_congestion_option_sets_both_transports_and_sides() {
        use clap::Parser;
        let parse = |arguments: &[&str]| Command::try_parse_from([&["hawser"][..], arguments].concat());
        let call = |arguments: &[&str]| match parse(arguments).map(|command| command.session.asked()) {
            Ok(Ok(RequestedRole::Call(document))) => (document.quic.congestion, document.tcp.congestion),
            _ => panic!("{arguments:?}"),
        };
        assert_eq!(
            call(&["server", "--congestion", "bbr"]),
            (Congestion::Bbr, Some("bbr".to_owned()))
        );
        assert_eq!(
            call(&["server", "--congestion", "cubic"]),
            (Congestion::Cubic, Some("cubic".to_owned()))
        );
        assert_eq!(
            call(&["server", "--congestion", "tolerant"]),
            (Congestion::Tolerant, None)
        );
        assert_eq!(call(&["server"]), (Congestion::Tolerant, None));
        let wait = parse(&["--congestion", "bbr"]).map(|command| command.session.asked());
        assert!(
            matches!(wait, Ok(Ok(RequestedRole::Wait(wait))) if wait.congestion == Some(Congestion::Bbr))
        );
        let error = parse(&["server", "--congestion", "vegas"])
            .err()
            .expect("no such controller");
        assert!(error.to_string().contains("tolerant, cubic, bbr"), "{error}");
    }

    #[test]
    fn a_pin_is_64_digits() {
        assert_eq!(parse_pin(&"0f".repeat(32)), Ok([15; 32]));
        for wrong in ["", "0f", &"0g".repeat(32), &"é".repeat(32)] {
            assert!(parse_pin(wrong).is_err(), "{wrong}");
        }
    }
}
