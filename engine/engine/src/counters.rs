//! Counters of the work done, and of every deviation from normal operation by its cause.
//!
//! Every dropped or rejected item is counted.

use hawser_ir::abi::ParseError;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The counters of a stack since its start; the interface has counters of its own.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct StackCounters {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl StackCounters {
            /// Returns all counters with their names, in a fixed order.
            pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// Returns the description of a counter, by its name.
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
    /// Received packets that were merged with the packet before.
    packets_merged,
    /// Frames taken by the wire.
    frames_sent,
    /// Packets, requests and ICMP errors that reached a parser.
    inputs,
    /// Chains run.
    chains,
    /// Timers fired.
    timers,
    /// Packets of a protocol for which the program has no parser.
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
    /// Events without a context, of a type that no event processor handles without one.
    no_context,
    /// Events from packets that were dropped because the chain's worst case was not free.
    no_room_packet,
    /// Requests that had to wait because the chain's worst case was not free.
    no_room_request,
    /// Number of times that a timer had to wait because a chain's worst case was not free.
    no_room_timer,
    /// Raised events that had to wait because the chain's worst case was not free.
    no_room_raised,
    /// Requests that the program rejected.
    refused,
    /// Chains that ended in a false assert or a broken invariant: bugs of the program.
    asserts,
    /// Contexts created.
    contexts_made,
    /// Contexts ended.
    contexts_ended,
    /// Contexts, units and ids whose name was already taken.
    duplicate_ids,
    /// Records that name a context, unit, timer, queue or event that does not exist.
    dangling,
    /// Payload bytes requested from outside a sending unit; the packets left without them.
    clipped_sending,
    /// Received bytes beyond a unit's window, flushes beyond the received bytes, and addresses outside their
    /// buffer.
    clipped_receiving,
    /// Contexts ended because the program wanted to keep more of a unit than a context may hold.
    receive_limit,
    /// Requests refused and contexts ended because a context had the maximum number of units.
    unit_limit,
    /// Packets that a later one replaced by the program's coalescing rule.
    coalesced,
    /// Packets longer than their path's MTU, and headers that could not be built.
    oversize,
    /// Super-segments that a device would have cut into other packets than the program builds: a bug of the
    /// compiler. They are checked on request only, and leave packet by packet.
    wrong_super_segments,
    /// Packets without a route to their destination.
    unreachable,
    /// Number of times that the wire took fewer frames than were waiting.
    wire_full,
    /// Connections that ended because no handle was free for accepting them.
    accept_overflow,
    /// Notices dropped because the application had not taken earlier ones.
    notices_dropped,
    /// Signals issued to at least one subscriber.
    signals,
}

impl StackCounters {
    /// The names of the counters of work done, which do not indicate a deviation.
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

    /// Counts payload bytes that were missing from a packet or were not accepted for sending.
    pub(crate) fn clip_sending(&mut self, bytes: u64) {
        self.clipped_sending = self.clipped_sending.saturating_add(bytes);
    }

    /// Counts received bytes that could not be stored or delivered.
    pub(crate) fn clip_receiving(&mut self, bytes: u64) {
        self.clipped_receiving = self.clipped_receiving.saturating_add(bytes);
    }

    /// Counts an input that a parser rejected, and returns the counter's name.
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
