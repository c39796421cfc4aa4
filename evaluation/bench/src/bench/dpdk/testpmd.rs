//! testpmd, DPDK's own program to test ports, in its mode `io`: it forwards the frames of one port to
//! another, unread. Debian has it in `dpdk-dev`.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hawser_documents::temporary::Folder;

use crate::sys;

const PROGRAM: &str = "dpdk-testpmd";
/// The number of batches of frames that circulate.
const BATCHES: u32 = 16;
/// The bytes of each frame: an MTU of 1,500 and the Ethernet header.
const FRAME: u32 = 1514;
/// The time until its ports are open.
const START: Duration = Duration::from_secs(2);
/// The longest time until it has ended.
const END: Duration = Duration::from_secs(10);
/// The time until frames circulate.
const WARM_UP: Duration = Duration::from_millis(300);

/// The ports between which it forwards frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// Memory between two processes, each of which returns the frames of the other.
    Memif,
    /// A ring within one process, which returns the frames sent to it.
    Ring,
}

impl Ports {
    pub(super) fn name(self) -> &'static str {
        match self {
            Ports::Memif => "testpmd io ⇄ testpmd io, memif",
            Ports::Ring => "testpmd io, ring",
        }
    }
}

/// Returns the frames that one process receives in a second.
///
/// # Errors
/// testpmd is not installed, or does not report its ports.
pub(super) fn measure(ports: Ports, seconds: f64) -> io::Result<Vec<f64>> {
    let cores = sys::cores()?;
    let core = |n: usize| cores.get(n).or(cores.last()).copied().unwrap_or_default();
    let folder = Folder::new()?;
    let memif = |role: &str| {
        let socket = folder.join("memif");
        format!(
            "net_memif0,role={role},socket={},socket-abstract=no",
            socket.display()
        )
    };
    let mut peer = match ports {
        Ports::Memif => Some(Testpmd::start(core(1), &memif("server"))?),
        Ports::Ring => None,
    };
    let device = match ports {
        Ports::Memif => memif("client"),
        Ports::Ring => "net_ring0".to_owned(),
    };
    let mut own = Testpmd::start(core(0), &device)?;
    if let Some(peer) = &mut peer {
        peer.order("start")?;
        // When it starts, testpmd drops frames that are already in its queues.
        thread::sleep(WARM_UP);
    }
    own.order(&format!("start tx_first {BATCHES}"))?;
    thread::sleep(WARM_UP);
    own.order("show port stats 0")?;
    thread::sleep(Duration::from_secs_f64(seconds));
    own.order("show port stats 0")?;
    own.end()
}

/// A testpmd process, whose single forwarding thread is pinned to a core. It is killed when this is dropped.
struct Testpmd {
    child: Child,
    orders: ChildStdin,
}

impl Testpmd {
    fn start(core: usize, device: &str) -> io::Result<Testpmd> {
        let mut command = Command::new(PROGRAM);
        command
            .args(["--no-shconf", "--no-telemetry", "--no-huge", "-m", "256"])
            .args(["--allow", "0000:00:00.0", "--vdev", device])
            .arg(format!("--lcores=0@{core},1@{core}"))
            .arg(format!("--file-prefix=testpmd-{core}"))
            .args(["--", "--interactive", "--forward-mode=io", "--port-topology=loop"])
            .args(["--total-num-mbufs=8192", "--no-lsc-interrupt", "--no-mlockall"])
            .arg(format!("--txpkts={FRAME}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other(format!(
                "{PROGRAM} is not installed (Debian: apt-get install dpdk-dev)"
            )),
            _ => error,
        })?;
        let orders = child
            .stdin
            .take()
            .ok_or_else(|| io::Error::other("a process without a pipe"))?;
        thread::sleep(START);
        Ok(Testpmd { child, orders })
    }

    fn order(&mut self, order: &str) -> io::Result<()> {
        writeln!(self.orders, "{order}")?;
        self.orders.flush()
    }

    /// Returns the frames per second between the last two queries. testpmd buffers its output until it ends.
    fn end(mut self) -> io::Result<Vec<f64>> {
        self.order("quit")?;
        let until = Instant::now() + END;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > until {
                return Err(io::Error::other(format!("{PROGRAM} does not end")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        let mut printed = String::new();
        if let Some(mut output) = self.child.stdout.take() {
            output.read_to_string(&mut printed)?;
        }
        let mut rates = printed.lines().filter_map(|line| line.split_once("Rx-pps:"));
        let last = rates
            .next_back()
            .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        match last {
            Some(rate) if rate > 0.0 => Ok(vec![rate]),
            _ => Err(io::Error::other("no frame came back")),
        }
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
