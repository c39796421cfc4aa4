/* The C side of a transport program: its interface to an engine, and the arithmetic and
 * containers that generated code calls.
 *
 * All operations are total: no shift, division, index or pointer is undefined for any input.
 * Input memory is 8-byte aligned and as large as the program's own structures. Contexts and
 * events are changed in place. Records are appended to a buffer whose room was measured
 * before. There is no mutable static data: a program is reentrant, and one compiled program
 * serves every instance with params of its own.
 *
 * C11 with the extensions that GCC and Clang share: 128-bit integers and attributes. */
#ifndef HAWSER_H
#define HAWSER_H

#ifndef __bpf__
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A condition under which a loop continues. */
#define HW_MORE(condition) (condition)
/* The start of a loop. */
#define HW_ZERO 0
/* Advances a loop's counter; keeps a variable that a loop has set. */
#define HW_NEXT(counter) ((counter)++)
#define HW_STAY(variable) ((void)0)
/* An array of constants, and an item of one, whose index is known to be below the number of items. */
#define HW_CONSTANT
#define HW_ITEM(items, index, count) ((items)[index])
/* A pointer to absent memory. */
#define HW_NONE NULL
/* The object behind a pointer into memory, and a pointer as a number. */
#define HW_AT(pointer) (pointer)
#define HW_NUMBER(pointer) ((uint64_t)(pointer))
/* Marks functions that are worth a call. */
#define HW_APART static inline
#endif

/* Increases with every incompatible change of the declarations up to `hawser_program`. */
#define HAWSER_ABI 8

#define HW_INLINE static inline __attribute__((always_inline))
#ifdef __bpf__
/* In eBPF, all functions are inlined into their callers, except those marked as apart. */
#define HW_PART static HW_UNUSED __attribute__((always_inline))
#define HW_FLAT
#else
#define HW_PART static
/* Inlines all callees of a function, in optimised builds. */
#define HW_FLAT __attribute__((flatten))
#endif
#define HW_UNUSED __attribute__((unused))
#define HW_MAY_ALIAS __attribute__((may_alias))
#define HW_LIKELY(x) __builtin_expect(!!(x), 1)
#define HW_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- The memory of a chain ---- */

/* The input of a chain. Absent regions are NULL; `globals` has an entry for every context type, which may be
 * NULL for types that are not GLOBAL. */
typedef struct hw_memory {
    uint8_t *keyed;          /* the context that the event's ids identify */
    uint8_t *fresh;          /* the slot for a new context: zero except its id */
    uint8_t *const *globals; /* by context type */
    uint8_t *scratch;
    uint32_t keyed_type;     /* index of the context's type + 1; 0: none found */
    uint32_t pad;
} hw_memory;

/* The buffer for records. `at` advances; a chain's worst case must fit before `end`. */
typedef struct hw_records {
    uint8_t *at;
    uint8_t *end;
    uint64_t wanted; /* the recorded signals: bit i for signal i, the last bit for all from 63 on */
} hw_records;

/* The end of a chain or a parser: the kind in the low half, a code in the high half. */
#define HW_DONE 0u     /* all processors ran */
#define HW_STOP 1u     /* `done;`: the packet's later events do not run */
#define HW_REFUSED 2u  /* `refuse(code)` */
#define HW_ASSERT 3u   /* an `assert` or `invariant` is false: its index */
#define HW_DROPPED 4u  /* a parser rejects its input: an HW_DROP_... code */
#define HW_NO_ROOM 5u  /* the record buffer is too small; without a change */
#define HW_OUTCOME(kind, code) ((uint64_t)(kind) | (uint64_t)(uint32_t)(code) << 32)

/* ---- Values with a layout of their own ---- */

/* The identity of a context or a data unit; the last byte is the number of bytes in use. */
typedef struct hw_id {
    _Alignas(8) uint8_t bytes[40];
} hw_id;

/* An address, IPv4 as an IPv4-mapped IPv6 address. */
typedef struct hw_ip {
    uint8_t bytes[16];
} hw_ip;

