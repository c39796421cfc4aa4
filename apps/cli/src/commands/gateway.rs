//! `hawser gateway`: the far end of sessions, which connects their streams onwards, and the commands to try
//! it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hawser::lab::units::TimeSpan;
use hawser::race::resolve::{Config, Resolver};
use hawser::runs::files;
use hawser::session::Congestion;
use hawser::session::document::{PORT, Stack};
use hawser::session::relay::{Destination, Gateway, Token};
use hawser_gateway::{AllowList, Clients, GatewayConfig, GatewayEvent, GatewayLimits, serve};
use serde_json::{Value, json};

use crate::device::{RouterArgs, StackArgs};
use crate::exit::{Exit, Outcome};
use crate::interact::InteractArgs;
use crate::interrupt::Interrupts;
use crate::output;
use crate::session::{
    Invitation, RequestedRole, SessionArgs, Wait, exchange, listen, parse_congestion, runtime,
};

/// Connect streams of sessions onwards to allowed destinations
///
///   hawser gateway token alice --out alice.token >> clients
///   hawser gateway --clients clients --allow 'example.com:443' --allow '*.example.org:*'
///
/// No destination is allowed by default. Private, loopback, link-local and metadata addresses are
/// allowed only by a rule that names them by address, whatever name resolved to them (docs/gateway.md).
#[derive(clap::Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Option<ServeArgs>,
    #[command(flatten)]
    stack: StackArgs,
    #[command(flatten)]
    routers: RouterArgs,
    #[command(flatten)]
    interact: InteractArgs,
}

#[derive(clap::Args)]
struct ServeArgs {
    /// A file with a line for each client, as `hawser gateway token` prints it
    #[arg(long, value_name = "FILE")]
    clients: PathBuf,
    /// An allowed destination: NAME:PORTS, *.NAME:PORTS, ADDRESS[/BITS]:PORTS (IPv6 in brackets), `public`
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// A file with more allowed destinations, one per line
    #[arg(long, value_name = "FILE")]
    allow_file: Option<PathBuf>,
    /// The address to listen on; by default port 4433 on all addresses
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// The congestion controller for what is sent to clients: cubic, bbr, or tolerant. By default QUIC uses
    /// tolerant and TCP the default of the system (docs/sessions.md, Losses)
    #[arg(long, value_name = "NAME", value_parser = parse_congestion)]
    congestion: Option<Congestion>,
    /// The time without a byte after which the gateway ends a connection: 2 h 4 min by default, the minimum
    /// of RFC 5382 for translators
    #[arg(long, value_name = "TIME", default_value = "7440s")]
    idle: TimeSpan,
    /// The certificate, as PEM; by default a new one is generated
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Print events as JSON, one object per line
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    Token(TokenArgs),
    Cat(Box<CatArgs>),
}

/// Generate a token and its line for the file of clients
///
/// The token is written to a new file that only its owner may read; the line, which is no secret, is
/// printed on standard output.
#[derive(clap::Args)]
struct TokenArgs {
    /// The name of the client, for the operator of the gateway
    name: String,
    /// The file of the token; by default NAME.token
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Connect standard input and output to a destination through a gateway
///
///   hawser gateway cat 192.0.2.7 --pin 3f… --token alice.token --to example.com:80
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(mut_arg("server", |server| server
    .required_unless_present("config")
    .help("Connect to this gateway: HOST[:PORT], unless the document of --config names it")))]
struct CatArgs {
    /// The destination behind the gateway
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// The file with the token of this client
    #[arg(long, value_name = "FILE")]
    token: PathBuf,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match (&args.command, &args.serve) {
        (Some(Command::Token(args)), _) => token(args),
        (Some(Command::Cat(args)), _) => cat(args),
        (None, Some(serve)) => gateway(
            serve,
            args.stack.described(&args.routers.routers)?,
            &args.interact,
        ),
        (None, None) => Err(Exit::usage(
            "the command needs --clients FILE; see `hawser gateway --help`",
        )),
    }
}

fn token(args: &TokenArgs) -> Outcome {
    let token = Token::generate().map_err(Exit::environment)?;
    let line = Clients::line(&args.name, &token);
    // A name that could not be read back is refused.
    Clients::parse(&line).map_err(|error| Exit::usage(error.why))?;
    let path = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.token", args.name)));
    token.write(&path).map_err(Exit::environment)?;
    println!("{line}");
    eprintln!(
        "the token is in {}, for the client alone; the line above belongs in the gateway's --clients FILE",
        path.display()
    );
    Ok(())
}

