// From a hook to the ring: the subscriptions to an event, their filters, the wake-up of the reader.
//
// The filters stand in the order of the paper (iTCP, section 2.4): subscription, time, frequency. Time: an
// interval begins with an event and ends by a timer; the last event within it survives. Frequency F:
// every F-th survivor passes.
#pragma once

#include "maps.bpf.h"

static int ring_the_bell(void *map, u32 *key, struct alarm *alarm)
{
    __sync_lock_test_and_set(&alarm->armed, 0);
    // A record that is given up wakes the reader like one that is written.
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
    bpf_timer_init(&alarm->timer, &alarms, 1 /* CLOCK_MONOTONIC */); // it may have been before
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
    // The reader is woken at once when it has asked for that, or before the ring runs full.
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

// The frequency filter. The gate is locked.
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
        bpf_timer_init(&gate->timer, &gates, 1 /* CLOCK_MONOTONIC */); // it may have been before
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

// Hands an event to its subscriptions. Call it when the event is `wanted`.
__noinline int publish(struct flow *flow, u32 event, u64 first, u64 second, u64 third)
{
    if (!flow || event >= EVENTS)
        return 0;
    u32 places = settings.wanted[event];
    struct record record = {
        .flow = flow->cookie,
        .time = bpf_ktime_get_ns(),
        .event = event,
        .values = {first, second, third},
    };
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

// A flow has ended: its gates go, at once or when their intervals are over.
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
