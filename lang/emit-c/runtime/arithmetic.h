/* Values: memory without a type, total arithmetic, bytes and hashes. No operation is undefined for any
 * input; lang/ir/src/number.rs defines the results. */
#ifndef HW_ARITHMETIC_H
#define HW_ARITHMETIC_H

/* ---- Reading and writing of untyped memory ---- */

/* The value of a list element that does not exist. */
#ifdef __bpf__
#define HW_NOTHING ((const void *)hw_arena_at(HW_NOTHING_AT))
#else
static const uint64_t hw_nothing_words[HW_NOTHING_WORDS] = {0};
#define HW_NOTHING ((const void *)hw_nothing_words)
#endif

HW_INLINE uint64_t hw_get(const void *at, unsigned bytes) {
    uint64_t value = 0;
    if (bytes == 1)
        value = *(const uint8_t *)at;
    else if (bytes == 2) {
        uint16_t narrow;
        memcpy(&narrow, at, 2);
        value = narrow;
    } else if (bytes == 4) {
        uint32_t narrow;
        memcpy(&narrow, at, 4);
        value = narrow;
    } else
        memcpy(&value, at, 8);
    return value;
}

HW_INLINE void hw_set(void *at, uint64_t value, unsigned bytes) {
    uint8_t v1 = (uint8_t)value;
    uint16_t v2 = (uint16_t)value;
    uint32_t v4 = (uint32_t)value;
    if (bytes == 1)
        memcpy(at, &v1, 1);
    else if (bytes == 2)
        memcpy(at, &v2, 2);
    else if (bytes == 4)
        memcpy(at, &v4, 4);
    else
        memcpy(at, &value, 8);
}

