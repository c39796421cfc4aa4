//! The local ports in use towards each remote end, and the choice of a free one for a new connection.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use siphasher::sip::SipHasher24;

use super::flow::{ANYBODY, FlowEnd};
use crate::net::Steering;
use crate::rand::Rand;

/// The number of counters that destinations share (RFC 6056, 3.3.4, TABLE_LENGTH). The more there are, the
/// less one destination learns about the number of connections to others.
const COUNTERS: usize = 1024;

/// The result of taking a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortClaim {
    /// The port was free.
    Alone,
    /// Other connections have the same ends; the program decides whether there may be one more.
    Shared,
    /// The port is in use.
    No,
}

/// The ports that this stack's applications hold. A listener holds its port towards all remote ends.
#[derive(Debug)]
pub(crate) struct Ports {
    range: RangeInclusive<u16>,
    /// The rule by which packets come back to this stack.
    steering: Steering,
    with_ports: bool,
    /// The local address and port with the remote end, which is all zero for a listener.
    used: HashSet<(FlowEnd, FlowEnd)>,
    /// The number of further connections with these ends, of a program that distinguishes them by its own
    /// ids.
    more: HashMap<(FlowEnd, FlowEnd), u32>,
    /// The ports held, for programs over UDP, which are looked up by port.
    local: Option<Local>,
    /// The listeners' ends that several listeners hold together, and their number.
    shared: HashMap<FlowEnd, usize>,
    /// The hash that gives the start of a destination's ports: F of RFC 6056, 3.3.4; `index`, its G, gives
    /// the counter.
    offset: SipHasher24,
    index: SipHasher24,
    /// The number of ports tried for the destinations of each counter; the initial values are random.
    counters: Vec<u16>,
}

/// The local ports, and the number of pairs of ends that each is part of.
#[derive(Debug)]
struct Local {
    ends: HashMap<u16, u32>,
    /// Bit k of word n for port 64 n + k.
    held: Vec<u64>,
}

impl Local {
    fn mark(&mut self, port: u16, is_held: bool) {
        let (word, bit) = (&mut self.held[usize::from(port / 64)], 1 << (port % 64));
        if is_held {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }
}

impl Ports {
    /// Creates an empty table; [`Ports::pick`] chooses from `range`.
    pub(crate) fn new(range: RangeInclusive<u16>, mut rand: Rand) -> Ports {
        let [offset, index] = [rand.key(), rand.key()].map(|(a, b)| SipHasher24::new_with_keys(a, b));
        let counters = (0..COUNTERS).map(|_| rand.bits() as u16).collect();
        Ports {
            range,
            steering: Steering::ALONE,
            with_ports: false,
            used: HashSet::new(),
            more: HashMap::new(),
            local: None,
            shared: HashMap::new(),
            offset,
            index,
            counters,
        }
    }

    /// Adds the look-up by port ([`Ports::holds`]), for a program over UDP.
    pub(crate) fn known_by_port(mut self, known: bool) -> Ports {
        self.local = known.then(|| Local { ends: HashMap::new(), held: vec![0; (1 << 16) / 64] });
        self
    }

    /// Restricts the ports to those whose packets come to this one of several stacks. `with_ports` is true if
    /// the ports of the packets count.
    pub(crate) fn steered(mut self, steering: Steering, with_ports: bool) -> Ports {
        (self.steering, self.with_ports) = (steering, with_ports);
        self
    }

    /// Returns true if a remote end's packets to a local port come to this stack.
    pub(crate) fn is_reached(&self, port: u16, remote: FlowEnd) -> bool {
        self.steering.takes(&remote.0, remote.1, port, self.with_ports)
    }

    /// Takes a port. If the range has only one port, connections may share the same ends.
    pub(crate) fn take(&mut self, local: FlowEnd, remote: FlowEnd) -> PortClaim {
        let may_share = remote != ANYBODY && self.only().is_some();
        if self.used.insert((local, remote)) {
            if let Some(ports) = &mut self.local {
                *ports.ends.entry(local.1).or_default() += 1;
                ports.mark(local.1, true);
            }
            return PortClaim::Alone;
        }
        if may_share {
            *self.more.entry((local, remote)).or_default() += 1;
            return PortClaim::Shared;
        }
        PortClaim::No
    }

