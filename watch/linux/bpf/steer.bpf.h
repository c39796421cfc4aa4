// A congestion control whose decisions come from the process that loaded it, each under a lease: the
// process's value holds until a stated time. After that, and for all other variables, the
// flow's own controller decides: NewReno's slow start, avoidance and halving (RFC 5681), in the kernel
// and independent of any process.
//
// There is no push: a decision takes effect at the next ACK.
#pragma once

#include "watch.bpf.h"

enum { MIN_THRESHOLD = 2 };

// The time for which a flow keeps our congestion control without a lease, nanoseconds: from its adoption to its
// first lease, and between two leases.
enum { ADOPTION = 1000000000, PAUSE = 100000000 };

static __always_inline u32 at_least(u32 value, u32 min)
{
    return value < min ? min : value;
}

static __always_inline u32 at_most(u32 value, u32 max)
{
    return value > max ? max : value;
}

static __always_inline u32 segments(const struct tcp_sock *tp, u64 bytes)
{
    u64 count = bytes / at_least(tp->mss_cache, 1);
    return count > 0x7fffffff ? 0x7fffffff : count;
}

// Copies a flow's lease. Returns false if there is none, if it is being replaced at this moment, or if the process
// that wrote it is no longer alive.
static __always_inline bool lease_of(u64 cookie, struct lease *lease)
{
    const struct lease *kept = bpf_map_lookup_elem(&leases, &cookie);
    if (!kept || bpf_ktime_get_ns() > heartbeat + LIFE)
        return false;
    *lease = *kept;
    u64 seal = lease->flow;
    for (int i = 0; i < LEASED; i++)
        seal ^= lease->of[i].value ^ lease->of[i].until;
    return lease->flow == cookie && lease->seal == seal;
}

static __always_inline struct standing *standing_of(struct flow *flow)
{
    u64 cookie = flow->cookie;
    struct standing first = {.ours = 1};
    struct standing *standing = bpf_map_lookup_elem(&standings, &cookie);
    if (standing)
        return standing;
    bpf_map_update_elem(&standings, &cookie, &first, BPF_NOEXIST);
    return bpf_map_lookup_elem(&standings, &cookie);
}

static __always_inline void take_note(struct flow *flow, bool fell_back)
{
    struct standing *standing = standing_of(flow);
    if (!standing)
        return;
    if (fell_back)
        __sync_fetch_and_add(&standing->fallbacks, 1);
    else
        __sync_fetch_and_add(&standing->granted, 1);
}

// Applies the process's decisions; returns the decided variables, as bits.
static __always_inline u8 obey(struct sock *sk, struct flow *flow)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct lease lease;
    u8 leased = 0;

    if (!lease_of(flow->cookie, &lease))
        return 0;
    u64 now = bpf_ktime_get_ns();
    for (int i = 0; i < LEASED; i++)
        if (now < lease.of[i].until)
            leased |= 1 << i;
    if (leased & 1 << WINDOW) {
        if (!(flow->leased & 1 << WINDOW))
            flow->own_window = tp->snd_cwnd;
        u32 window = at_least(segments(tp, lease.of[WINDOW].value), 1);
        tp->snd_cwnd = at_most(window, tp->snd_cwnd_clamp);
    }
    if (leased & 1 << THRESHOLD) {
        if (!(flow->leased & 1 << THRESHOLD))
            flow->own_threshold = tp->snd_ssthresh;
        tp->snd_ssthresh = at_least(segments(tp, lease.of[THRESHOLD].value), MIN_THRESHOLD);
    }
    if (leased & 1 << PACE) {
        if (!(flow->leased & 1 << PACE))
            flow->own_pacing = sk->sk_pacing_status;
        sk->sk_pacing_status = PACING_NEEDED;
        sk->sk_pacing_rate = lease.of[PACE].value;
    }
    return leased;
}