/* Returns whether bytes are equal. Addresses, and parts of them, are compared by two overlapping loads. */
HW_INLINE bool hw_same(const void *a, const void *b, size_t len) {
    if (len < 8 || len > 16)
        return memcmp(a, b, len) == 0;
    uint64_t x[2], y[2];
    memcpy(&x[0], a, 8);
    memcpy(&y[0], b, 8);
    memcpy(&x[1], (const char *)a + len - 8, 8);
    memcpy(&y[1], (const char *)b + len - 8, 8);
    return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

/* Zeros many bytes. The C library is faster at it than inline code of the compilers, so the length is hidden
 * from them. */
HW_INLINE void hw_zero(void *at, size_t len) {
    __asm__("" : "+r"(len));
    memset(at, 0, len);
}

/* ---- Total arithmetic ---- */

/* Sign-extends the low `bits` bits. */
HW_INLINE int64_t hw_sign(uint64_t value, unsigned bits) {
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

/* The low `bits` bits. */
HW_INLINE uint64_t hw_low(uint64_t value, unsigned bits) {
    return value << (64 - bits) >> (64 - bits);
}

HW_INLINE uint32_t hw_div_u32(uint32_t a, uint32_t b) { return b == 0 ? 0 : a / b; }
HW_INLINE uint32_t hw_rem_u32(uint32_t a, uint32_t b) { return b == 0 ? a : a % b; }
HW_INLINE uint64_t hw_div_u64(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
HW_INLINE uint64_t hw_rem_u64(uint64_t a, uint64_t b) { return b == 0 ? a : a % b; }
#ifdef __bpf__
/* eBPF before version 4 has only unsigned division. */
HW_INLINE uint64_t hw_size_of(int64_t value) { return value < 0 ? 0 - (uint64_t)value : (uint64_t)value; }
HW_INLINE int64_t hw_signed(uint64_t size, bool negative) { return (int64_t)(negative ? 0 - size : size); }
HW_INLINE int64_t hw_div_i64(int64_t a, int64_t b) {
    return b == 0 ? 0 : hw_signed(hw_size_of(a) / hw_size_of(b), (a < 0) != (b < 0));
}
HW_INLINE int64_t hw_rem_i64(int64_t a, int64_t b) {
    return b == 0 ? a : hw_signed(hw_size_of(a) % hw_size_of(b), a < 0);
}
#else
HW_INLINE int64_t hw_div_i64(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
HW_INLINE int64_t hw_rem_i64(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
#endif

/* Order of the circular numbers of `bits` bits: the antipode is below on both sides. */
HW_INLINE bool hw_before(uint64_t a, uint64_t b, unsigned bits) { return (a - b) >> (bits - 1) & 1; }

HW_INLINE uint64_t hw_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
HW_INLINE uint64_t hw_max_u64(uint64_t a, uint64_t b) { return a < b ? b : a; }
HW_INLINE int64_t hw_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
HW_INLINE int64_t hw_max_i64(int64_t a, int64_t b) { return a < b ? b : a; }
HW_INLINE uint64_t hw_min_seq(uint64_t a, uint64_t b, unsigned bits) { return hw_before(a, b, bits) ? a : b; }
HW_INLINE uint64_t hw_max_seq(uint64_t a, uint64_t b, unsigned bits) { return hw_before(a, b, bits) ? b : a; }

HW_INLINE uint64_t hw_abs_diff_u64(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }
HW_INLINE uint64_t hw_abs_diff_i64(int64_t a, int64_t b) {
    return a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
}
HW_INLINE uint64_t hw_abs_diff_seq(uint64_t a, uint64_t b, unsigned bits) {
    return hw_low(hw_before(a, b, bits) ? b - a : a - b, bits);
}

HW_INLINE uint64_t hw_sat_sub_u64(uint64_t a, uint64_t b) { return a < b ? 0 : a - b; }
HW_INLINE uint64_t hw_sat_sub_i64(int64_t a, int64_t b) { return a < b ? 0 : (uint64_t)a - (uint64_t)b; }
HW_INLINE uint64_t hw_sat_sub_seq(uint64_t a, uint64_t b, unsigned bits) {
    return hw_before(a, b, bits) ? 0 : a - b;
}

HW_INLINE uint64_t hw_sat_add(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

#ifdef __bpf__
/* a * b / c with a 128-bit intermediate result, of which the low half is returned; 0 if c is 0. Bit by bit, because
 * eBPF has no such division. */
HW_APART uint64_t hw_mul_div_u64(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t middle = (a0 * b0 >> 32) + (uint32_t)(a0 * b1) + (uint32_t)(a1 * b0);
    uint64_t low = a * b, high = a1 * b1 + (a0 * b1 >> 32) + (a1 * b0 >> 32) + (middle >> 32);
    if (c == 0)
        return 0;
    if (high == 0)
        return low / c;
    uint64_t left = high % c, quotient = 0;
    for (unsigned bit = HW_ZERO; HW_MORE(bit < 64); HW_NEXT(bit)) {
        bool over = left >> 63;
        left = left << 1 | low >> 63;
        low <<= 1;
        quotient <<= 1;
        if (over || left >= c) {
            left -= c;
            quotient |= 1;
        }
        HW_STAY(left);
        HW_STAY(low);
        HW_STAY(quotient);
    }
    return quotient;
}
HW_INLINE uint64_t hw_mul_div_i64(int64_t a, int64_t b, int64_t c) {
    uint64_t size = hw_mul_div_u64(hw_size_of(a), hw_size_of(b), hw_size_of(c));
    return (uint64_t)hw_signed(size, (a < 0) != ((b < 0) != (c < 0)));
}
#else
__extension__ typedef unsigned __int128 hw_u128;
__extension__ typedef __int128 hw_i128;

/* a * b / c with a 128-bit intermediate result; 0 if c is 0. */
HW_INLINE uint64_t hw_mul_div_u64(uint64_t a, uint64_t b, uint64_t c) {
    hw_u128 product = (hw_u128)a * b;
    if (c == 0)
        return 0;
    return product >> 64 == 0 ? (uint64_t)product / c : (uint64_t)(product / c);
}
HW_INLINE uint64_t hw_mul_div_i64(int64_t a, int64_t b, int64_t c) {
    return c == 0 ? 0 : (uint64_t)((hw_i128)a * b / c);
}
#endif

/* The 64-bit number nearest to `near` that is congruent to the `bits`-bit `seq`; of two equally near ones the
 * higher (RFC 9000, A.3). The result never leaves 64 bits. */
HW_INLINE uint64_t hw_unwrap(uint64_t seq, uint64_t near, unsigned bits) {
    if (bits >= 64)
        return seq;
    uint64_t turn = (uint64_t)1 << bits;
    uint64_t ahead = (seq - near) & (turn - 1);
    uint64_t up = near + ahead;
    if (ahead <= turn / 2)
        return HW_LIKELY(up >= near) ? up : up - turn;
    return HW_LIKELY(up >= turn || up < near) ? up - turn : up;
}

/* The integer part of the cube root of the largest number. */
#define HW_LARGEST_CBRT 2642245

/* The integer part of the cube root, bit by bit from the top. */
HW_APART uint64_t hw_cbrt(uint64_t value) {
    uint64_t root = 0;
    for (unsigned bit = 22 + HW_ZERO; HW_MORE(bit-- > 0); HW_STAY(bit)) {
        uint64_t candidate = root | (uint64_t)1 << bit;
        if (candidate <= HW_LARGEST_CBRT && candidate * candidate * candidate <= value)
            root = candidate;
        HW_STAY(root);
    }
    return root;
}

/* The integer part of the square root, bit by bit from the top. */
HW_APART uint64_t hw_sqrt(uint64_t value) {
    uint64_t root = 0;
    for (unsigned bit = 32 + HW_ZERO; HW_MORE(bit-- > 0); HW_STAY(bit)) {
        uint64_t candidate = root | (uint64_t)1 << bit;
        if (candidate * candidate <= value)
            root = candidate;
        HW_STAY(root);
    }
    return root;
}

/* Leading zeros of a number that is not 0. */
#ifdef __bpf__
/* By halves: no instruction counts them, and clang 14 needs all memory to compile its replacement. */
HW_APART uint64_t hw_leading_zeros(uint64_t value) {
    uint64_t zeros = 63;
    for (uint64_t half = 32 + HW_ZERO; HW_MORE(half > 0); half >>= 1, HW_STAY(half)) {
        if (value >> half != 0) {
            value >>= half;
            zeros -= half;
        }
        HW_STAY(value);
        HW_STAY(zeros);
    }
    return zeros;
}
#else
HW_INLINE uint64_t hw_leading_zeros(uint64_t value) { return (uint64_t)__builtin_clzll(value); }
#endif

/* Leading zeros of the low `bits` bits. */
HW_INLINE uint64_t hw_clz(uint64_t value, unsigned bits) {
    uint64_t low = hw_low(value, bits);
    return low == 0 ? bits : hw_leading_zeros(low) - (64 - bits);
}

/* Bytes of a variable-length integer (RFC 9000, section 16). */
HW_INLINE uint64_t hw_varint_len(uint64_t value) {
    return value <= 0x3f ? 1 : value <= 0x3fff ? 2 : value <= 0x3fffffff ? 4 : 8;
}

/* ---- Bytes ---- */

HW_INLINE bool hw_is_zero(const void *at, size_t len) {
    const uint8_t *p = at;
    uint8_t any = 0;
    for (size_t i = HW_ZERO; HW_MORE(i < len); HW_NEXT(i))
        any |= p[i];
    return any == 0;
}

/* An id uses at most 39 bytes, whatever its length byte holds. */
HW_INLINE hw_id hw_id_at(const hw_id *from) {
    hw_id id = *from;
    if (id.bytes[39] > 39)
        id.bytes[39] = 39;
    return id;
}

HW_INLINE uint32_t hw_id_len(const hw_id *id) {
    return id->bytes[39] < 39 ? id->bytes[39] : 39;
}

/* Copies an id into a record. */
HW_INLINE void hw_put_id(hw_id *to, const hw_id *from) {
    *to = *from;
    if (HW_UNLIKELY(to->bytes[39] > 39))
        to->bytes[39] = 39;
}

/* A number in wire order. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define HW_BIG_ENDIAN(bits, value) (value)
#else
#define HW_BIG_ENDIAN(bits, value) __builtin_bswap##bits(value)
#endif

/* A tuple being packed: most significant bytes first. */
HW_INLINE size_t hw_pack(uint8_t *to, size_t at, size_t room, uint64_t value, unsigned bytes) {
    /* In the usual case, the number of steps is constant, or one. */
    if (at <= room && bytes <= room - at) {
        if (bytes == 2) {
            uint16_t number = HW_BIG_ENDIAN(16, (uint16_t)value);
            memcpy(to + at, &number, 2);
            return at + 2;
        }
        for (unsigned i = HW_ZERO; HW_MORE(i < bytes); HW_NEXT(i))
            to[at + i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
        return at + bytes;
    }
    for (unsigned i = HW_ZERO; HW_MORE(i < bytes && at < room); HW_NEXT(i))
        to[at++] = (uint8_t)(value >> 8 * (bytes - 1 - i));
    return at;
}

/* Absent bytes are packed as zeros. */
HW_INLINE size_t hw_pack_bytes(uint8_t *to, size_t at, size_t room, const void *from, size_t len) {
    /* The usual case copies a constant number of bytes. */
    if (len <= room - at) {
        memcpy(to + at, from, len);
        return at + len;
    }
    for (size_t i = HW_ZERO; HW_MORE(i < len && at < room); HW_NEXT(i))
        to[at++] = ((const uint8_t *)from)[i];
    return at;
}

HW_INLINE size_t hw_pack_id(uint8_t *to, size_t at, size_t room, const hw_id *id) {
    return hw_pack_bytes(to, at, room, id->bytes, hw_id_len(id));
}

/* An IPv4 address from its 32-bit number. */
HW_INLINE hw_ip hw_ipv4(uint32_t number) {
    hw_ip ip = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, (uint8_t)(number >> 24), (uint8_t)(number >> 16),
                 (uint8_t)(number >> 8), (uint8_t)number}};
    return ip;
}

#define HW_ROTATE(x, n) ((x) << (n) | (x) >> (64 - (n)))
#define HW_SIP_ROUND \
    do { \
        v0 += v1; v1 = HW_ROTATE(v1, 13); v1 ^= v0; v0 = HW_ROTATE(v0, 32); \
        v2 += v3; v3 = HW_ROTATE(v3, 16); v3 ^= v2; \
        v0 += v3; v3 = HW_ROTATE(v3, 21); v3 ^= v0; \
        v2 += v1; v1 = HW_ROTATE(v1, 17); v1 ^= v2; v2 = HW_ROTATE(v2, 32); \
    } while (0)

/* SipHash (Aumasson and Bernstein, 2012), with `each` rounds for each word and others at the end. */
HW_INLINE uint64_t hw_sip(uint64_t k0, uint64_t k1, const uint8_t *bytes, uint64_t len, unsigned each, unsigned last) {
    uint64_t v0 = k0 ^ UINT64_C(0x736f6d6570736575), v1 = k1 ^ UINT64_C(0x646f72616e646f6d);
    uint64_t v2 = k0 ^ UINT64_C(0x6c7967656e657261), v3 = k1 ^ UINT64_C(0x7465646279746573);
    for (uint64_t at = HW_ZERO; HW_MORE(at <= len); at += 8, HW_STAY(at)) {
        uint64_t n = len - at < 8 ? len - at : 8;
        uint64_t word = n < 8 ? len << 56 : 0;
        for (uint64_t i = HW_ZERO; HW_MORE(i < n); HW_NEXT(i))
            word |= (uint64_t)bytes[at + i] << 8 * i;
        v3 ^= word;
        for (unsigned round = 0; round < each; round++)
            HW_SIP_ROUND;
        v0 ^= word;
        HW_STAY(v0);
        HW_STAY(v1);
        HW_STAY(v2);
        HW_STAY(v3);
    }
    v2 ^= 0xff;
    for (unsigned round = 0; round < last; round++)
        HW_SIP_ROUND;
    return v0 ^ v1 ^ v2 ^ v3;
}

HW_APART uint64_t hw_siphash_at(uint64_t k0, uint64_t k1, uint64_t bytes, uint64_t len) {
    return hw_sip(k0, k1, HW_AT((const uint8_t *)bytes), len, 2, 4);
}

/* SipHash-2-4. */
HW_INLINE uint64_t hw_siphash(uint64_t k0, uint64_t k1, const uint8_t *bytes, size_t len) {
    return hw_siphash_at(k0, k1, HW_NUMBER(bytes), len);
}

#endif
