/* Round-trip times (RFC 6298), loss recovery as in NewReno (RFC 6582), ECN (RFC 3168). */
#include "cubic.h"

static void measure(run_ctx *r, connection_t *c, uint64_t sample) {
    sample = max_of(sample, 1);
    if (c->srtt == 0) {
        c->srtt = sample;
        c->rttvar = sample / 2;
    } else {
        uint64_t difference = c->srtt > sample ? c->srtt - sample : sample - c->srtt;
        c->rttvar = (c->rttvar * 3 + difference) / 4;
        c->srtt = (c->srtt * 7 + sample) / 8;
    }
    c->rto = min_of(max_of(c->srtt + max_of(1000000, c->rttvar * 4), r->param[MIN_RTO]), r->param[MAX_RTO]);
    signal(r, ROUND_TRIP, sample);
}

static uint64_t initial_window(uint64_t smss) { return min_of(10 * smss, max_of(2 * smss, 14600)); }
static void send_first_again(run_ctx *r, connection_t *c) {
    uint64_t sent = min_of(c->snd_max, c->snd_end) - c->snd_una;
    uint32_t len = (uint32_t)min_of(sent, c->smss);
    c->timed_end = 0;
    if (c->sents > 0)
        c->sent[0].again = true;
    transmit(r, c, c->snd_una, len, c->snd_una + len == c->snd_end && c->snd_max > c->snd_end);
}

static void partial_ack(run_ctx *r, connection_t *c, uint64_t acked) {
    c->partial_seen = 1;
    c->cwnd = max_of(less(c->cwnd, acked), c->smss) + (acked >= c->smss ? c->smss : 0);
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
            shrink(c, c->flight_before);
        c->ecn_reduced = c->ecn_on;
        c->cwnd = c->ssthresh + 3 * (uint64_t)c->smss;
        signal(r, SEGMENT_LOST, c->snd_una);
        send_first_again(r, c);
    }
}

static inline void loss_recovery(run_ctx *r, connection_t *c, const segment_t *e, const arrival_t *s) {
    if (s->opened) {
            c->cwnd = c->retransmissions > 0 ? c->smss : initial_window(c->smss);
    } else if (s->acked > 0) {
        c->duplicates = 0;
        if (!c->recovering && !(e->flags & ECE && c->ecn_on))
            grow(r, c, s->acked, s->flight, s->rtt);
        else if (!c->recovering)
            ;
        else if (c->snd_una >= c->recover) {
            c->recovering = 0;
                    c->cwnd = min_of(c->ssthresh, max_of(c->snd_nxt - c->snd_una, c->smss) + c->smss);
        } else
            partial_ack(r, c, s->acked);
    } else if (s->duplicate)
        count_duplicate(r, c, s->flight);
}

/* As the sender: an echo counts as a loss without a retransmission, once per window. */
static inline void take_echo(connection_t *c, const segment_t *e, const arrival_t *s) {
    if (!(e->flags & ECE) || !c->ecn_on || s->syn)
        return;
    if (!c->recovering && c->snd_una > max_of(c->ecn_until, c->recover)) {
        c->ecn_until = c->snd_nxt;
        c->ecn_reduced = 1;
        shrink(c, s->flight);
        c->cwnd = c->ssthresh;
    }
}
