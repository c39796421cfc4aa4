//! Reasons why a wire cannot be opened, with alternatives that work.

use std::io;

/// A wire could not be opened. The text suggests a remedy, or another device that works.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The interface is not suitable for a stack beside the kernel's.
    #[error(transparent)]
    Interface(#[from] hawser_host::OpenError),
    /// The process is root only in a user namespace.
    #[error(
        "the kernel refuses to load an eBPF program in a user namespace, and a device xdp:{name} needs one: \
         its bpf(2) requires CAP_BPF outside of all user namespaces; packet:{name} works here"
    )]
    UserNamespace {
        /// The interface's name.
        name: String,
    },
    /// A capability is missing.
    #[error(
        "no permission to {action}: a device xdp:{name} needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW; run \
         as root, or grant them (setcap cap_bpf,cap_net_admin,cap_net_raw+ep PROGRAM); packet:{name} needs \
         only CAP_NET_RAW"
    )]
    Permission {
        /// The interface's name.
        name: String,
        /// The action that was refused.
        action: &'static str,
    },
    /// The kernel lacks a feature.
    #[error("this kernel has no {feature}; use packet:{name} instead")]
    Kernel {
        /// The interface's name.
        name: String,
        /// The missing feature, with the version or option that provides it.
        feature: &'static str,
    },
    /// The device accepts no XDP program, neither in its driver nor in front of the kernel's stack.
    #[error(
        "the interface '{name}' supports no XDP program (by its driver: {native}; in front of the kernel's \
         stack: {generic}); use packet:{name} instead"
    )]
    NoXdp {
        /// The interface's name.
        name: String,
        /// The error from attaching in its driver.
        native: io::Error,
        /// The error from attaching in front of the kernel's stack.
        generic: io::Error,
    },
    /// Another XDP program is attached.
    #[error(
        "the interface '{name}' already has an XDP program (ip link show {name}): stop the process that \
         attached it, or use packet:{name} instead, which works beside it"
    )]
    Busy {
        /// The interface's name.
        name: String,
    },
    /// The number of the device's receive queues differs from the number of requested sockets.
    #[error(
        "the interface '{name}' distributes received packets over {queues} queues, but an AF_XDP socket \
         serves one: use as many shards as queues, or give the interface {count} (ethtool -L {name} \
         combined {count}), or use packet:{name} instead"
    )]
    Queues {
        /// The interface's name.
        name: String,
        /// The number of receive queues.
        queues: u32,
        /// The number of requested sockets.
        count: u16,
    },
    /// The program in the kernel has no room for so many addresses.
    #[error("a device xdp:{name} has room for 64 addresses, not for {count}; use packet:{name} instead")]
    Addresses {
        /// The interface's name.
        name: String,
        /// The number of addresses.
        count: usize,
    },
    /// The process may not lock as much memory as the buffers need.
    #[error(
        "the buffers of a device xdp:{name} lock {} MB of memory, more than this process may: raise the limit (ulimit -l), or \
         grant CAP_IPC_LOCK; packet:{name} needs neither", bytes >> 20
    )]
    Memory {
        /// The interface's name.
        name: String,
        /// The size of the buffers, in bytes.
        bytes: u64,
    },
    /// The kernel refused the eBPF program.
    #[error("the kernel refused the eBPF program ({why}); use packet:{name} instead")]
    Refused {
        /// The interface's name.
        name: String,
        /// The reason as libbpf gives it.
        why: String,
    },
    /// Another system call failed.
    #[error("cannot {action}: {error}; use packet:{name} instead")]
    Io {
        /// The interface's name.
        name: String,
        /// The action that failed.
        action: &'static str,
        /// The error of the system call.
        #[source]
        error: io::Error,
    },
}

/// Builds the errors of one interface.
pub(crate) struct About<'a>(pub(crate) &'a str);

impl About<'_> {
    /// Builds the error for a failed system call; a missing capability has its own error.
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
