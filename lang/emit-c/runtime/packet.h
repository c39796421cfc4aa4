/* Helpers for generated parsers and header builders: cursors over packets, bits in wire order, the
 * Internet checksum and CRC-32.
 *
 * The interpreter defines the meaning (lang/interp: extract, options, build, bits, checksum), byte for
 * byte. Reads stay within the existing bytes, and writes within the room: every length is compared
 * before its use. */
#ifndef HW_PACKET_H
#define HW_PACKET_H

/* The position of a packet in its `pkt_gen`: its index from 0, their number, its payload. */
typedef struct hw_segment {
    uint32_t index;
    uint32_t count;
    uint32_t len;
} hw_segment;

/* Quantities of the packet being built or parsed, in bytes. */
typedef struct hw_facts {
    uint64_t total;
    uint64_t header;
    uint64_t data;
} hw_facts;

static inline uint64_t hw_min(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t hw_left(uint64_t from, uint64_t to) {
    return from < to ? to - from : 0;
}

static inline uint64_t hw_round_up(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

HW_PART hw_cursor hw_cursor_over(const hw_packet *packet) {
    hw_cursor cursor = {packet, 0, packet ? packet->head_len + packet->tail_len + packet->merged : 0};
    return cursor;
}

/* ---- Numbers in wire order ---- */

/* The `count` bytes at `p`, at most 8, most significant first. For the common constants, the bytes are
 * written out, because compilers turn them into one load. */
static inline uint64_t hw_wire_get(const uint8_t *p, unsigned count) {
    switch (count) {
    case 1:
        return p[0];
    case 2:
        return (uint16_t)(p[0] << 8 | p[1]);
    case 4:
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    default:
        break;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < 8 && i < count; i++)
        value = value << 8 | p[i];
    return value;
}

/* A number of 16, 32 or 64 bits with its bytes in the opposite order. */
static inline uint64_t hw_swapped(uint64_t value, unsigned bits) {
    return __builtin_bswap64(value) >> (64 - bits);
}

/* Writes the low `count` bytes of a number, at most 8, most significant first. */
static inline void hw_wire_put(uint8_t *p, uint64_t value, unsigned count) {
    switch (count) {
    case 1:
        p[0] = (uint8_t)value;
        return;
    case 2:
        p[0] = (uint8_t)(value >> 8);
        p[1] = (uint8_t)value;
        return;
    case 4:
        p[0] = (uint8_t)(value >> 24);
        p[1] = (uint8_t)(value >> 16);
        p[2] = (uint8_t)(value >> 8);
        p[3] = (uint8_t)value;
        return;
    default:
        break;
    }
    for (unsigned i = 0; i < count; i++)
        p[i] = (uint8_t)(value >> 8 * (count - 1 - i));
}

/* The `count` bits, at most 64, that begin at bit `at` of `p`. */
static inline uint64_t hw_wire_bits(const uint8_t *p, unsigned at, unsigned count) {
    uint64_t value = 0;
    while (HW_MORE(count > 0)) {
        unsigned open = 8 - at % 8;
        unsigned n = count < open ? count : open;
        value = value << n | (uint8_t)(p[at / 8] << (8 - open)) >> (8 - n);
        at += n;
        count -= n;
    }
    return value;
}

/* Writes the low `count` bits of a number, at most 64, from bit `at` of `p` on. The later bits of the
 * last byte become zero. */
static inline void hw_wire_put_bits(uint8_t *p, unsigned at, uint64_t value, unsigned count) {
    while (HW_MORE(count > 0)) {
        unsigned open = 8 - at % 8;
        unsigned n = count < open ? count : open;
        uint8_t part = (uint8_t)(value >> (count - n)) & (uint8_t)(0xff >> (8 - n));
        uint8_t kept = open == 8 ? 0 : p[at / 8];
        p[at / 8] = (uint8_t)(kept | part << (open - n));
        at += n;
        count -= n;
    }
}

#define HW_EACH_BYTE UINT64_C(0x0101010101010101)

/* Eight booleans, where any byte but 0 counts as true, as the bits of a byte, the first one highest. */
static inline uint8_t hw_flags(const hw_bool *first) {
    uint64_t bytes;
    memcpy(&bytes, first, 8);
    const uint64_t low = HW_EACH_BYTE * 0x7f;
    bytes = (((bytes & low) + low) | bytes) >> 7 & HW_EACH_BYTE;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    /* Byte i moves to bit 63 - i; no two products meet. */
    return (uint8_t)(bytes * UINT64_C(0x8040201008040201) >> 56);
}

/* The reverse. */
static inline void hw_set_flags(hw_bool *first, uint8_t flags) {
    uint64_t bytes = flags * HW_EACH_BYTE & UINT64_C(0x0102040810204080);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    bytes = (bytes + HW_EACH_BYTE * 0x7f) >> 7 & HW_EACH_BYTE;
    memcpy(first, &bytes, 8);
}

/* Bytes of a variable-length integer, which has at most 62 bits (RFC 9000, section 16). */
static inline uint64_t hw_varint_bytes(uint64_t value) {
    return hw_varint_len(value & UINT64_MAX >> 2);
}

/* Reads a variable-length integer at `*at` and advances it; false if the bytes end too early. */
static inline bool hw_varint_get(const uint8_t *p, uint64_t len, uint64_t *at, uint64_t *value) {
    if (*at >= len)
        return false;
    unsigned bytes = 1u << (p[*at] >> 6);
    if (len - *at < bytes)
        return false;
    *value = hw_wire_get(p + *at, bytes) & UINT64_MAX >> (66 - 8 * bytes);
    *at += bytes;
    HW_STAY(*at);
    return true;
}

/* ---- Writing a header ---- */

/* A write beyond the room only counts its bytes. */
typedef struct hw_writer {
    uint8_t *bytes;
    uint64_t room;
    uint64_t at;
} hw_writer;

/* Skips the next `count` bytes and returns their place; null if there is no room for them. */
static inline uint8_t *hw_next(hw_writer *out, uint64_t count) {
    uint64_t at = out->at;
    out->at += count;
    return at <= out->room && count <= out->room - at ? out->bytes + at : HW_NONE;
}

/* A variable-length integer (RFC 9000, section 16) in its shortest form. */
static inline void hw_varint_put(hw_writer *out, uint64_t value) {
    unsigned bytes = (unsigned)hw_varint_bytes(value);
    uint64_t tag = bytes == 8 ? 3 : bytes / 2;
    uint8_t *p = hw_next(out, bytes);
    if (p)
        hw_wire_put(p, (value & UINT64_MAX >> 2) | tag << (8 * bytes - 2), bytes);
    HW_STAY(out->at);
}

/* Zeros up to the given position. */
static inline void hw_zeros_to(hw_writer *out, uint64_t position) {
    while (HW_MORE(out->at < position)) {
        uint8_t *p = hw_next(out, 1);
        if (p)
            *p = 0;
        HW_STAY(out->at);
    }
}

/* Overwrites earlier bytes: a checksum. */
static inline void hw_patch(hw_writer *out, uint64_t at, const void *bytes, uint64_t count) {
    if (at <= out->room && count <= out->room - at)
        memcpy(out->bytes + at, bytes, count);
}

/* ---- Events ---- */

/* Returns whether a parser has produced its maximum number of events. */
static inline bool hw_events_full(const hw_run *run) {
    const hw_events *out = HW_AT(run->packet->events);
    return out->count >= out->capacity;
}

/* Appends an event with its number; false if the program declares no more. */
static inline bool hw_push_event(const hw_run *run, const void *event, uint64_t len, uint16_t number) {
    hw_events *out = HW_AT(run->packet->events);
    if (hw_events_full(run) || (uint64_t)(out->end - out->at) < len)
        return false;
    uint8_t *at = HW_AT(out->at);
    memcpy(at, event, len);
    ((hw_event *)at)->event = number;
    out->at += len;
    out->count++;
    return true;
}

/* The place of the next event, for a parser that produces no other: the event is built in place, over
 * arbitrary former bytes. NULL if there is no room for it. */
static inline void *hw_event_room(const hw_run *run, uint64_t len) {
    const hw_events *out = HW_AT(run->packet->events);
    if (hw_events_full(run) || (uint64_t)(out->end - out->at) < len)
        return HW_NONE;
    return HW_AT(out->at);
}

/* Adds the event that was built in place. */
static inline void hw_keep_event(const hw_run *run, hw_event *event, uint64_t len, uint16_t number) {
    hw_events *out = HW_AT(run->packet->events);
    event->event = number;
    out->at += len;
    out->count++;
}

/* The reason why a parser with this outcome produced no events; 0: it produced them. A false assertion and a
 * refusal produce none, either. */
static inline uint32_t hw_parse_error(uint64_t outcome) {
    switch ((uint32_t)outcome) {
    case HW_DONE:
    case HW_STOP:
        return 0;
    case HW_DROPPED:
        return (uint32_t)(outcome >> 32);
    default:
        return HW_FRAME;
    }
}

/* An extracted packet's payload. */
HW_PART hw_data hw_payload(const hw_packet *packet, uint64_t at, uint64_t len) {
    hw_data data = {.addr = packet->addr == 0 ? 0 : packet->addr + at, .len = (uint32_t)len};
    return data;
}

/* ---- The Internet checksum (RFC 1071) ---- */

/* A running one's complement sum over pieces of any length, in native byte order: the sum does not
 * depend on byte order (RFC 1071, 2 B). */
typedef struct hw_sum {
    uint64_t total;
    bool odd;
} hw_sum;

/* Folds the carries back in, down to 16 bits. */
static inline uint16_t hw_sum_fold(uint64_t sum) {
    while (HW_MORE(sum >> 16)) {
        sum = (sum & 0xffff) + (sum >> 16);
        HW_STAY(sum);
    }
    return (uint16_t)sum;
}

/* Sums 16-bit words, 32 bytes a round in four lanes: no carry is lost below 16 GiB. */
HW_APART uint64_t hw_sum_words_at(uint64_t number, uint64_t len) {
    const uint8_t *p = HW_AT((const uint8_t *)number);
    uint64_t lanes[4] = {0, 0, 0, 0};
    for (; HW_MORE(len >= 32); p += 32, len -= 32, HW_STAY(len)) {
        for (unsigned i = 0; i < 4; i++) {
            uint64_t word;
            memcpy(&word, p + 8 * i, 8);
            lanes[i] += (word & 0xffffffff) + (word >> 32);
            HW_STAY(lanes[i]);
        }
    }
    uint64_t sum = lanes[0] + lanes[1] + lanes[2] + lanes[3];
    for (; HW_MORE(len >= 2); p += 2, len -= 2, HW_STAY(len)) {
        uint16_t word;
        memcpy(&word, p, 2);
        sum += word;
        HW_STAY(sum);
    }
    if (len) {
        /* A final odd byte is padded with a zero (RFC 1071, 4.1). */
        uint8_t pair[2] = {*p, 0};
        uint16_t word;
        memcpy(&word, pair, 2);
        sum += word;
    }
    return sum;
}

HW_INLINE uint64_t hw_sum_words(const uint8_t *p, uint64_t len) {
    return hw_sum_words_at(HW_NUMBER(p), len);
}

/* Adds bytes. A piece after an odd number of bytes counts with its bytes swapped. */
static inline void hw_sum_add(hw_sum *sum, const uint8_t *p, uint64_t len) {
    uint16_t piece = hw_sum_fold(hw_sum_words(p, len));
    sum->total += sum->odd ? (uint16_t)(piece << 8 | piece >> 8) : piece;
    sum->odd ^= len % 2 == 1;
}

/* Returns whether bytes that include their checksum are correct. */
static inline bool hw_sum_valid(hw_sum sum) {
    return hw_sum_fold(sum.total) == 0xffff;
}

/* The sum of the pseudo-header: RFC 9293, 3.1 for IPv4, RFC 8200, 8.1 for IPv6. `len` is the length
 * of the transport packet. */
HW_PART hw_sum hw_sum_pseudo(const hw_net *net, uint8_t protocol, uint64_t len) {
    static const uint8_t mapped[4] = {0, 0, 0xff, 0xff}; /* before an IPv4 address, after zeros */
    /* Both forms add the same numbers: IPv4's 16-bit length is IPv6's without its zeros. */
    uint8_t rest[8] = {(uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, 0, protocol};
    uint64_t prefix[2], last[2], words;
    uint32_t middle[2], v4;
    memcpy(&v4, mapped, 4);
    memcpy(&words, rest, 8);
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t *ip = i == 0 ? net->src_ip.bytes : net->dst_ip.bytes;
        memcpy(&prefix[i], ip, 8);
        memcpy(&middle[i], ip + 8, 4);
        last[i] = 0;
        memcpy(&last[i], ip + 12, 4);
    }
    hw_sum sum = {last[0] + last[1] + (uint32_t)words + (words >> 32), false};
    if (HW_LIKELY((prefix[0] | prefix[1]) == 0 && middle[0] == v4 && middle[1] == v4))
        return sum;
    for (unsigned i = 0; i < 2; i++)
        sum.total += (uint32_t)prefix[i] + (prefix[i] >> 32) + middle[i];
    return sum;
}

/* ---- Bytes of a packet, from its head or its tail ---- */

/* A piece of a packet. */
typedef struct hw_piece {
    const uint8_t *bytes;
    uint64_t len;
} hw_piece;

/* The part of the bytes [from, to) of a packet that lies in its head. */
HW_PART hw_piece hw_in_head(const hw_packet *packet, uint64_t from, uint64_t to) {
    uint64_t low = hw_min(from, packet->head_len);
    hw_piece piece = {HW_AT(packet->head) + low, hw_left(low, hw_min(to, packet->head_len))};
    return piece;
}

/* The part of the bytes [from, to) of a packet that lies in its tail. */
HW_PART hw_piece hw_in_tail(const hw_packet *packet, uint64_t from, uint64_t to) {
    uint64_t low = hw_min(hw_left(packet->head_len, from), packet->tail_len);
    uint64_t high = hw_min(hw_left(packet->head_len, to), packet->tail_len);
    hw_piece piece = {HW_AT(packet->tail) + low, hw_left(low, high)};
    return piece;
}

/* Copies the bytes [from, to) of a packet; false unless all of them exist. */
static inline bool hw_copy_out(const hw_packet *packet, uint64_t from, uint64_t to, uint8_t *room) {
    hw_piece head = hw_in_head(packet, from, to);
    hw_piece tail = hw_in_tail(packet, from, to);
    if (head.len)
        memcpy(room, head.bytes, head.len);
    if (tail.len)
        memcpy(room + head.len, tail.bytes, tail.len);
    return head.len + tail.len == to - from;
}

/* Verifies the Internet checksum over the bytes [from, to) of a packet. */
static inline bool hw_packet_sum_valid(const hw_packet *packet, uint64_t from, uint64_t to, bool pseudo) {
    hw_sum sum = {0, false};
    if (pseudo)
        sum = hw_sum_pseudo(HW_AT(packet->net), HW_AT(packet->net)->protocol, to - from);
    hw_piece head = hw_in_head(packet, from, to);
    hw_piece tail = hw_in_tail(packet, from, to);
    hw_sum_add(&sum, head.bytes, head.len);
    hw_sum_add(&sum, tail.bytes, tail.len);
    return hw_sum_valid(sum);
}

/* ---- CRC-32 (IEEE 802.3): reflected, polynomial 0x04c11db7, all ones before and after ---- */

/* The place of a CRC-32 in its part of the packet, and the bits of the header that count as ones. */
typedef struct hw_crc_field {
    uint32_t at;     /* bits before it */
    bool in_trailer; /* otherwise it counts as zeros itself */
    uint32_t plain;  /* the first byte of the header that counts unmasked */
    uint32_t spans;
    const uint32_t (*span)[2]; /* first bit and number of bits */
} hw_crc_field;

#ifdef HW_CRC
#ifdef __bpf__
static inline uint32_t hw_crc_byte(uint32_t crc, uint8_t byte) {
    crc ^= byte;
    for (unsigned bit = 0; bit < 8; bit++)
        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    return crc;
}

static inline uint32_t hw_crc_add(uint32_t crc, const uint8_t *p, uint64_t len) {
    for (; HW_MORE(len > 0); p++, len--, HW_STAY(len))
        crc = hw_crc_byte(crc, *p);
    return crc;
}
#else
/* The remainders of each byte followed by 0 to 7 zeros: eight bytes are processed at a time. */
static uint32_t hw_crc_table[8][256];

__attribute__((constructor)) static void hw_crc_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        hw_crc_table[0][byte] = crc;
    }
    for (unsigned zeros = 1; zeros < 8; zeros++)
        for (unsigned byte = 0; byte < 256; byte++) {
            uint32_t crc = hw_crc_table[zeros - 1][byte];
            hw_crc_table[zeros][byte] = crc >> 8 ^ hw_crc_table[0][crc & 255];
        }
}

