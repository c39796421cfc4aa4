/* Times of transmission: runs of numbers in [snd_una, snd_nxt), each with the times of its first and its last
 * transmission. Data sent within an eighth of a round trip makes one run. */
#ifndef HANDWRITTEN_SENT_H
#define HANDWRITTEN_SENT_H

#include "records.h"

enum { RUN_SPAN = 50000000 };

/* Makes room for one more run: merges the two neighbours nearest in time. */
static void make_room(connection_t *c) {
    uint32_t best = 0;
    for (uint32_t i = 1; i + 1 < c->sents; i++)
        if (c->sent[i + 1].at - c->sent[i].began < c->sent[best + 1].at - c->sent[best].began)
            best = i;
    c->sent[best + 1].began = c->sent[best].began;
    c->sent[best + 1].again |= c->sent[best].again;
    memmove(&c->sent[best], &c->sent[best + 1], (--c->sents - best) * sizeof c->sent[0]);
}

static inline void note_sent(const run_ctx *r, connection_t *c, uint64_t end, bool again) {
    if (c->sents > 0) {
        sent_t *last = &c->sent[c->sents - 1];
        if (last->again == again && r->now - last->began <= min_of(c->srtt / 8, RUN_SPAN)) {
            last->end = end;
            last->at = r->now;
            return;
        }
    }
    if (c->sents == SENTS)
        make_room(c);
    c->sent[c->sents++] = (sent_t){.end = end, .began = r->now, .at = r->now, .again = again};
}

/* All up to snd_una is acknowledged; returns the round-trip time of the latest data sent once, or 0. */
static inline uint64_t retire(const run_ctx *r, connection_t *c, uint64_t una) {
    uint64_t rtt = 0;
    uint32_t gone = 0;
    for (; gone < c->sents && una < c->snd_una; gone++) {
        if (!c->sent[gone].again)
            rtt = r->now - c->sent[gone].began;
        una = c->sent[gone].end;
        if (una > c->snd_una)
            break;
    }
    if (gone > 0) {
        c->sents -= gone;
        memmove(&c->sent[0], &c->sent[gone], c->sents * sizeof c->sent[0]);
    }
    return rtt;
}

#endif