/* `data_t`: the bytes that a packet carries. */
typedef struct hw_data {
    hw_id uid;
    uint64_t off;
    uint64_t addr;
    uint32_t len;
    uint32_t seg_size;
} hw_data;

/* The first bytes of every event. */
typedef struct hw_event {
    uint64_t now;
    uint64_t rand;
    uint32_t hash;
    uint16_t event;
    uint8_t ids;
    uint8_t pad;
    hw_id id[3];
} hw_event;

/* The first bytes of every context. */
typedef struct hw_context {
    hw_id id;
} hw_context;

/* A network header: of a received packet, or to send with. */
typedef struct hw_net {
    _Alignas(8) hw_ip src_ip;
    hw_ip dst_ip;
    uint32_t tot_len;
    uint32_t flow_label;
    uint16_t hdr_len;
    uint16_t segs;
    uint16_t seg_size;
    uint8_t protocol;
    uint8_t ttl;
    uint8_t ecn;
    uint8_t dscp;
    uint8_t prio;
    uint8_t version;
    uint32_t path_mtu;
    uint16_t src_port;
    uint16_t dst_port;
    uint8_t pad[4];
} hw_net;

/* An application's request, as its shim receives it. */
typedef struct hw_op {
    hw_id self;
    hw_ip local_ip;
    hw_ip remote_ip;
    uint64_t addr;
    uint64_t len;
    uint64_t sub;
    uint64_t arg;
    uint32_t path_mtu;
    uint32_t backlog;
    uint16_t local_port;
    uint16_t remote_port;
    uint32_t option;
    uint32_t code;
    uint32_t flags;
    uint32_t key;
    uint32_t remote_key;
    uint64_t at;
    uint64_t remote_at;
    uint64_t value;
    uint64_t swap;
    uint32_t link_mtu;
    uint32_t receive_limit;
} hw_op;

/* An ICMP error about a packet that this host sent. */
typedef struct hw_icmp {
    _Alignas(8) uint32_t kind;
    uint32_t mtu;
    uint8_t icmp_type;
    uint8_t icmp_code;
    uint8_t pad[6];
} hw_icmp;

/* A boolean in memory: any byte but 0 counts as true. */
typedef uint8_t hw_bool;

/* ---- Instruction records ---- */

enum {
    HW_NEW_TX = 1, HW_ADD_TX, HW_FLUSH_TX, HW_NEW_RX, HW_ADD_RX, HW_FLUSH_RX, HW_PACKET, HW_TIMER_START,
    HW_TIMER_STOP, HW_NEW_CONTEXT, HW_DEL_CONTEXT, HW_ADD_ID, HW_DROP_ID, HW_NOTIFY, HW_RAISE, HW_SIGNAL,
    HW_QUEUE_RATE, HW_QUEUE_PRIO, HW_QUEUE_RESET, HW_EXTERN, HW_DEL_TX, HW_DEL_RX
};

/* Kind, subject (0: the keyed context, 1: the fresh one, 2: a GLOBAL one, 3: the one with an id), index of the GLOBAL
 * context's type, length of the whole record. */
typedef struct hw_record {
    uint8_t kind;
    uint8_t on;
    uint16_t global;
    uint32_t len;
} hw_record;

typedef struct hw_unit_rec {
    hw_record header;
    hw_id uid;
    uint64_t addr;
    uint64_t len;
    uint64_t off;
} hw_unit_rec;

#define HW_MAX_RULES 4
#define HW_MAX_RULE_ARGS 4

typedef struct hw_packet_rec {
    hw_record header;
    hw_net net;
    uint64_t rank;
    uint64_t args[HW_MAX_RULE_ARGS];
    uint32_t queue;
    uint16_t blueprint;
    uint16_t rules;
    uint16_t rule[HW_MAX_RULES];
    uint32_t data_at;
    uint32_t bytes;
} hw_packet_rec;

typedef struct hw_timer_rec {
    hw_record header;
    uint64_t deadline;
    uint32_t timer;
    uint32_t pad;
} hw_timer_rec;

