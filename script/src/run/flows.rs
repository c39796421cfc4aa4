//! The connections of a script, and the numbers that differ between script and wire.
//!
//! The stack chooses its initial sequence number and its timestamps; the script has its own. The
//! peer's numbers are the script's.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::syntax::tree::{ACK, SYN, Segment, TcpOption};
use crate::wire::{Tcp, pattern};

/// Script's timestamps that are remembered with the stack's.
const STAMPS: usize = 4096;

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// The stack's end.
    pub(crate) local: SocketAddr,
    /// The peer's.
    pub(crate) remote: SocketAddr,
    /// The stack's initial sequence number on the wire.
    pub(crate) isn: Option<u32>,
    /// What is added to the script's numbers for the stack's bytes to get those on the wire.
    pub(crate) base: Option<u32>,
    /// The MSS that the stack announced.
    pub(crate) announced: Option<u16>,
    /// The stack's timestamps, by the script's.
    stamps: BTreeMap<u32, u32>,
    /// The first of them: script's, stack's.
    first_stamp: Option<(u32, u32)>,
}

impl Flow {
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr) -> Flow {
        Flow {
            local,
            remote,
            isn: None,
            base: None,
            announced: None,
            stamps: BTreeMap::new(),
            first_stamp: None,
        }
    }

    /// Whether a packet of the stack is of this connection.
    pub(crate) fn sent(&self, tcp: &Tcp) -> bool {
        tcp.from == self.local && tcp.to == self.remote
    }

    /// Takes note of a packet that the stack has sent.
    pub(crate) fn note(&mut self, tcp: &Tcp) {
        if tcp.flags & SYN == 0 {
            return;
        }
        // With another initial sequence number it is another connection between the same ends.
        if self.isn.is_some_and(|isn| isn != tcp.seq) {
            self.base = None;
        }
        self.isn = Some(tcp.seq);
        let mss = tcp.options.iter().find_map(|option| match option {
            TcpOption::Mss(value) => Some(*value),
            _ => None,
        });
        self.announced = mss.or(self.announced);
    }

    /// What is added to the script's numbers for the stack's bytes.
    pub(crate) fn base(&self) -> u32 {
        // Before the script has told its first number it is taken to count from 0.
        self.base.or(self.isn).unwrap_or(0)
    }

    /// A packet of the peer as it is on the wire.
    pub(crate) fn inbound(&self, segment: &Segment, tos: u8, ttl: u8, options: &[TcpOption]) -> Tcp {
        let base = self.base();
        let options = options.iter().map(|option| match option {
            TcpOption::Sack(blocks) => TcpOption::Sack(
                blocks.iter().map(|(from, to)| (from.wrapping_add(base), to.wrapping_add(base))).collect(),
            ),
            TcpOption::Timestamp { val, ecr } => TcpOption::Timestamp { val: *val, ecr: self.echo(*ecr) },
            option => option.clone(),
        });
        let first = segment.seq.wrapping_add(u32::from(segment.flags & SYN != 0));
        Tcp {
            from: self.remote,
            to: self.local,
            tos,
            ttl,
            flow_label: 0,
            flags: segment.flags,
            seq: segment.seq,
            ack: if segment.flags & ACK != 0 { segment.ack.unwrap_or(0).wrapping_add(base) } else { 0 },
            window: segment.window.unwrap_or(0),
            urgent: segment.urgent.unwrap_or(0),
            options: options.collect(),
            payload: (0..u32::from(segment.len)).map(|i| pattern(first.wrapping_add(i))).collect(),
        }
    }

    /// The stack's timestamp for the one that the script has the peer echo.
    fn echo(&self, script: u32) -> u32 {
        if let Some(live) = self.stamps.get(&script) {
            return *live;
        }
        match self.first_stamp {
            Some((first, live)) if script != 0 => live.wrapping_add(script.wrapping_sub(first)),
            _ => script,
        }
    }

    /// Takes note that the stack's timestamp `live` is `script` in the script.
    pub(crate) fn stamp(&mut self, script: u32, live: u32) {
        if self.stamps.len() < STAMPS {
            self.stamps.insert(script, live);
        }
        self.first_stamp.get_or_insert((script, live));
    }

    /// One of the stack's timestamps in the script's numbers.
    pub(crate) fn stamp_of(&self, live: u32) -> Option<u32> {
        let (first, known) = self.first_stamp?;
        Some(first.wrapping_add(live.wrapping_sub(known)))
    }
}

/// All connections of a script, the newest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    list: Vec<Flow>,
    /// The one that packets without ports belong to.
    current: Option<usize>,
}

/// The most connections of one script.
const MOST: usize = 4096;

impl Flows {
    /// A new connection, which becomes the current one.
    pub(crate) fn open(&mut self, local: SocketAddr, remote: SocketAddr) {
        if self.list.len() >= MOST {
            self.list.remove(0);
        }
        self.list.push(Flow::new(local, remote));
        self.current = Some(self.list.len() - 1);
    }

    /// The next SYN without ports begins a new connection.
    pub(crate) fn forget_current(&mut self) {
        self.current = None;
    }

    pub(crate) fn current(&mut self) -> Option<&mut Flow> {
        self.list.get_mut(self.current?)
    }

    /// Makes the connection between these ends, the newest of them, the current one.
    pub(crate) fn select(&mut self, local: SocketAddr, remote: SocketAddr) -> bool {
        let found = self.list.iter().rposition(|flow| (flow.local, flow.remote) == (local, remote));
        self.current = found.or(self.current);
        found.is_some()
    }

    /// The connection that a packet of the stack is of, the newest if there are several.
    pub(crate) fn of(&mut self, tcp: &Tcp) -> Option<&mut Flow> {
        self.list.iter_mut().rev().find(|flow| flow.sent(tcp))
    }

    /// A port that the peer has not used yet.
    pub(crate) fn fresh_port(&self) -> u16 {
        40_000 + self.list.len() as u16
    }
}
