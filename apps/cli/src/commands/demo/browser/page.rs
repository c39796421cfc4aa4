//! `hawser demo --web`: serves the page of the browser's story until interrupted.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use hawser::lab::{LinkReport, enter_user_namespace};
use hawser_dashboard::{Controls, Dashboard, Download, DownloadState, Feed, Path, Plan, Setup as FeedSetup};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::bridge::Bridge;
use super::client::Client;
use super::demo_lab::{DemoLab, PATHS, RATE, SERVER, switches};
use super::setups::{DownloadSetup, SETUPS};
use crate::exit::{Exit, Outcome};
use crate::interrupt::Interrupts;
use crate::output;

/// The interval at which the paths are sampled.
const EVERY: Duration = Duration::from_millis(250);
/// The maximum number of downloads queued behind the current one.
const WAITING: usize = 8;
/// The sizes on offer, in MiB.
const SIZES_MIB: [u32; 6] = [1, 4, 8, 16, 32, 64];

/// The actions of the page's switches and buttons.
struct Network {
    place: Arc<DemoLab>,
    feed: Feed,
    orders: SyncSender<(u64, usize, u32)>,
    downloads: Mutex<u64>,
    /// Held while switching.
    turn: Mutex<()>,
}

impl Controls for Network {
    fn switch(&self, id: &str, on: bool) -> Result<(), String> {
        // Switching is serialised, so that the page shows the actual state.
        let _turn = self.turn.lock();
        self.place.switch(id, on)?;
        self.feed.switched(id, on);
        Ok(())
    }

    fn download(&self, setup: &str, mib: u32) -> Result<(), String> {
        let setup = DownloadSetup::numbered(setup).ok_or("the setup is unknown")?;
        let mut number = self.downloads.lock();
        match self.orders.try_send((*number, setup, mib)) {
            Ok(()) => *number += 1,
            Err(TrySendError::Full(_)) => return Err(format!("{WAITING} downloads wait already")),
            Err(TrySendError::Disconnected(_)) => return Err("the downloads have ended".to_owned()),
        }
        Ok(())
    }
}

/// Serves the page, and the proxies for browsers outside of the lab, until interrupted.
pub(in super::super) fn run(as_json: bool) -> Outcome {
    // These listeners are opened before the namespaces, for the browser of the user who started the command.
    let here = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(Exit::environment);
    let page = here(0)?;
    let proxies = SETUPS.iter().map(|_| here(0)).collect::<Result<Vec<_>, _>>()?;
    let ports = proxies
        .iter()
        .map(TcpListener::local_addr)
        .collect::<Result<Vec<SocketAddr>, _>>();
    let ports = ports.map_err(Exit::environment)?;
    // This must happen before any thread is started.
    enter_user_namespace().map_err(Exit::environment)?;
    let feed = Feed::new(plan(&ports));
    let bridge = Arc::new(Bridge::new(feed.clone()));
    let place = Arc::new(DemoLab::set_up(&bridge, proxies)?);
    let (orders, ordered) = sync_channel(WAITING);
    let network = Network {
        place: Arc::clone(&place),
        feed: feed.clone(),
        orders,
        downloads: Mutex::default(),
        turn: Mutex::default(),
    };
    let page = Dashboard::new(page, feed.clone(), Arc::new(network)).map_err(Exit::environment)?;
    announce(&page.url(), &ports, as_json);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (place, bridge, feed, stop) = (&*place, &*bridge, &feed, &stop);
        scope.spawn(|| watch(place, feed, stop));
        // The thread ends when the page drops the sender of the orders.
        scope.spawn(move || download(place, bridge, feed, ordered, stop));
        let served = serve(page);
        stop.store(true, Ordering::Relaxed);
        served
    })
}

/// Describes the page, with the proxies through which a browser outside of the lab can take part.
pub(super) fn plan(ports: &[SocketAddr]) -> Plan {
    let path = |(id, name): (&str, &str)| Path { id: id.into(), name: name.into(), mbit_per_second: RATE };
    let setup = |setup: &DownloadSetup| FeedSetup { id: setup.id.into(), name: setup.name.into() };
    let hint = |(setup, port): (&DownloadSetup, &SocketAddr)| format!("{}: socks5://{port}", setup.name);
    let hints = (!ports.is_empty()).then(|| format!("A browser of yours gets http://{SERVER}/ by a proxy:"));
    Plan {
        title: "Two paths, one download".into(),
        about: format!(
            "A browser, Hawser's proxy, and a web server behind two paths of {RATE} Mbit/s each, in a lab on this machine"
        ),
        paths: PATHS.map(path).into(),
        switches: switches(),
        setups: SETUPS.iter().map(setup).collect(),
        sizes_mib: SIZES_MIB.into(),
        hints: hints
            .into_iter()
            .chain(SETUPS.iter().zip(ports).map(hint))
            .collect(),
    }
}

fn announce(url: &str, ports: &[SocketAddr], as_json: bool) {
    if as_json {
        let proxies: serde_json::Map<String, Value> = SETUPS
            .iter()
            .zip(ports)
            .map(|(setup, port)| (setup.id.to_owned(), port.to_string().into()))
            .collect();
        println!("{}", json!({ "event": "page", "url": url, "proxies": proxies }));
        return;
    }
    print!("the page is for users of this machine who know its address:\n\n  {url}\n\n");
    println!("your own browser reaches http://{SERVER}/ through one of these proxies:");
    println!();
    for (setup, port) in SETUPS.iter().zip(ports) {
        println!("  {:24} --proxy-server=socks5://{port}", setup.name);
    }
    println!();
    println!("Ctrl-C ends the demonstration");
}

/// Serves until this process is asked to terminate.
fn serve(page: Dashboard) -> Outcome {
    output::serve(false).map_err(Exit::environment)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Exit::environment)?.block_on(async {
        let interrupts = Interrupts::new()?;
        page.serve(async { _ = interrupts.next().await }).await;
        Ok(())
    })
}

/// Reports the rates of the paths towards the client.
pub(super) fn watch(place: &DemoLab, feed: &Feed, stop: &AtomicBool) {
    let mut before: Option<Vec<LinkReport>> = None;
    // The watch ends early only if the lab fails.
    let _ = place.lab.watch(EVERY, stop, |now| {
        if let Some(before) = before.replace(now.clone()) {
            let pairs = now.iter().zip(&before);
            let rates: Vec<f64> = pairs
                .map(|(now, before)| now.backward.bits_per_second_since(&before.backward) / 1e6)
                .collect();
            feed.sample(&rates);
        }
    });
}

/// Makes the ordered downloads one after the other.
fn download(
    place: &DemoLab,
    bridge: &Bridge,
    feed: &Feed,
    ordered: Receiver<(u64, usize, u32)>,
    stop: &AtomicBool,
) {
    // A browser takes memory, so it is started only on demand.
    let mut client = None;
    for (number, setup, mib) in ordered {
        let mut download = Download::begun(number, SETUPS[setup].name, u64::from(mib) << 20);
        let done = match &mut client {
            Some(client) => Ok(client),
            None => Client::start(place, bridge, stop).map(|started| client.insert(started)),
        };
        let done = done.map_err(|exit| exit.to_string()).and_then(|client| {
            download.by = client.name().to_owned();
            feed.download(download.clone());
            client.download(setup, mib)
        });
        match done {
            Ok(done) => {
                download.state = DownloadState::Done;
                (download.seconds, download.transport) = (Some(done.seconds), Some(done.transport));
            }
            Err(why) => {
                download.state = DownloadState::Failed;
                download.error = Some(why);
            }
        }
        feed.download(download);
    }
}