// Notes the variables that the process has begun or ceased to decide.
static __always_inline void change_hands(struct flow *flow, struct sock *sk, u8 leased)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    u8 before = flow->leased;

    if (leased & ~before)
        take_note(flow, false);
    if (before & ~leased) {
        take_note(flow, true);
        if (before & ~leased & 1 << THRESHOLD)
            tp->snd_ssthresh = flow->own_threshold;
        // From the window that the process left, the flow probes on slowly. A window below the one that its
        // own controller had reached may quickly grow back to it.
        if (before & ~leased & 1 << WINDOW && !(leased & 1 << THRESHOLD))
            tp->snd_ssthresh = at_least(flow->own_window, at_least(tp->snd_cwnd, MIN_THRESHOLD));
        if (before & ~leased & 1 << PACE)
            sk->sk_pacing_status = flow->own_pacing;
    }
    flow->leased = leased;
}

// Returns whether any of a flow's leases holds.
static __always_inline bool is_leased(u64 cookie)
{
    struct lease lease;
    u64 now = bpf_ktime_get_ns();

    if (!lease_of(cookie, &lease))
        return false;
    return now < lease.of[WINDOW].until || now < lease.of[THRESHOLD].until || now < lease.of[PACE].until;
}

// Returns a flow to the congestion control that ran it before its adoption. If that has been removed
// meanwhile, ours stays.
static __always_inline int put_back(struct tcp_sock *tp, struct flow *flow)
{
    char name[16];

    // `end` clears the flow's field.
    __builtin_memcpy(name, flow->before, sizeof(name));
    int error = bpf_setsockopt(tp, SOL_TCP_, TCP_CONGESTION_, name, sizeof(name));
    flow->before[0] = 0;
    return error;
}

// RFC 5681: a window that the application does not fill does not grow (RFC 7661 gives the reason).
static __always_inline bool window_is_used(struct tcp_sock *tp)
{
    if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
        return true;
    return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline void grow(struct tcp_sock *tp, u32 acked)
{
    u32 window = tp->snd_cwnd, threshold = tp->snd_ssthresh, clamp = tp->snd_cwnd_clamp;

    if (window < threshold) {
        u32 grown = at_most(window + acked, threshold);
        acked -= grown - window;
        window = grown;
    }
    if (acked) {
        u32 count = tp->snd_cwnd_cnt + acked;
        if (window && count >= window) {
            u32 more = count / window;
            count -= more * window;
            window += more;
        }
        tp->snd_cwnd_cnt = count;
    }
    tp->snd_cwnd = at_most(window, clamp);
}

// The flow's own controller.
static __always_inline void follow_new_reno(struct tcp_sock *tp, const struct rate_sample *sample)
{
    u8 state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);

    if (state == CA_RECOVERY || state == CA_CWR) {
        // Half, once, as `threshold` decided when this state began; the pipe drains to it (RFC 6675).
        if (tp->snd_cwnd > tp->snd_ssthresh)
            tp->snd_cwnd = at_least(tp->snd_ssthresh, MIN_THRESHOLD);
        return;
    }
    // After a timeout the kernel has set the window to one segment.
    if (sample->acked_sacked && (state == CA_LOSS || window_is_used(tp)))
        grow(tp, sample->acked_sacked);
}

// The rate that sizes super-segments, and paces if requested: as for the kernel's own controllers, the window
// in half a round trip during slow start, later 1.2 windows in one.
static __always_inline void spread(struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    u64 round_trip = at_least(tp->srtt_us >> 3, 1);
    u64 percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
    u64 rate = (u64)at_least(tp->snd_cwnd, tp->packets_out) * tp->mss_cache * 10000 / round_trip * percent;
    u64 max = sk->sk_max_pacing_rate;

    sk->sk_pacing_rate = rate < max ? rate : max;
}

// Informs the process that the flow can be steered, once its cookie is known.
static __always_inline void enrol(struct sock *sk, struct flow *flow)
{
    if (flow->enrolled)
        return;
    if (!flow->cookie)
        flow->cookie = sk->__sk_common.skc_cookie.counter;
    struct standing *standing = flow->cookie ? standing_of(flow) : 0;
    if (standing) {
        standing->ours = 1;
        flow->enrolled = true;
    }
}

