//! The lab of the browser's story: a client and a server with two paths between them. The web server and the
//! gateway run on the server, the proxies on the client, and switches block parts of the network.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hawser::connect::Racer;
use hawser::lab::spec::Selector;
use hawser::lab::{Lab, Rules, Spec};
use hawser::session::relay::Token;
use hawser_dashboard::Switch;
use hawser_gateway::Clients;
use hawser_proxy::{Proxy, ProxyLimits, Settings};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::bridge::Bridge;
use super::origin::PORT;
use super::setups::{GatewayAccess, SETUPS};
use crate::commands::demo::directory::Directory;
use crate::exit::Exit;

const LAB: &str = include_str!("lab.toml");
/// The ids and names of the links on the page.
pub(super) const PATHS: [(&str, &str); 2] = [("path-a", "Path A"), ("path-b", "Path B")];
/// The capacity of each path, in Mbit/s.
pub(super) const RATE: f64 = 10.0;
pub(super) const SERVER: &str = "web.example";
/// The traffic that the switches other than paths block.
const BLOCKS: [(&str, &str); 3] = [("sctp", "udp:9899"), ("quic", "udp:4433"), ("ipv6", "ipv6")];

/// The lab and the processes in it, all of which end with this value.
pub(super) struct DemoLab {
    pub(super) lab: Lab,
    /// The selectors that are blocked now.
    blocked: Mutex<Vec<&'static str>>,
    /// The client's runtime, which runs the proxies.
    runtime: Option<Runtime>,
    _servers: [ChildProcess; 2],
    directory: Directory,
}

