//! The networks of measurements: two hosts on a cable, or one with a TUN or TAP device.
//!
//! All networks are in namespaces of their own, which disappear when their last process ends.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, SocketAddr};

use hawser::host::netns::{self, Namespace, Netlink};
use hawser_documents::temporary::Folder;

use crate::sides::gvisor;
use crate::sides::process::run_pair;
use crate::sides::spec::{BareWork, Measured, Spec, StackKind, Work};
use crate::sys;

/// The names of the cable's ends.
const ENDS: [&str; 2] = ["left0", "right0"];
/// The name of a TUN or TAP device.
const DEVICE: &str = "bench0";
/// The prefix length of all addresses.
const PREFIX: u8 = 24;

/// The port that servers listen on.
pub(crate) const PORT: u16 = 5201;

/// Returns the address of the client's or the server's stack.
#[must_use]
pub(crate) fn address(server: bool) -> IpAddr {
    IpAddr::from([10, 9, 0, if server { 2 } else { 1 }])
}

/// Returns the address and port of servers.
#[must_use]
pub(crate) fn server() -> SocketAddr {
    SocketAddr::new(address(true), PORT)
}

/// The medium between the two stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A veth pair between two network namespaces, with the kernel's default segmentation and merging.
    Veth,
    /// A veth pair with segmentation and merging switched off (TSO, GSO, GRO).
    VethPlain,
    /// A TUN or TAP device, whose other end is the kernel's.
    Device,
    /// Memory that two processes share, as ports of DPDK: `net_memif`.
    Memif,
}

/// One of the stacks under measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    /// The kernel's TCP.
    Linux,
    /// Our stack.
    Hawser,
    /// Our stack, in this many shards.
    Shards(u16),
    /// Our stack, with writes passed by reference in place of copies.
    ByReference,
    Smoltcp,
    /// Our stack with a program in UDP, on a socket of the host.
    QuicLite,
    /// quinn, on a socket of the host.
    Quinn,
    Gvisor,
    /// No stack: a loop over a port of DPDK, with this work on payload.
    Bare(BareWork),
}

impl Stack {
    /// Returns the name in reports.
    #[must_use]
    pub(crate) fn name(self) -> Cow<'static, str> {
        let name = match self {
            Stack::Shards(count) => return format!("Hawser in {count} shards").into(),
            Stack::Linux => "Linux",
            Stack::Hawser => "Hawser",
            Stack::ByReference => "Hawser by reference",
            Stack::Smoltcp => "smoltcp",
            Stack::QuicLite => "QUIC-Lite",
            Stack::Quinn => "quinn",
            Stack::Gvisor => "gVisor",
            Stack::Bare(BareWork::Headers) => "bare loop, headers alone",
            Stack::Bare(BareWork::Copies) => "bare loop",
            Stack::Bare(BareWork::Sums) => "bare loop, with checksums",
        };
        name.into()
    }

    /// Returns whether it uses an address of the kernel's.
    fn is_on_sockets(self) -> bool {
        matches!(self, Stack::Linux | Stack::QuicLite | Stack::Quinn)
    }
}

/// Two stacks and the medium between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Constellation {
    /// The stack that connects; in bulk transfer it sends.
    pub(crate) client: Stack,
    /// The stack that listens.
    pub(crate) server: Stack,
    pub(crate) medium: Medium,
}

/// Hawser at either end, at both and at neither, over a virtual cable. Linux at both ends is the baseline.
pub(crate) const OVER_A_CABLE: [Constellation; 4] = [
    between(Stack::Linux, Stack::Linux),
    between(Stack::Hawser, Stack::Linux),
    between(Stack::Linux, Stack::Hawser),
    between(Stack::Hawser, Stack::Hawser),
];

const fn between(client: Stack, server: Stack) -> Constellation {
    Constellation { client, server, medium: Medium::Veth }
}

impl Constellation {
    /// Returns the name in reports: `Hawser → Linux, AF_PACKET`.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        let medium = match (self.medium, self.client, self.server) {
            (Medium::Veth, Stack::Linux, Stack::Linux) => "veth",
            (Medium::Memif, Stack::Bare(_), _) => return format!("{}, memif", self.client.name()),
            (Medium::Memif, _, _) => "memif",
            (Medium::VethPlain, _, _) => "veth, no offload",
            (Medium::Veth, _, _) => "AF_PACKET",
            (Medium::Device, Stack::Smoltcp, _) | (Medium::Device, _, Stack::Smoltcp) => "TAP",
            (Medium::Device, _, _) => "TUN",
        };
        format!("{} → {}, {medium}", self.client.name(), self.server.name())
    }
}

/// The settings of both sides.
#[derive(Clone, Debug)]
pub(crate) struct StageSettings {
    /// True if the sides sleep when they are idle.
    pub(crate) sleeps: bool,
    /// The program of Hawser's sides: its name, or its file.
    pub(crate) program: String,
    /// The engine that runs it.
    pub(crate) engine: String,
    /// The program's params.
    pub(crate) params: Vec<String>,
    /// The number of seconds after which a hanging side is ended.
    pub(crate) timeout_s: u64,
}

/// Ensures that this process can make namespaces: directly as root, otherwise in a user namespace, which the
/// whole process enters. It must be called before any thread is started. Returns whether the process has
/// entered one.
///
/// # Errors
/// The system permits neither.
pub(crate) fn prepare() -> Result<bool, netns::NamespaceError> {
    if rustix::process::geteuid().is_root() && Namespace::create().is_ok() {
        return Ok(false);
    }
    // A thread of the previous attempt may not have ended completely.
    let mut last = netns::enter_user_namespace();
    for _ in 0..10 {
        match &last {
            Err(error) if error.error().raw_os_error() == Some(libc::EINVAL) => {
                std::thread::sleep(std::time::Duration::from_millis(5));
                last = netns::enter_user_namespace();
            }
            _ => break,
        }
    }
    last.map(|()| true)
}

