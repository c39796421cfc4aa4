//! The connections of a script, and the numbers that differ between script and wire.
//!
//! The stack chooses its initial sequence number, its timestamps and its Fast Open cookies, and the script
//! has others. As in packetdrill, the numbers of a SYN are the script's. Those of other segments count from
//! the SYN of their side.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::script::syntax::tree::{ACK, Numbering, RST, SYN, Segment, TcpOption};
use crate::script::wire::{Tcp, pattern};

/// The maximum number of script timestamps kept with the stack's.
const STAMPS: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct ScriptFlow {
    /// The stack's end.
    pub(crate) local: SocketAddr,
    /// The peer's end.
    pub(crate) remote: SocketAddr,
    /// The stack's initial sequence number on the wire.
    pub(crate) isn: Option<u32>,
    /// The same number in the script, known from its first `>` with a SYN on.
    pub(crate) script_isn: Option<u32>,
    /// The peer's initial sequence number.
    pub(crate) peer_isn: Option<u32>,
    /// The initial sequence number of the peer's latest SYN, even if it opened no connection.
    offered: Option<u32>,
    /// True if the handshake is over: the stack has sent more than SYNs.
    settled: bool,
    /// The MSS that the stack announced.
    pub(crate) announced: Option<u16>,
    /// The stack's timestamps, by the script's.
    stamps: BTreeMap<u32, u32>,
    /// The first pair of timestamps: the script's and the stack's.
    first_stamp: Option<(u32, u32)>,
}

impl ScriptFlow {
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr) -> ScriptFlow {
        ScriptFlow {
            local,
            remote,
            isn: None,
            script_isn: None,
            peer_isn: None,
            offered: None,
            settled: false,
            announced: None,
            stamps: BTreeMap::new(),
            first_stamp: None,
        }
    }

    /// Returns whether a packet of the stack belongs to this connection.
    pub(crate) fn sent(&self, tcp: &Tcp) -> bool {
        tcp.from == self.local && tcp.to == self.remote
    }

    /// Records a packet that the stack has sent.
    pub(crate) fn note(&mut self, tcp: &Tcp) {
        if tcp.flags & SYN == 0 {
            self.settled |= tcp.flags & RST == 0;
            return;
        }
        // Another initial sequence number means another connection between the same ends.
        if self.isn.is_some_and(|isn| isn != tcp.seq) {
            self.script_isn = None;
            self.peer_isn = self.offered;
            self.settled = false;
        }
        self.isn = Some(tcp.seq);
        let mss = tcp.options.iter().find_map(|option| match option {
            TcpOption::Mss(value) => Some(*value),
            _ => None,
        });
        self.announced = mss.or(self.announced);
    }

    /// Records a SYN of the peer.
    fn note_offer(&mut self, seq: u32) {
        self.offered = Some(seq);
        if !self.settled || self.peer_isn.is_none() {
            self.peer_isn = Some(seq);
        }
    }

    /// Returns the offset from the script's numbers of the stack's bytes to those on the wire, in segments
    /// with these flags.
    pub(crate) fn own_base(&self, flags: u16) -> u32 {
        let isn = self.isn.unwrap_or(0);
        // Until the script has stated its first number, it counts from 0.
        if flags & SYN != 0 {
            isn.wrapping_sub(self.script_isn.unwrap_or(0))
        } else {
            isn
        }
    }

    /// Returns the same offset for the peer's bytes.
    pub(crate) fn peer_base(&self, flags: u16) -> u32 {
        if flags & SYN != 0 {
            0
        } else {
            self.peer_isn.unwrap_or(0)
        }
    }

    /// Converts a packet of the peer to its form on the wire.
    pub(crate) fn inbound(
        &mut self,
        segment: &Segment,
        (tos, ttl): (u8, u8),
        options: &[TcpOption],
        cookies: &Cookies,
    ) -> Tcp {
        // A SYN presents a cookie of the stack; a <SYN,ACK> provides one of the peer.
        let shows = segment.flags & (SYN | ACK) == SYN;
        if segment.flags & SYN != 0 {
            self.note_offer(segment.seq);
        } else if segment.flags & RST == 0 {
            self.settled |= self.isn.is_some() && self.peer_isn.is_some();
        }
        let base = self.own_base(segment.flags);
        let seq = match segment.numbering {
            Numbering::FromSyn => segment.seq.wrapping_add(self.peer_base(segment.flags)),
            Numbering::Wire | Numbering::Any => segment.seq,
        };
        let options = options.iter().map(|option| match option {
            TcpOption::Sack(blocks) => TcpOption::Sack(
                blocks
                    .iter()
                    .map(|(from, to)| (from.wrapping_add(base), to.wrapping_add(base)))
                    .collect(),
            ),
            TcpOption::Timestamp { val, ecr } => TcpOption::Timestamp { val: *val, ecr: self.echo(*ecr) },
            TcpOption::FastOpen(cookie, old) if shows => TcpOption::FastOpen(cookies.live(cookie), *old),
            option => option.clone(),
        });
        let first = seq.wrapping_add(u32::from(segment.flags & SYN != 0));
        Tcp {
            from: self.remote,
            to: self.local,
            tos,
            ttl,
            flow_label: 0,
            flags: segment.flags,
            seq,
            ack: if segment.flags & ACK != 0 {
                segment.ack.unwrap_or(0).wrapping_add(base)
            } else {
                0
            },
            window: segment.window.unwrap_or(0),
            urgent: segment.urgent.unwrap_or(0),
            options: options.collect(),
            payload: (0..u32::from(segment.len))
                .map(|i| pattern(first.wrapping_add(i)))
                .collect(),
        }
    }

    /// Returns the stack's timestamp for the one that the script has the peer echo.
    fn echo(&self, script: u32) -> u32 {
        if let Some(live) = self.stamps.get(&script) {
            return *live;
        }
        match self.first_stamp {
            Some((first, live)) if script != 0 => live.wrapping_add(script.wrapping_sub(first)),
            _ => script,
        }
    }

    /// Records that the stack's timestamp `live` is `script` in the script.
    pub(crate) fn stamp(&mut self, script: u32, live: u32) {
        if self.stamps.len() < STAMPS {
            self.stamps.insert(script, live);
        }
        self.first_stamp.get_or_insert((script, live));
    }

    /// Converts one of the stack's timestamps to the script's numbers.
    pub(crate) fn stamp_of(&self, live: u32) -> Option<u32> {
        let (first, known) = self.first_stamp?;
        Some(first.wrapping_add(live.wrapping_sub(known)))
    }
}

