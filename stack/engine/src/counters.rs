//! Counts of everything that did not go as wished, by cause, and of the work done.
//!
//! Nothing is dropped or rejected without a count.

use hawser_ir::abi::ParseError;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// What a stack has counted since its start; see also the interface's own counters.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Counters {
            /// All counts with their names, in a fixed order.
            pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// What a counter counts, by its name.
            #[must_use]
            pub fn meaning(counter: &str) -> Option<&'static str> {
                match counter {
                    $(stringify!($name) => Some(concat!($($doc),*).trim_start()),)*
                    _ => None,
                }
            }
        }
    };
}

counters! {
    /// Frames received.
    frames_received,
    /// Of those, packets that were taken in with the one before.
    packets_merged,
    /// Frames that the wire took.
    frames_sent,
    /// Packets, requests and ICMP errors that reached a parser.
    inputs,
    /// Chains run.
    chains,
    /// Timers fired.
    timers,
    /// Packets of a protocol that the program has no parser for.
    no_parser,
    /// Packets shorter than their headers.
    parse_truncated,
    /// Packets whose transport checksum does not match.
    parse_checksum,
    /// Packets with a length field that contradicts them.
    parse_length,
    /// Packets with an unknown frame, or a list beyond its bound.
    parse_frame,
    /// Packets with more events than the program declares.
    parse_events,
    /// Events for which no context was found, and which nothing handles without one.
    no_context,
    /// Events from packets that were dropped because the chain's worst case was not free.
    no_room_packet,
    /// Requests that had to wait because the chain's worst case was not free.
    no_room_request,
    /// Times that timers had to wait because a chain's worst case was not free.
    no_room_timer,
    /// Raised events that had to wait because the chain's worst case was not free.
    no_room_raised,
    /// Requests that the program rejected.
    refused,
    /// Chains that ended in a false assert or a broken invariant: bugs of the program.
    asserts,
    /// Contexts made.
    contexts_made,
    /// Contexts ended.
    contexts_ended,
    /// Contexts, units and ids whose name was taken already.
    duplicate_ids,
    /// Records that name a context, unit, timer, queue or event that does not exist.
    dangling,
    /// Payload bytes asked for outside a sending unit; the packets left without them.
    clipped_sending,
    /// Received bytes beyond a unit's window, flushes beyond what was received, and addresses
    /// outside their buffer.
    clipped_receiving,
    /// Contexts ended because the program wanted to keep more of a unit than a context may hold.
    receive_limit,
    /// Requests refused, and contexts ended, because a context had as many units as it may have.
    unit_limit,
    /// Packets that a later one replaced by the program's coalescing rule.
    coalesced,
    /// Packets longer than their path's MTU, and headers that could not be built.
    oversize,
    /// Super-segments that a device would have cut into other packets than the program's: a bug of
    /// the compiler. They are looked for on request only, and leave packet by packet.
    wrong_super_segments,
    /// Packets for which there was no route to their destination.
    unreachable,
    /// Times that the wire took fewer frames than there were.
    wire_full,
    /// Connections that ended because no handle was free to accept them with.
    accept_overflow,
    /// Notices dropped because the application had not taken earlier ones.
    notices_dropped,
    /// Signals that were issued: of those that somebody asked for.
    signals,
}

impl Counters {
    /// The counts of work done: of these, nothing went otherwise than wished.
    pub const WORK: [&str; 9] = [
        "frames_received",
        "packets_merged",
        "frames_sent",
        "inputs",
        "chains",
        "timers",
        "contexts_made",
        "contexts_ended",
        "signals",
    ];

    /// Counts payload bytes that a packet left without, or that were not taken for sending.
    pub(crate) fn clip_sending(&mut self, bytes: u64) {
        self.clipped_sending = self.clipped_sending.saturating_add(bytes);
    }

    /// Counts received bytes that could not be kept or handed over.
    pub(crate) fn clip_receiving(&mut self, bytes: u64) {
        self.clipped_receiving = self.clipped_receiving.saturating_add(bytes);
    }

    /// Counts an input that a parser rejected, and names the counter.
    pub(crate) fn parse_error(&mut self, error: ParseError) -> &'static str {
        let (count, name) = match error {
            ParseError::Truncated => (&mut self.parse_truncated, "parse_truncated"),
            ParseError::Checksum => (&mut self.parse_checksum, "parse_checksum"),
            ParseError::Length => (&mut self.parse_length, "parse_length"),
            ParseError::Frame => (&mut self.parse_frame, "parse_frame"),
            ParseError::Events => (&mut self.parse_events, "parse_events"),
        };
        *count += 1;
        name
    }
}