/// A child process that is killed when dropped.
struct ChildProcess(Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for DemoLab {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The switches, with everything admitted.
pub(super) fn switches() -> Vec<Switch> {
    let mut switches = vec![
        Switch::new("sctp", "SCTP", "UDP port 9899, on both paths", true),
        Switch::new("quic", "QUIC", "UDP port 4433, on both paths", true),
        Switch::new("ipv6", "IPv6", "on path A, the only one that has it", true),
    ];
    switches
        .extend(PATHS.map(|(id, name)| Switch::new(id, name, "10 Mbit/s; blocked: the link is cut", true)));
    switches
}

impl DemoLab {
    /// Builds the lab. `outside` has a listener per setup, opened outside of the lab, through which browsers
    /// there reach its proxy; it may be empty. The process must be in a user namespace and have one thread.
    pub(super) fn set_up(bridge: &Arc<Bridge>, outside: Vec<TcpListener>) -> Result<DemoLab, Exit> {
        let spec = Spec::parse(LAB).map_err(Exit::failed)?;
        let lab = Lab::up(&spec).map_err(Exit::environment)?;
        let directory = Directory::new()?;
        let origin = origin(&lab)?;
        let (gateway, access) = gateway(&lab, &directory)?;
        let runtime = runtime(&lab)?;
        proxies(&runtime, &access, bridge, outside)?;
        Ok(DemoLab {
            lab,
            blocked: Mutex::default(),
            runtime: Some(runtime),
            _servers: [origin, gateway],
            directory,
        })
    }

    /// A directory that only this user may access.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Prepares a command on the client.
    pub(super) fn on_client(&self, program: &Path) -> Result<Command, Exit> {
        self.lab
            .host("client")
            .and_then(|host| host.command(program))
            .map_err(Exit::environment)
    }

    /// Admits or blocks traffic, effective immediately.
    pub(super) fn switch(&self, id: &str, on: bool) -> Result<(), String> {
        let failed = |error: hawser::lab::LabError| error.to_string();
        let Some((_, selector)) = BLOCKS.iter().find(|(block, _)| *block == id) else {
            let link = self.lab.link(id).map_err(failed)?;
            return if on { link.up() } else { link.down() }.map_err(failed);
        };
        let mut blocked = self.blocked.lock();
        blocked.retain(|one| one != selector);
        if !on {
            blocked.push(selector);
        }
        let selectors: Result<Vec<Selector>, _> = blocked.iter().map(|one| one.parse::<Selector>()).collect();
        let block = Some(selectors.map_err(|error| error.to_string())?);
        for link in self.lab.links() {
            link.set_both(&Rules { block: block.clone(), ..Rules::default() })
                .map_err(failed)?;
        }
        Ok(())
    }
}

/// Prepares this command on the server.
fn on_server(lab: &Lab) -> Result<Command, Exit> {
    let hawser = std::env::current_exe().map_err(Exit::environment)?;
    let mut command = lab
        .host("server")
        .and_then(|host| host.command(&hawser))
        .map_err(Exit::environment)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(command)
}

fn addresses(lab: &Lab) -> Result<Vec<IpAddr>, Exit> {
    Ok(lab
        .host("server")
        .map_err(Exit::environment)?
        .addresses()
        .to_vec())
}

/// Starts a child process and waits for its first line, which reports that it listens.
fn listening(mut command: Command) -> Result<(ChildProcess, Value), Exit> {
    let mut process = ChildProcess(command.spawn().map_err(Exit::environment)?);
    let output = process
        .0
        .stdout
        .take()
        .ok_or_else(|| Exit::environment("no pipe to a server"))?;
    let (mut output, mut line) = (BufReader::new(output), String::new());
    output.read_line(&mut line).map_err(Exit::environment)?;
    let first_line = serde_json::from_str(&line)
        .map_err(|_| Exit::environment("a server ended before it listened; its error is above"))?;
    // Further output is drained, so that it does not fill the pipe.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    Ok((process, first_line))
}

/// Starts the web server.
fn origin(lab: &Lab) -> Result<ChildProcess, Exit> {
    let mut command = on_server(lab)?;
    let own: Vec<String> = addresses(lab)?.iter().map(ToString::to_string).collect();
    command.args(["demo", "--origin", &own.join(",")]);
    Ok(listening(command)?.0)
}

/// Starts the gateway, and returns how to reach it.
fn gateway(lab: &Lab, directory: &Path) -> Result<(ChildProcess, GatewayAccess), Exit> {
    let token = Token::generate().map_err(Exit::environment)?;
    let clients = directory.join("clients");
    let line = Clients::line("client", &token) + "\n";
    // The mode is explicit, independent of the umask, because a gateway refuses a file that other users may
    // write.
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&clients);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(Exit::environment)?;
    let mut command = on_server(lab)?;
    command.args(["gateway", "--json", "--clients"]).arg(clients);
    // The web server shares the gateway's own addresses, which must be allowed one by one.
    for own in addresses(lab)? {
        let own = if own.is_ipv6() {
            format!("[{own}]")
        } else {
            own.to_string()
        };
        command.args(["--allow", &format!("{own}:{PORT}")]);
    }
    let (process, first_line) = listening(command)?;
    let pin = first_line["pin"].as_str().unwrap_or_default().to_owned();
    let address = lab.host("server").ok().and_then(|host| host.ipv4());
    let address = address
        .ok_or_else(|| Exit::environment("the server has no address"))?
        .to_string();
    Ok((process, GatewayAccess { address, pin, token }))
}

/// Builds a runtime whose threads are on the client.
fn runtime(lab: &Lab) -> Result<Runtime, Exit> {
    let host = lab.host("client").map_err(Exit::environment)?.handle();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(move || host.enter().expect("a host of a lab that is up"))
        .enable_all()
        .build()
        .map_err(Exit::environment)
}

/// Starts the proxies, one for each setup, each with a memory of its own.
fn proxies(
    runtime: &Runtime,
    access: &GatewayAccess,
    bridge: &Arc<Bridge>,
    outside: Vec<TcpListener>,
) -> Result<(), Exit> {
    let mut outside = outside.into_iter();
    for (number, setup) in SETUPS.iter().enumerate() {
        let bridge = Arc::clone(bridge);
        let settings = Settings {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, setup.port))],
            choice: setup.choice(access)?,
            limits: ProxyLimits { drain: Duration::ZERO, ..ProxyLimits::default() },
            observer: Some(Arc::new(move |event| bridge.on(number, &event))),
            ..Settings::default()
        };
        let outside = outside.next();
        // A socket belongs to the host of the thread that opens it.
        let opened = runtime.spawn(async move {
            let racer = Racer::open().await.map_err(Exit::environment)?;
            let mut proxy = Proxy::bind(racer, settings).await.map_err(Exit::environment)?;
            if let Some(outside) = outside {
                proxy = proxy.and_at(outside).map_err(Exit::environment)?;
            }
            tokio::spawn(proxy.serve(std::future::pending()));
            Ok(())
        });
        runtime.block_on(opened).map_err(Exit::failed)??;
    }
    Ok(())
}