static inline uint32_t hw_crc_byte(uint32_t crc, uint8_t byte) {
    return crc >> 8 ^ hw_crc_table[0][(crc ^ byte) & 255];
}

static inline uint32_t hw_crc_add(uint32_t crc, const uint8_t *p, uint64_t len) {
    for (; HW_MORE(len >= 8); p += 8, len -= 8) {
        uint64_t word = 0;
        for (unsigned i = 0; i < 8; i++)
            word |= (uint64_t)p[i] << 8 * i;
        word ^= crc;
        crc = 0;
        for (unsigned i = 0; i < 8; i++)
            crc ^= hw_crc_table[7 - i][word >> 8 * i & 255];
    }
    for (; HW_MORE(len > 0); p++, len--, HW_STAY(len))
        crc = hw_crc_byte(crc, *p);
    return crc;
}
#endif

/* Adds the header: masked spans as ones, the field itself as zeros. */
static inline uint32_t hw_crc_header(uint32_t crc, const hw_crc_field *field, const uint8_t *p, uint64_t len) {
    uint64_t masked = hw_min(len, field->plain);
    for (uint64_t i = HW_ZERO; HW_MORE(i < masked); HW_NEXT(i)) {
        uint8_t byte = p[i];
        for (unsigned n = 0; n < 8; n++) {
            uint64_t bit = i * 8 + n;
            uint8_t place = (uint8_t)(0x80 >> n);
            for (uint32_t s = HW_ZERO; HW_MORE(s < field->spans); HW_NEXT(s))
                if (bit - field->span[s][0] < field->span[s][1])
                    byte |= place;
            if (!field->in_trailer && bit - field->at < 32)
                byte &= (uint8_t)~place;
        }
        crc = hw_crc_byte(crc, byte);
    }
    return hw_crc_add(crc, p + masked, len - masked);
}

