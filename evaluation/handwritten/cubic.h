/* CUBIC (RFC 9438) after HyStart++ (RFC 9406): windows in bytes, times in milliseconds for cubes. */
#include "output.h"

enum { HYSTART_SAMPLES = 8, HYSTART_ROUNDS = 5, HYSTART_DIVISOR = 4, HYSTART_MIN = 4000000, HYSTART_MAX = 16000000 };

static inline uint64_t scaled(uint64_t a, uint64_t b, uint64_t c) { return c ? (uint64_t)((unsigned __int128)a * b / c) : 0; }

static uint64_t cube_root(uint64_t x) {
    uint64_t root = 0;
    for (int bit = 21; bit >= 0; bit--) {
        uint64_t next = root | 1ull << bit;
        if (next * next * next <= x)
            root = next;
    }
    return root;
}

/* 0.4 segments per cubic second. */
static uint64_t cubed(uint64_t distance, uint32_t smss) {
    uint64_t d = min_of(distance, 1200000);
    return scaled(d * d * d, 4 * (uint64_t)smss, 10000000000);
}

static uint64_t w_cubic(const cubic_t *q, uint64_t t, uint32_t smss) {
    return t < q->k ? less(q->w_max, cubed(q->k - t, smss)) : q->w_max + cubed(t - q->k, smss);
}

static void begin_epoch(const run_ctx *r, connection_t *c) {
    cubic_t *q = &c->cubic;
    q->epoch = q->grew_at = r->now;
    q->paused = false;
    q->w_est = c->cwnd * 1024;
    q->k = q->w_max > c->cwnd ? (uint32_t)cube_root(scaled(q->w_max - c->cwnd, 2500000000, c->smss)) : 0;
    q->w_max = (uint32_t)max_of(q->w_max, c->cwnd);
}

static void avoid_congestion(const run_ctx *r, connection_t *c, uint64_t acked, uint64_t flight) {
    cubic_t *q = &c->cubic;
    if (flight + c->smss <= c->cwnd) {
        q->paused = true;
        return;
    }
    if (q->epoch == 0)
        begin_epoch(r, c);
    if (q->paused)
        q->epoch += r->now - q->grew_at;
    q->paused = false;
    q->grew_at = r->now;
    uint64_t fair = q->w_est < (uint64_t)q->prior * 1024 ? 9 : 17;
    q->w_est += scaled(acked * 1024, c->smss * fair, c->cwnd * 17);
    uint64_t t = (r->now - q->epoch) / 1000000;
    if (w_cubic(q, t, c->smss) < q->w_est / 1024) {
        c->cwnd = max_of(c->cwnd, q->w_est / 1024);
        return;
    }
    uint64_t target = w_cubic(q, t + c->srtt / 1000000, c->smss);
    target = min_of(max_of(target, c->cwnd), c->cwnd + c->cwnd / 2);
    c->cwnd += scaled(target - c->cwnd, acked, c->cwnd);
}

/* A round of HyStart++: the time in which outstanding data is acknowledged; true if slow start is to end. */
static bool delay_grows(cubic_t *q, uint64_t acked, uint64_t flight, uint64_t rtt) {
    if (rtt > 0) {
        q->current = q->current == 0 ? rtt : min_of(q->current, rtt);
        q->samples = (uint8_t)(min_of(q->samples, 254) + 1);
    }
    bool sampled = q->samples >= HYSTART_SAMPLES;
    if (q->careful == 0 && sampled && q->last > 0) {
        if (q->current >= q->last + max_of(HYSTART_MIN, min_of(q->last / 8, HYSTART_MAX))) {
            q->baseline = q->current;
            q->careful = 1;
        }
    } else if (q->careful > 0 && sampled && q->current < q->baseline)
        q->careful = 0;
    if (q->left > acked) {
        q->left -= (uint32_t)acked;
        return false;
    }
    q->left = (uint32_t)less(flight, acked);
    q->last = q->current;
    q->current = 0;
    q->samples = 0;
    return q->careful > 0 && ++q->careful > HYSTART_ROUNDS;
}

static inline void grow(const run_ctx *r, connection_t *c, uint64_t acked, uint64_t flight, uint64_t rtt) {
    if (c->cwnd >= c->ssthresh) {
        avoid_congestion(r, c, acked, flight);
        return;
    }
    if (flight * 2 < c->cwnd)
        return;
    cubic_t *q = &c->cubic;
    if (!q->over && delay_grows(q, acked, flight, rtt))
        c->ssthresh = c->cwnd;
    uint64_t more = min_of(acked, r->param[SLOW_START_LIMIT] * c->smss);
    more = q->careful > 0 ? more / HYSTART_DIVISOR : more;
    c->cwnd = max_of(min_of(c->cwnd + more, c->ssthresh), c->cwnd);
}

static void shrink(connection_t *c, uint64_t flight) {
    cubic_t *q = &c->cubic;
    q->over = true;
    q->careful = 0;
    q->epoch = 0;
    q->prior = (uint32_t)c->cwnd;
    q->w_max = (uint32_t)(c->cwnd < q->w_max ? c->cwnd * 17 / 20 : c->cwnd);
    c->ssthresh = max_of(flight * 7 / 10, 2 * (uint64_t)c->smss);
}