    /// Returns the port of a range with only one.
    fn only(&self) -> Option<u16> {
        (self.range.start() == self.range.end()).then_some(*self.range.start())
    }

    /// Takes a listener's port together with other listeners that share it; returns false if one holds it
    /// exclusively.
    pub(crate) fn share(&mut self, local: FlowEnd) -> bool {
        if self.take(local, ANYBODY) == PortClaim::Alone || self.shared.contains_key(&local) {
            *self.shared.entry(local).or_default() += 1;
            return true;
        }
        false
    }

    /// Releases a port; it is free once no other holder is left.
    pub(crate) fn give(&mut self, local: FlowEnd, remote: FlowEnd) {
        if remote == ANYBODY
            && let Some(holders) = self.shared.get_mut(&local)
        {
            *holders -= 1;
            if *holders > 0 {
                return;
            }
            self.shared.remove(&local);
        }
        if let Some(more) = self.more.get_mut(&(local, remote)) {
            *more -= 1;
            if *more == 0 {
                self.more.remove(&(local, remote));
            }
        } else if self.used.remove(&(local, remote))
            && let Some(ports) = &mut self.local
            && let Some(ends) = ports.ends.get_mut(&local.1)
        {
            *ends -= 1;
            if *ends == 0 {
                ports.ends.remove(&local.1);
                ports.mark(local.1, false);
            }
        }
    }

    /// Returns true if an application holds this port.
    pub(crate) fn holds(&self, port: u16) -> bool {
        let word = self.held().get(usize::from(port / 64));
        word.is_some_and(|word| word >> (port % 64) & 1 != 0)
    }

    /// Returns a bitmap of the held ports: bit k of word n for port 64 n + k. It is empty for programs that
    /// are not over UDP.
    pub(crate) fn held(&self) -> &[u64] {
        self.local.as_ref().map_or(&[], |ports| &ports.held)
    }

    /// Returns a port that is free towards `remote` and without a listener, by double hashing (RFC 6056,
    /// 3.3.4). Towards one destination the ports are consecutive, so that a port is not soon used again. They
    /// start at a place that only the key's holder knows. The port is not taken yet. Returns `None` if all
    /// are in use. If the range has only one port, as at a socket of the host, connections leave from a
    /// listener's port too. The program may then open several connections to one remote end.
    //= RFC6056 3.3.4
    pub(crate) fn pick(&mut self, address: [u8; 16], remote: FlowEnd) -> Option<u16> {
        if let Some(port) = self.only() {
            return Some(port);
        }
        let count = u32::from(self.range.end().checked_sub(*self.range.start())?) + 1;
        let mut destination = [0; 34];
        destination[..16].copy_from_slice(&address);
        destination[16..32].copy_from_slice(&remote.0);
        destination[32..].copy_from_slice(&remote.1.to_be_bytes());
        let offset = self.offset.hash(&destination) % u64::from(count);
        let index = (self.index.hash(&destination) % COUNTERS as u64) as usize;
        (0..count).find_map(|_| {
            let counter = self.counters[index];
            self.counters[index] = counter.wrapping_add(1);
            let port = self.range.start() + ((offset + u64::from(counter)) % u64::from(count)) as u16;
            (self.is_reached(port, remote) && self.is_free((address, port), remote)).then_some(port)
        })
    }