typedef struct hw_context_rec {
    hw_record header;
    hw_id id;
    uint32_t context;
    uint32_t pad;
} hw_context_rec;

typedef struct hw_notify_rec {
    hw_record header;
    hw_id id;
    uint32_t code;
    uint32_t error;
    uint64_t arg[4];
} hw_notify_rec;

typedef struct hw_raise_rec {
    hw_record header;
    hw_id target;
    uint32_t event;
    uint32_t bytes;
} hw_raise_rec;

typedef struct hw_signal_rec {
    hw_record header;
    uint32_t signal;
    uint32_t bytes;
} hw_signal_rec;

typedef struct hw_queue_rec {
    hw_record header;
    uint64_t value;
    uint32_t queue;
    uint32_t pad;
} hw_queue_rec;

typedef struct hw_extern_rec {
    hw_record header;
    uint32_t extern_;
    uint32_t args;
} hw_extern_rec;

/* ---- Packets ---- */

/* Reasons why an input gave no event: hawser_ir::abi::ParseError, counted from 1. */
enum {
    HW_TRUNCATED = 1, /* shorter than its headers */
    HW_CHECKSUM = 2,  /* a checksum does not match */
    HW_LENGTH = 3,    /* a length field contradicts the packet */
    HW_FRAME = 4,     /* a frame of unknown type, or a list beyond its bound */
    HW_EVENTS = 5,    /* more events than the program declares */
};

/* A received packet, from its transport header on. All headers are in `head`; `tail` has the rest if the wire
 * stores the payload elsewhere. */
typedef struct hw_packet {
    const hw_net *net;
    const uint8_t *head;
    uint64_t head_len;
    const uint8_t *tail;
    uint64_t tail_len;
    uint64_t merged; /* bytes after `tail`, of packets merged with this one: counted, but not read */
    uint64_t addr;   /* of the first byte of `head`; it continues through all later bytes */
    uint32_t verify; /* checks to make: 1 Internet checksums, 2 an invariant CRC */
    uint32_t crc;    /* the bytes before `head`, as an invariant CRC covers them */
} hw_packet;

/* A parser's events, back to back; the size of each follows from the number in its header. */
typedef struct hw_events {
    uint8_t *at;
    uint8_t *end;
    uint32_t count;
    uint32_t capacity;
} hw_events;

/* The result of building a header: its bytes, the number of bytes in its trailer, and the place of an Internet checksum over the whole
 * packet, if one must be completed. The field then holds the sum of the pseudo-header. */
typedef struct hw_built {
    uint32_t len;
    uint32_t trailer;
    uint16_t csum_at;
    uint16_t has_csum;
} hw_built;

/* ---- One run ---- */

/* A parser's position in its packet: the next byte, and one past the last. All bytes after `head` are
 * included, trailers are not. Without a packet, all is zero. */
typedef struct hw_cursor {
    const hw_packet *packet;
    uint64_t at;
    uint64_t end;
} hw_cursor;

/* A parser's data besides memory. */
struct hw_packet_run {
    hw_cursor cursor;
    hw_events *events;
};

/* The argument of every function of a program. */
typedef struct hw_run {
    uint64_t now;            /* `ev.now` at the start */
    const uint64_t *params;
    uint8_t *at;             /* the next record */
    uint64_t outcome;        /* set when the run ends early */
    uint64_t wanted;         /* the recorded signals */
#ifdef __bpf__
    hw_memory memory[1];
    uint64_t result;         /* result of a separate function that may end the run */
    uint64_t more[8];        /* arguments of such a function beyond the fifth */
#else
    const hw_memory *memory;
#endif
    uint8_t subject;         /* subject of instructions: 1 once a context was created where none was found */
    uint8_t created;         /* whether `new_ctx` was reached */
    uint32_t fresh_type;     /* type index of the context that the chain may create */
    uint8_t *event;
#ifdef __bpf__
    struct hw_packet_run packet[1];
#else
    struct hw_packet_run *packet;
#endif
} hw_run;

#endif
