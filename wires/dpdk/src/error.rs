//! Reasons why a wire cannot be opened, with remedies.

use std::io;
use std::path::PathBuf;

/// A wire could not be opened. The text contains DPDK's own messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The text is not a valid device name.
    #[error(
        "`{0}` is not a device of DPDK: write a virtual one with a number, such as net_tap0,iface=dpdk0 or \
         net_af_packet0,iface=eth0, or a PCI address, such as 0000:03:00.0"
    )]
    Name(String),
    /// DPDK failed to start.
    #[error("DPDK does not start: {0}")]
    Start(String),
    /// No driver accepted the device.
    #[error("DPDK cannot open a port on `{device}` ({error}): {messages}")]
    Probe {
        /// The device's name.
        device: String,
        /// The error from probing the device.
        #[source]
        error: io::Error,
        /// DPDK's messages, and a remedy if they suggest none.
        messages: String,
    },
    /// No driver accepted the device, and the process lacks the privileges that drivers of the host's
    /// interfaces need.
    #[error(
        "DPDK cannot open a port on `{device}`: {messages}; this process lacks CAP_NET_RAW and \
         CAP_NET_ADMIN, which ports on interfaces need: run inside namespaces of your own (unshare \
         --map-root-user --net), or as root"
    )]
    Permission {
        /// The device's name.
        device: String,
        /// DPDK's messages.
        messages: String,
    },
    /// The port would share this process's memory with every user of the network namespace.
    #[error(
        "`{0}` shares this process's memory by an abstract socket, to which every user of the network namespace may \
         connect: leave socket-abstract out, or add trust-every-user=yes where each of them may crash this process and \
         write to its memory"
    )]
    Abstract(String),
    /// The socket of a port in shared memory would be accessible to other users.
    #[error("the socket {} of a port in shared memory cannot be used: {error}", path.display())]
    Socket {
        /// The path of the socket or its folder.
        path: PathBuf,
        /// The error of checking or creating it.
        #[source]
        error: io::Error,
    },
    /// The process already has a port on the device.
    #[error(
        "this process already has a port on `{0}`: close that port first, or give the device another \
             number"
    )]
    Busy(String),
    /// The port has fewer queues than requested.
    #[error(
        "the port `{device}` has only {queues} queues, but {wanted} are needed: use fewer shards, or give \
         the port more queues if its driver supports it (net_af_packet: qpairs=N; net_af_xdp: \
         queue_count=N; net_vhost: queues=N; net_virtio_user: queues=N,cq=1)"
    )]
    Queues {
        /// The device's name.
        device: String,
        /// The number of queues that it can have.
        queues: u16,
        /// The requested number of queues.
        wanted: u16,
    },
    /// The eBPF program that the port's AF_XDP sockets need could not be attached to its interface.
    #[error("the port `{device}` has AF_XDP sockets, which need an eBPF program: {error}")]
    Program {
        /// The device's name.
        device: String,
        /// The error from attaching.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The port's interface is not suitable for a stack.
    #[error(transparent)]
    Interface(#[from] hawser_host::OpenError),
    /// The port failed to start.
    #[error(
        "DPDK cannot set up the port `{device}` ({error}): {messages}{}",
        hint(device)
    )]
    Port {
        /// The device's name.
        device: String,
        /// The error from starting the port.
        #[source]
        error: io::Error,
        /// DPDK's messages.
        messages: String,
    },
    /// Another call failed.
    #[error("cannot {action}: {error}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The error of the call.
        #[source]
        error: io::Error,
    },
}

/// Returns an explanation that a driver does not give itself.
fn hint(device: &str) -> &'static str {
    match device.starts_with("net_af_xdp") {
        true => {
            "; some versions of this driver keep the sockets of a closed port, so that a process can open a \
             port on an interface only once"
        }
        false => "",
    }
}

impl OpenError {
    /// Builds the error for a device that no driver accepts.
    pub(crate) fn probe(device: &str, error: io::Error, mut messages: String) -> OpenError {
        let (name, arguments) = device.split_once(',').unwrap_or((device, ""));
        let interface = arguments
            .split(',')
            .find_map(|argument| argument.strip_prefix("iface="));
        let stands_on_one = ["net_af_packet", "net_af_xdp"]
            .iter()
            .any(|driver| name.starts_with(driver));
        if messages.contains("failed to parse device") {
            messages += "; no driver of this DPDK matches the beginning of this name: docs/dpdk.md lists \
                         the usual ones";
        } else if stands_on_one {
            match interface.map(hawser_host::Interface::read) {
                None => messages += "; it needs an Ethernet interface: append iface=NAME",
                Some(Err(error)) => messages += &format!("; {error}"),
                Some(Ok(_)) => {}
            }
        }
        OpenError::Probe { device: device.to_owned(), error, messages }
    }

    /// Builds the error for a failed call.
    pub(crate) fn io(action: &'static str) -> impl Fn(io::Error) -> OpenError {
        move |error| OpenError::Io { action, error }
    }
}