/// Runs one measurement: client and server, each in a process of its own on a core of its own.
///
/// # Errors
/// The network could not be made, or a side failed.
pub(crate) fn run(
    constellation: &Constellation,
    manner: &StageSettings,
    client: Work,
    server: Work,
) -> io::Result<(Measured, Measured)> {
    let network = Network::make(constellation.medium)?;
    let cores = sys::cores()?;
    let core = |n: usize| cores.get(n).or(cores.last()).copied();
    let spec = |is_server: bool, work: Work| -> io::Result<Spec> {
        Ok(Spec {
            stack: network.stack(constellation, manner, is_server)?,
            address: (address(is_server), PREFIX),
            core: core(usize::from(is_server)),
            sleeps: manner.sleeps,
            work,
            timeout_s: manner.timeout_s,
        })
    };
    network.configure(constellation)?;
    let (server_spec, client_spec) = (spec(true, server)?, spec(false, client)?);
    let (server, client) = run_pair(
        (&network.hosts[1], &server_spec),
        (&network.hosts[0], &client_spec),
    )?;
    Ok((client, server))
}

/// The hosts: client, server. With a TUN or TAP device, or shared memory, both stacks are in one namespace.
struct Network {
    hosts: [Namespace; 2],
    medium: Medium,
    /// The folder in which processes that share memory meet.
    folder: Folder,
}

impl Network {
    fn make(medium: Medium) -> io::Result<Network> {
        let other = io::Error::other::<netns::NamespaceError>;
        let left = Namespace::create().map_err(other)?;
        let right = match medium {
            Medium::Veth | Medium::VethPlain => Namespace::create().map_err(other)?,
            // A second handle of the same namespace.
            Medium::Device | Medium::Memif => left.run(Namespace::current).map_err(other)?.map_err(other)?,
        };
        Ok(Network { hosts: [left, right], medium, folder: Folder::new()? })
    }

    /// Makes the cable, and assigns the addresses of the kernel's stacks.
    fn configure(&self, constellation: &Constellation) -> io::Result<()> {
        let [left, right] = &self.hosts;
        for host in [left, right] {
            host.run(|| Netlink::open()?.bring_up("lo"))
                .map_err(io::Error::other)?
                .map_err(io::Error::other)?;
        }
        if matches!(self.medium, Medium::Device | Medium::Memif) {
            return Ok(());
        }
        left.run(|| Netlink::open()?.add_veth(ENDS[0], ENDS[1], right))
            .map_err(io::Error::other)?
            .map_err(io::Error::other)?;
        let ends = [
            (left, ENDS[0], constellation.client, false),
            (right, ENDS[1], constellation.server, true),
        ];
        for (host, name, _, _) in ends {
            host.run(|| -> Result<(), netns::NamespaceError> {
                let mut netlink = Netlink::open()?;
                if self.medium == Medium::VethPlain {
                    netlink.set_segmentation(name, false)?;
                }
                netlink.bring_up(name)
            })
            .and_then(|done| done)
            .map_err(io::Error::other)?;
        }
        for (host, name, stack, is_server) in ends {
            let set = || -> Result<(), netns::NamespaceError> {
                let mut netlink = Netlink::open()?;
                if stack.is_on_sockets() {
                    netlink.add_address(name, address(is_server), PREFIX)?;
                }
                netlink.settle(name)
            };
            host.run(set)
                .map_err(io::Error::other)?
                .map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Returns DPDK's name for the memory between two processes, which the server creates.
    fn memif(&self, is_server: bool) -> String {
        let role = if is_server { "server" } else { "client" };
        let socket = self.folder.join("memif");
        format!(
            "net_memif0,role={role},socket={},socket-abstract=no",
            socket.display()
        )
    }

    fn stack(
        &self,
        constellation: &Constellation,
        manner: &StageSettings,
        is_server: bool,
    ) -> io::Result<StackKind> {
        let stack = if is_server {
            constellation.server
        } else {
            constellation.client
        };
        // The device's other end has the other side's address.
        let kernel = (self.medium == Medium::Device).then_some((address(!is_server), PREFIX));
        let ours = |device: String| StackKind::Hawser {
            device,
            kernel,
            program: manner.program.clone(),
            engine: manner.engine.clone(),
            params: manner.params.clone(),
            shards: match stack {
                Stack::Shards(count) => count,
                _ => 1,
            },
            by_reference: stack == Stack::ByReference,
        };
        Ok(match stack {
            Stack::Linux => StackKind::Linux,
            Stack::Hawser | Stack::Shards(_) | Stack::ByReference => ours(match self.medium {
                Medium::Device => format!("tun:{DEVICE}"),
                Medium::Memif => format!("dpdk:{}", self.memif(is_server)),
                Medium::Veth | Medium::VethPlain => format!("packet:{}", ENDS[usize::from(is_server)]),
            }),
            Stack::QuicLite => {
                let port = if is_server { PORT } else { 0 };
                ours(format!("udp:{}", SocketAddr::new(address(is_server), port)))
            }
            Stack::Quinn => StackKind::Quinn,
            Stack::Smoltcp => StackKind::Smoltcp {
                device: match self.medium {
                    Medium::Memif => format!("dpdk:{}", self.memif(is_server)),
                    _ => format!("tap:{DEVICE}"),
                },
                kernel,
            },
            Stack::Gvisor => StackKind::Gvisor {
                program: gvisor::program()?,
                device: ENDS[usize::from(is_server)].to_owned(),
            },
            Stack::Bare(work) => StackKind::Bare { device: self.memif(is_server), work },
        })
    }
}
