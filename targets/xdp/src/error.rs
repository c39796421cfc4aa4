//! Why a wire cannot be opened, and what works instead.

use std::io;

/// Why a wire cannot be opened. The text states what would help, or which device works instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The interface is none that a stack can stand beside.
    #[error(transparent)]
    Interface(#[from] hawser_host::OpenError),
    /// The process is root of a user namespace only.
    #[error(
        "the kernel refuses to load an eBPF program in a user namespace, and a device xdp:{name} needs one: its bpf(2) wants \
         CAP_BPF outside of all user namespaces; packet:{name} works here"
    )]
    UserNamespace {
        /// The interface.
        name: String,
    },
    /// A capability is missing.
    #[error(
        "no permission to {action}: a device xdp:{name} takes CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW; run as root, or grant \
         them (setcap cap_bpf,cap_net_admin,cap_net_raw+ep PROGRAM); packet:{name} takes CAP_NET_RAW alone"
    )]
    Permission {
        /// The interface.
        name: String,
        /// What was tried.
        action: &'static str,
    },
    /// The kernel lacks a feature.
    #[error("this kernel has no {feature}; use packet:{name} instead")]
    Kernel {
        /// The interface.
        name: String,
        /// What it lacks, and since which version or by which option it has it.
        feature: &'static str,
    },
    /// The device takes no XDP program, neither in its driver nor in front of the kernel's stack.
    #[error(
        "the interface '{name}' takes no XDP program (by its driver: {native}; in front of the kernel's stack: {generic}); use \
         packet:{name} instead"
    )]
    NoXdp {
        /// The interface.
        name: String,
        /// How its driver refused.
        native: io::Error,
        /// How the kernel refused.
        generic: io::Error,
    },
    /// Another XDP program is attached.
    #[error(
        "the interface '{name}' has an XDP program already (ip link show {name}): end what attached it, or use packet:{name} \
         instead, which stands beside it"
    )]
    Busy {
        /// The interface.
        name: String,
    },
    /// The device receives by another number of queues than there are to be sockets.
    #[error(
        "the interface '{name}' spreads what it receives over {queues} queues, and an AF_XDP socket has one: ask for as many \
         shards, one for each, or let it have {count} (ethtool -L {name} combined {count}), or use packet:{name} instead"
    )]
    Queues {
        /// The interface.
        name: String,
        /// How many.
        queues: u32,
        /// How many sockets there are to be.
        count: u16,
    },
    /// More addresses than the program in the kernel has room for.
    #[error("a device xdp:{name} has room for 64 addresses, not for {count}; use packet:{name} instead")]
    Addresses {
        /// The interface.
        name: String,
        /// How many.
        count: usize,
    },
    /// Not as much memory may be locked as the buffers take.
    #[error(
        "the buffers of a device xdp:{name} lock {} MB of memory, more than this process may: raise the limit (ulimit -l), or \
         grant CAP_IPC_LOCK; packet:{name} needs neither", bytes >> 20
    )]
    Memory {
        /// The interface.
        name: String,
        /// How much.
        bytes: u64,
    },
    /// The kernel refused the eBPF program.
    #[error("the kernel refused the eBPF program ({why}); use packet:{name} instead")]
    Refused {
        /// The interface.
        name: String,
        /// libbpf's words.
        why: String,
    },
    /// Anything else.
    #[error("cannot {action}: {error}; use packet:{name} instead")]
    Io {
        /// The interface.
        name: String,
        /// What was tried.
        action: &'static str,
        /// How it failed.
        #[source]
        error: io::Error,
    },
}

/// Builds the errors of one interface.
pub(crate) struct About<'a>(pub(crate) &'a str);

impl About<'_> {
    /// For a system call that failed; the lack of a capability is an error of its own.
    pub(crate) fn call(&self, action: &'static str, error: io::Error) -> OpenError {
        let name = self.0.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied => OpenError::Permission { name, action },
            _ => OpenError::Io { name, action, error },
        }
    }

    pub(crate) fn kernel(&self, feature: &'static str) -> OpenError {
        let name = self.0.to_owned();
        OpenError::Kernel { name, feature }
    }
}
