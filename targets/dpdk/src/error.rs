//! Why a wire cannot be opened, and what helps.

use std::io;
use std::path::PathBuf;

/// Why a wire cannot be opened. The text has what DPDK itself printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The text can be no name of a device.
    #[error(
        "`{0}` names no device of DPDK: write a virtual one with a number, such as net_tap0,iface=dpdk0 or \
         net_af_packet0,iface=eth0, or a PCI address, such as 0000:03:00.0"
    )]
    Name(String),
    /// DPDK does not start.
    #[error("DPDK does not start: {0}")]
    Start(String),
    /// No driver takes the device.
    #[error("DPDK opens no port on `{device}` ({error}): {messages}")]
    Probe {
        /// The device.
        device: String,
        /// How it failed.
        #[source]
        error: io::Error,
        /// What DPDK printed, and what helps where that does not say it.
        messages: String,
    },
    /// No driver takes the device, and the process lacks what drivers of the host's interfaces need.
    #[error(
        "DPDK opens no port on `{device}`: {messages}; this process lacks CAP_NET_RAW and CAP_NET_ADMIN, which ports on \
         interfaces take: run inside namespaces of your own (unshare --map-root-user --net), or as root"
    )]
    Permission {
        /// The device.
        device: String,
        /// What DPDK printed.
        messages: String,
    },
    /// The port would share this process's memory with every user of the network namespace.
    #[error(
        "`{0}` shares this process's memory by an abstract socket, to which every user of the network namespace may \
         connect: leave socket-abstract out, or add trust-every-user=yes where each of them may crash this process and \
         write to its memory"
    )]
    Abstract(String),
    /// The socket of a port in shared memory would not be this user's alone.
    #[error("the socket {} of a port in shared memory cannot be used: {error}", path.display())]
    Socket {
        /// The socket or its folder.
        path: PathBuf,
        /// The reason.
        #[source]
        error: io::Error,
    },
    /// The process has a port on it.
    #[error("this process has a port on `{0}` already: close that first, or give the device another number")]
    Busy(String),
    /// The port has fewer queues than it is to be opened with.
    #[error(
        "the port `{device}` has no more queues than {queues}, and {wanted} are needed: ask for fewer shards, or give it more \
         where its driver takes that (net_af_packet: qpairs=N; net_af_xdp: queue_count=N; net_vhost: queues=N; net_virtio_user: queues=N,cq=1)"
    )]
    Queues {
        /// The device.
        device: String,
        /// How many it can have.
        queues: u16,
        /// How many it is to have.
        wanted: u16,
    },
    /// The port's interface gets no eBPF program, which its AF_XDP sockets take.
    #[error("the port `{device}` has AF_XDP sockets, which take an eBPF program: {error}")]
    Program {
        /// The device.
        device: String,
        /// Why.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The interface that the port stands on is none for a stack.
    #[error(transparent)]
    Interface(#[from] hawser_host::OpenError),
    /// The port does not start.
    #[error(
        "DPDK cannot set up the port `{device}` ({error}): {messages}{}",
        hint(device)
    )]
    Port {
        /// The device.
        device: String,
        /// How it failed.
        #[source]
        error: io::Error,
        /// What DPDK printed.
        messages: String,
    },
    /// Anything else.
    #[error("cannot {action}: {error}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// How it failed.
        #[source]
        error: io::Error,
    },
}

/// What a driver does not say.
fn hint(device: &str) -> &'static str {
    match device.starts_with("net_af_xdp") {
        true => {
            "; some versions of this driver keep the sockets of a port that was closed: a process has one port on an interface, \
             once"
        }
        false => "",
    }
}

impl OpenError {
    /// For a device that no driver takes.
    pub(crate) fn probe(device: &str, error: io::Error, mut messages: String) -> OpenError {
        let (name, arguments) = device.split_once(',').unwrap_or((device, ""));
        let interface = arguments
            .split(',')
            .find_map(|argument| argument.strip_prefix("iface="));
        let stands_on_one = ["net_af_packet", "net_af_xdp"]
            .iter()
            .any(|driver| name.starts_with(driver));
        if messages.contains("failed to parse device") {
            messages += "; no driver of this DPDK has a name that this one begins with: docs/dpdk.md lists the usual ones";
        } else if stands_on_one {
            match interface.map(hawser_host::Interface::read) {
                None => messages += "; it stands on an Ethernet interface: write iface=NAME behind it",
                Some(Err(error)) => messages += &format!("; {error}"),
                Some(Ok(_)) => {}
            }
        }
        OpenError::Probe { device: device.to_owned(), error, messages }
    }

    /// For a call that failed.
    pub(crate) fn io(action: &'static str) -> impl Fn(io::Error) -> OpenError {
        move |error| OpenError::Io { action, error }
    }
}
