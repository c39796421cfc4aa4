//! A client and a server with a router between them. Packets from the router to the client cross a link with
//! a rate, on which the server's answers and the cross traffic share a queue.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hawser::host::netns::{Netlink, Route};
use hawser::lab::{Direction, Host, Lab, LabError, Spec};

use crate::sys;

/// The client's address, and the router's on that side.
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The destination of cross traffic: the discard service (RFC 863).
const SINK: SocketAddr = SocketAddr::new(IpAddr::V4(CLIENT), 9);
/// The only interface of the client's and of the server's host.
pub(super) const INTERFACE: &str = "eth0";
/// On the server's side: the address of the kernel's stack, the address of ours, and the router's.
pub(super) const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);
pub(super) const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 3);
pub(super) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
/// The bytes of a datagram that fills a frame, and of that frame as the link counts them.
const DATAGRAM: u16 = 1472;
const FRAME: u64 = 1514;
/// The number of datagrams that a system call sends. One call for each datagram would take a large share of a
/// core.
const AT_ONCE: u64 = 8;
/// The time between two checks for due datagrams.
const PAUSE: Duration = Duration::from_micros(200);

pub(super) struct Line {
    lab: Lab,
}

impl Line {
    /// Builds the network, with this rate in bits per second towards the client, or without a limit.
    ///
    /// # Errors
    /// The network could not be built on this machine.
    pub(super) fn up(rate: Option<u64>) -> io::Result<Line> {
        let rules = rate.map_or_else(String::new, |rate| {
            format!("backward = {{ rate = \"{rate}bit/s\", queue = \"256kB\" }}\n")
        });
        let text = format!(
            "host = [{{ name = \"client\" }}, {{ name = \"router\", router = true }}, {{ name = \"server\" }}]\n\n\
             [[link]]\nname = \"line\"\nbetween = [\"client\", \"router\"]\nthrough = \"kernel\"\n{rules}\n\
             [[link]]\nname = \"access\"\nbetween = [\"router\", \"server\"]\nthrough = \"kernel\"\n"
        );
        let spec = Spec::parse(&text).map_err(io::Error::other)?;
        let lab = Lab::up(&spec).map_err(io::Error::other)?;
        let line = Line { lab };
        // The machine's default is unknown, and nginx has no option to set it.
        let to_client = Route {
            to: (CLIENT.into(), 32),
            interface: INTERFACE,
            gateway: Some(ROUTER.into()),
            metric: 0,
            table: None,
            congestion_control: Some("cubic"),
        };
        line.set_route("server", &to_client)?;
        // The lab does not know our stack's address.
        let to_ours = Route {
            to: (OURS.into(), 32),
            gateway: Some(NEAR.into()),
            congestion_control: None,
            ..to_client
        };
        line.set_route("client", &to_ours)?;
        Ok(line)
    }

    fn set_route(&self, host: &str, route: &Route<'_>) -> io::Result<()> {
        let set = self
            .host(host)?
            .run(|| Netlink::open()?.set_route(route))
            .map_err(io::Error::other)?;
        set.map_err(io::Error::other)
    }

    /// Returns a host: `client` or `server`.
    ///
    /// # Errors
    /// There is no host of that name.
    pub(super) fn host(&self, name: &str) -> io::Result<Host<'_>> {
        self.lab.host(name).map_err(io::Error::other)
    }

    /// Returns the bytes that have crossed the link to the client, and the share of cross traffic in them.
    ///
    /// # Errors
    /// The kernel's counters could not be read.
    pub(super) fn carried(&self) -> io::Result<[u64; 2]> {
        let line = self.lab.link("line").map_err(io::Error::other)?;
        let statistics = line.statistics(Direction::Backward).map_err(io::Error::other)?;
        Ok([
            statistics.delivered_bytes,
            datagrams(&self.host("client")?)? * FRAME,
        ])
    }

    /// Sends datagrams from the router to the client at a constant rate, in bits per second, until the result
    /// is dropped. The rate does not depend on losses.
    ///
    /// # Errors
    /// A socket could not be opened.
    pub(super) fn cross_traffic(&self, rate: u64) -> io::Result<CrossTraffic> {
        // The socket is never read: the kernel drops datagrams that do not fit, which costs little.
        let sink = self.host("client")?.run(|| UdpSocket::bind(SINK));
        let sink = sink.map_err(io::Error::other)??;
        let router = self.host("router")?;
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let thread = router
            .handle()
            .spawn(move || send(rate, &stop))
            .map_err(io::Error::other)?;
        Ok(CrossTraffic { over, thread: Some(thread), _sink: sink })
    }
}

/// Returns the number of datagrams that have reached a host, counted before they enter a socket's buffer or
/// are dropped there.
fn datagrams(host: &Host<'_>) -> io::Result<u64> {
    let text = host.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp"));
    let text = text.map_err(io::Error::other)??;
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, counts) = (rows.next().unwrap_or_default(), rows.next().unwrap_or_default());
    let counted = names.split(' ').zip(counts.split(' '));
    let counted = counted.filter(|(name, _)| ["InDatagrams", "InErrors"].contains(name));
    counted
        .map(|(_, count)| count.parse::<u64>().map_err(io::Error::other))
        .sum()
}

/// Running cross traffic.
pub(super) struct CrossTraffic {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<io::Result<()>, LabError>>>,
    _sink: UdpSocket,
}

impl CrossTraffic {
    /// Ends the traffic.
    ///
    /// # Errors
    /// The traffic ended early, for this reason.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let ended = thread
            .join()
            .map_err(|_| io::Error::other("the cross traffic panicked"))?;
        ended.map_err(io::Error::other)?
    }
}

impl Drop for CrossTraffic {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn send(rate: u64, over: &AtomicBool) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(SINK)?;
    // A full queue drops datagrams, but does not delay later ones.
    socket.set_nonblocking(true)?;
    sys::cut_datagrams(&socket, DATAGRAM)?;
    let datagrams = [0; DATAGRAM as usize * AT_ONCE as usize];
    let (begin, mut sent) = (Instant::now(), 0);
    while !over.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * rate as f64 / (8 * FRAME * AT_ONCE) as f64) as u64;
        for _ in sent..due {
            match socket.send(&datagrams) {
                Err(error) if !is_full(&error) => return Err(error),
                _ => {}
            }
        }
        sent = due;
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}