/// The program's Fast Open cookies, by the script's. Each server makes cookies of a key and of addresses by
/// its own method (RFC 7413, 4.1.2).
#[derive(Clone, Debug, Default)]
pub(crate) struct Cookies(BTreeMap<Vec<u8>, Vec<u8>>);

impl Cookies {
    /// Reads the cookies that scripts know before the stack has provided any, in hexadecimal.
    pub(crate) fn from_table(table: &BTreeMap<String, String>) -> Cookies {
        let pairs = table
            .iter()
            .filter_map(|(script, live)| Some((hexadecimal(script)?, hexadecimal(live)?)));
        Cookies(pairs.collect())
    }

    /// Records that the stack provided `live` for the script's `script`. The first pair remains in force.
    pub(crate) fn learn(&mut self, script: &[u8], live: &[u8]) {
        if script.len() == live.len() && self.0.len() < STAMPS {
            self.0.entry(script.to_vec()).or_insert_with(|| live.to_vec());
        }
    }

    /// Returns the cookie that the peer presents for the script's `script`.
    pub(crate) fn live(&self, script: &[u8]) -> Vec<u8> {
        self.0.get(script).map_or(script, Vec::as_slice).to_vec()
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let bytes = (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok());
    bytes.collect()
}

/// All connections of a script, the newest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    list: Vec<ScriptFlow>,
    /// The cookies seen so far.
    cookies: Cookies,
    /// The connection to which packets without ports belong.
    current: Option<usize>,
}

/// The maximum number of connections of one script.
const MAX_CONNECTIONS: usize = 4096;

impl Flows {
    /// Creates an empty list.
    pub(crate) fn new(cookies: Cookies) -> Flows {
        Flows { cookies, ..Flows::default() }
    }

    /// Adds a connection and makes it the current one.
    pub(crate) fn open(&mut self, local: SocketAddr, remote: SocketAddr) {
        if self.list.len() >= MAX_CONNECTIONS {
            self.list.remove(0);
        }
        self.list.push(ScriptFlow::new(local, remote));
        self.current = Some(self.list.len() - 1);
    }

    /// Makes the next SYN without ports begin a new connection.
    pub(crate) fn forget_current(&mut self) {
        self.current = None;
    }

    pub(crate) fn current(&mut self) -> Option<&mut ScriptFlow> {
        self.list.get_mut(self.current?)
    }

    /// Returns the current connection and all cookies.
    pub(crate) fn current_with_cookies(&mut self) -> Option<(&mut ScriptFlow, &mut Cookies)> {
        Some((self.list.get_mut(self.current?)?, &mut self.cookies))
    }

    /// Makes the newest connection between these ends the current one.
    pub(crate) fn select(&mut self, local: SocketAddr, remote: SocketAddr) -> bool {
        let found = self
            .list
            .iter()
            .rposition(|flow| (flow.local, flow.remote) == (local, remote));
        self.current = found.or(self.current);
        found.is_some()
    }

    /// Returns the newest connection to which a packet of the stack belongs.
    pub(crate) fn find(&mut self, tcp: &Tcp) -> Option<&mut ScriptFlow> {
        self.list.iter_mut().rev().find(|flow| flow.sent(tcp))
    }

    /// Returns a port that the peer has not used yet.
    pub(crate) fn fresh_port(&self) -> u16 {
        40_000 + self.list.len() as u16
    }
}
