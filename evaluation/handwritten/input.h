/* A segment arrives for a connection: the checks in the order of RFC 9293, 3.10.7.4. */
#include "congestion.h"

static void fail(run_ctx *r, connection_t *c, uint32_t error) {
    if (c->state == SYN_RECEIVED && c->has_parent)
        raise_child(r, CHILD_FAILED, c);
    else
        notify(r, NOTE_FAILED, error, NULL);
    emit_context(r, HW_DEL_CONTEXT, NULL, 0);
}

static void set_segment_size(connection_t *c) {
    uint32_t headers = is_v4(&c->local_ip) ? 40 : 60;
    c->smss = (uint32_t)max_of(min_of(c->peer_mss, c->path_mtu - headers), 88) - (c->use_timestamps ? 12 : 0);
}

/* The target's path MTU applies to all connections along the path. */
static void follow_path(connection_t *c, uint32_t mtu) {
    c->path_mtu = (uint32_t)max_of(mtu, is_v4(&c->local_ip) ? 552 : 1280);
    set_segment_size(c);
}

static void take_syn(run_ctx *r, connection_t *c, const segment_t *e) {
    c->irs = ((uint64_t)1 << 32) + e->seq;
    c->rcv_nxt = c->irs + 1;
    c->rcv_edge = c->rcv_nxt + min_of(r->param[RCV_BUF], 65535);
    c->peer_mss = e->has_mss ? e->mss : 536;
    c->use_timestamps = e->has_timestamps;
    c->sack_on = e->sack_permitted;
    c->ecn_on = !(e->flags & ACK) && (e->flags & (ECE | CWR)) == (ECE | CWR);
    c->ts_recent = e->ts_value;
    c->ts_recent_at = r->now;
    c->scaled = e->has_scale;
    c->snd_scale = c->scaled ? e->scale : 0;
    if (!c->scaled)
        c->rcv_scale = 0;
    set_segment_size(c);
}

static void handshake_complete(run_ctx *r, connection_t *c, arrival_t *s) {
    s->opened = true;
    c->snd_wnd = c->max_wnd = s->window;
    c->snd_wl1 = s->seq;
    c->snd_wl2 = s->ack;
    if (c->has_parent)
        raise_child(r, CHILD_READY, c);
    else
        notify(r, NOTE_CONNECTED, 0, NULL);
    enter(r, c, c->closing ? FIN_WAIT_1 : ESTABLISHED);
}

/* False: processing of the segment ends here. */
static bool in_syn_sent(run_ctx *r, connection_t *c, const segment_t *e, arrival_t *s) {
    bool acceptable = s->ack > c->iss && s->ack <= c->snd_max;
    if ((e->flags & ACK) && !acceptable) {
        if (!(e->flags & RST))
            reset_sender(r, e);
        return false;
    }
    if (e->flags & RST) {
        if (e->flags & ACK)
            fail(r, c, 111);
        return false;
    }
    if ((e->flags & (SYN | ACK)) != (SYN | ACK))
        return false;
    take_syn(r, c, e);
    s->seq = c->rcv_nxt;
    s->syn = false;
    s->ack_now = true;
    handshake_complete(r, c, s);
    return true;
}

static void begin_time_wait(run_ctx *r, connection_t *c) {
    enter(r, c, TIME_WAIT);
    stop_timer(r, c, T_RETRANSMIT);
    stop_timer(r, c, T_PERSIST);
    start_timer(r, c, T_TIME_WAIT, 2 * r->param[MSL]);
    notify(r, NOTE_CLOSED, 0, NULL);
}

static bool in_time_wait(run_ctx *r, connection_t *c, const segment_t *e, const arrival_t *s) {
    if (e->flags & RST) {
        if (s->seq == c->rcv_nxt)
            emit_context(r, HW_DEL_CONTEXT, NULL, 0);
    } else {
        send_ack(r, c);
        if (e->flags & FIN)
            start_timer(r, c, T_TIME_WAIT, 2 * r->param[MSL]);
    }
    return false;
}

/* The ACK is for numbers that were sent, and is not too old (RFC 5961, 5.2). */
static inline bool ack_plausible(const connection_t *c, const arrival_t *s) {
    return s->ack <= c->snd_max && s->ack + c->max_wnd >= c->snd_una;
}

