// From a hook to the ring: the subscriptions to an event, their filters, and the wake-up of the reader.
//
// The filters are in the order of the paper (iTCP, section 2.4): subscription, time, frequency. Time: an
// interval begins with an event and ends by a timer; the last event within it survives. Frequency F:
// every F-th survivor passes.
#pragma once

#include "maps.bpf.h"

static int ring_the_bell(void *map, u32 *key, struct alarm *alarm)
{
    __sync_lock_test_and_set(&alarm->armed, 0);
    // A discarded record wakes the reader like a written one.
    void *room = bpf_ringbuf_reserve(&ring, sizeof(u64), 0);
    if (room)
        bpf_ringbuf_discard(room, BPF_RB_FORCE_WAKEUP);
    return 0;
}

static __always_inline void wake_later(u64 wake)
{
    u32 first = 0;
    struct alarm *alarm = bpf_map_lookup_elem(&alarms, &first);
    if (!alarm || alarm->armed || __sync_lock_test_and_set(&alarm->armed, 1))
        return;
    bpf_timer_init(&alarm->timer, &alarms, 1 /* CLOCK_MONOTONIC */); // it may have been initialized before
    bpf_timer_set_callback(&alarm->timer, ring_the_bell);
    if (bpf_timer_start(&alarm->timer, wake, 0))
        __sync_lock_test_and_set(&alarm->armed, 0);
}

static __always_inline void count_loss(struct record *record)
{
    struct of_subscription key = {.flow = record->flow, .subscription = record->subscription};
    u64 one = 1;

    __sync_fetch_and_add(&lost[record->subscription & (SUBSCRIPTIONS - 1)], 1);
    u64 *count = bpf_map_lookup_elem(&losses, &key);
    if (count)
        __sync_fetch_and_add(count, 1);
    else
        bpf_map_update_elem(&losses, &key, &one, BPF_ANY);
}

__noinline int deliver(struct record *record)
{
    if (!record)
        return 0;
    u64 wake = settings.wake;
    // Wakes the reader at once if it has requested that, or before the ring runs full.
    u64 flags = 0;
    if (wake) {
        bool half = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= settings.ring_half;
        flags = half ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
    }
    record->lost = lost[record->subscription & (SUBSCRIPTIONS - 1)];
    if (bpf_ringbuf_output(&ring, record, sizeof(*record), flags))
        count_loss(record);
    else if (flags == BPF_RB_NO_WAKEUP)
        wake_later(wake);
    return 0;
}

// The frequency filter. The caller holds the gate's lock.
static __always_inline bool survive(struct gate *gate, u32 frequency)
{
    gate->survivors++;
    if (gate->survivors < frequency)
        return false;
    gate->survivors = 0;
    return true;
}

static int interval_over(void *map, struct of_subscription *key, struct gate *gate)
{
    struct subscription *subscription = &settings.subscriptions[key->subscription & (SUBSCRIPTIONS - 1)];
    u64 now = bpf_ktime_get_ns();
    struct record last;
    bool pass = false;

    bpf_spin_lock(&gate->lock);
    last = gate->last;
    bool current = gate->generation == subscription->generation;
    if (gate->until && gate->until <= now) {
        gate->until = 0;
        pass = current && survive(gate, subscription->frequency);
    }
    bool over = gate->ending && !gate->until;
    bpf_spin_unlock(&gate->lock);

    if (pass && last.event < EVENTS && settings.wanted[last.event] >> key->subscription & 1)
        deliver(&last);
    if (over)
        bpf_map_delete_elem(&gates, key);
    return 0;
}

static const struct gate no_gate;

__noinline int filter(struct record *record)
{
    if (!record)
        return 0;
    struct of_subscription key = {.flow = record->flow, .subscription = record->subscription};
    struct subscription *subscription = &settings.subscriptions[record->subscription & (SUBSCRIPTIONS - 1)];
    u64 interval = subscription->interval, now = record->time;
    u32 frequency = subscription->frequency, generation = subscription->generation;
    bool pass = false, begin = false;
    struct record survivor;

    struct gate *gate = bpf_map_lookup_elem(&gates, &key);
    if (!gate) {
        bpf_map_update_elem(&gates, &key, &no_gate, BPF_NOEXIST);
        gate = bpf_map_lookup_elem(&gates, &key);
        if (!gate) {
            count_loss(record);
            return 0;
        }
    }
    bpf_spin_lock(&gate->lock);
    if (gate->generation != generation) {
        gate->generation = generation;
        gate->survivors = 0;
        gate->until = 0;
    }
    survivor = *record;
    if (!interval) {
        pass = survive(gate, frequency);
    } else {
        if (gate->until && gate->until <= now) { // the timer is late
            survivor = gate->last;
            gate->until = 0;
            pass = survive(gate, frequency);
        }
        gate->last = *record;
        if (!gate->until) {
            gate->until = now + interval;
            begin = true;
        }
    }
    bpf_spin_unlock(&gate->lock);

    if (begin) {
        bpf_timer_init(&gate->timer, &gates, 1 /* CLOCK_MONOTONIC */); // it may have been initialized before
        bpf_timer_set_callback(&gate->timer, interval_over);
        bpf_timer_start(&gate->timer, interval, 0);
    }
    if (pass)
        deliver(&survivor);
    return 0;
}

