//! Protection domains, memory regions, and addresses in them.

use std::ops::BitOr;
use std::sync::Arc;

use crate::{Region, Slice};
use hawser_ir::abi;

/// A protection domain: queue pairs use only the memory of their own domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtectionDomain(pub(crate) u32);

/// The permitted uses of memory. Its own host may always read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(pub(crate) u32);

impl Access {
    /// Only its own host may read the memory.
    pub const NONE: Access = Access(0);
    /// Received messages and the results of reads and atomic operations may be stored in the memory.
    pub const LOCAL_WRITE: Access = Access(abi::ACCESS_LOCAL_WRITE);
    /// Peers may write the memory.
    pub const REMOTE_WRITE: Access = Access(abi::ACCESS_REMOTE_WRITE);
    /// Peers may read the memory.
    pub const REMOTE_READ: Access = Access(abi::ACCESS_REMOTE_READ);
    /// Peers may change the memory by atomic operations.
    pub const REMOTE_ATOMIC: Access = Access(abi::ACCESS_REMOTE_ATOMIC);
    /// Every use is permitted.
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

/// Memory that a stack may read and write by its key. It remains until its last user drops it; its key is
/// valid until [`Device::deregister`](crate::verbs::Device::deregister).
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    pub(crate) domain: ProtectionDomain,
    pub(crate) key: u32,
    pub(crate) region: Arc<Region>,
}

impl MemoryRegion {
    /// Returns the key, which work of this host uses (`lkey`) as well as peers (`rkey`).
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// Returns the region with the bytes.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Returns a part of the region, for work of this host.
    #[must_use]
    pub fn slice(&self, at: u64, len: u64) -> Slice {
        Slice { key: self.key, at, len }
    }

    /// Returns an address in the region, as peers name it.
    #[must_use]
    pub fn remote(&self, at: u64) -> Remote {
        Remote { key: self.key, at }
    }

    /// Copies bytes into the region.
    ///
    /// # Panics
    /// Panics if they do not fit.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.region.bytes()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Copies bytes out of the region.
    ///
    /// # Panics
    /// Panics if there are not enough bytes.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.region.bytes()[at..at + out.len()]);
    }
}

/// An address in a memory region of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// The region's key at the peer.
    pub key: u32,
    /// The address of the first byte.
    pub at: u64,
}
