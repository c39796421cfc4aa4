//! The errors of this crate, each with a remedy.

use std::io;
use std::path::PathBuf;

use crate::{FlowEvent, Variable};

/// A requirement that the machine, or the process, does not meet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Missing {
    /// This build has no eBPF.
    #[error(
        "this build has no eBPF; build with `--features ebpf`, which needs: apt-get install clang \
         libelf-dev zlib1g-dev pkg-config"
    )]
    Feature,
    /// The kernel does not describe its types.
    #[error(
        "the kernel has no type information (/sys/kernel/btf/vmlinux): run one built with CONFIG_DEBUG_INFO_BTF=y"
    )]
    TypeInformation,
    /// The process lacks a Linux capability that loading needs.
    #[error("the process lacks {0}: load as root, or with the capabilities bpf, perfmon and net_admin")]
    Capability(&'static str),
    /// The process is root of a user namespace only.
    #[error("the process is in a user namespace, where eBPF cannot be loaded: load outside of it")]
    InitialUserNamespace,
    /// There are no control groups of version 2, or the folder is not one of them.
    #[error(
        "{0} is not a folder of a cgroup2 file system: name one, or mount it (mount -t cgroup2 none FOLDER)"
    )]
    Cgroup(PathBuf),
    /// The kernel does not support congestion control in eBPF.
    #[error(
        "the kernel takes no congestion control by eBPF: run Linux 6.10 or newer, or load without one (`hawser kernel --watch-only`)"
    )]
    CongestionControl,
    /// The kernel lacks a hook.
    #[error("the kernel has no hook {0}: see docs/interact-kernel.md for what needs it")]
    Hook(&'static str),
    /// The congestion control was not requested.
    #[error(
        "the kernel programs were loaded without a congestion control: name one in \
             `Options::congestion_control`"
    )]
    NoCongestionControl,
    /// The event comes from a cgroup, and none was named.
    #[error("the kernel programs were loaded without a cgroup: name one in `Options::cgroup`")]
    NoCgroup,
}

/// The reasons for which access to the kernel's TCP fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A requirement is not met.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A congestion control of this name is already registered.
    #[error(
        "a congestion control named {0:?} is already registered: end the process that holds it, or choose \
         another name"
    )]
    NameTaken(String),
    /// The name of a congestion control is too long, empty, or has other characters than the kernel allows.
    #[error("{0:?} cannot be the name of a congestion control: use 1 to 15 letters, digits, `_` or `.`")]
    Name(String),
    /// An option of loading is out of range.
    #[error("{what} is {value}: it must be {must}")]
    Option {
        /// The option's name.
        what: &'static str,
        /// The given value.
        value: u64,
        /// The allowed values.
        must: &'static str,
    },
    /// The kernel refused the programs.
    #[error("the kernel refused the eBPF programs ({why}); libbpf printed: {output}")]
    Refused {
        /// The error of the call.
        why: String,
        /// The last lines that libbpf printed.
        output: String,
    },
    /// The table of subscriptions is full.
    #[error("the limit of {0} subscriptions is reached: unsubscribe first")]
    Subscriptions(usize),
    /// There is no such subscription.
    #[error("the subscription has been unsubscribed")]
    NoSubscription,
    /// The event is not available here.
    #[error("the event {} is not available here: {why}", event.name())]
    Event {
        /// The requested event.
        event: FlowEvent,
        /// The requirement that this kernel or process does not meet.
        why: Missing,
    },
    /// The variable cannot be modified here.
    #[error("{} cannot be modified: {why}", variable.name())]
    Variable {
        /// The variable that was to be modified.
        variable: Variable,
        /// The requirement that this kernel or process does not meet.
        why: Missing,
    },
    /// The lease of a modification is empty or too long.
    #[error("a modification needs a lease: state its duration, up to {} s", crate::MAX_LEASE.as_secs())]
    NoLease,
    /// The value is outside its variable's bounds.
    #[error(
        "{value} is not a value for {}: it must be from {} to {}", variable.name(), variable.bounds().start(),
        variable.bounds().end()
    )]
    Value {
        /// The variable.
        variable: Variable,
        /// The given value.
        value: u64,
    },
    /// The table of leases is full.
    #[error("the limit of {0} flows under leases is reached: wait until some expire")]
    Leases(usize),
    /// There is no such flow.
    #[error("this network namespace has no flow {0:#x}; it may have ended")]
    NoFlow(u64),
    /// A flow refused the request.
    #[error("the flow {flow:#x} refused: {error}")]
    Flow {
        /// The flow's socket cookie.
        flow: u64,
        /// The error that the kernel returned.
        error: io::Error,
    },
    /// The congestion control of a flow is no longer available, so it could not be restored after a lease.
    #[error(
        "the flow {flow:#x} is run by the congestion control {name:?}, which this kernel no longer offers: \
         it could not be restored after the lease, so it is not replaced"
    )]
    Final {
        /// The flow's socket cookie.
        flow: u64,
        /// The name of the flow's congestion control.
        name: String,
    },
    /// Another process of this kind holds the flow.
    #[error(
        "the flow {flow:#x} is held by another `hawser kernel`, whose congestion control {name:?} runs it: end its \
         lease there, or wait for its end"
    )]
    Held {
        /// The flow's socket cookie.
        flow: u64,
        /// The name of the other process's congestion control.
        name: String,
    },
    /// The flow does not use our congestion control, or has ended.
    #[error("the flow {flow:#x} is not run by {ours:?}, or has ended: give it that first (`Kernel::adopt`)")]
    NotOurs {
        /// The flow's socket cookie.
        flow: u64,
        /// The name of our congestion control.
        ours: String,
    },
    /// The programs lack a map.
    #[error("open a map: no map {0}")]
    NoMap(String),
    /// A call of libbpf failed.
    #[error("{doing}: {why}")]
    Libbpf {
        /// The operation that failed.
        doing: &'static str,
        /// The reason of the failure.
        why: String,
    },
    /// A system call failed unexpectedly.
    #[error("{doing}: {error}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the call.
        error: io::Error,
    },
}

impl KernelError {
    pub(crate) fn system(doing: &'static str, error: impl Into<io::Error>) -> Self {
        KernelError::System { doing, error: error.into() }
    }
}
