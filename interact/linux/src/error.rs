//! What can be wrong, each with what to do.

use std::io;
use std::path::PathBuf;

use crate::{Event, Variable};

/// Something that the machine, or the process, lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Missing {
    /// This build has no eBPF.
    #[error(
        "this build has no eBPF; build with `--features ebpf`, which takes: apt-get install clang libelf-dev zlib1g-dev pkg-config"
    )]
    Feature,
    /// The kernel does not describe its types.
    #[error(
        "the kernel has no type information (/sys/kernel/btf/vmlinux): run one built with CONFIG_DEBUG_INFO_BTF=y"
    )]
    TypeInformation,
    /// A capability that loading takes.
    #[error("the process lacks {0}: load as root, or with the capabilities bpf, perfmon and net_admin")]
    Capability(&'static str),
    /// The process is root of a user namespace only.
    #[error("the process is in a user namespace, where eBPF cannot be loaded: load outside of it")]
    InitialUserNamespace,
    /// No control groups of version 2, or the folder is none.
    #[error(
        "{0} is no folder of a cgroup2 file system: name one, or mount it (mount -t cgroup2 none FOLDER)"
    )]
    Cgroup(PathBuf),
    /// The kernel has no congestion control in eBPF.
    #[error(
        "the kernel takes no congestion control by eBPF: run Linux 6.10 or newer, or load without one (`hawser kernel --watch-only`)"
    )]
    CongestionControl,
    /// The kernel lacks a hook.
    #[error("the kernel has no hook {0}: see docs/interact-kernel.md for what needs it")]
    Hook(&'static str),
    /// The congestion control was not asked for.
    #[error("it was loaded without a congestion control: name one in `Options::congestion_control`")]
    NoCongestionControl,
    /// It comes from a cgroup, and none was named.
    #[error("it was loaded without a cgroup: name one in `Options::cgroup`")]
    NoCgroup,
}

/// Why the kernel's TCP could not be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Something is missing.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A congestion control of this name is there already.
    #[error(
        "a congestion control called {0:?} is registered already: end the process that holds it, or take another name"
    )]
    NameTaken(String),
    /// A congestion control's name is too long, empty, or not plain.
    #[error("{0:?} cannot be the name of a congestion control: take 1 to 15 letters, digits, `_` or `.`")]
    Name(String),
    /// An option of loading is out of range.
    #[error("{what} is {value}: it must be {must}")]
    Option {
        /// The option's name.
        what: &'static str,
        /// What was given.
        value: u64,
        /// What is allowed.
        must: &'static str,
    },
    /// The kernel refused the programs.
    #[error("the kernel refused the eBPF programs ({why}); libbpf printed: {output}")]
    Refused {
        /// The error of the call.
        why: String,
        /// What libbpf printed, its last lines.
        output: String,
    },
    /// All places for subscriptions are taken.
    #[error("there are {0} subscriptions, and no room for more: unsubscribe first")]
    Subscriptions(usize),
    /// No such subscription.
    #[error("there is no such subscription: it has been unsubscribed")]
    NoSubscription,
    /// An event that cannot be given here.
    #[error("the event {} is not to be had here: {why}", event.name())]
    Event {
        /// The event that was asked for.
        event: Event,
        /// What this kernel or process lacks.
        why: Missing,
    },
    /// A variable that cannot be modified here.
    #[error("{} cannot be modified: {why}", variable.name())]
    Variable {
        /// The variable that was to be modified.
        variable: Variable,
        /// What this kernel or process lacks.
        why: Missing,
    },
    /// A modification without a lease.
    #[error("a modification needs a lease: give how long it holds, up to {} s", crate::MAX_LEASE.as_secs())]
    NoLease,
    /// A value that is outside of its variable's bounds.
    #[error(
        "{value} is no value for {}: it must be from {} to {}", variable.name(), variable.bounds().start(),
        variable.bounds().end()
    )]
    Value {
        /// Of which variable.
        variable: Variable,
        /// What was given.
        value: u64,
    },
    /// All places for leases are taken.
    #[error("{0} flows are under leases, and there is no room for more: let some expire")]
    Leases(usize),
    /// No such flow.
    #[error("there is no flow {0:#x} in this network namespace: it has ended, or never was")]
    NoFlow(u64),
    /// A flow refused what was asked.
    #[error("the flow {flow:#x} refused: {error}")]
    Flow {
        /// The flow's socket cookie.
        flow: u64,
        /// The error that the kernel returned.
        error: io::Error,
    },
    /// The congestion control that runs a flow is offered no more, so it could not be put back after a lease.
    #[error(
        "the flow {flow:#x} is run by the congestion control {name:?}, which this kernel offers no more: it could not be put back when the lease ends, so it is left in place"
    )]
    Final {
        /// Which flow.
        flow: u64,
        /// What runs it.
        name: String,
    },
    /// Another process of this kind has the flow.
    #[error(
        "the flow {flow:#x} is held by another `hawser kernel`, whose congestion control {name:?} runs it: end its \
         lease there, or wait for its end"
    )]
    Held {
        /// The flow's socket cookie.
        flow: u64,
        /// The other's congestion control.
        name: String,
    },
    /// The flow is not run by our congestion control, or has ended.
    #[error("the flow {flow:#x} is not run by {ours:?}, or has ended: give it that first (`Kernel::adopt`)")]
    NotOurs {
        /// The flow's socket cookie.
        flow: u64,
        /// What ours is called.
        ours: String,
    },
    /// The programs lack a map.
    #[error("open a map: no map {0}")]
    NoMap(String),
    /// libbpf could not do something.
    #[error("{doing}: {why}")]
    Libbpf {
        /// What was done.
        doing: &'static str,
        /// Why it failed.
        why: String,
    },
    /// A call failed that should not.
    #[error("{doing}: {error}")]
    System {
        /// What was done.
        doing: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

impl KernelError {
    pub(crate) fn system(doing: &'static str, error: impl Into<io::Error>) -> Self {
        KernelError::System { doing, error: error.into() }
    }
}
