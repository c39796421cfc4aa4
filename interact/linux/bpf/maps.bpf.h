// What the programs and the process that loaded them share. The layouts are repeated in `src/abi.rs`,
// where a test compares their sizes with the type information of the compiled programs.
#pragma once

#include "kernel.bpf.h"

enum { SUBSCRIPTIONS = 16, EVENTS = 14 };

// In the order of `Event` in `src/event.rs`.
enum event {
    ESTABLISHED,
    ACKED,
    SENT,
    TIMEOUT,
    DUPLICATE_ACK,
    RECOVERY_BEGAN,
    RECOVERY_ENDED,
    RETRANSMITTED,
    AVOIDANCE_BEGAN,
    CLOSED,
    STATE_CHANGED,
    ROUND_TRIP,
    SEGMENT_LOST,
    PEER_WINDOW_CLOSED,
};

// How a flow stands, as `struct tcp_info` has it (tcp_get_info in net/ipv4/tcp.c) and in the kernel's own
// units: the process converts both alike.
struct tcp_state {
    u64 acked;       // bytes
    u64 received;    // bytes
    u64 pacing_rate; // bytes per second
    u32 flight;      // bytes sent for the first time beyond `acked`
    u32 wnd;         // bytes
    u32 cwnd;        // segments
    u32 ssthresh;    // segments
    u32 srtt;        // microseconds
    u32 rttvar;      // microseconds
    u32 rto;         // jiffies
    u32 min_rtt;     // microseconds
    u32 mss;
    u32 delivered; // segments
    u32 retransmissions;
    u32 lost;           // segments
    u32 rate_delivered; // segments, in
    u32 rate_interval;  // microseconds
};

// In the place of a state: nobody looked.
enum { UNSEEN = 0xff };

// One event, as it goes through the ring.
struct record {
    u64 flow; // the socket's cookie
    u64 time; // CLOCK_MONOTONIC, nanoseconds
    u8 event;
    u8 state; // as `common_state` numbers them, or UNSEEN
    u16 subscription;
    u32 lost; // records of this subscription that found no room, so far
    u64 values[3];
    struct tcp_state stood; // then; nothing when the state is UNSEEN
};

struct subscription {
    u64 interval; // nanoseconds; 0: everything survives at once
    u64 flow;     // 0: all
    u32 frequency;
    u32 generation; // which of the subscriptions that have had this place
    u16 port;       // local or remote; 0: any
    u16 unused[3];
};

// Written by the process alone.
struct settings {
    u64 wake;           // how long records may wait before the reader is woken; 0: not at all
    u64 ring_half;      // half of the ring, bytes
    u16 wanted[EVENTS]; // for each event, a bit for each subscription to it
    u32 epoch;          // changes when programs are attached: what they knew of a flow before is stale
    struct subscription subscriptions[SUBSCRIPTIONS];
};
struct settings settings SEC(".data.settings");

// When the process last showed that it lives: CLOCK_MONOTONIC, nanoseconds; 0: it has ended.
volatile u64 heartbeat SEC(".data.heartbeat");

// The time after that for which its leases hold, nanoseconds.
enum { LIFE = 800000000 };

// Written by the programs alone: records that found no room, for each subscription.
u64 lost[SUBSCRIPTIONS] SEC(".bss.lost");

// Fixed when the programs are loaded.
struct choices {
    char congestion_control[16]; // how ours is called
    u8 marked_only;              // only flows of the cgroup count
    u8 adopt;                    // flows of the cgroup are given our congestion control
    u8 unused[2];
    u32 network; // only flows of the network namespace of this inode count; 0: of all
};
const volatile struct choices choices SEC(".rodata.choices") = {"hawser", 0, 0, {0}, 0};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} ring SEC(".maps");

// What is known of a flow from one of its events to the next.
struct flow {
    u64 cookie;
    u32 una;        // snd_una when it was last looked at
    u32 lost;       // segments marked as lost, when they were last counted
    u32 duplicates; // duplicate ACKs in a row
    u32 own_window; // the window when the process took over
    u32 own_threshold; // the threshold then
    u32 own_pacing;    // whether the kernel spaced its segments out then
    u16 local_port;
    u16 remote_port;
    u32 seen;    // the epoch in which `lost`, `avoiding` hold
    bool ours;     // our congestion control runs it
    bool enrolled; // the process can know that
    bool avoiding; // the window has reached ssthresh
    bool shut;     // the peer's window is closed
    u8 leased;     // which variables the process decides: bits in the order of `struct lease`
    u64 began;       // when the connection was first seen: its SYN, where it asked; CLOCK_MONOTONIC, nanoseconds
    u64 stays_until; // before this, ours is not exchanged for `before` again, though nothing is leased
    char before[16]; // the congestion control that ours took the place of for a lease; empty: none
};
struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct flow);
} flows SEC(".maps");

// The newest text that has left, by flow.
struct departure {
    u32 sent;  // one past it
    u32 epoch; // in which that holds
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, u64);
    __type(value, struct departure);
} departures SEC(".maps");

struct of_subscription {
    u64 flow;
    u32 subscription;
    u32 unused;
};

// Where the filters of one subscription stand for one flow.
struct gate {
    struct bpf_timer timer;
    struct bpf_spin_lock lock;
    u32 generation;
    u64 until; // the end of the running interval; 0: none runs
    u32 survivors;
    u32 ending; // the flow has ended: this goes when the interval is over
    struct record last;
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 8192);
    __type(key, struct of_subscription);
    __type(value, struct gate);
} gates SEC(".maps");

// Records lost by flow and subscription: a place is taken only when something is lost.
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, struct of_subscription);
    __type(value, u64);
} losses SEC(".maps");

struct alarm {
    struct bpf_timer timer;
    u32 armed;
    u32 unused;
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct alarm);
} alarms SEC(".maps");

enum { WINDOW, THRESHOLD, PACE, LEASED };

// What the process decided for a flow, each with its end. `seal` is the exclusive or of all the rest: an
// entry that is being replaced while it is read does not match it.
struct lease {
    u64 flow;
    struct {
        u64 value; // bytes, bytes, bytes per second
        u64 until; // CLOCK_MONOTONIC, nanoseconds
    } of[LEASED];
    u64 seal;
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, u64);
    __type(value, struct lease);
} leases SEC(".maps");

// The flows that our congestion control runs or has run, and what became of their leases.
struct standing {
    u64 ours;      // whether it runs the flow now
    u64 granted;   // times that the process took a flow over
    u64 fallbacks; // times that its lease ended and the flow's own controller went on
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, u64);
    __type(value, struct standing);
} standings SEC(".maps");

// The outcomes for a flow that is to get our congestion control, in the order of `Outcome` in `src/reach.rs`.
enum { UNVISITED, ADOPTED, FAILED, HELD, FINAL };

struct adoption {
    u32 outcome;
    int error;
    char name[16]; // what runs the flow, where that is the reason
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, u64); // the flow
    __type(value, struct adoption);
} adoptions SEC(".maps");

// A request to the iterator over sockets, and its answer.
struct request {
    u64 flow;
    u32 what;
    u32 done; // sockets that it was carried out on
    int error;
    u32 option;
    int number;
    u32 unused;
    char text[16];
    struct {
        u32 snd_una, snd_nxt, snd_wnd, snd_cwnd, snd_ssthresh, snd_cwnd_clamp, mss, lost;
        u64 pacing_rate;
    } answer;
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct request);
} requests SEC(".maps");
