//! `hawser proxy`: runs a SOCKS5 and HTTP proxy that races transports.

mod policy;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hawser::connect::transports::Transports;
use hawser::connect::{Profile, RaceReport, Racer, Transport};
use hawser::runs::files;
use hawser_proxy::{
    BindError, Choice, Credential, Observer, Proxy, ProxyEvent, ProxyEventContent, ProxyLimits, ServerEvent,
    Settings,
};

use policy::PolicyArgs;

use crate::device::{RouterArgs, StackArgs, unusable};
use crate::exit::{Exit, Outcome};
use crate::interact::InteractArgs;
use crate::interrupt::Interrupts;
use crate::output;
use crate::session::GatewayArgs;

/// Run a SOCKS5 and HTTP proxy that races transports
///
/// One port speaks SOCKS5, HTTP CONNECT and plain HTTP. The proxy resolves names, and runs a race for each
/// destination (docs/proxy.md):
///
///   hawser proxy &
///   curl --proxy socks5h://127.0.0.1:1080 https://www.example.org/
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The address to listen on (repeatable); beyond loopback a credential is required
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:1080")]
    listen: Vec<SocketAddr>,
    /// The rules of races: rfc8305, neat, version3, neat-original
    #[arg(long, value_name = "NAME", default_value = "rfc8305", value_parser = parse_profile)]
    profile: Profile,
    /// The transports to race in order of preference: TRANSPORT[:INTERFACE], as in `mptcp,tcp:wlan0`.
    /// Transports are tcp, mptcp, sctp, with --gateway also gateway, and with --dev programs in MTP:
    /// mtp-tcp
    #[arg(long, value_name = "TRANSPORTS", value_delimiter = ',', default_value = "tcp")]
    over: Vec<String>,
    /// The maximum time of a race in seconds, name resolution included
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    deadline: u64,
    /// Require the USER:PASSWORD of the first line of this file
    #[arg(long, value_name = "FILE")]
    credential: Option<PathBuf>,
    /// The maximum number of clients; further ones wait for a place, which is reported once a minute
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    max_connections: u32,
    /// Print events as JSON, one object per line: requests, attempts, winners, errors
    #[arg(long)]
    json: bool,
    /// Print the same events as text on standard error
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    gateway: GatewayArgs,
    #[command(flatten)]
    stack: StackArgs,
    #[command(flatten)]
    routers: RouterArgs,
    #[command(flatten)]
    interact: InteractArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    output::serve(args.json).map_err(Exit::environment)?;
    let gateway = args.gateway.gateway()?;
    let transports = match gateway.clone() {
        Some(gateway) => Transports::new().with_gateway(gateway),
        None => Transports::new(),
    };
    let described = args.stack.described(&args.routers.routers)?;
    // The socket opens first, so that races and sessions are on the bus from the beginning.
    args.interact.start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Exit::environment)?;
    runtime.block_on(async {
        let transports = match &described {
            Some(stack) => transports.with_stack(stack.start().map_err(|error| unusable(error.why))?),
            None => transports,
        };
        let mut settings = settings(args, &transports)?;
        let racer = Racer::open().await.map_err(Exit::environment)?;
        let chooser = args
            .policy
            .chooser(transports, gateway.clone(), args.json)
            .await?;
        if let Some(gateway) = gateway.clone() {
            // A failure is reported in the log.
            tokio::spawn(async move { gateway.prepare().await });
        }
        if let Some(chooser) = &chooser {
            settings.choice = Choice::ByPolicy(chooser.policies.clone());
            settings.learner = Some(chooser.learner());
            chooser.knowledge.remember(&racer);
        }
        let proxy = Proxy::bind(racer, settings).await.map_err(|error| match error {
            BindError::Open(_) => Exit::usage(error),
            BindError::System { .. } => Exit::environment(error),
        })?;
        if !args.json {
            for address in proxy.addresses() {
                println!("listening on {address}: SOCKS5 and HTTP");
            }
        }
        let interrupts = Interrupts::new()?;
        proxy.serve(async { _ = interrupts.next().await }).await;
        if let Some(chooser) = chooser {
            // Data that cannot be saved was reported at the attempt.
            let _ = tokio::time::timeout(Duration::from_secs(2), chooser.knowledge.flush()).await;
        }
        Ok(())
    })
}

fn settings(args: &Args, transports: &Transports) -> Result<Settings, Exit> {
    let transports: Result<Vec<Arc<dyn Transport>>, Exit> = args
        .over
        .iter()
        .zip(0..)
        .map(|(word, class)| {
            transports
                .parse(word, class)
                .map_err(|error| Exit::usage(format!("--over: {error}")))
        })
        .collect();
    Ok(Settings {
        listen: args.listen.clone(),
        credential: args.credential.as_deref().map(credential).transpose()?,
        choice: Choice::Always(transports?.into()),
        profile: args.profile.clone(),
        deadline: Duration::from_secs(args.deadline),
        limits: ProxyLimits { connections: args.max_connections as usize, ..ProxyLimits::default() },
        observer: observer(args),
        learner: None,
    })
}

fn credential(path: &Path) -> Result<Credential, Exit> {
    let named =
        |error: &dyn std::fmt::Display| Exit::input(format!("--credential {}: {error}", path.display()));
    // The credential keeps other users of this host out, so they must not be able to read it.
    let mode = std::fs::metadata(path)
        .map_err(|error| named(&error))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(named(&format!(
            "others may use it (mode {:03o}); chmod 600 it",
            mode & 0o777
        )));
    }
    let text = files::given(path, files::DOCUMENT_MAX).map_err(|error| named(&error))?;
    Credential::parse(&text).map_err(|error| named(&error))
}

fn parse_profile(name: &str) -> Result<Profile, String> {
    let name = if name == "version3" { "v3" } else { name };
    Profile::by_name(name)
        .ok_or_else(|| "there are rfc8305, neat, version3 (also v3) and neat-original".to_owned())
}

fn observer(args: &Args) -> Option<Observer> {
    if args.json {
        return Some(Arc::new(|event| {
            if let Ok(line) = serde_json::to_string(&event) {
                println!("{line}");
            }
        }));
    }
    let is_verbose = args.verbose;
    Some(Arc::new(move |event| {
        // Refused clients concern every operator of a proxy, not only verbose ones.
        if is_verbose || matches!(event.what, ProxyEventContent::Own(ServerEvent::Full { .. })) {
            eprintln!("{}", line(&event));
        }
    }))
}

/// Formats an event for people.
fn line(event: &ProxyEvent) -> String {
    let text = match &event.what {
        ProxyEventContent::Race(RaceReport { after, what }) => {
            format!("{:>8.1} ms  {what}", after.as_secs_f64() * 1e3)
        }
        ProxyEventContent::Own(own) => own.to_string(),
    };
    event
        .request
        .map_or_else(|| text.clone(), |number| format!("#{number} {text}"))
}
