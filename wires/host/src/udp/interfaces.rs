//! The interface on which each peer's last datagram arrived. Answers leave by the same interface.
//!
//! Invariant: the number of places is fixed. A peer replaces another one with the same hash, which is then
//! answered by the routing table.

use std::hash::{BuildHasher, RandomState};

use super::control::DatagramEnd;

/// The number of places, which take 64 KB of memory.
const PLACES: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PeerPath {
    remote: DatagramEnd,
    local: [u8; 16],
    interface: u32,
}

/// The interfaces of peers.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    /// The hash is random, so that an attacker cannot choose peers with equal hashes.
    hasher: RandomState,
    places: Vec<Option<PeerPath>>,
}

impl Interfaces {
    /// Records that a datagram from `remote` to `local` arrived on an interface.
    pub(super) fn note(&mut self, remote: DatagramEnd, local: [u8; 16], interface: u32) {
        if self.places.is_empty() {
            self.places = vec![None; PLACES];
        }
        let at = self.place(&remote, &local);
        self.places[at] = Some(PeerPath { remote, local, interface });
    }

    /// Returns the index of the interface for an answer, or 0 for the routing table.
    pub(super) fn find(&self, remote: DatagramEnd, local: [u8; 16]) -> u32 {
        let at = self.place(&remote, &local);
        match self.places.get(at) {
            Some(Some(place)) if place.remote == remote && place.local == local => place.interface,
            _ => 0,
        }
    }

    /// Forgets the interface, because packets no longer leave by it.
    pub(super) fn forget(&mut self, remote: DatagramEnd, local: [u8; 16]) {
        if self.find(remote, local) != 0 {
            let at = self.place(&remote, &local);
            self.places[at] = None;
        }
    }

    fn place(&self, remote: &DatagramEnd, local: &[u8; 16]) -> usize {
        self.hasher.hash_one((remote, local)) as usize % PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_answered_where_its_last_datagram_came_in() {
        let mut interfaces = Interfaces::default();
        let peer = |port| DatagramEnd { ip: [1; 16], port };
        assert_eq!(interfaces.find(peer(1), [2; 16]), 0);
        interfaces.note(peer(1), [2; 16], 7);
        interfaces.note(peer(1), [2; 16], 8);
        assert_eq!(interfaces.find(peer(1), [2; 16]), 8);
        assert_eq!(interfaces.find(peer(1), [3; 16]), 0);
        assert_eq!(interfaces.find(peer(2), [2; 16]), 0);
        interfaces.forget(peer(1), [2; 16]);
        assert_eq!(interfaces.find(peer(1), [2; 16]), 0);
    }

    #[test]
    fn many_peers_take_no_more_memory() {
        let mut interfaces = Interfaces::default();
        for port in 0..u16::MAX {
            interfaces.note(DatagramEnd { ip: [1; 16], port }, [2; 16], 7);
        }
        assert_eq!(interfaces.places.len(), PLACES);
    }
}