    fn is_free(&self, local: FlowEnd, remote: FlowEnd) -> bool {
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
    fn a_port_is_held_as_long_as_something_leaves_from_it() {
        let mut ports = Ports::new(1000..=1009, Rand::from_seed(3)).known_by_port(true);
        let [here, one, other] = [([1; 16], 1000), ([2; 16], 80), ([3; 16], 80)];
        assert!(!ports.holds(1000));
        assert_eq!(
            (ports.take(here, one), ports.take(here, other)),
            (PortClaim::Alone, PortClaim::Alone)
        );
        ports.give(here, one);
        assert!(ports.holds(1000));
        ports.give(here, other);
        assert!(!ports.holds(1000));
    }

    #[test]
    fn a_shared_port_is_free_when_the_last_has_left() {
        let mut ports = Ports::new(1000..=1009, Rand::from_seed(3));
        let own = ([1; 16], 80);
        assert!(ports.share(own) && ports.share(own));
        assert_eq!(ports.take(own, ANYBODY), PortClaim::No, "not alone");
        ports.give(own, ANYBODY);
        assert_eq!(ports.take(own, ANYBODY), PortClaim::No);
        ports.give(own, ANYBODY);
        assert_eq!(ports.take(own, ANYBODY), PortClaim::Alone);
        assert!(!ports.share(own), "held alone");
    }

    #[test]
    fn a_port_is_shared_by_a_listener_and_its_connections() {
        let mut ports = Ports::new(4433..=4433, Rand::from_seed(3));
        let (own, remote) = ([1; 16], ([2; 16], 80));
        let own = (own, 4433);
        assert_eq!(ports.take(own, ANYBODY), PortClaim::Alone);
        assert_eq!(ports.take(own, ANYBODY), PortClaim::No, "a second listener");
        assert_eq!(ports.pick(own.0, remote), Some(4433));
        assert_eq!(ports.take(own, remote), PortClaim::Alone);
        assert_eq!(ports.pick(own.0, remote), Some(4433));
        assert_eq!(ports.take(own, remote), PortClaim::Shared);
        ports.give(own, remote);
        assert_eq!(ports.take(own, remote), PortClaim::Shared);
        ports.give(own, remote);
        ports.give(own, remote);
        assert_eq!(ports.take(own, remote), PortClaim::Alone, "both are gone");
    }

    #[test]
    fn every_port_is_found_once_per_remote() {
        let mut ports = Ports::new(1000..=1009, Rand::from_seed(3));
        let (own, near, far) = ([1; 16], ([2; 16], 80), ([3; 16], 80));
        for taken in [(own, 1004), (ANYBODY.0, 1005)] {
            assert_eq!(ports.take(taken, ANYBODY), PortClaim::Alone);
        }
        let mut found: Vec<u16> = std::iter::from_fn(|| {
            let port = ports.pick(own, near)?;
            assert_eq!(ports.take((own, port), near), PortClaim::Alone);
            Some(port)
        })
        .collect();
        assert_ne!(
            found,
            [1000, 1001, 1002, 1003, 1006, 1007, 1008, 1009],
            "starts anywhere"
        );
        found.sort_unstable();
        assert_eq!(found, [1000, 1001, 1002, 1003, 1006, 1007, 1008, 1009]);
        assert!(ports.pick(own, far).is_some(), "another remote");
        ports.give((own, 1007), near);
        assert_eq!(ports.pick(own, near), Some(1007));
    }

    /// RFC 6056, 3.3.4: towards one destination each port differs from the last. The ports towards one
    /// destination do not reveal the start of another's.
    #[test]
    fn ports_increase_per_destination_from_separate_offsets() {
        let mut ports = Ports::new(49152..=65535, Rand::from_seed(5));
        let own = [1; 16];
        let near = ([2; 16], 443);
        let one: Vec<u16> = (0..100)
            .map(|_| ports.pick(own, near).expect("all are free"))
            .collect();
        assert!(
            one.windows(2).all(|two| two[1] == two[0] + 1 || two[1] == 49152),
            "{one:?}"
        );
        let begins: std::collections::HashSet<u16> = (0..200u16)
            .filter_map(|n| ports.pick(own, ([2; 16], n)))
            .collect();
        assert!(
            begins.len() > 190,
            "{} of 200 destinations begin elsewhere",
            begins.len()
        );
        let mut others = Ports::new(49152..=65535, Rand::from_seed(6));
        assert_ne!(others.pick(own, near), Some(one[0]), "another seed");
    }
}
