/* The other events: the application's requests, timers, and packets for a listener. */
#include "text.h"

static void begin(run_ctx *r, connection_t *c, const ip_t *local, const ip_t *remote, uint16_t local_port,
                  uint16_t remote_port, uint32_t path_mtu) {
    c->local_ip = *local;
    c->remote_ip = *remote;
    c->local_port = local_port;
    c->remote_port = remote_port;
    c->iss = ((uint64_t)1 << 32) + (uint32_t)r->rand;
    c->snd_una = c->recover = c->iss;
    c->snd_nxt = c->snd_max = c->snd_end = c->iss + 1;
    c->ts_offset = (uint32_t)(r->rand >> 32);
    uint64_t buffer = r->param[RCV_BUF];
    while (c->rcv_scale < 14 && buffer >> c->rcv_scale > 65535)
        c->rcv_scale++;
    c->path_mtu = path_mtu;
    c->rmss = (uint32_t)min_of(path_mtu - (is_v4(local) ? 40 : 60), 65535);
    c->peer_mss = 536;
    c->rto = r->param[INITIAL_RTO];
    c->ssthresh = 1 << 30;
    c->timed_at = c->heard_at = c->progress_at = r->now;
    c->timed_end = c->snd_nxt;
    set_segment_size(c);
    emit_unit(r, HW_NEW_TX, &c->self, 0, INF, 0);
    emit_unit(r, HW_NEW_RX, &c->self, 0, INF, buffer + WINDOW_SLACK);
}

static uint64_t on_connect(run_ctx *r, connection_t *c, const open_t *e) {
    r->on = ON_FRESH;
    c->state = SYN_SENT;
    emit_context(r, HW_NEW_CONTEXT, &c->self, CONNECTION);
    begin(r, c, &e->local_ip, &e->remote_ip, e->local_port, e->remote_port, e->path_mtu);
    send_syn(r, c);
    start_timer(r, c, T_RETRANSMIT, c->rto);
    return HW_DONE;
}

static uint64_t on_listener(run_ctx *r, listener_t *l, connection_t *c, const segment_t *e) {
    if (e->flags & RST)
        return HW_STOP;
    if (e->flags & ACK) {
        reset_sender(r, e);
        return HW_STOP;
    }
    if (!(e->flags & SYN))
        return HW_STOP;
    if (l->embryonic >= r->param[SYN_BACKLOG] || l->waiting >= l->backlog || !c) {
        l->dropped++;
        return HW_STOP;
    }
    l->embryonic++;
    r->on = ON_FRESH;
    c->state = SYN_RECEIVED;
    c->has_parent = 1;
    c->parent = l->self;
    emit_context(r, HW_NEW_CONTEXT, &c->self, CONNECTION);
    begin(r, c, &e->local_ip, &e->remote_ip, e->local_port, e->remote_port, e->path_mtu);
    take_syn(r, c, e);
    send_syn(r, c);
    start_timer(r, c, T_RETRANSMIT, c->rto);
    return HW_DONE;
}

static uint64_t on_send(run_ctx *r, connection_t *c, const amount_t *e) {
    if (c->closing)
        return REFUSE(32);
    if (c->snd_una == c->snd_max && r->now - c->sent_at > c->rto) {
        c->cwnd = min_of(c->cwnd, initial_window(c->smss));
        c->cubic.epoch = 0;
    }
    emit_unit(r, HW_ADD_TX, &c->self, e->addr, e->len, 0);
    c->snd_end += e->len;
    arrival_t s = {0};
    respond(r, c, &s);
    return HW_DONE;
}

static uint64_t on_recv(run_ctx *r, connection_t *c, const amount_t *e) {
    c->unread = less(c->unread, e->len);
    arrival_t s = {.ack_now = may_receive(c) && window_update_due(r, c)};
    acknowledge(r, c, &s);
    return HW_DONE;
}

static uint64_t on_close(run_ctx *r, connection_t *c) {
    if (c->closing)
        return HW_STOP;
    c->closing = 1;
    if (c->state == ESTABLISHED)
        enter(r, c, FIN_WAIT_1);
    else if (c->state == CLOSE_WAIT)
        enter(r, c, LAST_ACK);
    else if (c->state == SYN_SENT && c->snd_end == c->iss + 1) {
        notify(r, NOTE_CLOSED, 0, NULL);
        emit_context(r, HW_DEL_CONTEXT, NULL, 0);
        return HW_STOP;
    }
    arrival_t s = {0};
    respond(r, c, &s);
    return HW_DONE;
}

static uint64_t on_abort(run_ctx *r, connection_t *c) {
    if (c->state != SYN_SENT && c->state != CLOSING && c->state != LAST_ACK && c->state != TIME_WAIT)
        send_reset(r, c);
    notify(r, NOTE_CLOSED, 0, NULL);
    emit_context(r, HW_DEL_CONTEXT, NULL, 0);
    return HW_DONE;
}

static uint64_t on_release(run_ctx *r, connection_t *c) {
    c->released = 1;
    if (c->state == FIN_WAIT_2)
        start_timer(r, c, T_TIME_WAIT, r->param[FIN_TIMEOUT]);
    return HW_DONE;
}