static inline bool check_sequence(run_ctx *r, connection_t *c, const segment_t *e, arrival_t *s) {
    if (c->state == SYN_RECEIVED && s->syn && s->seq == c->irs) {
        if (!(e->flags & ACK)) {
            send_syn(r, c);
            return false;
        }
        s->syn = false;
        s->seq += 1;
    }
    uint64_t end = s->seq + s->len + s->syn + s->fin;
    bool acceptable = s->seq == c->rcv_nxt || (s->seq < c->rcv_edge && end > c->rcv_nxt);
    bool repeated = end <= c->rcv_nxt && end + r->param[RCV_BUF] > c->rcv_nxt;
    bool credible = (e->flags & (ACK | RST)) == ACK && ack_plausible(c, s);
    if (e->has_timestamps && credible && s->seq <= c->ack_sent && (acceptable || repeated)) {
        c->ts_recent = e->ts_value;
        c->ts_recent_at = r->now;
    }
    if (!acceptable) {
        if (!(e->flags & RST))
            send_ack(r, c);
        return false;
    }
    if (s->seq < c->rcv_nxt && !s->syn) {
        uint64_t known = min_of(c->rcv_nxt - s->seq, s->len);
        s->seq += known;
        s->addr += known;
        s->len -= (uint32_t)known;
    }
    uint64_t held = c->rcv_nxt + less(r->param[RCV_BUF] + WINDOW_SLACK, c->unread);
    uint64_t right = min_of(c->rcv_edge, held);
    if (s->seq + s->len > right && s->len > 0) {
        s->len = (uint32_t)less(right, s->seq);
        s->fin = false;
        s->ack_now = true;
    }
    return true;
}

static inline void advance(run_ctx *r, connection_t *c, const segment_t *e, arrival_t *s) {
    s->acked = stream_offset(c, s->ack) - stream_offset(c, c->snd_una);
    c->snd_una = s->ack;
    c->snd_nxt = max_of(c->snd_nxt, c->snd_una);
    c->timeouts = 0;
    c->progress_at = r->now;
    s->rtt = retire(r, c, s->una);
    if (c->timed_end != 0) {
        if (s->ack >= c->timed_end) {
            measure(r, c, r->now - c->timed_at);
            c->timed_end = 0;
        }
    } else if (s->ack <= c->recover && c->use_timestamps && e->has_timestamps)
        measure(r, c, (uint64_t)(timestamp(c, r->now) - e->ts_echo) * 1000000);
    if (s->acked > 0)
        emit_unit(r, HW_FLUSH_TX, &c->self, 0, s->acked, 0);
    if (c->snd_una == c->snd_nxt)
        stop_timer(r, c, T_RETRANSMIT);
    else if (!c->recovering || !c->partial_seen)
        start_timer(r, c, T_RETRANSMIT, c->rto);
}

static inline bool fin_acknowledged(run_ctx *r, connection_t *c) {
    if (c->state == FIN_WAIT_1) {
        enter(r, c, FIN_WAIT_2);
        if (c->released)
            start_timer(r, c, T_TIME_WAIT, r->param[FIN_TIMEOUT]);
    } else if (c->state == CLOSING)
        begin_time_wait(r, c);
    else if (c->state == LAST_ACK) {
        notify(r, NOTE_CLOSED, 0, NULL);
        emit_context(r, HW_DEL_CONTEXT, NULL, 0);
        return false;
    }
    return true;
}

static inline bool check_ack(run_ctx *r, connection_t *c, const segment_t *e, arrival_t *s) {
    if (!(e->flags & ACK))
        return false;
    bool acceptable = ack_plausible(c, s);
    if (c->state == SYN_RECEIVED) {
        if (!acceptable || s->ack <= c->snd_una) {
            reset_sender(r, e);
            return false;
        }
        handshake_complete(r, c, s);
    }
    if (!acceptable) {
        send_ack(r, c);
        return false;
    }
    if (s->ack > c->snd_una)
        advance(r, c, e, s);
    else
        s->duplicate = e->len == 0 && !(e->flags & FIN) && s->window == c->snd_wnd && s->ack == c->snd_una
                       && c->snd_nxt > c->snd_una;
    bool newer = c->snd_wl1 < s->seq || (c->snd_wl1 == s->seq && c->snd_wl2 <= s->ack);
    if (newer && s->ack == c->snd_una) {
        if (c->snd_wnd == 0 && s->window > 0)
            stop_timer(r, c, T_PERSIST);
        c->snd_wnd = s->window;
        c->max_wnd = max_of(c->max_wnd, c->snd_wnd);
        c->snd_wl1 = s->seq;
        c->snd_wl2 = s->ack;
    }
    return !(c->closing && c->snd_una > c->snd_end) || fin_acknowledged(r, c);
}
