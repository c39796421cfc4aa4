/* Appending instruction records. Room for a chain's worst case was measured before it began. */
#ifndef HANDWRITTEN_RECORDS_H
#define HANDWRITTEN_RECORDS_H

#include "tcp.h"

static inline void *append(run_ctx *r, uint8_t kind, uint32_t len) {
    record_t *record = (record_t *)r->at;
    *record = (record_t){.kind = kind, .on = r->on, .len = len};
    r->at += len;
    return record;
}

static inline void emit_unit(run_ctx *r, uint8_t kind, const id_t_ *uid, uint64_t addr, uint64_t len, uint64_t off) {
    unit_rec *rec = append(r, kind, sizeof *rec);
    rec->uid = *uid;
    rec->addr = addr;
    rec->len = len;
    rec->off = off;
}

static inline void start_timer(run_ctx *r, connection_t *c, enum timer timer, uint64_t span) {
    timer_rec *rec = append(r, HW_TIMER_START, sizeof *rec);
    rec->deadline = r->now + span;
    rec->timer = timer;
    rec->pad = 0;
    c->timer[timer] = 1;
}

static inline void stop_timer(run_ctx *r, connection_t *c, enum timer timer) {
    if (!c->timer[timer])
        return;
    timer_rec *rec = append(r, HW_TIMER_STOP, sizeof *rec);
    rec->deadline = 0;
    rec->timer = timer;
    rec->pad = 0;
    c->timer[timer] = 0;
}

static inline void emit_context(run_ctx *r, uint8_t kind, const id_t_ *id, uint32_t context) {
    context_rec *rec = append(r, kind, sizeof *rec);
    if (id)
        rec->id = *id;
    else
        memset(&rec->id, 0, sizeof rec->id);
    rec->context = context;
    rec->pad = 0;
}

static inline void notify(run_ctx *r, uint32_t code, uint32_t error, const child_t *child) {
    notify_rec *rec = append(r, HW_NOTIFY, sizeof *rec);
    memset((uint8_t *)rec + sizeof rec->header, 0, sizeof *rec - sizeof rec->header);
    if (child)
        rec->id = child->who;
    rec->code = code;
    rec->error = error;
}

static inline void raise_child(run_ctx *r, enum event event, const connection_t *c) {
    raise_rec *rec = append(r, HW_RAISE, sizeof *rec + sizeof(child_t));
    rec->header.on = ON_TARGET;
    rec->target = c->parent;
    rec->event = event;
    rec->bytes = sizeof(child_t);
    child_t *child = (child_t *)(rec + 1);
    memset(child, 0, sizeof *child);
    child->who = c->self;
}

static inline void signal(run_ctx *r, enum signal which, uint64_t value) {
    signal_rec *rec = append(r, HW_SIGNAL, sizeof *rec);
    rec->head.signal = which;
    rec->head.bytes = 8;
    rec->value = value;
}

/* A packet instruction; the caller fills in the image. */
static inline image_t *emit_packet(run_ctx *r, const ip_t *from, const ip_t *to) {
    packet_rec *rec = append(r, HW_PACKET, sizeof *rec + sizeof(image_t));
    memset((uint8_t *)rec + sizeof rec->header, 0, sizeof *rec - sizeof rec->header + sizeof(image_t));
    rec->net.src_ip = *from;
    rec->net.dst_ip = *to;
    rec->bytes = sizeof(image_t);
    rec->data_at = 0;
    return (image_t *)(rec + 1);
}

static inline void enter(run_ctx *r, connection_t *c, enum state next) {
    signal(r, STATE_CHANGED, next);
    c->state = next;
}

#endif