static __always_inline bool wanted(enum event event)
{
    return settings.wanted[event] != 0;
}

// The numbers of `state_t` in transports/tcp/state.mtp; 0: no connection.
static __always_inline u64 common_state(int state)
{
    switch (state) {
    case LINUX_SYN_SENT: return 1;
    case LINUX_SYN_RECV:
    case LINUX_NEW_SYN_RECV: return 2;
    case LINUX_ESTABLISHED: return 3;
    case LINUX_FIN_WAIT1: return 4;
    case LINUX_FIN_WAIT2: return 5;
    case LINUX_CLOSE_WAIT: return 6;
    case LINUX_CLOSING: return 7;
    case LINUX_LAST_ACK: return 8;
    case LINUX_TIME_WAIT: return 9;
    default: return 0;
    }
}

static __always_inline void look_at(struct tcp_state *stood, const struct tcp_sock *tp)
{
    u64 acked = tp->bytes_acked, first_time = tp->bytes_sent - tp->bytes_retrans;

    stood->acked = acked;
    stood->received = tp->bytes_received;
    stood->pacing_rate = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;
    stood->flight = tp->packets_out && first_time > acked ? first_time - acked : 0;
    stood->wnd = tp->snd_wnd;
    stood->cwnd = tp->snd_cwnd;
    stood->ssthresh = tp->snd_ssthresh;
    stood->srtt = tp->srtt_us >> 3;
    stood->rttvar = tp->mdev_us >> 2;
    stood->rto = tp->inet_conn.icsk_rto;
    stood->min_rtt = tp->rtt_min.s[0].v;
    stood->mss = tp->mss_cache;
    stood->delivered = tp->delivered;
    stood->retransmissions = tp->total_retrans;
    stood->lost = tp->lost_out;
    stood->rate_delivered = tp->rate_delivered;
    stood->rate_interval = tp->rate_interval_us;
}

// An event and its values.
struct occurrence {
    u32 event;
    u32 state; // of the connection, if the socket does not have it yet; 0: the socket's
    u64 values[3];
};

// Delivers an event to its subscriptions, with the state of the flow, unless there is no `tp` to read. The
// caller checks that the event is `wanted`. Static, so verified at each call: sockets differ in kind.
static __noinline int publish(struct flow *flow, const struct tcp_sock *tp, const struct occurrence *occurrence)
{
    u32 event = occurrence->event;
    if (event >= EVENTS)
        return 0;
    u32 places = settings.wanted[event];
    struct record record = {
        .flow = flow->cookie,
        .time = bpf_ktime_get_ns(),
        .event = event,
        .state = UNSEEN,
        .values = {occurrence->values[0], occurrence->values[1], occurrence->values[2]},
    };
    if (tp) {
        look_at(&record.stood, tp);
        record.state =
            common_state(occurrence->state ? occurrence->state : tp->inet_conn.icsk_inet.sk.__sk_common.skc_state);
    }
    for (u32 place = 0; place < SUBSCRIPTIONS; place++) {
        if (!(places >> place & 1))
            continue;
        struct subscription *subscription = &settings.subscriptions[place];
        u16 port = subscription->port;
        if (subscription->flow && subscription->flow != record.flow)
            continue;
        if (port && port != flow->local_port && port != flow->remote_port)
            continue;
        record.subscription = place;
        if (subscription->interval || subscription->frequency > 1)
            filter(&record);
        else
            deliver(&record);
    }
    return 0;
}

static __always_inline void emit(struct flow *flow, const struct tcp_sock *tp, enum event event, u64 first,
                                 u64 second, u64 third)
{
    struct occurrence occurrence = {.event = event, .values = {first, second, third}};
    publish(flow, tp, &occurrence);
}

// A flow has ended: deletes its gates, at once or when their intervals end.
static __always_inline void close_gates(u64 flow)
{
    struct of_subscription key = {.flow = flow};
    for (u32 place = 0; place < SUBSCRIPTIONS; place++) {
        key.subscription = place;
        struct gate *gate = bpf_map_lookup_elem(&gates, &key);
        if (!gate)
            continue;
        bpf_spin_lock(&gate->lock);
        bool over = !gate->until;
        gate->ending = 1;
        bpf_spin_unlock(&gate->lock);
        if (over)
            bpf_map_delete_elem(&gates, &key);
    }
}
