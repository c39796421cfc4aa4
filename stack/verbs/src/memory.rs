//! Protection domains, memory regions, and places in them.

use std::ops::BitOr;
use std::sync::Arc;

use hawser_engine::{Region, Slice};
use hawser_ir::abi;

/// What belongs together: queue pairs use the memory of their own domain alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtectionDomain(pub(crate) u32);

/// What may be done with memory. Reading by its own host is always allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(pub(crate) u32);

impl Access {
    /// Its own host reads it, nothing else.
    pub const NONE: Access = Access(0);
    /// Received messages, what was read and what atomic operations found may be put there.
    pub const LOCAL_WRITE: Access = Access(abi::ACCESS_LOCAL_WRITE);
    /// Peers may write it.
    pub const REMOTE_WRITE: Access = Access(abi::ACCESS_REMOTE_WRITE);
    /// Peers may read it.
    pub const REMOTE_READ: Access = Access(abi::ACCESS_REMOTE_READ);
    /// Peers may change it by atomic operations.
    pub const REMOTE_ATOMIC: Access = Access(abi::ACCESS_REMOTE_ATOMIC);
    /// All of it.
    pub const ALL: Access = Access(
        abi::ACCESS_LOCAL_WRITE
            | abi::ACCESS_REMOTE_WRITE
            | abi::ACCESS_REMOTE_READ
            | abi::ACCESS_REMOTE_ATOMIC,
    );
}

impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// Memory that a stack may read and write by its key. It stays until nobody holds it; its key opens it until
/// [`Device::deregister`](crate::Device::deregister).
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    pub(crate) domain: ProtectionDomain,
    pub(crate) key: u32,
    pub(crate) region: Arc<Region>,
}

impl MemoryRegion {
    /// Its key, which work of its own host uses (`lkey`) as well as peers (`rkey`).
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// The bytes.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// A part of it, for work of its own host.
    #[must_use]
    pub fn slice(&self, at: u64, len: u64) -> Slice {
        Slice { key: self.key, at, len }
    }

    /// A place in it, as its peers name it.
    #[must_use]
    pub fn remote(&self, at: u64) -> Remote {
        Remote { key: self.key, at }
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// When they do not fit there.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.region.bytes()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.region.bytes()[at..at + out.len()]);
    }
}

/// A place in a memory region of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// The region's key there.
    pub key: u32,
    /// The address of its first byte.
    pub at: u64,
}
