//! The words of the language with their forms and meanings, and its other built-in names. The checker knows
//! them by this table; hovers, completion, signatures and the pages of the documentation follow it.

use crate::builtin::FIXED;
use crate::consts::BUILTIN_CONSTANTS;
use crate::container::{LIST_METHODS, OPTION_METHODS, SORTED_METHODS, WINDOW_METHODS};
use crate::layout::builtin_structs;

/// The category of a word, which decides where it may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Type,
    Function,
    Instruction,
    Value,
    Registration,
    Source,
}

/// A word of the language.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    pub name: &'static str,
    pub sort: Sort,
    /// The form in which a program writes it, with names for its parameters.
    pub form: &'static str,
    pub meaning: &'static str,
}

impl Word {
    /// Describes a function.
    pub(crate) const fn function(name: &'static str, form: &'static str, meaning: &'static str) -> Word {
        Word { name, sort: Sort::Function, form, meaning }
    }
}

/// Returns all words except integers of other widths, names of errno values, and keywords.
pub fn words() -> impl Iterator<Item = &'static Word> {
    WORDS.iter().chain(FIXED.iter().map(|function| &function.word))
}

/// Returns the word of this name, if `wanted` accepts its category.
pub fn word(name: &str, wanted: impl Fn(Sort) -> bool) -> Option<&'static Word> {
    words().find(|word| word.name == name && wanted(word.sort))
}

/// Returns the names of a category.
pub(crate) fn names(sort: Sort) -> impl Iterator<Item = &'static str> {
    words()
        .filter(move |word| word.sort == sort)
        .map(|word| word.name)
}

/// The names of one kind.
#[derive(Clone, Debug)]
pub struct Names {
    /// A description of the kind: "a type", "an instruction".
    pub kind: &'static str,
    /// The names, in the checker's order.
    pub names: Vec<String>,
}

