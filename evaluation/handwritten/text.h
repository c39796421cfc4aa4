/* Receiving data: in any order, up to RUNS runs beyond a gap; and the FIN. */
#include "input.h"

/* Stores a range of data beyond a gap; false if there would be too many runs. Runs are in order and apart. */
static bool remember(connection_t *c, uint64_t from, uint64_t to) {
    uint32_t first = 0;
    while (first < c->runs && c->run[first].to < from)
        first++;
    uint32_t end = first;
    while (end < c->runs && c->run[end].from <= to) {
        from = min_of(from, c->run[end].from);
        to = max_of(to, c->run[end].to);
        end++;
    }
    if (end == first && c->runs == RUNS)
        return false;
    memmove(&c->run[first + 1], &c->run[end], (c->runs - end) * sizeof c->run[0]);
    c->run[first] = (run_t){from, to};
    c->latest = first;
    c->runs = c->runs - (end - first) + 1;
    return true;
}

/* The end of data that reaches `to`, including stored runs; removes the runs below it. */
static uint64_t join(connection_t *c, uint64_t to) {
    uint32_t used = 0;
    while (used < c->runs && c->run[used].from <= to)
        to = max_of(to, c->run[used++].to);
    c->runs -= used;
    memmove(&c->run[0], &c->run[used], c->runs * sizeof c->run[0]);
    return to;
}

/* As the receiver: each CE mark is echoed until the sender has received the echo (RFC 3168, 6.1.3). */
static inline void take_mark(connection_t *c, const segment_t *e, arrival_t *s) {
    if (!c->ecn_on)
        return;
    if (e->flags & CWR)
        c->ecn_echo = 0;
    if (!e->marked || s->len == 0)
        return;
    s->ack_now |= !c->ecn_echo;
    c->ecn_echo = 1;
}

static inline void take_text(run_ctx *r, connection_t *c, const segment_t *e, arrival_t *s) {
    if (s->len == 0 || !may_receive(c))
        return;
    uint64_t end = s->seq + s->len, offset = s->seq - (c->irs + 1);
    if (s->seq > c->rcv_nxt) {
        s->gap = s->ack_now = true;
        if (remember(c, s->seq, end))
            emit_unit(r, HW_ADD_RX, &c->self, s->addr, s->len, offset);
        return;
    }
    if (c->runs > 0) {
        s->ack_now = true;
        end = join(c, end);
    }
    emit_unit(r, HW_ADD_RX, &c->self, s->addr, s->len, offset);
    emit_unit(r, HW_FLUSH_RX, &c->self, 0, end - c->rcv_nxt, 0);
    c->unread += end - c->rcv_nxt;
    c->rcv_nxt = end;
    c->unacknowledged = (uint16_t)(c->unacknowledged + min_of(e->segs, 1000));
}

static inline void take_fin(run_ctx *r, connection_t *c, arrival_t *s) {
    if (!may_receive(c))
        return;
    if (s->fin)
        c->fin_at = s->seq + s->len;
    if (c->fin_at == 0)
        return;
    s->ack_now = true;
    if (c->rcv_nxt < c->fin_at)
        return;
    c->rcv_nxt = c->fin_at + 1;
    notify(r, NOTE_EOF, 0, NULL);
    if (c->state == ESTABLISHED)
        enter(r, c, CLOSE_WAIT);
    else if (c->state == FIN_WAIT_1)
        enter(r, c, CLOSING);
    else
        begin_time_wait(r, c);
}

static uint64_t on_segment(run_ctx *r, connection_t *c, const segment_t *e) {
    arrival_t s = {
        .seq = unwrap(e->seq, c->rcv_nxt),
        .ack = unwrap(e->ack, c->snd_una),
        .window = (uint64_t)e->window << (e->flags & SYN ? 0 : c->snd_scale),
        .una = c->snd_una,
        .flight = c->snd_nxt - c->snd_una,
        .addr = e->addr,
        .len = e->len,
        .syn = e->flags & SYN,
        .fin = e->flags & FIN,
    };
    if (c->state == SYN_SENT && !in_syn_sent(r, c, e, &s))
        return HW_STOP;
    if (c->state == TIME_WAIT && !in_time_wait(r, c, e, &s))
        return HW_STOP;
    if (c->use_timestamps && !(e->flags & RST)) {
        if (!e->has_timestamps)
            return HW_STOP;
        bool young = r->now - c->ts_recent_at < 34560ull * 60 * 1000000000;
        if ((int32_t)(e->ts_value - c->ts_recent) < 0 && young) {
            send_ack(r, c);
            return HW_STOP;
        }
    }
    if (!check_sequence(r, c, e, &s))
        return HW_STOP;
    if (e->flags & RST) {
        if (e->seq == (uint32_t)c->rcv_nxt)
            fail(r, c, c->state == SYN_RECEIVED ? 111 : 104);
        else
            send_ack(r, c);
        return HW_STOP;
    }
    if (s.syn) {
        send_ack(r, c);
        return HW_STOP;
    }
    if (!check_ack(r, c, e, &s))
        return HW_STOP;
    if (s.opened && c->retransmissions > 0)
        c->rto = max_of(c->rto, 3000000000);
    c->heard_at = r->now;
    if (e->path_mtu != c->path_mtu)
        follow_path(c, e->path_mtu);
    take_echo(c, e, &s);
    loss_recovery(r, c, e, &s);
    take_mark(c, e, &s);
    take_text(r, c, e, &s);
    take_fin(r, c, &s);
    respond(r, c, &s);
    return HW_DONE;
}
