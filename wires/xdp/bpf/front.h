/* Runs a transport program's chains in front of its stack, on frames that arrive while the stack sleeps. It is
 * compiled after the program's own C (`hawser build --as ebpf`), and called by tail calls only: `hw_arrive` for
 * each frame to the stack's Ethernet address, then in turn `hw_step`, a chain, `hw_step` … and `hw_answer`.
 *
 * All memory belongs to one side at a time, which `hw_front.turn` states. Here each frame takes the turn; a frame
 * that does not get it goes to the stack. */
#ifndef HW_FRONT_H
#define HW_FRONT_H

#define HW_MAX_IDS 65536
#define HW_HEADER_BYTES 512 /* maximum bytes of a transport header */
#define HW_LARGEST 2048 /* bytes of a frame */
#define HW_FLOOD_NS 20000000 /* duration of a flood after its last sign */
#define HW_STALE_NS 100000000 /* time after which the contexts last lent are stale */
#define HW_ETHERNET 14
#define HW_IPV4 20
#define HW_IPV6 40
#define HW_UDP 8
#define HW_UDP_PROTOCOL 17

struct xdp_md {
    uint32_t data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { HW_XDP_DROP = 1, HW_XDP_PASS = 2, HW_XDP_TX = 3 };
enum { HW_STEP = 0, HW_ANSWER = 1, HW_CHAINS = 2 }; /* indices into `hw_programs` */

/* The holder of the turn. */
enum {
    HW_FREE = 0,   /* free: the first to come takes it */
    HW_KERNEL = 1, /* a frame, here */
    HW_STACK = 2,  /* the stack */
    HW_WANTED = 3, /* reserved for the stack, which must take it next */
    HW_AWAKE = 4,  /* free, and the stack is awake: no chain may run */
};

/* The state that is shared with the stack; offsets are from the arena's start. `src/front/layout.rs` repeats the structure. */
typedef struct hw_front {
    uint64_t turn;
    uint64_t passed; /* frames that went to the stack unchanged */
    uint64_t taken;  /* the number of these that it has received */
    uint64_t until;  /* time at which the stack wakes by itself, in nanoseconds */
    uint64_t chains; /* number that may run */
    uint64_t room;   /* bytes of packets that may be received */
    uint64_t is_complete; /* an id that is unknown here is unknown in the stack, too */
    uint64_t may_create;
    uint64_t key[2]; /* key of `hw_event.hash` */
    uint64_t mtu;
    uint64_t log, log_end; /* place of the next entry, and end of the room for entries */
    uint64_t entry_limit;   /* bytes of the largest entry */
    uint64_t frames;       /* entries in the log */
    uint64_t rung;         /* the stack has been woken */
    uint64_t contexts, stride;
    uint64_t changed;      /* words: bit k of word n for the context with the number 64 n + k */
    uint64_t plans;        /* plans of events, by number */
    uint64_t blueprints, queues; /* whether their packets can be sent from here, by number: words */
    uint64_t protocol;     /* protocol of packets whose header names none */
    uint64_t ports;        /* words: bit k of word n for the UDP port 64 n + k, if an application holds it */
    uint64_t events, events_end, params, scratch, scratch_bytes, input;
    /* The frame in progress. */
    uint64_t entry;        /* its entry in the log */
    uint64_t event, event_count, event_at, ran;
    uint64_t is_urgent;
    uint64_t chains_then, room_then; /* `chains` and `room` before it */
    uint64_t answered;     /* running totals: frames answered, frames whose chains ran */
    uint64_t handled;
    /* Floods, while the stack is awake. */
    uint64_t lent;          /* time at which contexts were last lent, in nanoseconds */
    uint64_t seen;          /* frames of `passed` that have arrived there, or were lost on the way */
    uint64_t backlog;       /* number of frames waiting for the stack above which it is a flood */
    uint64_t flooded_until; /* in nanoseconds */
    uint64_t sifted;        /* frames that were dropped */
    uint64_t sieve;         /* place where a frame is examined */
} hw_front;

typedef struct hw_plan {
    uint32_t bytes;
    uint32_t runs;    /* its chain may run here */
    uint64_t records; /* maximum bytes of records */
    uint64_t creates; /* bit k: it may create contexts on those of type k */
    uint32_t fresh;   /* bytes of the context that it may create */
    uint32_t runs_alone; /* a processor runs if no context is found */
} hw_plan;

/* A context's place: this header, then the context. */
typedef struct hw_place {
    uint32_t type; /* index + 1; 0: empty */
    uint32_t pad;
    uint64_t room;
} hw_place;

/* An entry of the log: this header, the frame, its chains; each padded to 8 bytes. */
typedef struct hw_entry {
    uint64_t now;
    uint32_t frame;
    uint32_t chains;
} hw_entry;

/* A chain in it: this header, then the context that it may have created, then its records. */
typedef struct hw_chain {
    uint64_t outcome;
    uint32_t records; /* bytes */
    uint32_t context; /* number of the context that it ran on; `HW_NOBODY` */
    uint64_t answer;  /* offset of the sent packet among the records, + 1; 0: none */
    uint64_t fresh;   /* bytes */
} hw_chain;

#define HW_NOBODY UINT32_MAX

typedef struct hw_address {
    uint8_t bytes[16];
} hw_address;

/* The data on which parsers and headers work. */
typedef struct hw_input {
    hw_net net;
    hw_packet packet;
    hw_events events;
    uint8_t out[HW_ETHERNET + HW_IPV6 + HW_UDP + HW_HEADER_BYTES];
} hw_input;

_Static_assert(sizeof(hw_input) <= 1024, "`src/front/layout.rs` has the same size");

/* The socket of each receive queue, and the stack's IP addresses: the maps of `hawser.bpf.c`. */
struct {
    int (*type)[17]; /* BPF_MAP_TYPE_XSKMAP */
    int (*max_entries)[1];
    uint32_t *key;
    uint32_t *value;
} xsks_map HW_SECTION(".maps");

struct {
    int (*type)[1]; /* BPF_MAP_TYPE_HASH */
    int (*max_entries)[64];
    hw_address *key;
    uint8_t *value;
} addresses HW_SECTION(".maps");

/* The number of the context with an id. */
struct {
    int (*type)[1];
    int (*map_flags)[1]; /* BPF_F_NO_PREALLOC */
    int (*max_entries)[HW_MAX_IDS];
    hw_id *key;
    uint32_t *value;
} hw_ids HW_SECTION(".maps");

/* The ring that wakes the stack. */
struct {
    int (*type)[27]; /* BPF_MAP_TYPE_RINGBUF */
    int (*max_entries)[4096];
} hw_bell HW_SECTION(".maps");

static void *(*const hw_lookup)(void *map, const void *key) = (void *)1;
static uint64_t (*const hw_time)(void) = (void *)5;
static uint32_t (*const hw_random)(void) = (void *)7;
static long (*const hw_redirect)(void *map, uint64_t index, uint64_t otherwise) = (void *)51;
static long (*const hw_set_end)(void *context, int delta) = (void *)65;
static long (*const hw_ring)(void *bell, void *bytes, uint64_t len, uint64_t flags) = (void *)130;

HW_INLINE hw_front *hw_shared(void) {
    __asm__ volatile("" : : "r"(&hw_arena));
    return hw_arena_at(HW_FREE_AT);
}

HW_INLINE uint64_t hw_padded(uint64_t len) {
    return (len + 7) & ~UINT64_C(7);
}

/* Passes the frame to the stack unchanged. */
HW_INLINE int hw_pass(struct xdp_md *context, hw_front *front) {
    __sync_fetch_and_add(&front->passed, 1);
    return (int)hw_redirect(&xsks_map, context->rx_queue_index, HW_XDP_PASS);
}

HW_INLINE void hw_release(hw_front *front, uint64_t turn) {
    (void)__sync_lock_test_and_set(&front->turn, turn);
}

/* The same for the holder of the turn, which returns to its former value; no state has changed. */
HW_INLINE int hw_leave(struct xdp_md *context, hw_front *front, uint64_t turn) {
    int verdict = hw_pass(context, front);
    hw_release(front, turn);
    return verdict;
}

/* Returns whether more frames arrive than the stack, which is awake, can process. Frames for unknown contexts
 * could then only keep it from its connections. */
HW_INLINE bool hw_is_flooded(hw_front *front) {
    bool is_behind = (int64_t)(front->passed - front->seen) > (int64_t)front->backlog;
    if (!front->is_complete || (!is_behind && front->flooded_until == 0))
        return false;
    uint64_t now = hw_time();
    if (is_behind)
        front->flooded_until = now + HW_FLOOD_NS;
    /* A stack that has long been awake has contexts unknown here: a fifth of the time, it gets all frames. */
    if (now - front->lent > HW_STALE_NS && now / HW_FLOOD_NS % 5 == 0)
        return false;
    return now < front->flooded_until;
}

/* Copies a frame's bytes to the arena. */
HW_INLINE void hw_copy_frame(struct xdp_md *context, uint8_t *to, uint64_t len) {
    const uint8_t *data = (const uint8_t *)(long)context->data, *end = (const uint8_t *)(long)context->data_end;
    uint64_t at = HW_ZERO;
    for (; HW_MORE(at + 8 <= len); at += 8, HW_STAY(at)) {
        at &= HW_LARGEST - 1;
        const uint8_t *from = data + at;
        if (from + 8 > end)
            break;
        __builtin_memcpy(to + at, from, 8);
    }
    for (; HW_MORE(at < len); HW_NEXT(at)) {
        at &= HW_LARGEST - 1;
        const uint8_t *from = data + at;
        if (from + 1 > end)
            break;
        to[at] = *from;
    }
}

/* Overwrites a frame's first bytes. */
HW_INLINE void hw_copy_back(struct xdp_md *context, const uint8_t *bytes, uint64_t len) {
    uint8_t *data = (uint8_t *)(long)context->data, *end = (uint8_t *)(long)context->data_end;
    for (uint64_t at = HW_ZERO; HW_MORE(at < len); HW_NEXT(at)) {
        at &= HW_LARGEST - 1;
        uint8_t *to = data + at;
        if (to + 1 > end)
            break;
        *to = bytes[at];
    }
}

HW_INLINE bool hw_is_own(const hw_ip *ip) {
    hw_address address;
    __builtin_memcpy(&address, ip, 16);
    return hw_lookup(&addresses, &address) != NULL;
}

/* Returns whether an address can belong to one host, by the stack's rule: `is_unicast`. */
HW_INLINE bool hw_is_unicast(const hw_net *net) {
    const uint8_t *ip = net->src_ip.bytes;
    if (net->version == 4)
        return ip[12] != 0 && ip[12] != 127 && ip[12] < 224;
    uint64_t upper, lower;
    __builtin_memcpy(&upper, ip, 8);
    __builtin_memcpy(&lower, ip + 8, 8);
    return ip[0] != 0xff && (upper != 0 || (lower != 0 && lower != __builtin_bswap64(1)));
}

HW_INLINE bool hw_is_mapped(const hw_ip *ip) {
    uint64_t upper;
    uint32_t middle;
    __builtin_memcpy(&upper, ip->bytes, 8);
    __builtin_memcpy(&middle, ip->bytes + 8, 4);
    return upper == 0 && middle == __builtin_bswap32(0xffff);
}

/* Reads the network header after a link header, if it is of a supported kind. */
HW_INLINE bool hw_read_network(hw_net *net, const uint8_t *frame, uint64_t len) {
    const uint8_t *ip = frame + HW_ETHERNET;
    uint16_t kind = (uint16_t)(frame[12] << 8 | frame[13]);
    __builtin_memset(net, 0, sizeof(*net));
    net->segs = 1;
    if (kind == 0x0800) {
        net->version = 4;
        net->hdr_len = HW_IPV4;
        net->tot_len = (uint32_t)hw_wire_get(ip + 2, 2);
        /* No options, no fragment, and intact (RFC 791, 3.1). */
        if (ip[0] != 0x45 || (hw_wire_get(ip + 6, 2) & 0x3fff) != 0 || hw_sum_fold(hw_sum_words(ip, HW_IPV4)) != 0xffff)
            return false;
        net->dscp = ip[1] >> 2;
        net->ecn = ip[1] & 3;
        net->ttl = ip[8];
        net->protocol = ip[9];
        net->src_ip.bytes[10] = net->src_ip.bytes[11] = net->dst_ip.bytes[10] = net->dst_ip.bytes[11] = 0xff;
        __builtin_memcpy(net->src_ip.bytes + 12, ip + 12, 4);
        __builtin_memcpy(net->dst_ip.bytes + 12, ip + 16, 4);
    } else if (kind == 0x86dd) {
        uint32_t first = (uint32_t)hw_wire_get(ip, 4);
        net->version = 6;
        net->hdr_len = HW_IPV6;
        net->tot_len = (uint32_t)hw_wire_get(ip + 4, 2) + HW_IPV6;
        if (first >> 28 != 6)
            return false;
        net->dscp = first >> 22 & 0x3f;
        net->ecn = first >> 20 & 3;
        net->flow_label = first & 0xfffff;
        net->protocol = ip[6];
        net->ttl = ip[7];
        __builtin_memcpy(&net->src_ip, ip + 8, 16);
        __builtin_memcpy(&net->dst_ip, ip + 24, 16);
        /* Mapped IPv4 addresses (RFC 4291, 2.5.5.2) are valid only within the stack. */
        if (hw_is_mapped(&net->src_ip) || hw_is_mapped(&net->dst_ip))
            return false;
    } else {
        return false;
    }
    return net->tot_len >= net->hdr_len && net->tot_len + HW_ETHERNET <= len;
}

/* Skips the header of a datagram (RFC 768), as the engine does (`net/udp.rs`): it counts as a network header. */
HW_INLINE bool hw_open_udp(hw_net *net, const uint8_t *datagram) {
    uint64_t room = net->tot_len - net->hdr_len, len = hw_wire_get(datagram + 4, 2);
    if (room < HW_UDP || len < HW_UDP || len > room)
        return false;
    if (hw_wire_get(datagram + 6, 2) != 0) {
        hw_sum sum = hw_sum_pseudo(net, HW_UDP_PROTOCOL, len);
        hw_sum_add(&sum, datagram, len);
        if (!hw_sum_valid(sum))
            return false;
    } else if (net->version != 4) {
        return false; /* RFC 8200, 8.1 */
    }
    net->tot_len = net->hdr_len + (uint32_t)len;
    net->src_port = (uint16_t)hw_wire_get(datagram, 2);
    net->dst_port = (uint16_t)hw_wire_get(datagram + 2, 2);
    net->hdr_len += HW_UDP;
    return true;
}

/* Returns whether an application holds a UDP port. */
HW_INLINE bool hw_holds(const hw_front *front, uint16_t port) {
    const uint64_t *words = hw_arena_at(front->ports);
    return words[port / 64] >> port % 64 & 1;
}

HW_INLINE uint32_t hw_parse(const hw_front *front, const hw_packet *packet, hw_events *events, const hw_net *net) {
    const uint64_t *params = hw_arena_at(front->params);
#define HW_PARSER(number, parser, max) \
    case number: \
        events->capacity = max; \
        return mtp_parse(params, parser, packet, HW_NOTHING, HW_NOTHING, events);
#define HW_REGISTERED(number, parser, max) case number:
    /* Only a UDP header has a port. */
    uint16_t port = net->dst_port;
    if (port == 0) {
        switch (net->protocol) {
            HW_IP_PARSERS(HW_PARSER)
        default:
            return HW_FRAME;
        }
    }
    switch (port) {
        HW_UDP_PARSERS(HW_REGISTERED)
        break;
    default:
        if (!hw_holds(front, port))
            return HW_FRAME;
        port = HW_UDP_PORT;
    }
    switch (port) {
        HW_UDP_PARSERS(HW_PARSER)
    default:
        return HW_FRAME;
    }
}

/* The urgency of an unexecuted record: 0 if the stack may sleep on, 1 if it must wake up, 2 if the record must be
 * executed before any other step. */
HW_INLINE unsigned hw_urgency(const hw_front *front, const hw_record *record) {
    switch (record->kind) {
    case HW_TIMER_STOP:
        return 0;
    case HW_TIMER_START:
        return ((const hw_timer_rec *)record)->deadline < front->until;
    case HW_NEW_CONTEXT:
    case HW_DEL_CONTEXT:
    case HW_ADD_ID:
    case HW_DROP_ID:
    case HW_RAISE:
    case HW_EXTERN:
        return 2;
    default:
        return 1;
    }
}

/* The last chain has ended: its results are in the log. Returns whether the stack must act on them before the chain of the
 * frame's next event. The next chain may need a context that this one created or ended, and follows its raised events. */
HW_INLINE bool hw_close_chain(hw_front *front, hw_call *call) {
    hw_entry *entry = hw_arena_at(front->entry);
    hw_chain *chain = hw_arena_at(front->ran);
    chain->outcome = call->outcome;
    uint64_t at = front->ran + sizeof(hw_chain) + hw_padded(chain->fresh);
    chain->records = (uint32_t)(call->records - at);
    bool waits = HW_RUN->created;
    while (front->event + 1 < front->event_count && HW_MORE(at < call->records)) {
        const hw_record *record = hw_arena_at(at);
        waits |= hw_urgency(front, record) > 1;
        at += record->len;
        HW_STAY(at);
    }
    call->records = hw_padded(call->records);
    if (chain->context != HW_NOBODY) {
        uint64_t *changed = hw_arena_at(front->changed + chain->context / 64 * 8);
        *changed |= UINT64_C(1) << chain->context % 64;
    }
    entry->chains++;
    front->chains--;
    front->ran = 0;
    return waits;
}

/* The contexts of an event's ids, looked up as in the engine (`chain/resolve.rs`). */
typedef struct hw_found {
    uint32_t context; /* a context's number; `HW_NOBODY` */
    unsigned vacant;  /* index of the first unknown id; 3: none */
} hw_found;

HW_INLINE hw_place *hw_place_of(const hw_front *front, uint32_t context) {
    return hw_arena_at(front->contexts + context * front->stride);
}

HW_INLINE bool hw_creates_on(const hw_front *front, const hw_plan *plan, uint32_t context) {
    const hw_place *place = hw_place_of(front, context);
    return plan->fresh != 0 && plan->creates >> ((place->type - 1) & 63) & 1;
}

HW_INLINE hw_found hw_find(const hw_front *front, const hw_plan *plan, const hw_event *event) {
    hw_found found = {HW_NOBODY, 3};
    for (unsigned i = 0; i < 3 && i < event->ids; i++) {
        hw_id id;
        __builtin_memcpy(&id, &event->id[i], sizeof(id));
        const uint32_t *number = hw_lookup(&hw_ids, &id);
        if (number && found.context == HW_NOBODY)
            found.context = *number;
        if (!number && id.bytes[sizeof(id) - 1] != 0 && found.vacant == 3)
            found.vacant = i;
        if (found.context != HW_NOBODY && (found.vacant != 3 || !hw_creates_on(front, plan, found.context)))
            break;
    }
    return found;
}

/* Returns whether one of a frame's events has an existing context, rather than one that it could create. */
HW_INLINE bool hw_is_known(const hw_front *front, uint64_t count) {
    bool is_known = false;
    uint64_t at = front->events;
    for (uint64_t i = HW_ZERO; HW_MORE(i < count && !is_known); HW_NEXT(i)) {
        const hw_event *event = hw_arena_at(at);
        const hw_plan *plan = hw_arena_at(front->plans + event->event * sizeof(hw_plan));
        hw_found found = hw_find(front, plan, event);
        is_known = found.context != HW_NOBODY && (found.vacant == 3 || !hw_creates_on(front, plan, found.context));
        at += plan->bytes;
        HW_STAY(at);
        HW_STAY(is_known);
    }
    return is_known;
}

HW_SECTION("xdp") int hw_arrive(struct xdp_md *context) {
    hw_front *front = hw_shared();
    uint64_t turn = HW_FREE;
    if (__sync_val_compare_and_swap(&front->turn, HW_FREE, HW_KERNEL) != HW_FREE) {
        turn = HW_AWAKE;
        if (!hw_is_flooded(front) || __sync_val_compare_and_swap(&front->turn, HW_AWAKE, HW_KERNEL) != HW_AWAKE)
            return hw_pass(context, front);
    }
    bool is_awake = turn == HW_AWAKE;
    HW_STAY(turn);
    HW_STAY(is_awake);
    uint64_t len = context->data_end - context->data;
    /* Frames that went to the stack come before this one. */
    bool runs = front->passed == front->taken && front->chains != 0 && front->log_end - front->log >= front->entry_limit;
    if ((!is_awake && !runs) || len < HW_ETHERNET + HW_IPV6 || len > HW_LARGEST)
        return hw_leave(context, front, turn);
    hw_entry *entry = hw_arena_at(front->log);
    uint8_t *frame = hw_arena_at(is_awake ? front->sieve : front->log + sizeof(hw_entry));
    hw_input *input = hw_arena_at(front->input);
    hw_net *net = &input->net;
    hw_copy_frame(context, frame, len);
    if (!hw_read_network(net, frame, len) || !hw_is_unicast(net) || hw_is_own(&net->src_ip) || !hw_is_own(&net->dst_ip))
        return hw_leave(context, front, turn);
    if (HW_UDP_PORT != 0 && net->protocol == HW_UDP_PROTOCOL && !hw_open_udp(net, frame + HW_ETHERNET + net->hdr_len))
        return hw_leave(context, front, turn);
    net->path_mtu = (uint32_t)front->mtu;
    input->packet = (hw_packet){
        .net = net,
        .head = frame + HW_ETHERNET + net->hdr_len,
        .head_len = net->tot_len - net->hdr_len,
        .tail = HW_NONE,
        .addr = (uint64_t)UINT32_MAX << 32, /* the buffer `FRONT_BUFFER` of the engine */
        .verify = 1,
    };
    input->events = (hw_events){.at = hw_arena_at(front->events), .end = hw_arena_at(front->events_end)};
    /* The stack counts frames that do not parse, except in a flood. */
    bool is_parsed = hw_parse(front, &input->packet, &input->events, net) == 0 && input->events.count != 0;
    if (!is_parsed && (!is_awake || (net->protocol != front->protocol && net->dst_port == 0)))
        return hw_leave(context, front, turn);
    if (is_awake) {
        if (is_parsed && hw_is_known(front, input->events.count))
            return hw_leave(context, front, turn);
        front->sifted++;
        hw_release(front, turn);
        return HW_XDP_DROP;
    }
    front->chains_then = front->chains;
    front->room_then = front->room;
    entry->now = hw_time();
    entry->frame = (uint32_t)len;
    entry->chains = 0;
    front->entry = front->log;
    front->event = front->ran = front->is_urgent = 0;
    front->event_count = input->events.count;
    front->event_at = front->events;
    uint64_t *scratch = hw_arena_at(front->scratch);
    for (uint64_t at = HW_ZERO; HW_MORE(at < front->scratch_bytes / 8); HW_NEXT(at))
        scratch[at] = 0;
    hw_call *call = hw_arena_at(HW_CALL_AT);
    call->records = front->log + sizeof(hw_entry) + hw_padded(len);
    hw_tail_call(context, &hw_programs, HW_STEP);
    return hw_leave(context, front, turn);
}

/* SipHash-1-3 of an id's used bytes, with the stack's key. */
HW_APART uint64_t hw_hash_at(uint64_t id_at, uint64_t k0, uint64_t k1) {
    const hw_id *id = hw_arena_at(id_at);
    return hw_sip(k0, k1, id->bytes, id->bytes[sizeof(*id) - 1] & 63, 1, 3);
}

enum { HW_LEAVE, HW_SKIP, HW_RUN_CHAIN };

/* Begins an entry of the log for the next event, if its chain can run here, or has no context to run on. */
HW_INLINE int hw_open_chain(hw_front *front, hw_call *call, hw_event *event) {
    const hw_plan *plan = hw_arena_at(front->plans + event->event * sizeof(hw_plan));
    const hw_entry *entry = hw_arena_at(front->entry);
    hw_found found = hw_find(front, plan, event);
    bool is_alone = found.context == HW_NOBODY;
    if (found.vacant != 3 && !front->is_complete)
        return HW_LEAVE;
    hw_chain *chain = hw_arena_at(call->records);
    if (is_alone && !plan->runs_alone) {
        *chain = (hw_chain){.context = HW_NOBODY};
        call->records += sizeof(hw_chain);
        return HW_SKIP;
    }
    bool creates = plan->fresh != 0 && found.vacant != 3 && (is_alone || hw_creates_on(front, plan, found.context));
    if (!plan->runs || front->chains == 0 || front->room < entry->frame || (creates && !front->may_create))
        return HW_LEAVE;
    call->keyed = call->keyed_type = call->fresh = 0;
    if (!is_alone) {
        hw_place *place = hw_place_of(front, found.context);
        if (place->type == 0 || place->room < entry->frame)
            return HW_LEAVE;
        place->room -= entry->frame;
        call->keyed = front->contexts + found.context * front->stride + sizeof(hw_place);
        call->keyed_type = place->type;
    }
    front->room -= entry->frame;
    event->now = entry->now;
    event->rand = (uint64_t)hw_random() << 32 | hw_random();
    event->hash = (uint32_t)hw_hash_at(HW_NUMBER(&event->id[0]), front->key[0], front->key[1]);
    *chain = (hw_chain){.context = found.context, .fresh = creates ? plan->fresh : 0};
    front->ran = call->records;
    call->records += sizeof(hw_chain) + hw_padded(chain->fresh);
    if (creates) {
        call->fresh = front->ran + sizeof(hw_chain);
        hw_clear(call->fresh, hw_padded(plan->fresh));
        hw_id *id = hw_arena_at(call->fresh);
        *id = event->id[found.vacant & 3];
    }
    call->records_end = front->log_end;
    call->event = front->event_at;
    call->wanted = 0;
    call->params = front->params;
    call->scratch = front->scratch;
    return HW_RUN_CHAIN;
}

/* Continues with the next event. */
HW_SECTION("xdp") int hw_step(struct xdp_md *context) {
    hw_front *front = hw_shared();
    hw_call *call = hw_arena_at(HW_CALL_AT);
    bool is_over = front->event >= front->event_count;
    if (front->ran != 0) {
        bool waits = hw_close_chain(front, call);
        front->event++;
        front->is_urgent |= waits;
        is_over = (uint32_t)call->outcome != HW_DONE || waits || front->event >= front->event_count;
    }
    if (is_over)
        hw_tail_call(context, &hw_programs, HW_ANSWER);
    hw_event *event = hw_arena_at(front->event_at);
    /* Each step is a tail call, of which the kernel permits 33. */
    if (front->event < front->event_count && front->event < 14) {
        const hw_plan *plan = hw_arena_at(front->plans + event->event * sizeof(hw_plan));
        uint64_t begin = call->records;
        int what = hw_open_chain(front, call, event);
        if (what != HW_LEAVE)
            front->event_at += plan->bytes;
        if (what == HW_SKIP) {
            ((hw_entry *)hw_arena_at(front->entry))->chains++;
            front->event++;
            hw_tail_call(context, &hw_programs, HW_STEP);
        } else if (what == HW_RUN_CHAIN) {
            hw_tail_call(context, &hw_programs, HW_CHAINS + event->event);
            /* The chain does not exist: no state has changed. */
            call->records = begin;
            front->ran = 0;
        }
    }
    if (front->event == 0)
        return hw_leave(context, front, HW_FREE);
    front->is_urgent = 1; /* the stack runs the chains of the other events */
    hw_tail_call(context, &hw_programs, HW_ANSWER);
    return HW_XDP_DROP;
}

/* Returns whether a packet goes back to the sender of the frame and can be sent from here; completes it. */
HW_INLINE bool hw_is_answer(const hw_front *front, hw_packet_rec *packet) {
    const hw_net *came = hw_arena_at(front->input);
    const uint64_t *blueprints = hw_arena_at(front->blueprints), *queues = hw_arena_at(front->queues);
    hw_net *net = &packet->net;
    if (!blueprints[packet->blueprint] || !queues[packet->queue])
        return false;
    if (packet->data_at != UINT32_MAX) {
        const uint8_t *image = (const uint8_t *)(packet + 1);
        if (((const hw_data *)(image + packet->data_at))->len != 0)
            return false;
    }
    if (memcmp(&net->dst_ip, &came->src_ip, 16) != 0)
        return false;
    uint64_t words[2];
    __builtin_memcpy(words, &net->src_ip, 16);
    if (words[0] == 0 && words[1] == 0)
        net->src_ip = came->dst_ip;
    else if (memcmp(&net->src_ip, &came->dst_ip, 16) != 0)
        return false;
    if (net->protocol == 0)
        net->protocol = (uint8_t)front->protocol;
    if (net->ttl == 0)
        net->ttl = 64;
    bool is_datagram = HW_UDP_PORT != 0 && net->protocol == HW_UDP_PROTOCOL;
    net->version = came->version;
    net->hdr_len = (net->version == 4 ? HW_IPV4 : HW_IPV6) + (is_datagram ? HW_UDP : 0);
    if (!is_datagram)
        net->src_port = net->dst_port = 0;
    if (is_datagram && net->src_port == 0)
        net->src_port = HW_UDP_PORT;
    if (is_datagram && net->dst_port == 0)
        net->dst_port = HW_UDP_PORT;
    return true;
}

/* The work that a frame leaves to the stack. */
typedef struct hw_rest {
    unsigned urgency; /* 0: it can wait, 1: at once, 2: before the next frame */
    bool is_any;
} hw_rest;

/* Finds the packet that is sent from here, and its chain; the other records are left to the stack. */
HW_INLINE hw_packet_rec *hw_sift(hw_front *front, uint64_t end, hw_rest *rest) {
    const hw_entry *entry = hw_arena_at(front->entry);
    uint64_t at = front->entry + sizeof(hw_entry) + hw_padded(entry->frame);
    uint64_t records_end = 0;
    uint64_t chain_at = HW_ZERO, records_at = HW_ZERO;
    hw_packet_rec *answer = HW_NONE;
    while (HW_MORE(at < end)) {
        if (at >= records_end) {
            const hw_chain *chain = hw_arena_at(at);
            chain_at = at;
            records_at = at += sizeof(hw_chain) + hw_padded(chain->fresh);
            records_end = at + chain->records;
            /* The stack counts asserts and refusals. */
            rest->is_any |= (uint32_t)chain->outcome > HW_STOP;
            if (chain->records == 0)
                records_end = at;
        }
        if (at < records_end) {
            hw_record *record = hw_arena_at(at);
            if (record->kind == HW_PACKET && !answer && hw_is_answer(front, (hw_packet_rec *)record)) {
                answer = (hw_packet_rec *)record;
                front->ran = chain_at;
                ((hw_chain *)hw_arena_at(chain_at))->answer = at - records_at + 1;
            } else {
                unsigned now = hw_urgency(front, record);
                rest->urgency = now > rest->urgency ? now : rest->urgency;
                rest->is_any = true;
            }
            at += record->len;
            HW_STAY(at);
        }
        if (at >= records_end)
            at = hw_padded(at);
    }
    return answer;
}

/* Writes the header before a datagram's data; a checksum of zero would mean that there is none (RFC 768). */
HW_INLINE void hw_write_udp(const hw_net *net, uint8_t *datagram, uint64_t len) {
    hw_wire_put(datagram, (uint64_t)net->src_port << 48 | (uint64_t)net->dst_port << 32 | len << 16, 8);
    hw_sum sum = hw_sum_pseudo(net, HW_UDP_PROTOCOL, len);
    hw_sum_add(&sum, datagram, len);
    uint16_t folded = (uint16_t)~hw_sum_fold(sum.total);
    folded = folded == 0 ? 0xffff : folded;
    __builtin_memcpy(datagram + 6, &folded, 2);
}

/* Turns the frame into an answer. */
HW_INLINE bool hw_send(struct xdp_md *context, const hw_front *front, hw_packet_rec *packet) {
    const hw_net *net = &packet->net;
    uint8_t *out = ((hw_input *)hw_arena_at(front->input))->out;
    const hw_entry *entry = hw_arena_at(front->entry);
    const uint8_t *frame = hw_arena_at(front->entry + sizeof(hw_entry));
    uint64_t network = HW_ETHERNET + net->hdr_len;
    hw_built built = mtp_build(hw_arena_at(front->params), packet, (uint8_t *)(packet + 1), 0, 1, 0, out + network,
                               HW_HEADER_BYTES);
    if (built.len == 0)
        return false;
    if (built.has_csum) {
        uint16_t sum = (uint16_t)~hw_sum_fold(hw_sum_words(out + network, built.len));
        if (sum == 0 && built.csum_at == 6)
            sum = 0xffff; /* as the engine (`net/checksum.rs`): the field may be UDP's */
        __builtin_memcpy(out + network + built.csum_at, &sum, 2);
    }
    uint64_t len = network + built.len;
    if (len > HW_ETHERNET + front->mtu)
        return false;
    if (net->src_port != 0)
        hw_write_udp(net, out + network - HW_UDP, HW_UDP + built.len);
    for (unsigned i = 0; i < 6; i++) {
        out[i] = frame[6 + i];
        out[6 + i] = frame[i];
    }
    out[12] = frame[12];
    out[13] = frame[13];
    uint8_t *ip = out + HW_ETHERNET;
    if (net->version == 4) {
        hw_wire_put(ip, 0x4500u | (uint32_t)net->dscp << 2 | (net->ecn & 3), 2);
        hw_wire_put(ip + 2, len - HW_ETHERNET, 2);
        hw_wire_put(ip + 4, 0x4000, 4); /* identification 0, do not fragment */
        ip[8] = net->ttl;
        ip[9] = net->protocol;
        hw_wire_put(ip + 10, 0, 2);
        __builtin_memcpy(ip + 12, net->src_ip.bytes + 12, 4);
        __builtin_memcpy(ip + 16, net->dst_ip.bytes + 12, 4);
        uint16_t sum = (uint16_t)~hw_sum_fold(hw_sum_words(ip, HW_IPV4));
        __builtin_memcpy(ip + 10, &sum, 2);
    } else {
        hw_wire_put(ip, 6u << 28 | ((uint32_t)(net->dscp & 0x3f) << 2 | (net->ecn & 3)) << 20 | (net->flow_label & 0xfffff), 4);
        hw_wire_put(ip + 4, len - HW_ETHERNET - HW_IPV6, 2);
        ip[6] = net->protocol;
        ip[7] = net->ttl;
        __builtin_memcpy(ip + 8, &net->src_ip, 16);
        __builtin_memcpy(ip + 24, &net->dst_ip, 16);
    }
    if (hw_set_end(context, (int)len - (int)entry->frame) != 0)
        return false;
    hw_copy_back(context, out, len);
    return true;
}

/* All chains of the frame ran: it is answered, and the stack is woken if it has work to do. A frame without work for
 * the stack is not reported to it. */
HW_SECTION("xdp") int hw_answer(struct xdp_md *context) {
    hw_front *front = hw_shared();
    hw_call *call = hw_arena_at(HW_CALL_AT);
    hw_rest rest = {front->is_urgent ? 2 : 0, front->is_urgent};
    hw_packet_rec *packet = hw_sift(front, call->records, &rest);
    int verdict = HW_XDP_DROP;
    if (packet) {
        if (hw_send(context, front, packet)) {
            verdict = HW_XDP_TX;
            front->answered++;
        } else {
            ((hw_chain *)hw_arena_at(front->ran))->answer = 0;
            rest.urgency = rest.urgency > 0 ? rest.urgency : 1;
            rest.is_any = true;
        }
        front->ran = 0;
    }
    if (rest.is_any) {
        front->log = call->records;
        front->frames++;
    } else {
        /* It uses none of the stack's room. */
        front->chains = front->chains_then;
        front->room = front->room_then;
    }
    front->handled++;
    bool is_full = front->log_end - front->log < front->entry_limit;
    if (!front->rung && (rest.urgency > 0 || is_full)) {
        uint64_t sound = 0;
        front->rung = 1;
        hw_ring(&hw_bell, &sound, sizeof(sound), 2 /* BPF_RB_FORCE_WAKEUP */);
    }
    hw_release(front, rest.urgency > 1 ? HW_WANTED : HW_FREE);
    return verdict;
}

#endif