/* The CRC-32 of a received packet, where `seed` is that of the bytes before it: header from `at`, payload
 * from `data`, up to `end`. */
HW_PART uint32_t hw_packet_crc(const hw_packet *packet, const hw_crc_field *field, uint32_t seed,
                                      uint64_t at, uint64_t data, uint64_t end) {
    hw_piece header = hw_in_head(packet, at, data);
    uint32_t crc = hw_crc_header(~seed, field, header.bytes, header.len);
    hw_piece head = hw_in_head(packet, data, end);
    hw_piece tail = hw_in_tail(packet, data, end);
    return ~hw_crc_add(hw_crc_add(crc, head.bytes, head.len), tail.bytes, tail.len);
}
#endif

/* ---- Complete headers ---- */

/* The bytes written from a position on; fewer if there was no room. */
HW_PART hw_piece hw_written(const hw_writer *out, uint64_t from) {
    uint64_t end = hw_min(out->at, out->room);
    uint64_t start = hw_min(from, end);
    hw_piece piece = {out->bytes + start, end - start};
    return piece;
}

/* Leaves the Internet checksum at `at` incomplete: it covers only the pseudo-header. */
HW_PART hw_built hw_partial_sum(hw_writer *out, const hw_net *net, uint8_t protocol, uint64_t len,
                                      uint64_t at, bool pseudo) {
    hw_sum sum = {0, false};
    if (pseudo)
        sum = hw_sum_pseudo(net, net->protocol ? net->protocol : protocol, len);
    uint16_t folded = hw_sum_fold(sum.total);
    hw_patch(out, at, &folded, 2);
    hw_built built = {0, 0, (uint16_t)at, 1};
    return built;
}

/* ---- Segmentation rules ---- */

/* The arguments of a packet's rules, consumed in order. */
typedef struct hw_rule_args {
    uint64_t value[HW_MAX_RULE_ARGS];
    unsigned taken;
} hw_rule_args;

/* The next rule's arguments. */
static inline void hw_take_args(hw_rule_args *args, const hw_packet_rec *packet, unsigned count) {
    for (unsigned i = HW_ZERO; HW_MORE(i < count && i < HW_MAX_RULE_ARGS && args->taken < HW_MAX_RULE_ARGS); HW_NEXT(i))
        args->value[i] = packet->args[args->taken++];
}

#endif