/// Returns all built-in names, except the constants (errno, ICMP), which are in [`constants`].
#[must_use]
pub fn vocabulary() -> Vec<Names> {
    let plain = |kind, sort| Names { kind, names: names(sort).map(str::to_owned).collect() };
    let methods = |kind, forms: &[(&str, &str)]| Names {
        kind,
        names: forms.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    let mut all = vec![
        plain("a type", Sort::Type),
        plain("a function", Sort::Function),
        plain("an instruction", Sort::Instruction),
        plain("a word", Sort::Value),
        plain("a registration", Sort::Registration),
        plain("a source", Sort::Source),
        methods("a method of lists", LIST_METHODS),
        methods("a method of sorted lists", SORTED_METHODS),
        methods("a method of windows", WINDOW_METHODS),
        methods("a method of option lists", OPTION_METHODS),
    ];
    for structure in builtin_structs() {
        let names = structure.fields.into_iter().map(|field| field.name).collect();
        all.push(Names { kind: "a field of a built-in structure", names });
    }
    all
}

/// Returns the built-in constants, errno, options and ICMP, with their values.
pub fn constants() -> impl Iterator<Item = (&'static str, u32)> {
    BUILTIN_CONSTANTS.iter().copied()
}

macro_rules! words {
    ($($sort:ident: $($name:literal, $form:literal, $meaning:literal;)*)*) => {
        &[$($(Word { name: $name, sort: Sort::$sort, form: $form, meaning: $meaning },)*)*]
    };
}

/// All words except those of functions with fixed types, which state them with their types.
const WORDS: &[Word] = words! {
    Type:
    "bool", "bool", "`true` or `false`.";
    "uint8", "uint8", "An unsigned integer of 8 bits.";
    "uint16", "uint16", "An unsigned integer of 16 bits.";
    "uint32", "uint32", "An unsigned integer of 32 bits.";
    "uint64", "uint64", "An unsigned integer of 64 bits.";
    "int8", "int8", "A signed integer of 8 bits.";
    "int16", "int16", "A signed integer of 16 bits.";
    "int32", "int32", "A signed integer of 32 bits.";
    "int64", "int64", "A signed integer of 64 bits.";
    "seq", "seq<W>", "A number on a circle of 2^W: `a < b` when b is less than half the circle ahead of a.";
    "duration_t", "duration_t", "A span of time, in nanoseconds.";
    "time_t", "time_t", "A point in time, in nanoseconds.";
    "varint_t", "varint_t", "A number of at most 62 bits, 1 to 8 bytes on the wire (RFC 9000, section 16).";
    "ip_addr_t", "ip_addr_t", "An IPv4 or IPv6 address.";
    "id_t", "id_t", "A tuple of at most 39 bytes, which names a context or a unit of data.";
    "flow_id", "flow_id", "Another name of `id_t`.";
    "buffer_id_t", "buffer_id_t", "Another name of `id_t`.";
    "addr_t", "addr_t", "Where bytes lie; it can be moved by `+ n` and compared with `NONE`.";
    "data_t", "data_t", "The payload of a header: fields after it are trailers.";
    "timer_t", "timer_t name -> event", "A timer of a context, with the event that it raises.";
    "bytes", "bytes<N>", "N bytes.";
    "array", "array<T, N>", "N values, found by their positions, all zero at first.";
    "list", "list<T, N>", "At most N values in the order in which they came.";
    "sorted_list", "sorted_list<T, N, by (a, b), key k>", "At most N structures, ordered by some of their fields, each under its own key.";
    "sliding_wnd", "sliding_wnd<N, T>", "Which positions are set, as at most N runs of them.";
    "le_uint16", "le_uint16", "On the wire: 16 bits, the least significant byte first.";
    "le_uint32", "le_uint32", "On the wire: 32 bits, the least significant byte first.";
    "le_uint64", "le_uint64", "On the wire: 64 bits, the least significant byte first.";
    "checksum16_t", "checksum16_t", "On the wire: the Internet checksum, computed for each packet and verified by `extract`.";
    "crc32_t", "crc32_t", "On the wire: CRC-32, computed for each packet and verified by `extract`.";
    "hdrlen4_t", "hdrlen4_t", "On the wire: four bits, the header's length in words of 4 bytes.";
    "instr_t", "instr_t", "An instruction as a value, set once, where it is declared.";
    "event_t", "event_t", "An event of any type.";
    "pkt_t", "pkt_t", "A packet, in a parser.";
    "IPheader", "IPheader", "The network header.";
    "op_t", "op_t", "A request of the application, in a shim.";
    "icmp_t", "icmp_t", "An ICMP error, in a parser of errors.";
    "no_ctx", "no_ctx", "The processor runs only when no context was found.";
    "void", "void", "No value.";

    Function:
    "min", "min(a, b)", "The smaller one; circular on `seq<W>`.";
    "max", "max(a, b)", "The larger one; circular on `seq<W>`.";
    "abs_diff", "abs_diff(a, b)", "The distance, unsigned.";
    "sat_sub", "sat_sub(a, b)", "`a - b`, or 0 where b is larger.";
    "mul_div", "mul_div(a, b, c)", "`a * b / c` with 128 bits in between; 0 where c is 0.";
    "unwrap", "unwrap(s, near)", "The `uint64` nearest to `near` whose low bits are those of the `seq<W>` s.";
    "clz", "clz(x)", "Leading zeros within the type's width.";
    "keyed_hash", "keyed_hash(k0, k1, x, …)", "SipHash-2-4 of the values behind the two keys, 64 bits.";
    "len", "len(x)", "The length of a payload or a list; of `this` in a fill.";
    "data", "data(uid, off, len, size)", "A payload: `len` bytes of a sending unit from `off` on, in packets of at most `size`.";
    "get_flow_id", "get_flow_id(ev)", "The first id of an event.";
    "set_flow_id", "set_flow_id(ev, id, …)", "Gives an event its ids, one to three: a statement of parsers.";

    Instruction:
    "new_tx_ordered_data", "new_tx_ordered_data(size, uid, addr)", "Makes a sending unit, which the application's bytes go into; `INF` where the size is open. `addr` may be left out.";
    "add_tx_data", "add_tx_data(addr, len, uid)", "Appends bytes to a sending unit.";
    "add_tx_data_seg", "add_tx_data_seg(addr, len, uid)", "Appends bytes to a sending unit.";
    "tx_flush_and_notify", "tx_flush_and_notify(uid, len)", "The first len bytes of a sending unit are done with; the application has the room back.";
    "new_rx_ordered_data", "new_rx_ordered_data(size, uid, addr, cap)", "Makes a receiving unit; what lies within `cap` of the flush point is kept.";
    "add_rx_data_seg", "add_rx_data_seg(addr, len, uid, offset)", "Places received bytes.";
    "add_data_seg", "add_data_seg(addr, len, uid, offset)", "Places received bytes.";
    "rx_flush_and_notify", "rx_flush_and_notify(uid, len, addr)", "The next len bytes in order are the application's.";
    "del_tx_ordered_data", "del_tx_ordered_data(uid)", "Ends a sending unit at once.";
    "del_rx_ordered_data", "del_rx_ordered_data(uid)", "Ends a receiving unit: what was flushed can still be read.";
    "pkt_gen", "pkt_gen(net, bp, rule(x)…, queue q, rank r, cost c)", "Makes packets; rules, queue, rank and cost may be left out.";
    "timer_start", "timer_start(timer, duration)", "Starts a timer, or starts it anew.";
    "timer_restart", "timer_restart(timer, duration)", "Starts a timer, or starts it anew.";
    "timer_stop", "timer_stop(timer)", "Stops a timer: it never fires.";
    "new_ctx", "new_ctx{field: value, …}", "Makes a context: `some_context c = new_ctx{…};`, at most one in a chain.";
    "del_ctx", "del_ctx()", "Removes the keyed context when the chain is over.";
    "add_id", "add_id(id)", "Gives the keyed context another id.";
    "drop_id", "drop_id(id)", "Takes an id from the keyed context.";
    "raise", "raise(event{…}, id)", "Raises an event of kind EVENT for this context, or for the one with the id.";
    "signal", "signal(name{…})", "Notifies the interactive layer.";
    "set_queue_rate", "set_queue_rate(queue, rate)", "Sets the rate of a paced queue, in bits per second.";
    "set_queue_prio", "set_queue_prio(queue, prio)", "Sets the priority of a declared queue.";
    "queue_reset", "queue_reset(queue)", "Drops the packets that the context has waiting in a queue.";
    "notify", "notify(what, …)", "Notifies the application: `CONNECTED`, `EOF`, `CLOSED`, `ACCEPTED` with an id, `FAILED` with an errno, or a structure.";

    Value:
    "this", "this", "In a fill: the whole header.";
    "prev", "prev", "In a segmentation rule: the packet before.";
    "self", "self", "The id of a context.";
    "true", "true", "The value of a true condition.";
    "false", "false", "The value of a false condition.";
    "NONE", "NONE", "No id, no address.";
    "INF", "INF", "The largest number or duration.";

    Registration:
    "register_ep_chains", "register_ep_chains(dispatch)", "The chains of this table run.";
    "register_ctx_spec", "register_ctx_spec(context, FLOW)", "How many there are of a context: `FLOW` and `SHARD` one for each id, `GLOBAL` exactly one.";
    "register_ctx_ends", "register_ctx_ends(context, local_ip, local_port, remote_ip, remote_port)", "Which fields of a context are the two ends of its connection.";
    "register_ev_parser", "register_ev_parser(function, source)", "What feeds a parser or a shim.";
    "register_seg_rule", "register_seg_rule(rule)", "Says again what the declaration says.";
    "register_coalescing_rule", "register_coalescing_rule(blueprint)", "Says again what the declaration says.";
    "register_pkt_sched", "register_pkt_sched(schedule)", "Says again what the declaration says.";

    Source:
    "ip", "ip(protocol)", "Packets of an IP protocol.";
    "udp", "udp(port)", "Datagrams to a UDP port.";
    "trimmed", "trimmed(protocol)", "Packets of an IP protocol of which a switch has cut off data.";
    "icmp_error", "icmp_error", "ICMP errors about packets of ours.";
    "connect", "connect", "The application connects.";
    "listen", "listen", "The application listens.";
    "send", "send", "The application sends bytes.";
    "recv", "recv", "The application has read bytes.";
    "close", "close", "Nothing more will be sent.";
    "abort", "abort", "Everything is dropped at once.";
    "release", "release", "Nobody holds the handle any more.";
    "option", "option", "The application sets an option.";
    "message", "message", "An endpoint sends a message to a peer.";
    "call", "call", "An endpoint sends a message to which the peer replies.";
    "open", "open", "The application opens a stream within a connection.";
    "reset", "reset", "What is sent is given up, for a reason.";
    "stop", "stop", "What the peer sends will not be read, for a reason.";
    "post", "post", "Work on registered memory is posted.";
    "start", "start", "Once, before anything else.";
};

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn each_word_has_a_form_and_a_meaning() {
        for word in words() {
            let opens_alike = word.form.contains(word.name) && word.meaning.ends_with('.');
            assert!(opens_alike, "{}", word.name);
        }
    }
}
