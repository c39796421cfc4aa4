/* The cost of the border between program and engine itself: the chains of `text.h` for an acknowledgement and for a
 * data segment, on a small engine. DIRECT 0 writes records and executes them later; DIRECT 1 uses calls that act at
 * once and that the compiler can inline. Compiled twice. */
#include "tcp.h"

/* The parts of an engine for these chains: timers, a sending and a receiving unit, a queue of packets. */
typedef struct { packet_rec record; image_t image; } pending_t;
enum { PENDING = 64 };
typedef struct {
    uint64_t deadline[TIMERS], retired, received, flushed, signals;
    uint32_t armed, packets;
    pending_t pending[PENDING];
} engine_t;

static inline void engine_timer(engine_t *engine, uint32_t timer, uint64_t deadline, bool start) {
    engine->deadline[timer] = deadline;
    engine->armed = start ? engine->armed | 1u << timer : engine->armed & ~(1u << timer);
}

static inline void engine_unit(engine_t *engine, uint8_t kind, uint64_t len, uint64_t off) {
    if (kind == HW_FLUSH_TX)
        engine->retired += len;
    else if (kind == HW_ADD_RX)
        engine->received = off + len;
    else if (kind == HW_FLUSH_RX)
        engine->flushed += len;
}

static inline pending_t *engine_slot(engine_t *engine) { return &engine->pending[engine->packets++ % PENDING]; }

#if DIRECT
#define HANDWRITTEN_RECORDS_H /* in place of records.h */
/* `at` points to the engine. */
static inline engine_t *engine_of(run_ctx *r) { return (engine_t *)r->at; }
static inline void emit_unit(run_ctx *r, uint8_t kind, const id_t_ *uid, uint64_t addr, uint64_t len, uint64_t off) {
    (void)uid, (void)addr;
    engine_unit(engine_of(r), kind, len, off);
}
static inline void start_timer(run_ctx *r, connection_t *c, enum timer timer, uint64_t span) {
    engine_timer(engine_of(r), timer, r->now + span, true);
    c->timer[timer] = 1;
}
static inline void stop_timer(run_ctx *r, connection_t *c, enum timer timer) {
    if (!c->timer[timer])
        return;
    engine_timer(engine_of(r), timer, 0, false);
    c->timer[timer] = 0;
}
/* These chains do not reach the next three. */
static inline void emit_context(run_ctx *r, uint8_t kind, const id_t_ *id, uint32_t context) {
    (void)kind, (void)id, (void)context;
    engine_of(r)->signals++;
}
static inline void notify(run_ctx *r, uint32_t code, uint32_t error, const child_t *child) {
    (void)code, (void)error, (void)child;
    engine_of(r)->signals++;
}
static inline void raise_child(run_ctx *r, enum event event, const connection_t *c) {
    (void)event, (void)c;
    engine_of(r)->signals++;
}
static inline void signal(run_ctx *r, enum signal which, uint64_t value) {
    (void)which, (void)value;
    engine_of(r)->signals++;
}
static inline image_t *emit_packet(run_ctx *r, const ip_t *from, const ip_t *to) {
    pending_t *slot = engine_slot(engine_of(r));
    memset(slot, 0, sizeof *slot);
    slot->record.net.src_ip = *from;
    slot->record.net.dst_ip = *to;
    slot->record.bytes = sizeof(image_t);
    return &slot->image;
}
static inline void enter(run_ctx *r, connection_t *c, enum state next) {
    signal(r, STATE_CHANGED, next);
    c->state = next;
}
#define RUN abi_cost_direct
#else
#define RUN abi_cost_records
#endif

#include "text.h"

#if !DIRECT
/* Executes records, in order. */
static void execute(engine_t *engine, const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        const record_t *record = (const record_t *)at;
        switch (record->kind) {
        case HW_FLUSH_TX: case HW_ADD_RX: case HW_FLUSH_RX: {
            const unit_rec *unit = (const unit_rec *)record;
            engine_unit(engine, record->kind, unit->len, unit->off);
            break;
        }
        case HW_TIMER_START: case HW_TIMER_STOP: {
            const timer_rec *timer = (const timer_rec *)record;
            engine_timer(engine, timer->timer, timer->deadline, record->kind == HW_TIMER_START);
            break;
        }
        case HW_PACKET: memcpy(engine_slot(engine), record, sizeof(pending_t)); break;
        default: engine->signals++;
        }
        at += record->len;
    }
}
#endif

/* An open connection in the middle of a stream. */
static connection_t open_connection(void) {
    connection_t c = {.state = ESTABLISHED, .use_timestamps = 1, .smss = 1448, .rmss = 1460, .rcv_scale = 4, .snd_scale = 7};
    c.iss = c.irs = (uint64_t)1 << 32;
    c.snd_una = c.iss + 1;
    c.snd_nxt = c.snd_max = c.snd_una + 10 * 1448;
    c.snd_end = c.snd_una + ((uint64_t)1 << 40);
    c.cwnd = c.ssthresh = 10 * 1448;
    c.snd_wnd = c.max_wnd = 1 << 20;
    c.rcv_nxt = c.snd_wl1 = c.irs + 1;
    c.rcv_edge = c.rcv_nxt + (1 << 20);
    c.rto = 200000000;
    c.srtt = 1000000;
    c.self.bytes[39] = 36;
    return c;
}

/* Runs `count` events of one kind: acknowledgements of two segments, each of which releases two more; or data segments,
 * where every second one is acknowledged. Returns a value that depends on all of it. */
uint64_t RUN(const uint64_t *params, uint32_t data, uint64_t count) {
    static _Thread_local engine_t engine;
    static _Thread_local uint64_t buffer[512];
    memset(&engine, 0, sizeof engine);
    connection_t c = open_connection();
    segment_t e = {.flags = ACK, .window = 8192, .segs = 1, .has_timestamps = 1};
    for (uint64_t i = 0; i < count; i++) {
        run_ctx r = {.param = params, .now = 1000000 * (i + 1)};
        e.len = data ? 1448 : 0;
        e.seq = (uint32_t)c.rcv_nxt;
        e.ack = (uint32_t)(data ? c.snd_una : c.snd_una + 2 * 1448);
        e.ts_value = (uint32_t)i;
        c.unread = 0;
        /* For data events, there is no more data to send. */
        if (data)
            c.snd_end = c.snd_nxt;
#if DIRECT
        r.at = (uint8_t *)&engine;
        on_segment(&r, &c, &e);
#else
        r.at = (uint8_t *)buffer;
        on_segment(&r, &c, &e);
        execute(&engine, (const uint8_t *)buffer, r.at);
#endif
        __asm__ volatile("" ::: "memory");
    }
    (void)buffer;
    return engine.packets + engine.retired + engine.received + engine.flushed + engine.signals + engine.armed + c.rcv_nxt;
}
