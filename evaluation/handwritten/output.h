/* Sending: headers, and the limits of the windows. */
#include "sent.h"

static inline uint64_t open_edge(const run_ctx *r, const connection_t *c) {
    return c->rcv_nxt + less(r->param[RCV_BUF], c->unread);
}

/* The window field: its right edge moves in steps worth a segment, and never left (RFC 9293, 3.8.6.2.2). */
static inline uint16_t announce_window(const run_ctx *r, connection_t *c) {
    uint64_t edge = open_edge(r, c);
    if (edge < c->rcv_edge + min_of(r->param[RCV_BUF] / 2, c->rmss))
        edge = c->rcv_edge;
    uint64_t units = less(edge, c->rcv_nxt) >> c->rcv_scale;
    if (c->rcv_nxt + (units << c->rcv_scale) < c->rcv_edge)
        units += 1;
    units = min_of(units, 65535);
    c->rcv_wnd = units << c->rcv_scale;
    c->rcv_edge = max_of(c->rcv_edge, c->rcv_nxt + c->rcv_wnd);
    return (uint16_t)units;
}

static inline bool window_update_due(const run_ctx *r, const connection_t *c) {
    uint64_t gain = less(open_edge(r, c), c->rcv_edge), left = less(c->rcv_edge, c->rcv_nxt);
    uint64_t half = r->param[RCV_BUF] / 2;
    return gain >= half || (left < 2 * (uint64_t)c->rmss && gain >= min_of(half, c->rmss));
}

/* A packet with the fields that all segments of an open connection share. */
static inline image_t *segment(run_ctx *r, connection_t *c, uint64_t seq) {
    uint16_t window = announce_window(r, c);
    stop_timer(r, c, T_DELAYED_ACK);
    image_t *h = emit_packet(r, &c->local_ip, &c->remote_ip);
    h->source_port = c->local_port;
    h->destination_port = c->remote_port;
    h->seq = (uint32_t)seq;
    h->ack = (uint32_t)c->rcv_nxt;
    h->flags = ACK | (c->ecn_echo ? ECE : 0);
    h->window = window;
    if (c->use_timestamps) {
        h->has_timestamps = 1;
        h->ts_value = timestamp(c, r->now);
        h->ts_echo = c->ts_recent;
    }
    c->ack_sent = c->rcv_nxt;
    c->unacknowledged = 0;
    return h;
}

static inline void send_ack(run_ctx *r, connection_t *c) {
    image_t *h = segment(r, c, max_of(c->snd_nxt, min_of(c->snd_max, c->snd_una + c->snd_wnd)));
    if (!c->sack_on || c->runs == 0)
        return;
    /* The latest run, then the others from the top. */
    uint32_t first = min_of(c->latest, c->runs - 1);
    h->sack[h->sacks++] = (block_t){(uint32_t)c->run[first].from, (uint32_t)c->run[first].to};
    for (uint32_t i = c->runs; i-- > 0 && h->sacks < REPORTED;)
        if (i != first)
            h->sack[h->sacks++] = (block_t){(uint32_t)c->run[i].from, (uint32_t)c->run[i].to};
}

static void transmit(run_ctx *r, connection_t *c, uint64_t from, uint32_t len, bool fin) {
    image_t *h = segment(r, c, from);
    if (len > 0) {
        h->data.uid = c->self;
        h->data.off = stream_offset(c, from);
        h->data.len = len;
        h->data.seg_size = c->smss;
        h->push = from + len == c->snd_end;
    }
    if (fin)
        h->flags |= FIN;
    uint64_t end = from + len + fin;
    if (end > from && from < c->snd_max)
        c->retransmissions += 1;
    else if (len > 0 && c->ecn_on) { /* new data: RFC 3168, 6.1.5 */
        ((packet_rec *)h - 1)->net.ecn = 2;
        h->flags |= c->ecn_reduced ? CWR : 0;
        c->ecn_reduced = 0;
    }
    c->snd_max = max_of(c->snd_max, end);
}