fn gateway(args: &ServeArgs, stack: Option<Stack>, interact: &InteractArgs) -> Outcome {
    output::serve(args.json).map_err(Exit::environment)?;
    let clients = Clients::read(&args.clients).map_err(Exit::input)?;
    if clients.is_empty() {
        let path = args.clients.display();
        return Err(Exit::input(format!(
            "{path} lists no client; `hawser gateway token` adds one"
        )));
    }
    let allow = AllowList::parse(args.allow.iter().map(String::as_str)).map_err(Exit::usage)?;
    let allow = match &args.allow_file {
        Some(path) => allow.and(rules(path)?),
        None => allow,
    };
    if allow.is_empty() {
        eprintln!(
            "hawser: warning: no destination is allowed, so the gateway refuses every request; --allow RULE allows \
             destinations, and `--allow public` all public addresses"
        );
    }
    let limits = GatewayLimits { idle: Duration::from_nanos(args.idle.0), ..GatewayLimits::default() };
    let wait = Wait {
        addresses: args.listen.clone(),
        port: args.listen.first().map_or(PORT, SocketAddr::port),
        scheduler: "ecf".to_owned(),
        congestion: args.congestion,
        insecure: false,
        certificate: args.cert.clone().zip(args.key.clone()),
        sctp: false,
        stack,
    };
    let json = args.json;
    interact.start()?;
    runtime()?.block_on(async {
        let interrupts = Interrupts::new()?;
        let resolver = Config::system()
            .and_then(|config| Resolver::new(&config))
            .map_err(Exit::environment)?;
        // No code is announced, because the gateway's clients have tokens.
        let other = "hawser gateway cat --token FILE --to HOST:PORT";
        let invitation = Invitation { other, code: None, qr: false };
        let server = listen(&wait, limits.acceptor(), &invitation, json).await?;
        let config = GatewayConfig { clients, allow, resolver, limits };
        let stop = async { _ = interrupts.next().await };
        serve(server, config, move |event| report(&event, json), stop)
            .await
            .map_err(Exit::environment)
    })
}

fn rules(path: &Path) -> Result<AllowList, Exit> {
    let text = files::given(path, files::DOCUMENT_MAX)
        .map_err(|error| Exit::input(format!("{}: {error}", path.display())))?;
    AllowList::parse_file(&text).map_err(|error| Exit::input(format!("{}: {error}", path.display())))
}

fn report(event: &GatewayEvent, json: bool) {
    match json {
        true => println!("{}", as_json(event)),
        false => eprintln!("{event}"),
    }
}

fn as_json(event: &GatewayEvent) -> Value {
    match event {
        GatewayEvent::Accepted { client } => json!({ "event": "accepted", "client": &**client }),
        GatewayEvent::Refused { why } => json!({ "event": "refused", "why": why }),
        GatewayEvent::Connected { client, destination, address } => {
            json!({ "event": "connected", "client": &**client, "destination": destination.to_string(),
                     "address": address.to_string() })
        }
        GatewayEvent::Denied { client, destination, reply, why } => {
            let destination = destination.as_ref().map(ToString::to_string);
            json!({ "event": "denied", "client": &**client, "destination": destination,
                    "reply": reply.code(), "why": why })
        }
        GatewayEvent::Ended { client, destination, carried, end } => {
            json!({ "event": "ended", "client": &**client, "destination": destination.to_string(),
                     "up": carried.up, "down": carried.down, "how": format!("{end:?}").to_lowercase() })
        }
        GatewayEvent::Left { client } => json!({ "event": "left", "client": &**client }),
    }
}

/// The maximum time that the end of a session with a gateway takes.
const GOODBYE: Duration = Duration::from_secs(2);

fn cat(args: &CatArgs) -> Outcome {
    let destination = Destination::parse(&args.to).map_err(Exit::usage)?;
    let token = Token::read(&args.token).map_err(Exit::input)?;
    let RequestedRole::Call(document) = args.session.asked()? else {
        return Err(Exit::usage(
            "the command needs a gateway: hawser gateway cat HOST[:PORT] …",
        ));
    };
    if !document.is_secure() {
        return Err(Exit::usage("a token is sent only over TLS: leave out --insecure"));
    }
    args.session.interact.start()?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let (gateway, warnings) = Gateway::open(*document, token).await.map_err(Exit::network)?;
        warnings
            .iter()
            .for_each(|warning| eprintln!("hawser: warning: {warning}"));
        let interrupts = Interrupts::new()?;
        // The future keeps its stream until the session is closed: dropping a stream would end it as if all
        // data had been written.
        let mut connected = std::pin::pin!(async {
            let stream = gateway.connect(&destination).await;
            let stream = stream.map_err(|error| Exit::network(format!("{destination}: {error}")))?;
            exchange(stream).await
        });
        let done = interrupts.end(connected.as_mut()).await;
        // In every case the gateway can release the session's place.
        let _ = tokio::time::timeout(GOODBYE, gateway.close()).await;
        done
    });
    // A thread may still be blocked on standard input.
    runtime.shutdown_background();
    outcome
}
