//! The configuration of a stack: its limits with their defaults, and the errors that a configuration can
//! have.

use std::ops::RangeInclusive;

use crate::net;
use crate::rand::Seed;

/// The configuration of a [`crate::Stack`], apart from its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackConfig {
    /// Addresses and routes.
    pub interface: net::InterfaceConfig,
    /// The source of all randomness: `ev.rand`, hash keys, port numbers. In production the seed comes from
    /// the operating system's generator.
    pub seed: Seed,
    /// The limits on memory, tables and queues.
    pub limits: StackLimits,
    /// The local ports of connections that do not choose one; by default the dynamic ports of RFC 6335,
    /// section 6.
    pub ephemeral: RangeInclusive<u16>,
    /// The packets that this stack receives when several stacks share its addresses; by default all of them.
    pub steering: net::Steering,
    /// True if consecutive packets of a batch are merged into one when each continues the one before, as some
    /// devices do. The program then runs once for many packets. Meant for devices; by default each packet is
    /// an event of its own.
    pub merge: bool,
}

impl StackConfig {
    /// Returns a configuration with default limits and the dynamic ports 49152–65535.
    #[must_use]
    pub fn new(interface: net::InterfaceConfig, seed: impl Into<Seed>) -> StackConfig {
        let seed = seed.into();
        StackConfig {
            interface,
            seed,
            limits: StackLimits::default(),
            ephemeral: 49152..=65535,
            steering: net::Steering::ALONE,
            merge: false,
        }
    }
}

/// The limits of a stack. At a limit, new work is rejected and counted, and accepted work is kept. Memory is
/// allocated as it is used, never in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackLimits {
    /// The maximum number of contexts with an id; 1,048,576.
    pub contexts: usize,
    /// The maximum number of handles; 1,048,576.
    pub handles: usize,
    /// The maximum number of ids of one context, aliases included; 16.
    pub ids_per_context: usize,
    /// The maximum number of ordered data units of one context that are alive at the same time; 1,024.
    pub units_per_context: usize,
    /// The maximum number of bytes accepted for sending and not yet retired, per context; 4 MiB.
    pub tx_bytes: u64,
    /// The maximum number of bytes of memory for received data, per context; 8 MiB.
    pub rx_bytes: u64,
    /// The maximum number of bytes accepted for sending and not yet retired, in the whole stack; 512 MiB.
    pub tx_total: u64,
    /// The maximum number of bytes of memory for received data, in the whole stack; 512 MiB.
    pub rx_total: u64,
    /// The number of bytes that a new context may hold in each direction; 128 KiB. The allowance grows as its
    /// bytes leave: at once for sending, and for receiving while memory is scarce.
    pub first_bytes: u64,
    /// The number of bytes that each context may hold in each direction even if the totals are exceeded by
    /// them; 16 KiB.
    pub min_bytes: u64,
    /// The maximum number of packet instructions that wait to be carried out; 65,536.
    pub pending_packets: usize,
    /// The number of frames built and not yet taken by the wire at which building stops; 256.
    pub pending_frames: usize,
    /// The maximum number of raised events that wait to be run; 4,096.
    pub raised: usize,
    /// The maximum number of registered memory regions; 65,536.
    pub regions: usize,
    /// The maximum number of notices that the application has not yet taken; 65,536.
    pub notices: usize,
    /// The maximum number of frames received, and of raised events run, in one batch; 256.
    pub batch: usize,
}

impl Default for StackLimits {
    fn default() -> StackLimits {
        StackLimits {
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

/// A stack could not be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackConfigError {
    /// The interface's configuration is invalid.
    #[error(transparent)]
    Interface(#[from] net::InterfaceConfigError),
    /// A limit is zero, or so small that one of the program's chains could never run.
    #[error("the limit `{name}` is {value}, but the program needs at least {min}")]
    Limit {
        /// The name of the field in [`StackLimits`].
        name: &'static str,
        /// The configured value.
        value: u64,
        /// The smallest permitted value.
        min: u64,
    },
    /// The range of ephemeral ports is empty.
    #[error("the range of ephemeral ports is empty")]
    Ports,
    /// The shard's index is not less than the number of shards.
    #[error("a shard's index is less than the number of shards")]
    Steering,
    /// The program's connections cannot be distributed over several stacks (`hawser check --target` names the
    /// place in the program that prevents it).
    #[error("the program runs in one shard only: {0}")]
    Shards(String),
    /// A table of the program contradicts another one.
    #[error("the program's tables are inconsistent: {0}")]
    Program(&'static str),
    /// The program's packets have a CRC that covers headers which the wire does not expose.
    #[error(
        "the program's packets have an invariant CRC over the network's headers, which a UDP socket does not show: \
         use a device of packets, `packet:NAME` or `tun:NAME`"
    )]
    Invariant,
    /// The program's `start` failed.
    #[error("the program's `start` failed: {0}")]
    Start(&'static str),
}
