//! How a stack is set up: limits, each with its default, and what may be wrong with them.

use std::ops::RangeInclusive;

use crate::net;
use crate::rand::Seed;

/// What a [`crate::Stack`] needs to know beside its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackConfig {
    /// Addresses and routes.
    pub interface: net::InterfaceConfig,
    /// Determines all randomness: `ev.rand`, hash keys, port numbers. In production it comes from
    /// the operating system's generator.
    pub seed: Seed,
    /// The limits.
    pub limits: Limits,
    /// Ports that connections get when they do not choose (RFC 6335, 6, by default).
    pub ephemeral: RangeInclusive<u16>,
    /// Which packets come to this stack, where several share the addresses; by default all do.
    pub steering: net::Steering,
    /// Packets of a batch that go on where the one before ends are taken in as one, as devices merge them that can: the
    /// program then runs once for many. For devices; by default each packet is an event of its own.
    pub merge: bool,
}

impl StackConfig {
    /// A configuration with default limits and the dynamic ports 49152–65535.
    #[must_use]
    pub fn new(interface: net::InterfaceConfig, seed: impl Into<Seed>) -> StackConfig {
        let seed = seed.into();
        StackConfig {
            interface,
            seed,
            limits: Limits::default(),
            ephemeral: 49152..=65535,
            steering: net::Steering::ALONE,
            merge: false,
        }
    }
}

/// Limits. At a limit, new work is rejected and counted, and what was accepted
/// is kept. Memory is taken as it is used, never in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Contexts with an id; 1,048,576.
    pub contexts: usize,
    /// Handles; 1,048,576.
    pub handles: usize,
    /// Ids of one context, aliases included; 16.
    pub ids_per_context: usize,
    /// Ordered data units of one context that live at a time; 1,024.
    pub units_per_context: usize,
    /// Bytes accepted for sending and not retired, per context; 4 MiB.
    pub tx_bytes: u64,
    /// Bytes of memory for received data, per context; 8 MiB.
    pub rx_bytes: u64,
    /// Bytes accepted for sending and not retired, in the whole stack; 512 MiB.
    pub tx_total: u64,
    /// Bytes of memory for received data, in the whole stack; 512 MiB.
    pub rx_total: u64,
    /// Bytes that a context holds in each direction before any have left again: what it may hold
    /// grows with them, at once for sending, and for receiving while memory is scarce; 128 KiB.
    pub first_bytes: u64,
    /// Bytes that each context may hold in each direction, however little is free in the whole
    /// stack, and beside the totals; 16 KiB.
    pub min_bytes: u64,
    /// Packet instructions that wait to be carried out; 65,536.
    pub pending_packets: usize,
    /// Frames built and not yet taken by the wire, at which building stops; 256.
    pub pending_frames: usize,
    /// Raised events that wait to be run; 4,096.
    pub raised: usize,
    /// Regions of memory that are registered; 65,536.
    pub regions: usize,
    /// Notices that the application has not taken; 65,536.
    pub notices: usize,
    /// Frames taken in at a time, and raised events run at a time; 256.
    pub batch: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            contexts: 1 << 20,
            handles: 1 << 20,
            ids_per_context: 16,
            units_per_context: 1024,
            tx_bytes: 4 << 20,
            rx_bytes: 8 << 20,
            tx_total: 512 << 20,
            rx_total: 512 << 20,
            first_bytes: 128 << 10,
            min_bytes: 16 << 10,
            pending_packets: 1 << 16,
            pending_frames: 256,
            raised: 4096,
            regions: 1 << 16,
            notices: 1 << 16,
            batch: 256,
        }
    }
}

/// Why a stack cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The interface's configuration.
    #[error(transparent)]
    Interface(#[from] net::ConfigError),
    /// A limit of zero, or one so small that a chain of the program can never run.
    #[error("the limit `{name}` is {value}, but the program needs at least {min}")]
    Limit {
        /// The field of [`Limits`].
        name: &'static str,
        /// What it was.
        value: u64,
        /// What it has to be.
        min: u64,
    },
    /// A range without a port.
    #[error("the range of ephemeral ports is empty")]
    Ports,
    /// A shard's number is that of none.
    #[error("a shard's index is less than the number of shards")]
    Steering,
    /// The program's connections cannot be shared out among stacks (`hawser check --target` says where that stands).
    #[error("the program runs in one shard alone: {0}")]
    Shards(String),
    /// A table of the program contradicts another one.
    #[error("the program's tables are broken: {0}")]
    Program(&'static str),
    /// The program's packets cover headers that the wire does not show.
    #[error(
        "the program's packets have an invariant CRC over the network's headers, which a UDP socket does not show: \
         use a device of packets, `packet:NAME` or `tun:NAME`"
    )]
    Invariant,
    /// The program's `start` could not be run.
    #[error("the program's `start` failed: {0}")]
    Start(&'static str),
}
