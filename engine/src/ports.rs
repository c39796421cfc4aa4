//! Local ports: which are in use towards whom, and a free one for a new connection.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use crate::rand::Rand;

/// An address and a port; the address 16 bytes, IPv4 mapped.
type End = ([u8; 16], u16);

/// The ports that this stack's applications hold. A listener holds its port towards everybody.
#[derive(Debug)]
pub(crate) struct Ports {
    range: RangeInclusive<u16>,
    /// Local address and port, and the remote end; all zero for a listener.
    used: HashSet<(End, End)>,
    /// Listeners' ends that several hold together, and how many do.
    shared: HashMap<End, usize>,
}

/// The remote end of a listener.
pub(crate) const ANYBODY: End = ([0; 16], 0);

impl Ports {
    /// No port in use; `range` is what [`Ports::pick`] chooses from.
    pub(crate) fn new(range: RangeInclusive<u16>) -> Ports {
        Ports { range, used: HashSet::new(), shared: HashMap::new() }
    }

    /// Takes a port; false when it is taken.
    pub(crate) fn take(&mut self, local: End, remote: End) -> bool {
        self.used.insert((local, remote))
    }

    /// Takes a listener's port together with others that take it so; false when somebody holds it
    /// alone.
    pub(crate) fn share(&mut self, local: End) -> bool {
        if self.used.insert((local, ANYBODY)) || self.shared.contains_key(&local) {
            *self.shared.entry(local).or_default() += 1;
            return true;
        }
        false
    }

    /// Gives a port back: for good when nobody shares it any more.
    pub(crate) fn give(&mut self, local: End, remote: End) {
        if remote == ANYBODY
            && let Some(holders) = self.shared.get_mut(&local)
        {
            *holders -= 1;
            if *holders > 0 {
                return;
            }
            self.shared.remove(&local);
        }
        self.used.remove(&(local, remote));
    }

    /// A port that is free towards `remote` and that nobody listens on, from a random start on
    /// (RFC 6056, 3.3.1). It is not taken yet. Nothing when all are in use.
    pub(crate) fn pick(&self, address: [u8; 16], remote: End, rand: &mut Rand) -> Option<u16> {
        let count = u64::from(self.range.end().checked_sub(*self.range.start())?) + 1;
        let start = rand.below(count);
        (0..count)
            .map(|i| self.range.start() + ((start + i) % count) as u16)
            .find(|port| self.is_free((address, *port), remote))
    }

    fn is_free(&self, local: End, remote: End) -> bool {
        let any_address = (ANYBODY.0, local.1);
        ![(local, remote), (local, ANYBODY), (any_address, ANYBODY)]
            .iter()
            .any(|used| self.used.contains(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_port_is_free_when_the_last_has_left() {
        let mut ports = Ports::new(1000..=1009);
        let own = ([1; 16], 80);
        assert!(ports.share(own) && ports.share(own));
        assert!(!ports.take(own, ANYBODY), "not alone");
        ports.give(own, ANYBODY);
        assert!(!ports.take(own, ANYBODY));
        ports.give(own, ANYBODY);
        assert!(ports.take(own, ANYBODY));
        assert!(!ports.share(own), "held alone");
    }

    #[test]
    fn every_port_is_found_once_per_remote() {
        let mut ports = Ports::new(1000..=1009);
        let mut rand = Rand::new(3);
        let (own, near, far) = ([1; 16], ([2; 16], 80), ([3; 16], 80));
        assert!(ports.take((own, 1004), ANYBODY));
        assert!(ports.take((ANYBODY.0, 1005), ANYBODY));
        let mut found: Vec<u16> = std::iter::from_fn(|| {
            let port = ports.pick(own, near, &mut rand)?;
            assert!(ports.take((own, port), near));
            Some(port)
        })
        .collect();
        assert_ne!(found, [1000, 1001, 1002, 1003, 1006, 1007, 1008, 1009], "starts anywhere");
        found.sort_unstable();
        assert_eq!(found, [1000, 1001, 1002, 1003, 1006, 1007, 1008, 1009]);
        assert!(ports.pick(own, far, &mut rand).is_some(), "another remote");
        ports.give((own, 1007), near);
        assert_eq!(ports.pick(own, near, &mut rand), Some(1007));
    }
}
