//! A client and a server with a router between them. What the router sends to the client crosses a line with a rate:
//! there the server's answers and the cross traffic share a queue.

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
/// Where cross traffic goes: the discard service (RFC 863).
const SINK: SocketAddr = SocketAddr::new(IpAddr::V4(CLIENT), 9);
/// The only interface of the client's and of the server's host.
pub(super) const INTERFACE: &str = "eth0";
/// The address of the kernel's stack on the server's host, that of ours beside it, and the router's there.
pub(super) const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);
pub(super) const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 3);
pub(super) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
/// Bytes of a datagram that fills a frame, and that frame's as the line counts them.
const DATAGRAM: u16 = 1472;
const FRAME: u64 = 1514;
/// Datagrams that a system call sends: each by itself would take a good part of a core.
const AT_ONCE: u64 = 8;
/// Between two looks at what is due.
const PAUSE: Duration = Duration::from_micros(200);

/// The network.
pub(super) struct Line {
    lab: Lab,
}

impl Line {
    /// The network, with so many bits a second towards the client, or as many as go.
    ///
    /// # Errors
    /// When it cannot be made here.
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
        // The machine's default may be anything, and nginx has no option for it.
        let to_client = Route {
            to: (CLIENT.into(), 32),
            interface: INTERFACE,
            gateway: Some(ROUTER.into()),
            metric: 0,
            table: None,
            congestion_control: Some("cubic"),
        };
        line.set_route("server", &to_client)?;
        // Our own address is none that the lab knows.
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

    /// A host: `client` or `server`.
    ///
    /// # Errors
    /// When there is none of that name.
    pub(super) fn host(&self, name: &str) -> io::Result<Host<'_>> {
        self.lab.host(name).map_err(io::Error::other)
    }

    /// Bytes that have crossed the line to the client, and those among them of cross traffic.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub(super) fn carried(&self) -> io::Result<[u64; 2]> {
        let line = self.lab.link("line").map_err(io::Error::other)?;
        let statistics = line.statistics(Direction::Backward).map_err(io::Error::other)?;
        Ok([
            statistics.delivered_bytes,
            datagrams(&self.host("client")?)? * FRAME,
        ])
    }

    /// Datagrams from the router to the client at a constant rate, in bits a second, until it is dropped. They keep to
    /// it whatever is lost.
    ///
    /// # Errors
    /// When a socket cannot be opened.
    pub(super) fn cross_traffic(&self, rate: u64) -> io::Result<CrossTraffic> {
        // Never read: what does not fit is dropped there, which costs little.
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

/// Datagrams that have come to a host, counted before they are put into a socket's buffer or dropped there.
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

/// Cross traffic under way.
pub(super) struct CrossTraffic {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<io::Result<()>, LabError>>>,
    _sink: UdpSocket,
}

impl CrossTraffic {
    /// Ends it.
    ///
    /// # Errors
    /// Why it did not last until now.
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
    // A queue that is full loses datagrams; it does not hold up those that follow.
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
