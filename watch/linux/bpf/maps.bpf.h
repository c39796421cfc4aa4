// Data that the programs share with the process that loaded them. `src/abi.rs` repeats the layouts, and
// a test there compares their sizes with the type information of the compiled programs.
#pragma once

#include "kernel.bpf.h"

enum { SUBSCRIPTIONS = 16, EVENTS = 14 };

// In the order of `FlowEvent` in `src/event.rs`.
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

// The state of a flow, as in `struct tcp_info` (tcp_get_info in net/ipv4/tcp.c) and in the kernel's own
// units: the process converts both in the same way.
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

// Replaces a state that was not read.
enum { UNSEEN = 0xff };

// One event, as it goes through the ring.
struct record {
    u64 flow; // the socket's cookie
    u64 time; // CLOCK_MONOTONIC, nanoseconds
    u8 event;
    u8 state; // as numbered by `common_state`, or UNSEEN
    u16 subscription;
    u32 lost; // records of this subscription that found no room so far
    u64 values[3];
    struct tcp_state stood; // state at that time; zero if `state` is UNSEEN
};

struct subscription {
    u64 interval; // nanoseconds; 0: all survive at once
    u64 flow;     // 0: all
    u32 frequency;
    u32 generation; // number of the subscription among those in this place
    u16 port;       // local or remote; 0: any
    u16 unused[3];
};

// Written only by the process.
struct settings {
    u64 wake;           // delay of records before the reader is woken, nanoseconds; 0: none
    u64 ring_half;      // half of the ring, bytes
    u16 wanted[EVENTS]; // for each event, a bit for each subscription to it
    u32 epoch;          // changes when programs are attached: earlier knowledge of a flow is then stale
    struct subscription subscriptions[SUBSCRIPTIONS];
};
struct settings settings SEC(".data.settings");

// Last sign of life of the process: CLOCK_MONOTONIC, nanoseconds; 0: it has ended.
volatile u64 heartbeat SEC(".data.heartbeat");

// Time after the heartbeat during which its leases hold, nanoseconds.
enum { LIFE = 800000000 };

// Written only by the programs: records that found no room, for each subscription.
u64 lost[SUBSCRIPTIONS] SEC(".bss.lost");

// Fixed when the programs are loaded.
struct choices {
    char congestion_control[16]; // name of our congestion control
    u8 marked_only;              // only flows of the cgroup count
    u8 adopt;                    // flows of the cgroup get our congestion control
    u8 unused[2];
    u32 network; // only flows of the network namespace with this inode count; 0: all
};
const volatile struct choices choices SEC(".rodata.choices") = {"hawser", 0, 0, {0}, 0};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} ring SEC(".maps");

// State of a flow from one of its events to the next.
struct flow {
    u64 cookie;
    u32 una;        // snd_una at the last event
    u32 lost;       // segments marked as lost at the last count
    u32 duplicates; // consecutive duplicate ACKs
    u32 own_window; // window when the process took over
    u32 own_threshold; // threshold at that time
    u32 own_pacing;    // whether the kernel paced its segments at that time
    u16 local_port;
    u16 remote_port;
    u32 seen;    // epoch in which `lost` and `avoiding` hold
    bool ours;     // our congestion control runs the flow
    bool enrolled; // the process has been notified of that
    bool avoiding; // the window has reached ssthresh
    bool shut;     // the peer's window is closed
    u8 leased;     // variables that the process decides: bits in the order of `struct lease`
    u64 began;       // first sight of the flow: its SYN, if it opened actively; CLOCK_MONOTONIC, nanoseconds
    u64 stays_until; // earliest time to put `before` back once nothing is leased
    char before[16]; // congestion control that ours has replaced for a lease; empty: none
};
struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct flow);
} flows SEC(".maps");

// The newest data that has left, by flow.
struct departure {
    u32 sent;  // one past its end
    u32 epoch; // epoch in which that holds
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

// State of one subscription's filters for one flow.
struct gate {
    struct bpf_timer timer;
    struct bpf_spin_lock lock;
    u32 generation;
    u64 until; // the end of the running interval; 0: none runs
    u32 survivors;
    u32 ending; // the flow has ended: the gate is deleted after the interval
    struct record last;
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 8192);
    __type(key, struct of_subscription);
    __type(value, struct gate);
} gates SEC(".maps");

// Records lost by flow and subscription: an entry is created only at a loss.
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

// The process's decisions for a flow, each with its end. `seal` is the exclusive or of all other words, so
// that it does not match an entry that is replaced during a read.
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

// The flows that our congestion control runs or has run, and the outcomes of their leases.
struct standing {
    u64 ours;      // whether it runs the flow now
    u64 granted;   // times that the process took over a flow
    u64 fallbacks; // times that its lease ended and the flow's own controller went on
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, u64);
    __type(value, struct standing);
} standings SEC(".maps");

// The outcomes for a flow that is to get our congestion control, in the order of `Outcome` in `src/socket_iterator.rs`.
enum { UNVISITED, ADOPTED, FAILED, HELD, FINAL };

struct adoption {
    u32 outcome;
    int error;
    char name[16]; // the flow's congestion control, if it is the reason
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
    u32 done; // sockets to which it was applied
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
