//! Classic BPF programs, which the kernel runs. One keeps other hosts' frames out of a promiscuous packet
//! socket. Another distributes packets among the sockets of shards.

use hawser_engine::net::Steering;

// Constants of <linux/filter.h> and <linux/bpf_common.h>.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_SET: u16 = 0x45;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
const RETURN_VALUE: u16 = 0x16;
const LOAD_WORD_BEHIND: u16 = 0x40;
const LOAD_KEPT: u16 = 0x60;
const KEEP: u16 = 0x02;
const INDEX: u16 = 0x01;
const INDEX_KEPT: u16 = 0x61;
const INDEX_HEADER_LENGTH: u16 = 0xb1;
const VALUE_TO_INDEX: u16 = 0x07;
const XOR_INDEX: u16 = 0xac;
const XOR: u16 = 0xa4;
const MULTIPLY: u16 = 0x24;
const SHIFT_RIGHT: u16 = 0x74;
/// SKF_AD_OFF + SKF_AD_PROTOCOL.
const ETHER_TYPE: u32 = -4096_i32 as u32;
/// SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT.
const VLAN_TAG_PRESENT: u32 = -4096_i32 as u32 + 48;
/// SKF_NET_OFF: offsets from here on count from the network header, regardless of the program's starting
/// point.
const NETWORK: u32 = -0x10_0000_i32 as u32;
const WHOLE_FRAME: u32 = u32::MAX;

/// The offset at which a program begins to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterStart {
    /// The network header, for a fanout group.
    Network,
    /// The end of the transport header, for sockets that share a port (SO_REUSEPORT).
    Payload,
}

/// Accepts untagged frames to `own` and to groups, including broadcast.
pub(crate) fn own_and_groups(own: [u8; 6]) -> [libc::sock_filter; 10] {
    let [a, b, c, d, e, f] = own;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    [
        step(LOAD_WORD, VLAN_TAG_PRESENT, 0, 0),
        step(JUMP_IF_EQUAL, 0, 0, 7),
        step(LOAD_BYTE, 0, 0, 0),
        step(JUMP_IF_SET, 1, 4, 0),
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_IF_EQUAL, u32::from_be_bytes([a, b, c, d]), 0, 3),
        step(LOAD_HALF, 4, 0, 0),
        step(JUMP_IF_EQUAL, u32::from(u16::from_be_bytes([e, f])), 0, 1),
        step(RETURN, WHOLE_FRAME, 0, 0),
        step(RETURN, 0, 0, 0),
    ]
}

/// Returns the number of a packet's shard according to [`Steering::shard`], or 0 for a packet that any shard
/// may take.
pub(crate) fn share(steering: &Steering, begin: FilterStart) -> [libc::sock_filter; 48] {
    /// Scratch memory: the transport protocol; the peer's address, multiplied; the words of an IPv6 address.
    const PROTOCOL: u32 = 0;
    const ADDRESS: u32 = 1;
    const WORDS: u32 = 2;
    let [first, second] = steering.keys;
    // Converts an offset from the network header.
    let at = |offset: u32| match begin {
        FilterStart::Network => offset,
        FilterStart::Payload => NETWORK + offset,
    };
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let plain = |code, k| step(code, k, 0, 0);
    [
        plain(LOAD_WORD, ETHER_TYPE),
        step(JUMP_IF_EQUAL, 0x0800, 2, 0),
        step(JUMP_IF_EQUAL, 0x86dd, 9, 0),
        plain(RETURN, 0),
        // IPv4, whose addresses are the IPv6 addresses that begin with ::ffff. Any shard may take a fragment.
        plain(LOAD_HALF, at(6)),
        step(JUMP_IF_SET, 0x3fff, 41, 0),
        plain(LOAD_BYTE, at(9)),
        plain(KEEP, PROTOCOL),
        plain(INDEX_HEADER_LENGTH, at(0)),
        plain(LOAD_WORD, at(12)),
        plain(XOR, 0xffff),
        plain(JUMP, 15),
        // IPv6 without extension headers: the words of its address in turn, and the end of its header.
        plain(LOAD_BYTE, at(6)),
        plain(KEEP, PROTOCOL),
        plain(LOAD_WORD, at(8)),
        plain(KEEP, WORDS),
        plain(LOAD_WORD, at(12)),
        plain(INDEX_KEPT, WORDS),
        plain(XOR_INDEX, 0),
        plain(KEEP, WORDS),
        plain(LOAD_WORD, at(16)),
        plain(INDEX_KEPT, WORDS),
        plain(XOR_INDEX, 0),
        plain(VALUE_TO_INDEX, 0),
        plain(LOAD_WORD, at(20)),
        plain(XOR_INDEX, 0),
        plain(INDEX, 40),
        // Both families, with the folded address.
        plain(MULTIPLY, first),
        plain(KEEP, ADDRESS),
        plain(LOAD_KEPT, PROTOCOL),
        step(JUMP_IF_EQUAL, 6, 2, 0),
        step(JUMP_IF_EQUAL, 17, 1, 0),
        plain(JUMP, 4),
        plain(LOAD_WORD_BEHIND, at(0)),
        plain(INDEX_KEPT, ADDRESS),
        plain(XOR_INDEX, 0),
        plain(JUMP, 1),
        plain(LOAD_KEPT, ADDRESS),
        plain(MULTIPLY, second),
        plain(VALUE_TO_INDEX, 0),
        plain(SHIFT_RIGHT, 15),
        plain(XOR_INDEX, 0),
        plain(MULTIPLY, Steering::SPREAD),
        plain(SHIFT_RIGHT, 16),
        plain(MULTIPLY, u32::from(steering.shards)),
        plain(SHIFT_RIGHT, 16),
        plain(RETURN_VALUE, 0),
        plain(RETURN, 0),
    ]
}
