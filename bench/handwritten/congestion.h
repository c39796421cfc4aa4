/* Round-trip times (RFC 6298), NewReno (RFC 5681, 6582), and what they are told. */
#include "output.h"

static void measure(run_ctx *r, connection_t *c, uint64_t sample) {
    sample = most(sample, 1);
    if (c->srtt == 0) {
        c->srtt = sample;
        c->rttvar = sample / 2;
    } else {
        uint64_t difference = c->srtt > sample ? c->srtt - sample : sample - c->srtt;
        c->rttvar = (c->rttvar * 3 + difference) / 4;
        c->srtt = (c->srtt * 7 + sample) / 8;
    }
    c->rto = least(most(c->srtt + most(1000000, c->rttvar * 4), r->param[MIN_RTO]), r->param[MAX_RTO]);
    signal(r, ROUND_TRIP, sample);
}

static uint64_t initial_window(uint64_t smss) { return least(10 * smss, most(2 * smss, 14600)); }
static uint64_t half_flight(const connection_t *c, uint64_t flight) { return most(flight / 2, 2 * (uint64_t)c->smss); }

static inline void grow(const run_ctx *r, connection_t *c, uint64_t acked, uint64_t flight) {
    if (flight * 2 < c->cwnd)
        return;
    if (c->cwnd < c->ssthresh) {
        c->cwnd = least(c->cwnd + least(acked, r->param[SLOW_START_LIMIT] * c->smss), c->ssthresh);
        return;
    }
    c->counted += acked;
    if (c->counted < c->cwnd)
        return;
    c->counted -= c->cwnd;
    c->cwnd += c->smss;
}

static void send_first_again(run_ctx *r, connection_t *c) {
    uint64_t sent = least(c->snd_max, c->snd_end) - c->snd_una;
    uint32_t len = (uint32_t)least(sent, c->smss);
    c->timed_end = 0;
    transmit(r, c, c->snd_una, len, c->snd_una + len == c->snd_end && c->snd_max > c->snd_end);
}

static void partial_ack(run_ctx *r, connection_t *c, uint64_t acked) {
    c->partial_seen = 1;
    c->counted = 0;
    c->cwnd = most(less(c->cwnd, acked), c->smss) + (acked >= c->smss ? c->smss : 0);
    send_first_again(r, c);
}

static void count_duplicate(run_ctx *r, connection_t *c, uint64_t flight) {
    if (c->duplicates < 255)
        c->duplicates += 1;
    if (c->recovering)
        c->cwnd += c->smss;
    else if (c->duplicates == 1)
        c->flight_before = flight;
    else if (c->duplicates == 3 && c->snd_una > c->recover) {
        c->recovering = 1;
        c->partial_seen = 0;
        c->recover = c->snd_max;
        c->counted = 0;
        c->ssthresh = half_flight(c, c->flight_before);
        c->cwnd = c->ssthresh + 3 * (uint64_t)c->smss;
        signal(r, SEGMENT_LOST, c->snd_una);
        send_first_again(r, c);
    }
}

static inline void loss_recovery(run_ctx *r, connection_t *c, const arrival_t *s) {
    if (s->opened) {
        c->counted = 0;
        c->cwnd = c->retransmissions > 0 ? c->smss : initial_window(c->smss);
    } else if (s->acked > 0) {
        c->duplicates = 0;
        if (!c->recovering)
            grow(r, c, s->acked, s->flight);
        else if (c->snd_una >= c->recover) {
            c->recovering = 0;
            c->counted = 0;
            c->cwnd = least(c->ssthresh, most(c->snd_nxt - c->snd_una, c->smss) + c->smss);
        } else
            partial_ack(r, c, s->acked);
    } else if (s->duplicate)
        count_duplicate(r, c, s->flight);
}
