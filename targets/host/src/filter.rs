//! A classic BPF program that keeps other hosts' frames out of a promiscuous packet socket, in the
//! kernel.

// Numbers of <linux/filter.h> and <linux/bpf_common.h>.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
/// SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT.
const VLAN_TAG_PRESENT: u32 = -4096_i32 as u32 + 48;
const WHOLE_FRAME: u32 = u32::MAX;

/// Accepts untagged frames to `own` and to groups, broadcast included.
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