static void send_syn(run_ctx *r, connection_t *c) {
    bool reply = c->state == SYN_RECEIVED;
    image_t *h = emit_packet(r, &c->local_ip, &c->remote_ip);
    h->source_port = c->local_port;
    h->destination_port = c->remote_port;
    h->seq = (uint32_t)c->iss;
    h->flags = SYN | (reply ? ACK : 0);
    h->ack = reply ? (uint32_t)c->rcv_nxt : 0;
    h->window = (uint16_t)min_of(r->param[RCV_BUF], 65535);
    h->has_mss = 1;
    h->mss = (uint16_t)c->rmss;
    h->sack_permitted = reply ? c->sack_on : 1;
    h->flags |= reply && c->ecn_on ? ECE : 0;
    h->has_timestamps = reply ? c->use_timestamps : 1;
    h->ts_value = timestamp(c, r->now);
    h->ts_echo = c->ts_recent;
    h->has_scale = reply ? c->scaled : 1;
    h->scale = c->rcv_scale;
    if (reply)
        c->ack_sent = c->rcv_nxt;
}

static void reset_sender(run_ctx *r, const segment_t *e) {
    image_t *h = emit_packet(r, &e->local_ip, &e->remote_ip);
    h->source_port = e->local_port;
    h->destination_port = e->remote_port;
    if (e->flags & ACK) {
        h->seq = e->ack;
        h->flags = RST;
    } else {
        h->flags = RST | ACK;
        h->ack = e->seq + e->len + !!(e->flags & SYN) + !!(e->flags & FIN);
    }
}

static void send_reset(run_ctx *r, connection_t *c) {
    image_t *h = emit_packet(r, &c->local_ip, &c->remote_ip);
    h->source_port = c->local_port;
    h->destination_port = c->remote_port;
    h->seq = (uint32_t)c->snd_max;
    h->ack = (uint32_t)c->rcv_nxt;
    h->flags = RST | ACK;
}

/* There is data to send and none under way, but the window forbids it. */
static void wait_for_window(run_ctx *r, connection_t *c) {
    if (c->snd_nxt != c->snd_una || c->timer[T_RETRANSMIT] || c->timer[T_PERSIST])
        return;
    c->probes = 0;
    start_timer(r, c, T_PERSIST, c->snd_wnd == 0 ? c->rto : r->param[OVERRIDE]);
}

/* Sends the data that both windows allow, in one instruction. */
static void output(run_ctx *r, connection_t *c, arrival_t *s) {
    if (!may_send(c) || c->snd_nxt > c->snd_end)
        return;
    uint64_t limited = c->recovering ? 0 : min_of(c->duplicates, 2) * c->smss;
    uint64_t window = min_of(c->snd_wnd, c->cwnd + limited);
    uint64_t room = less(c->snd_una + window, c->snd_nxt), pending = c->snd_end - c->snd_nxt;
    uint64_t len = min_of(min_of(room, pending), MAX_BURST);

    bool last = len == pending;
    bool patient = r->param[NAGLE] && !c->closing && c->small_end > c->snd_una && c->snd_nxt == c->snd_max;
    bool small_goes = (last && !patient) || len * 2 >= c->max_wnd || s->override;
    uint64_t small = len % c->smss;
    if (small > 0 && !small_goes) {
        len -= small;
        small = 0;
        last = false;
    }
    bool fin = c->closing && last && (len > 0 || room > 0);
    if (len == 0 && !fin) {
        if (pending > 0 || c->closing)
            wait_for_window(r, c);
        return;
    }
    uint64_t from = c->snd_nxt;
    if (from == c->snd_max && c->timed_end == 0 && c->snd_una >= c->recover) {
        c->timed_end = from + max_of(min_of(len, c->smss), 1);
        c->timed_at = r->now;
    }
    if (c->snd_una == from)
        c->progress_at = r->now;
    note_sent(r, c, from + len + fin, from < c->snd_max);
    transmit(r, c, from, (uint32_t)len, fin);
    c->snd_nxt = from + len + fin;
    if (small > 0)
        c->small_end = from + len;
    c->sent_at = r->now;
    s->ack_now = s->ack_now && s->gap;
    stop_timer(r, c, T_PERSIST);
    if (!c->timer[T_RETRANSMIT])
        start_timer(r, c, T_RETRANSMIT, c->rto);
}

static inline void acknowledge(run_ctx *r, connection_t *c, const arrival_t *s) {
    if (s->ack_now || c->unacknowledged >= 2)
        send_ack(r, c);
    else if (c->unacknowledged > 0 && !c->timer[T_DELAYED_ACK])
        start_timer(r, c, T_DELAYED_ACK, r->param[DELAYED_ACK]);
}

/* Ends every chain of a connection. */
static inline void respond(run_ctx *r, connection_t *c, arrival_t *s) {
    output(r, c, s);
    acknowledge(r, c, s);
    c->flight = c->snd_nxt - c->snd_una;
}
