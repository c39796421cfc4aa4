/* Segments on the wire: parsing and building (RFC 9293, 3.1; RFC 7323). */
#include "tcp.h"

static inline uint16_t get16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint32_t get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline void put16(uint8_t *p, uint16_t v) { v = __builtin_bswap16(v); memcpy(p, &v, 2); }
static inline void put32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }

static uint64_t sum(uint64_t total, const uint8_t *p, uint64_t len) {
    for (; len >= 4; p += 4, len -= 4) {
        uint32_t word;
        memcpy(&word, p, 4);
        total += word;
    }
    uint32_t last = 0;
    memcpy(&last, p, len);
    return total + last;
}

static uint16_t fold(uint64_t total) {
    while (total >> 16)
        total = (total & 0xffff) + (total >> 16);
    return (uint16_t)total;
}

/* The pseudo-header's sum, in machine byte order like `sum` (RFC 1071, 2 B). */
static uint64_t pseudo(const net_t *net, uint32_t len) {
    uint8_t rest[8] = {0};
    put32(rest, len);
    rest[7] = 6;
    uint64_t total = sum(0, rest, 8);
    if (net->version == 6 || !is_v4(&net->src_ip)) {
        total = sum(total, net->src_ip.bytes, 16);
        return sum(total, net->dst_ip.bytes, 16);
    }
    total = sum(total, net->src_ip.bytes + 12, 4);
    return sum(total, net->dst_ip.bytes + 12, 4);
}

static inline void push(id_t_ *id, const void *bytes, unsigned len) {
    memcpy(id->bytes + id->bytes[39], bytes, len);
    id->bytes[39] = (uint8_t)(id->bytes[39] + len);
}

static inline void connection_id(id_t_ *id, const ip_t *local, const ip_t *remote, uint16_t local_port, uint16_t remote_port) {
    uint16_t ports[2] = {__builtin_bswap16(local_port), __builtin_bswap16(remote_port)};
    memcpy(id->bytes, local, 16);
    memcpy(id->bytes + 16, remote, 16);
    memcpy(id->bytes + 32, ports, 4);
    id->bytes[39] = 36;
}

static inline void listener_id(id_t_ *id, const ip_t *local, uint16_t port) {
    uint16_t wire = __builtin_bswap16(port);
    if (local)
        push(id, local, 16);
    push(id, &wire, 2);
}

static inline void read_options(segment_t *e, const uint8_t *p, const uint8_t *end) {
    /* The options of almost every segment: two no-operations and the timestamps. */
    if (end - p == 12 && get32(p) == 0x0101080a) {
        e->has_timestamps = 1;
        e->ts_value = get32(p + 4);
        e->ts_echo = get32(p + 8);
        return;
    }
    while (p < end && *p != 0) {
        if (*p == 1) {
            p++;
            continue;
        }
        if (end - p < 2 || p[1] < 2 || p[1] > end - p)
            return;
        if (p[0] == 4 && p[1] == 2)
            e->sack_permitted = (e->flags & SYN) != 0;
        else if (p[0] == 5)
            for (const uint8_t *b = p + 2; b + 8 <= p + p[1] && e->sacks < BLOCKS; b += 8)
                e->sack[e->sacks++] = (block_t){get32(b), get32(b + 4)};
        else if (p[0] == 2 && p[1] == 4) {
            e->has_mss = 1;
            e->mss = get16(p + 2);
        } else if (p[0] == 3 && p[1] == 3) {
            e->has_scale = 1;
            e->scale = p[2] < 14 ? p[2] : 14;
        } else if (p[0] == 8 && p[1] == 10) {
            e->has_timestamps = 1;
            e->ts_value = get32(p + 2);
            e->ts_echo = get32(p + 6);
        }
        p += p[1];
    }
}