// Reports the news of the ACK, and the state of the flow after the decisions on it.
static __always_inline void report(struct flow *flow, struct tcp_sock *tp, const struct rate_sample *sample)
{
    u32 una = tp->snd_una, bytes = una - flow->una;
    u64 rtt = sample->rtt_us > 0 ? (u64)sample->rtt_us * 1000 : 0;

    if (bytes && wanted(ACKED))
        emit(flow, tp, ACKED, bytes, rtt, tp->snd_nxt - flow->una);
    flow->una = una;
    if (rtt && wanted(ROUND_TRIP))
        emit(flow, tp, ROUND_TRIP, rtt, 0, 0);
}

// The state of a flow before its adoption, in the socket's memory for its congestion control. It exists as long as
// ours runs the flow, whether or not the process lives.
enum { NOTE_MARK, NOTE_NAME, NOTE_NAME_END };
#define NOTE 0x6861777365722e31 // "hawser.1"

static __always_inline void note_before(struct tcp_sock *tp, const struct flow *flow)
{
    u64 name[2];

    __builtin_memcpy(name, flow->before, sizeof(name));
    tp->inet_conn.icsk_ca_priv[NOTE_MARK] = NOTE;
    tp->inet_conn.icsk_ca_priv[NOTE_NAME] = name[0];
    tp->inet_conn.icsk_ca_priv[NOTE_NAME_END] = name[1];
}

SEC("struct_ops/begin")
void BPF_PROG(begin, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!flow)
        return;
    flow->ours = true;
    flow->una = tp->snd_una;
    flow->leased = 0;
    note_before(tp, flow);
    flow->local_port = sk->__sk_common.skc_num;
    flow->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
    enrol(sk, flow);
}

SEC("struct_ops/end")
void BPF_PROG(end, struct sock *sk)
{
    struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);
    if (!flow)
        return;
    struct standing *standing = flow->enrolled ? standing_of(flow) : 0;
    if (standing)
        standing->ours = 0;
    if (flow->leased)
        change_hands(flow, sk, 0);
    flow->ours = flow->enrolled = false;
    flow->before[0] = 0;
}

SEC("struct_ops/decide")
void BPF_PROG(decide, struct sock *sk, u32 ack, int flag, const struct rate_sample *sample)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);
    u8 leased = 0;

    if (flow)
        enrol(sk, flow);
    if (flow && flow->cookie) {
        leased = obey(sk, flow);
        if (leased != flow->leased)
            change_hands(flow, sk, leased);
    }
    if (!(leased & 1 << WINDOW))
        follow_new_reno(tp, sample);
    if (!(leased & 1 << PACE))
        spread(sk);
    if (flow && flow->cookie) {
        report(flow, tp, sample);
        note_changes(flow, tp, BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state));
        if (flow->before[0]) {
            // Needed if the process has ended and cannot put the flow back itself.
            u64 now = bpf_ktime_get_ns();
            if (leased)
                flow->stays_until = now + PAUSE;
            else if (now >= flow->stays_until)
                put_back(tp, flow);
        }
    }
}

// RFC 5681, equation 4, with the window in place of the flight size, as in the kernel's own controllers.
SEC("struct_ops/threshold")
u32 BPF_PROG(threshold, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

    if (flow && flow->leased & 1 << THRESHOLD)
        return tp->snd_ssthresh;
    return at_least(tp->snd_cwnd / 2, MIN_THRESHOLD);
}

SEC("struct_ops/undo")
u32 BPF_PROG(undo, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    return at_least(tp->snd_cwnd, tp->prior_cwnd);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops hawser = {
    .init = (void *)begin,
    .release = (void *)end,
    .cong_control = (void *)decide,
    .ssthresh = (void *)threshold,
    .undo_cwnd = (void *)undo,
    .name = "hawser",
};
