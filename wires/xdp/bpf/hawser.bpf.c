// The frames of an interface that go to the stack: frames to its Ethernet address, and multicast frames about
// its IP addresses. These ask for an address or announce it (ARP, RFC 826; neighbour solicitation and
// advertisement, RFC 4861, 4.3 and 4.4). All other frames go to the kernel, as if the program were absent.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { QUESTION = 1, ICMPV6 = 58, NEIGHBOUR_SOLICITATION = 135, NEIGHBOUR_ADVERTISEMENT = 136, MAX_ADDRESSES = 64 };

// An IPv6 address, or an IPv4 address as RFC 4291, 2.5.5.2, maps it.
struct address {
    __u8 bytes[16];
};

struct arp {
    __be16 hardware, protocol;
    __u8 hardware_size, protocol_size;
    __be16 operation;
    __u8 sender_mac[6], sender[4], target_mac[6], target[4];
} __attribute__((packed));

struct solicitation {
    __u8 version[4];
    __be16 length;
    __u8 next_header, hop_limit, source[16], destination[16];
    __u8 type, code;
    __be16 checksum;
    __u8 reserved[4], target[16];
} __attribute__((packed));

struct choices {
    __u8 own[6];
};

const volatile struct choices choices SEC(".rodata.choices");

// The socket of each receive queue; there may be several queues.
struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} xsks_map SEC(".maps");

// The stack's IP addresses.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_ADDRESSES);
    __type(key, struct address);
    __type(value, __u8);
} addresses SEC(".maps");

// By these symbols, and by the names of the map above and of the program for whole frames, libxdp recognises an attached
// program, to whose map it may add sockets. It counts the sharers here.
volatile int refcnt = 1;
__uint(xsk_prog_version, 1) SEC("xdp_metadata");

// Frames to the stack's Ethernet address go here first, if it exists: chains in front of the stack (`front.h`).
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} front SEC(".maps");

static __always_inline bool is_own(const __u8 *mac) {
    for (int i = 0; i < 6; i++)
        if (mac[i] != choices.own[i])
            return false;
    return true;
}

static __always_inline bool is_question(const struct ethhdr *ethernet, void *end) {
    struct address address = {};
    if (ethernet->h_proto == bpf_htons(ETH_P_ARP)) {
        const struct arp *arp = (const void *)(ethernet + 1);
        if ((void *)(arp + 1) > end || arp->operation != bpf_htons(QUESTION))
            return false;
        address.bytes[10] = address.bytes[11] = 0xff;
        __builtin_memcpy(address.bytes + 12, arp->target, 4);
    } else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
        const struct solicitation *packet = (const void *)(ethernet + 1);
        // A host that already has one of the addresses advertises it to all nodes.
        if ((void *)(packet + 1) > end || packet->next_header != ICMPV6
            || (packet->type != NEIGHBOUR_SOLICITATION && packet->type != NEIGHBOUR_ADVERTISEMENT))
            return false;
        __builtin_memcpy(address.bytes, packet->target, 16);
    } else {
        return false;
    }
    return bpf_map_lookup_elem(&addresses, &address) != NULL;
}

static __always_inline int judge(struct xdp_md *context, bool is_whole) {
    void *end = (void *)(long)context->data_end;
    const struct ethhdr *ethernet = (const void *)(long)context->data;
    if ((void *)(ethernet + 1) > end)
        return XDP_PASS;
    // Frames of a virtual network do not belong to this one.
    if (ethernet->h_proto == bpf_htons(ETH_P_8021Q) || ethernet->h_proto == bpf_htons(ETH_P_8021AD))
        return XDP_PASS;
    bool is_for_group = ethernet->h_dest[0] & 1;
    if (is_for_group ? is_question(ethernet, end) : is_own(ethernet->h_dest)) {
        if (is_whole && !is_for_group)
            bpf_tail_call(context, &front, 0);
        return bpf_redirect_map(&xsks_map, context->rx_queue_index, XDP_PASS);
    }
    return XDP_PASS;
}

// For frames that fit into one buffer.
SEC("xdp")
int xsk_def_prog(struct xdp_md *context) {
    // libxdp only examines maps that the program refers to.
    return refcnt == 0 ? XDP_PASS : judge(context, true);
}

// For frames in several buffers.
SEC("xdp.frags")
int pieces(struct xdp_md *context) {
    return judge(context, false);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