static uint32_t parse_segment(const packet_t *p, events_t *out) {
    const uint8_t *h = p->head;
    if (p->head_len < 20)
        return HW_TRUNCATED;
    uint64_t header = (uint64_t)(h[12] >> 4) * 4, total = p->head_len + p->tail_len + p->merged;
    if (header < 20 || header > p->head_len)
        return HW_LENGTH;
    if (p->verify) {
        /* A head of odd length before a tail does not occur here: the ring has no tails. */
        uint64_t s = pseudo(p->net, (uint32_t)total);
        s = sum(sum(s, h, p->head_len), p->tail, p->tail_len);
        if (fold(s) != 0xffff)
            return HW_CHECKSUM;
    }
    segment_t *e = (segment_t *)out->at;
    memset(e, 0, sizeof *e);
    e->header.event = SEGMENT;
    e->header.ids = 3;
    e->local_ip = p->net->dst_ip;
    e->remote_ip = p->net->src_ip;
    e->remote_port = get16(h);
    e->local_port = get16(h + 2);
    e->seq = get32(h + 4);
    e->ack = get32(h + 8);
    e->flags = h[13];
    e->window = get16(h + 14);
    e->segs = p->net->segs;
    e->addr = p->addr + header;
    e->len = (uint32_t)(total - header);
    e->path_mtu = p->net->path_mtu;
    e->marked = p->net->ecn == 3;
    read_options(e, h + 20, h + header);
    connection_id(&e->header.id[0], &e->local_ip, &e->remote_ip, e->local_port, e->remote_port);
    listener_id(&e->header.id[1], &e->local_ip, e->local_port);
    listener_id(&e->header.id[2], NULL, e->local_port);
    out->at += sizeof *e;
    out->count = 1;
    return 0;
}

static void parse_open(const op_t *op, bool listens, events_t *out) {
    static const ip_t any6, any4 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}};
    open_t *e = (open_t *)out->at;
    memset(e, 0, sizeof *e);
    e->header.event = listens ? LISTEN : CONNECT;
    e->header.ids = 1;
    e->local_ip = op->local_ip;
    e->remote_ip = op->remote_ip;
    e->local_port = op->local_port;
    e->remote_port = op->remote_port;
    e->path_mtu = op->path_mtu;
    e->backlog = op->backlog > 0 ? op->backlog : 1;
    if (listens) {
        bool any = !memcmp(&op->local_ip, &any6, 16) || !memcmp(&op->local_ip, &any4, 16);
        listener_id(&e->header.id[0], any ? NULL : &op->local_ip, op->local_port);
    } else
        connection_id(&e->header.id[0], &op->local_ip, &op->remote_ip, op->local_port, op->remote_port);
    out->at += sizeof *e;
    out->count = 1;
}

static void parse_amount(const op_t *op, enum event event, events_t *out) {
    amount_t *e = (amount_t *)out->at;
    memset(e, 0, sizeof *e);
    e->header.event = (uint16_t)event;
    e->addr = op->addr;
    e->len = op->len;
    out->at += sizeof *e;
    out->count = 1;
}

/* In the order, and with the padding, of transports/tcp. */
static uint8_t *put_options(uint8_t *p, const image_t *h) {
    if (h->has_mss) {
        put32(p, 0x02040000u | h->mss);
        p += 4;
    }
    if (h->sack_permitted) {
        put16(p, 0x0402);
        p += 2;
    }
    if (h->has_timestamps) {
        if (!h->sack_permitted) {
            put16(p, 0x0101);
            p += 2;
        }
        put16(p, 0x080a);
        put32(p + 2, h->ts_value);
        put32(p + 6, h->ts_echo);
        p += 10;
    } else if (h->sack_permitted) {
        put16(p, 0x0101);
        p += 2;
    }
    if (h->has_scale) {
        put32(p, 0x01030300u | h->scale);
        p += 4;
    }
    if (h->sacks) {
        put32(p, 0x01010500u | (2 + 8u * h->sacks));
        p += 4;
        for (unsigned i = 0; i < h->sacks; i++, p += 8) {
            put32(p, h->sack[i].from);
            put32(p + 4, h->sack[i].to);
        }
    }
    return p;
}

static built_t build_segment(const packet_rec *rec, image_t *h, uint32_t index, uint32_t count, uint32_t len, uint8_t *out) {
    bool last = index + 1 == count;
    uint8_t flags = h->flags;
    if (!last)
        flags &= (uint8_t)~FIN;
    if (index > 0)
        flags &= (uint8_t)~CWR;
    if (last && h->push)
        flags |= PSH;
    put16(out, h->source_port);
    put16(out + 2, h->destination_port);
    put32(out + 4, h->seq);
    put32(out + 8, h->ack);
    put16(out + 14, h->window);
    put32(out + 16, 0);
    uint8_t *end = out + 20;
    if (h->has_timestamps && !(h->has_mss | h->has_scale | h->sacks)) { /* as in almost every segment */
        put32(end, 0x0101080a);
        put32(end + 4, h->ts_value);
        put32(end + 8, h->ts_echo);
        end += 12;
    } else
        end = put_options(end, h);
    uint32_t header = (uint32_t)(end - out);
    out[12] = (uint8_t)(header / 4 << 4);
    out[13] = flags;
    uint16_t partial = fold(pseudo(&rec->net, header + len));
    memcpy(out + 16, &partial, 2);
    h->seq += len;
    return (built_t){.len = header, .csum_at = 16, .has_csum = 1};
}
