//! By which interface the last datagram of each peer came in: what answers it leaves there again.
//!
//! Invariant: a fixed number of places; a peer takes the place of another one with the same hash, which is then answered
//! by the routing table.

use std::hash::{BuildHasher, RandomState};

use super::control::End;

/// Places: 64 KB of memory.
const PLACES: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    remote: End,
    local: [u8; 16],
    interface: u32,
}

/// The interfaces of peers.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    /// Nobody outside can choose peers whose hashes are the same.
    hasher: RandomState,
    places: Vec<Option<Place>>,
}

impl Interfaces {
    /// A datagram of `remote` to `local` came in there.
    pub(super) fn note(&mut self, remote: End, local: [u8; 16], interface: u32) {
        if self.places.is_empty() {
            self.places = vec![None; PLACES];
        }
        let at = self.place(&remote, &local);
        self.places[at] = Some(Place { remote, local, interface });
    }

    /// By which interface to answer; 0: by the routing table.
    pub(super) fn find(&self, remote: End, local: [u8; 16]) -> u32 {
        let at = self.place(&remote, &local);
        match self.places.get(at) {
            Some(Some(place)) if place.remote == remote && place.local == local => place.interface,
            _ => 0,
        }
    }

    /// Nothing leaves there any more.
    pub(super) fn forget(&mut self, remote: End, local: [u8; 16]) {
        if self.find(remote, local) != 0 {
            let at = self.place(&remote, &local);
            self.places[at] = None;
        }
    }

    fn place(&self, remote: &End, local: &[u8; 16]) -> usize {
        self.hasher.hash_one((remote, local)) as usize % PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_answered_where_its_last_datagram_came_in() {
        let mut interfaces = Interfaces::default();
        let peer = |port| End { ip: [1; 16], port };
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
            interfaces.note(End { ip: [1; 16], port }, [2; 16], 7);
        }
        assert_eq!(interfaces.places.len(), PLACES);
    }
}
