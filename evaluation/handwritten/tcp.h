/* TCP as a C programmer would write it against the record ABI: its contexts, events and segment. */
#ifndef HANDWRITTEN_TCP_H
#define HANDWRITTEN_TCP_H

#include "abi.h"

enum param { INITIAL_RTO, MIN_RTO, MAX_RTO, MSL, FIN_TIMEOUT, DELAYED_ACK, OVERRIDE, RCV_BUF, SYN_BACKLOG, SLOW_START_LIMIT,
             NAGLE, USER_TIMEOUT };

enum event { SEGMENT, CONNECT, LISTEN, SEND, RECV, CLOSE, ABORT, RELEASE, RETRANSMIT, PERSIST, ACK_DELAYED, WAITED,
             CHILD_READY, CHILD_FAILED };
enum parser { FROM_IP, FROM_LISTEN, FROM_CONNECT, FROM_SEND, FROM_RECV, FROM_CLOSE, FROM_ABORT, FROM_RELEASE };
enum context { CONNECTION, LISTENER };
enum timer { T_RETRANSMIT, T_PERSIST, T_DELAYED_ACK, T_TIME_WAIT, TIMERS };
enum state { SYN_SENT = 1, SYN_RECEIVED, ESTABLISHED, FIN_WAIT_1, FIN_WAIT_2, CLOSE_WAIT, CLOSING, LAST_ACK, TIME_WAIT };
enum flag { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16, ECE = 64, CWR = 128 };
enum signal { STATE_CHANGED, SEGMENT_LOST, ROUND_TRIP };

enum { RUNS = 28, SENTS = 16, BLOCKS = 4, REPORTED = 3, WINDOW_SLACK = 65536, MAX_BURST = 1 << 30 };

/* Sequence numbers have 64 bits, of which the low 32 are those on the wire. */
typedef struct { uint64_t from, to; } run_t;
typedef struct { uint64_t end, began, at; bool again; } sent_t;
typedef struct { uint32_t from, to; } block_t;

/* CUBIC's state, followed by HyStart++'s. */
typedef struct {
    uint64_t w_est, epoch, grew_at; /* w_est in 1024ths of a byte */
    uint32_t w_max, prior, k;
    bool paused, over;
    uint8_t samples, careful;
    uint32_t left;
    uint64_t last, current, baseline;
} cubic_t;

typedef struct {
    id_t_ self;
    uint64_t timer[TIMERS]; /* the engine zeroes a timer that fires; otherwise ours: 1 while it runs */
    ip_t local_ip, remote_ip;
    uint16_t local_port, remote_port;
    uint8_t state, closing, released, has_parent, scaled, snd_scale, rcv_scale, use_timestamps;
    uint8_t duplicates, recovering, partial_seen, timeouts, probes;
    uint8_t sack_on, ecn_on, ecn_echo, ecn_reduced;
    uint16_t unacknowledged;
    uint32_t peer_mss, smss, rmss, path_mtu, retransmissions;
    uint64_t iss, snd_una, snd_nxt, snd_max, snd_end, snd_wnd, max_wnd, snd_wl1, snd_wl2, small_end, flight;
    uint64_t sent_at;
    uint64_t irs, rcv_nxt, rcv_edge, rcv_wnd, fin_at, unread, ack_sent;
    uint64_t srtt, rttvar, rto, timed_end, timed_at;
    uint32_t ts_recent, ts_offset;
    uint64_t ts_recent_at;
    uint64_t recover, flight_before;
    uint64_t cwnd, ssthresh, ecn_until;
    cubic_t cubic;
    uint64_t heard_at, progress_at;
    uint32_t runs, latest, sents, pad; /* the run that received the latest out-of-order data */
    id_t_ parent;
    run_t run[RUNS];
    sent_t sent[SENTS];
} connection_t;

typedef struct {
    id_t_ self;
    uint32_t backlog, embryonic, waiting, dropped;
} listener_t;

typedef struct {
    event_t header;
    ip_t local_ip, remote_ip;
    uint16_t local_port, remote_port;
    uint32_t seq, ack;
    uint8_t flags, has_mss, has_scale, has_timestamps, scale;
    uint16_t window, segs, mss;
    uint64_t addr;
    uint32_t len, ts_value, ts_echo, path_mtu;
    uint8_t marked, sack_permitted, sacks;
    block_t sack[BLOCKS];
} segment_t;

typedef struct {
    event_t header;
    ip_t local_ip, remote_ip;
    uint16_t local_port, remote_port;
    uint32_t path_mtu, backlog;
} open_t;

typedef struct {
    event_t header;
    uint64_t addr, len;
} amount_t;

typedef struct {
    event_t header;
    id_t_ who;
} child_t;

/* A segment to be sent, before segmentation. */
typedef struct {
    data_t data;
    uint32_t seq, ack, ts_value, ts_echo;
    uint16_t source_port, destination_port, window, mss;
    uint8_t flags, push, has_mss, has_scale, has_timestamps, scale, sack_permitted, sacks;
    block_t sack[REPORTED];
} image_t;

/* One chain in progress. */
typedef struct {
    const uint64_t *param;
    uint64_t now, rand;
    uint8_t *at; /* the next record */
    uint8_t on;
} run_ctx;

/* One segment after the checks. */
typedef struct {
    uint64_t seq, ack, window, una, acked, flight, addr, rtt;
    uint32_t len;
    bool syn, fin, opened, duplicate, ack_now, gap, override;
} arrival_t;

static inline uint64_t min_of(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_of(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
/* The 64-bit number nearest to `near` with these low 32 bits. */
static inline uint64_t unwrap(uint32_t seq, uint64_t near) { return near + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)near); }

static inline bool is_v4(const ip_t *ip) {
    static const uint8_t mapped[4] = {0, 0, 0xff, 0xff};
    uint64_t zeros;
    uint32_t prefix, v4;
    memcpy(&zeros, ip->bytes, 8);
    memcpy(&prefix, ip->bytes + 8, 4);
    memcpy(&v4, mapped, 4);
    return zeros == 0 && prefix == v4;
}

static inline bool may_send(const connection_t *c) {
    return (1u << c->state) & (1u << ESTABLISHED | 1u << CLOSE_WAIT | 1u << FIN_WAIT_1 | 1u << CLOSING | 1u << LAST_ACK);
}
static inline bool may_receive(const connection_t *c) {
    return (1u << c->state) & (1u << ESTABLISHED | 1u << FIN_WAIT_1 | 1u << FIN_WAIT_2);
}
/* The stream offset of a sequence number: SYN and FIN occupy a number each, but no byte. */
static inline uint64_t stream_offset(const connection_t *c, uint64_t number) {
    return less(min_of(number, c->snd_end), c->iss + 1);
}
static inline uint32_t timestamp(const connection_t *c, uint64_t now) { return (uint32_t)(now / 1000000) + c->ts_offset; }

#endif
