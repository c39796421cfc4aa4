/* The program side of handwritten TCP, with the same table as generated programs: evaluation/bench/README.md lists
 * its features and omissions. It is one unit, so that the compiler sees as much as of a generated program. */
#include "events.h"
#include "wire.h"

static inline bool broken(const connection_t *c) {
    return c->snd_una > c->snd_nxt || c->snd_nxt > c->snd_max || c->snd_max > c->snd_end + 1 || c->smss == 0;
}

uint64_t handwritten_react(const uint64_t *params, uint8_t *event, const memory_t *memory, records_t *records) {
    const event_t *e = (const event_t *)event;
    run_ctx r = {.param = params, .now = e->now, .rand = e->rand, .at = records->at, .on = ON_KEYED};
    uint64_t outcome;
    if (memory->keyed_type == CONNECTION + 1)
        outcome = on_connection(&r, (connection_t *)memory->keyed, e);
    else if (memory->keyed_type == LISTENER + 1)
        outcome = on_listening(&r, (listener_t *)memory->keyed, (connection_t *)memory->fresh, e);
    else
        outcome = on_nobody(&r, memory->fresh, e);
    records->at = r.at;
    /* The invariants of transports/tcp. */
    const connection_t *c = (const connection_t *)memory->keyed;
    if (memory->keyed_type == CONNECTION + 1 && __builtin_expect(broken(c), 0))
        return HW_OUTCOME(HW_ASSERT, 0);
    return outcome;
}

uint32_t handwritten_parse(const uint64_t *params, uint32_t parser, const packet_t *packet, const void *icmp, const op_t *op,
                           events_t *out) {
    (void)params;
    (void)icmp;
    switch ((enum parser)parser) {
    case FROM_IP: return parse_segment(packet, out);
    case FROM_LISTEN: parse_open(op, true, out); return 0;
    case FROM_CONNECT: parse_open(op, false, out); return 0;
    case FROM_SEND: parse_amount(op, SEND, out); return 0;
    case FROM_RECV: parse_amount(op, RECV, out); return 0;
    case FROM_CLOSE: parse_amount(op, CLOSE, out); return 0;
    case FROM_ABORT: parse_amount(op, ABORT, out); return 0;
    case FROM_RELEASE: parse_amount(op, RELEASE, out); return 0;
    }
    return HW_LENGTH;
}

built_t handwritten_build(const uint64_t *params, const packet_rec *rec, uint8_t *image, uint32_t index, uint32_t count,
                          uint32_t len, uint8_t *header, uint32_t room) {
    (void)params;
    if (room < 60)
        return (built_t){0};
    return build_segment(rec, (image_t *)image, index, count, len, header);
}

/* A later segment makes an earlier pure ACK superfluous; duplicate ACKs survive. */
uint32_t handwritten_coalesce(const uint64_t *params, uint32_t blueprint, const uint8_t *earlier, const uint8_t *later) {
    (void)params;
    (void)blueprint;
    const image_t *a = (const image_t *)earlier, *b = (const image_t *)later;
    return a->data.len == 0 && !(a->flags & (SYN | FIN | RST)) && (b->flags & (ACK | RST)) == ACK
           && (int32_t)(b->ack - a->ack) > 0;
}

/* Sizes, for the tables on the other side. */
const uint32_t handwritten_sizes[] = {
    sizeof(connection_t), sizeof(listener_t), sizeof(segment_t), sizeof(open_t), sizeof(amount_t), sizeof(child_t),
    sizeof(event_t), sizeof(image_t), offsetof(connection_t, timer),
    offsetof(connection_t, local_ip), offsetof(connection_t, local_port), offsetof(connection_t, remote_ip),
    offsetof(connection_t, remote_port),
};