static uint64_t on_retransmit(run_ctx *r, connection_t *c) {
    c->rto = min_of(c->rto * 2, r->param[MAX_RTO]);
    c->timed_end = 0;
    c->timeouts = (uint8_t)min_of(c->timeouts + 1u, 255);
    if (r->now - c->progress_at >= r->param[USER_TIMEOUT]) {
        fail(r, c, 110);
        return HW_STOP;
    }
    signal(r, SEGMENT_LOST, c->snd_una);
    if (c->state == SYN_SENT || c->state == SYN_RECEIVED) {
        c->retransmissions++;
        send_syn(r, c);
        start_timer(r, c, T_RETRANSMIT, c->rto);
        return HW_STOP;
    }
    if (c->timeouts == 1)
        shrink(c, c->snd_nxt - c->snd_una);
    c->cubic.w_max = 0;
    c->sents = 0;
    c->ecn_reduced = c->ecn_on;
    c->cwnd = c->smss;
    c->recovering = c->duplicates = 0;
    c->recover = c->snd_max;
    c->snd_nxt = c->snd_una;
    arrival_t s = {0};
    respond(r, c, &s);
    return HW_DONE;
}

static uint64_t on_persist(run_ctx *r, connection_t *c) {
    arrival_t s = {.override = c->snd_wnd > 0};
    if (!s.override) {
        c->probes = (uint8_t)min_of(c->probes + 1u, 16);
        uint32_t text = c->snd_end > c->snd_una;
        transmit(r, c, c->snd_una, text, c->closing && !text);
        start_timer(r, c, T_PERSIST, min_of(c->rto << c->probes, r->param[MAX_RTO]));
    }
    respond(r, c, &s);
    return HW_DONE;
}

static uint64_t on_connection(run_ctx *r, connection_t *c, const event_t *e) {
    switch ((enum event)e->event) {
    case SEGMENT: return on_segment(r, c, (const segment_t *)e);
    case CONNECT: return REFUSE(98);
    case LISTEN: return REFUSE(98);
    case SEND: return on_send(r, c, (const amount_t *)e);
    case RECV: return on_recv(r, c, (const amount_t *)e);
    case CLOSE: return on_close(r, c);
    case ABORT: return on_abort(r, c);
    case RELEASE: return on_release(r, c);
    case RETRANSMIT: c->timer[T_RETRANSMIT] = 0; return on_retransmit(r, c);
    case PERSIST: c->timer[T_PERSIST] = 0; return on_persist(r, c);
    case ACK_DELAYED: c->timer[T_DELAYED_ACK] = 0; send_ack(r, c); return HW_DONE;
    case WAITED: emit_context(r, HW_DEL_CONTEXT, NULL, 0); return HW_DONE;
    case CHILD_READY:
    case CHILD_FAILED: break;
    }
    return HW_DONE;
}

static uint64_t on_listening(run_ctx *r, listener_t *l, connection_t *fresh, const event_t *e) {
    switch ((enum event)e->event) {
    case SEGMENT: return on_listener(r, l, fresh, (const segment_t *)e);
    case LISTEN: return REFUSE(98);
    case SEND: return REFUSE(107);
    case RECV: l->waiting = (uint32_t)less(l->waiting, ((const amount_t *)e)->len); return HW_DONE;
    case CLOSE:
    case ABORT:
        notify(r, NOTE_CLOSED, 0, NULL);
        emit_context(r, HW_DEL_CONTEXT, NULL, 0);
        return HW_DONE;
    case CHILD_READY:
        l->embryonic -= l->embryonic > 0;
        l->waiting++;
        notify(r, NOTE_ACCEPTED, 0, (const child_t *)e);
        return HW_DONE;
    case CHILD_FAILED: l->embryonic -= l->embryonic > 0; return HW_DONE;
    case CONNECT: case RELEASE: case RETRANSMIT: case PERSIST: case ACK_DELAYED: case WAITED: break;
    }
    return HW_DONE;
}

static uint64_t on_nobody(run_ctx *r, void *fresh, const event_t *e) {
    switch ((enum event)e->event) {
    case SEGMENT:
        if (!(((const segment_t *)e)->flags & RST))
            reset_sender(r, (const segment_t *)e);
        return HW_STOP;
    case CONNECT: return fresh ? on_connect(r, fresh, (const open_t *)e) : REFUSE(105);
    case LISTEN: {
        listener_t *l = fresh;
        if (!l)
            return REFUSE(105);
        r->on = ON_FRESH;
        l->backlog = ((const open_t *)e)->backlog;
        emit_context(r, HW_NEW_CONTEXT, &l->self, LISTENER);
        return HW_DONE;
    }
    case SEND: return REFUSE(107);
    case RECV: case CLOSE: case ABORT: case RELEASE: case RETRANSMIT: case PERSIST: case ACK_DELAYED: case WAITED:
    case CHILD_READY: case CHILD_FAILED: break;
    }
    return HW_DONE;
}
