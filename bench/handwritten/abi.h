/* The record ABI as C sees it: what lang/ir/src/abi.rs declares, as far as TCP needs it. */
#ifndef HANDWRITTEN_ABI_H
#define HANDWRITTEN_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct { _Alignas(8) uint8_t bytes[40]; } id_t_; /* the last byte counts those in use */
typedef struct { uint8_t bytes[16]; } ip_t;

typedef struct {
    id_t_ uid;
    uint64_t off, addr;
    uint32_t len, seg_size;
} data_t;

typedef struct {
    _Alignas(8) ip_t src_ip;
    ip_t dst_ip;
    uint32_t tot_len, flow_label;
    uint16_t hdr_len, segs, seg_size;
    uint8_t protocol, ttl, ecn, dscp, prio, version;
    uint32_t path_mtu;
} net_t;

typedef struct {
    id_t_ self;
    ip_t local_ip, remote_ip;
    uint64_t addr, len, sub, arg;
    uint32_t path_mtu, backlog;
    uint16_t local_port, remote_port;
    uint32_t option;
} op_t;

typedef struct {
    uint64_t now, rand;
    uint32_t hash;
    uint16_t event;
    uint8_t ids, pad;
    id_t_ id[3];
} event_t;

typedef struct { uint8_t kind, on; uint16_t pad; uint32_t len; } record_t;

enum { NEW_TX = 1, ADD_TX, FLUSH_TX, NEW_RX, ADD_RX, FLUSH_RX, PACKET, TIMER_START, TIMER_STOP, NEW_CONTEXT,
       DEL_CONTEXT, NOTIFY = 14, RAISE, SIGNAL };
enum { ON_KEYED, ON_FRESH };
enum { NOTE_CONNECTED = 1, NOTE_EOF, NOTE_CLOSED, NOTE_ACCEPTED, NOTE_FAILED };

typedef struct { record_t header; id_t_ uid; uint64_t addr, len, off; } unit_rec;
typedef struct { record_t header; uint64_t deadline; uint32_t timer, pad; } timer_rec;
typedef struct { record_t header; id_t_ id; uint32_t context, pad; } context_rec;
typedef struct { record_t header; id_t_ id; uint32_t code, error; uint64_t arg[4]; } notify_rec;
typedef struct { record_t header; id_t_ target; uint32_t event, bytes; } raise_rec;
typedef struct { record_t header; uint32_t signal, bytes; uint64_t value; } signal_rec;
typedef struct {
    record_t header;
    net_t net;
    uint64_t rank, args[4];
    uint32_t queue;
    uint16_t blueprint, rules, rule[4];
    uint32_t data_at, bytes;
} packet_rec;

/* What a chain runs on and where its records go; a received packet; a header that was built. */
typedef struct {
    uint8_t *keyed, *fresh;
    uint8_t *const *globals;
    uint8_t *scratch;
    uint32_t keyed_type, pad;
} memory_t;
typedef struct { uint8_t *at, *end; } records_t;
typedef struct { uint8_t *at, *end; uint32_t count, most; } events_t;
typedef struct {
    const net_t *net;
    const uint8_t *head;
    uint64_t head_len;
    const uint8_t *tail;
    uint64_t tail_len, addr;
    uint32_t verify, pad;
} packet_t;
typedef struct { uint32_t len; uint16_t csum_at, has_csum; } built_t;

/* How a chain ends, and why a parser gives nothing. */
enum { DONE, STOP, REFUSED };
enum { TRUNCATED = 1, BAD_CHECKSUM, BAD_LENGTH };

#define REFUSE(code) ((uint64_t)REFUSED | (uint64_t)(code) << 32)
#define INF UINT64_MAX
#define NO_DATA UINT32_MAX

#endif
