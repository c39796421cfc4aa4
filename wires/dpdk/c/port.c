#include "port.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>

// Frames that a queue holds, and the number if its frames may be super-segments.
#define DESCRIPTORS 1024
#define JOINED_DESCRIPTORS 256
// Frames in each thread's own cache.
#define CACHE 256
// Bytes of an Ethernet header.
#define ETHERNET 14
// The header fields by which adapters distribute frames over queues, as far as supported.
#define HASHED (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP)

struct hw_queue {
    struct hw_port *port;
    uint16_t number;
    // Frames to receive; the first bytes of frames to send; references to the bytes after them.
    struct rte_mempool *arrivals, *heads, *pieces;
};

struct hw_port {
    uint16_t id;
    uint16_t depth;
    int program;
    void (*free_piece)(void *bytes, void *place);
    uint16_t count;
    struct hw_queue queues[];
};

// The data in front of a reference to a piece of payload.
struct reference {
    struct rte_mbuf_ext_shared_info shared;
    uint64_t place[HW_PLACE / sizeof(uint64_t)];
};

static FILE *log_stream;
static char *log_text;
static size_t log_len;

void hw_log_begin(void) {
    log_stream = open_memstream(&log_text, &log_len);
    if (log_stream != NULL)
        rte_openlog_stream(log_stream);
}

size_t hw_log_end(char *text, size_t room) {
    if (log_stream == NULL)
        return 0;
    rte_openlog_stream(stderr);
    fclose(log_stream);
    log_stream = NULL;
    size_t len = log_len < room ? log_len : room;
    memcpy(text, log_text + log_len - len, len);
    free(log_text);
    return len;
}

int hw_start(int count, char **arguments) {
    rte_log_set_global_level(RTE_LOG_NOTICE);
    int status = rte_eal_init(count, arguments);
    if (status < 0)
        return -rte_errno;
    // The folder is empty, even if another process created it: no state is shared with other processes.
    rmdir(rte_eal_get_runtime_dir());
    return 0;
}

static pthread_key_t leaving;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void leave(void *unused) {
    (void)unused;
    rte_thread_unregister();
}

static void prepare(void) { pthread_key_create(&leaving, leave); }

// Gives the thread its own frame caches, if any are left: 128 threads can have them.
static void join(void) {
    static __thread bool has_tried;
    if (has_tried || rte_lcore_id() != LCORE_ID_ANY)
        return;
    has_tried = true;
    pthread_once(&prepared, prepare);
    if (rte_thread_register() == 0)
        pthread_setspecific(leaving, &has_tried);
}

// Finds the port of a device, if there is one.
static int find(const char *device, uint16_t *port) {
    struct rte_dev_iterator iterator;
    int status = rte_eth_iterator_init(&iterator, device);
    if (status < 0)
        return status;
    *port = rte_eth_iterator_next(&iterator);
    if (*port == RTE_MAX_ETHPORTS)
        return -ENODEV;
    rte_eth_iterator_cleanup(&iterator);
    return 0;
}

int hw_probe(const char *device, uint16_t *port) {
    // DPDK would remove an existing device after it fails to inform other processes of it.
    if (find(device, port) == 0)
        return -EEXIST;
    int status = rte_dev_probe(device);
    return status < 0 ? status : find(device, port);
}

void hw_remove(uint16_t port) {
    struct rte_eth_dev_info info;
    if (rte_eth_dev_info_get(port, &info) == 0)
        rte_dev_remove(info.device);
}

int hw_info(uint16_t port, struct hw_info *info) {
    struct rte_eth_dev_info device;
    struct rte_ether_addr mac;
    uint16_t mtu;
    int status = rte_eth_dev_info_get(port, &device);
    if (status == 0)
        status = rte_eth_macaddr_get(port, &mac);
    if (status == 0)
        status = rte_eth_dev_get_mtu(port, &mtu);
    if (status < 0)
        return status;
    const uint64_t sums = RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    const uint64_t cuts = sums | RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    const uint64_t verifies = RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
    // The peer of net_virtio_user accesses DPDK's memory directly, like an adapter; that of net_memif does with zero-copy.
    bool is_virtio = strcmp(device.driver_name, "net_virtio_user") == 0;
    const struct rte_devargs *given = rte_dev_devargs(device.device);
    bool is_memif = strcmp(device.driver_name, "net_memif") == 0;
    bool is_shared = is_virtio || (is_memif && given != NULL && given->args != NULL && strstr(given->args, "zero-copy=yes"));
    // net_tap segments by itself, but only IPv4 and only packets shorter than the MTU. It also computes checksums by itself,
    // wrongly if a piece of odd length is not the last.
    bool is_tap = strcmp(device.driver_name, "net_tap") == 0;
    bool gathers = device.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    *info = (struct hw_info){
        .mtu = mtu,
        .interface = device.if_index,
        .queues = RTE_MIN(device.max_rx_queues, device.max_tx_queues),
        // A driver that states no limit has none.
        .pieces = !gathers ? 1 : device.tx_desc_lim.nb_seg_max == 0 ? UINT16_MAX : device.tx_desc_lim.nb_seg_max,
        .sums = (device.tx_offload_capa & sums) == sums && !is_tap,
        .verifies = (device.rx_offload_capa & verifies) == verifies,
        .cuts = (device.tx_offload_capa & cuts) == cuts && !is_tap,
        .joins = device.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TCP_LRO,
        .copies = rte_dev_bus(device.device) == rte_bus_find_by_name("vdev") && !is_virtio,
        .is_af_xdp = strcmp(device.driver_name, "net_af_xdp") == 0,
        .is_shared = is_shared,
    };
    memcpy(info->mac, mac.addr_bytes, sizeof info->mac);
    return 0;
}

static struct rte_mempool *pool(uint16_t port, unsigned count, uint16_t place, uint16_t room) {
    static atomic_uint number;
    char name[RTE_MEMPOOL_NAMESIZE];
    snprintf(name, sizeof name, "hawser_%u", number++);
    return rte_pktmbuf_pool_create(name, count, CACHE, place, room, rte_eth_dev_socket_id(port));
}

// Send pools of closed ports, whose frames another port (net_ring) may still hold.
static struct rte_mempool *closed[64];
static pthread_mutex_t closed_lock = PTHREAD_MUTEX_INITIALIZER;

// Frees a pool once all of its frames have returned. If the list is full, the pool is not freed.
static void free_pool(struct rte_mempool *pool) {
    pthread_mutex_lock(&closed_lock);
    for (size_t i = 0; i < RTE_DIM(closed); i++) {
        if (closed[i] == NULL) {
            closed[i] = pool;
            pool = NULL;
        }
        if (closed[i] != NULL && rte_mempool_full(closed[i])) {
            rte_mempool_free(closed[i]);
            closed[i] = NULL;
        }
    }
    pthread_mutex_unlock(&closed_lock);
}

static int set_up(struct hw_queue *queue, const struct hw_info *info, uint16_t send, unsigned held) {
    uint16_t id = queue->port->id, depth = queue->port->depth;
    uint16_t room = RTE_PKTMBUF_HEADROOM + RTE_MAX(RTE_MBUF_DEFAULT_DATAROOM, info->mtu + ETHERNET + 8);
    // A received super-segment lies in one piece, except for a few bytes of the longest.
    queue->arrivals = pool(id, depth + 2 * CACHE + held, 0, info->joins ? UINT16_MAX : room);
    queue->heads = pool(id, send + 2 * CACHE, 0, room);
    queue->pieces = pool(id, 2 * send + 2 * CACHE, RTE_ALIGN(sizeof(struct reference), RTE_MBUF_PRIV_ALIGN), 0);
    if (queue->arrivals == NULL || queue->heads == NULL || queue->pieces == NULL)
        return -rte_errno;
    unsigned socket = rte_eth_dev_socket_id(id);
    int status = rte_eth_rx_queue_setup(id, queue->number, depth, socket, NULL, queue->arrivals);
    return status < 0 ? status : rte_eth_tx_queue_setup(id, queue->number, send, socket, NULL);
}

static int start(struct hw_port *port, const struct hw_info *info) {
    uint16_t send = DESCRIPTORS;
    struct rte_eth_dev_info device;
    struct rte_eth_conf conf = {0};
    int status = rte_eth_dev_info_get(port->id, &device);
    if (status < 0)
        return status;
    port->depth = info->joins ? JOINED_DESCRIPTORS : DESCRIPTORS;
    conf.rxmode.mtu = info->mtu;
    conf.rxmode.max_lro_pkt_size = device.max_lro_pkt_size;
    if (info->verifies)
        conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
    if (info->sums)
        conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    if (info->pieces > 1)
        conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    if (info->cuts)
        conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
    if (info->joins)
        conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TCP_LRO;
    conf.rx_adv_conf.rss_conf.rss_hf = device.flow_type_rss_offloads & HASHED;
    if (port->count > 1 && conf.rx_adv_conf.rss_conf.rss_hf != 0)
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    status = rte_eth_dev_configure(port->id, port->count, port->count, &conf);
    if (status == 0)
        status = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &port->depth, &send);
    for (uint16_t i = 0; i < port->count && status == 0; i++)
        // net_af_xdp holds received frames in four rings of its own, and copies frames to send into such frames.
        status = set_up(&port->queues[i], info, send, info->is_af_xdp ? 8 * DESCRIPTORS : 0);
    if (status == 0)
        status = rte_eth_dev_start(port->id);
    // Settings that drivers make on a host interface would survive a killed process: the caller enables reception.
    if (status < 0 || info->interface != 0)
        return status;
    // Neighbours are solicited by multicast (RFC 4861).
    status = rte_eth_allmulticast_enable(port->id);
    // A driver without this function receives all multicast.
    return status == -ENOTSUP ? 0 : status;
}

static void free_port(struct hw_port *port) {
    for (uint16_t i = 0; i < port->count; i++) {
        // net_af_xdp does not return the frames in its rings, and there are no other holders.
        rte_mempool_free(port->queues[i].arrivals);
        free_pool(port->queues[i].heads);
        free_pool(port->queues[i].pieces);
    }
    free(port);
}

static void give_up(uint16_t id, int program) {
    // The driver looks for a program to detach, and must find none: it cannot detach ours.
    if (program >= 0)
        close(program);
    hw_remove(id);
}

int hw_open(uint16_t id, const struct hw_info *info, uint16_t count, int program,
            void (*free_piece)(void *bytes, void *place), struct hw_port **opened) {
    struct hw_port *port = calloc(1, sizeof *port + count * sizeof *port->queues);
    if (port == NULL) {
        give_up(id, program);
        return -ENOMEM;
    }
    port->id = id;
    port->program = program;
    port->free_piece = free_piece;
    port->count = count;
    for (uint16_t i = 0; i < count; i++)
        port->queues[i] = (struct hw_queue){.port = port, .number = i};
    int status = start(port, info);
    if (status < 0) {
        give_up(id, program);
        free_port(port);
        return status;
    }
    *opened = port;
    return 0;
}

// A port that is being closed.
struct closing {
    struct hw_port *port;
    sem_t is_done;
};

static void close_port(struct hw_port *port) {
    // Drivers do not free frames still in a ring; the bound ends the loop even if frames keep arriving.
    struct rte_mbuf *frames[64];
    for (uint16_t i = 0; i < port->count; i++) {
        uint16_t count = 1;
        for (uint32_t freed = 0; count > 0 && freed < 2u * port->depth; freed += count) {
            count = rte_eth_rx_burst(port->id, i, frames, RTE_DIM(frames));
            rte_pktmbuf_free_bulk(frames, count);
        }
    }
    rte_eth_dev_stop(port->id);
    give_up(port->id, port->program);
    free_port(port);
}

static void close_now(void *argument) {
    struct closing *closing = argument;
    close_port(closing->port);
    sem_post(&closing->is_done);
}

// Runs in the interrupt thread, where net_memif also ends its connection: it then frees the state closed here.
void hw_close(struct hw_port *port) {
    struct closing closing = {.port = port};
    // net_af_xdp looks up its interface by number, in the thread's namespace.
    if (port->program >= 0 || sem_init(&closing.is_done, 0, 0) < 0 || rte_eal_alarm_set(1, close_now, &closing) < 0) {
        close_port(port);
        return;
    }
    while (sem_wait(&closing.is_done) < 0)
        continue;
    sem_destroy(&closing.is_done);
}

int hw_counts(const struct hw_port *port, struct hw_counts *counts) {
    struct rte_eth_stats stats;
    int status = rte_eth_stats_get(port->id, &stats);
    if (status == 0)
        counts->missed = stats.imissed + stats.rx_nombuf;
    return status;
}

uint16_t hw_depth(const struct hw_port *port) { return port->depth; }

struct hw_queue *hw_queue(struct hw_port *port, uint16_t number) { return &port->queues[number]; }

uint16_t hw_receive(struct hw_queue *queue, struct hw_received *frames, uint16_t max) {
    struct rte_mbuf *burst[64];
    join();
    uint16_t count = rte_eth_rx_burst(queue->port->id, queue->number, burst, RTE_MIN(max, RTE_DIM(burst)));
    for (uint16_t i = 0; i < count; i++) {
        struct rte_mbuf *frame = burst[i];
        uint64_t sum = frame->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
        frames[i] = (struct hw_received){
            .frame = frame,
            .head = rte_pktmbuf_mtod(frame, uint8_t *),
            .head_len = frame->data_len,
            .tail_len = frame->pkt_len - frame->data_len,
            .seg_size = frame->ol_flags & RTE_MBUF_F_RX_LRO ? frame->tso_segsz : 0,
            .is_verified = sum == RTE_MBUF_F_RX_L4_CKSUM_GOOD || sum == RTE_MBUF_F_RX_L4_CKSUM_NONE,
        };
    }
    return count;
}

void hw_copy_tail(const struct hw_received *received, uint8_t *to) {
    uint32_t room = received->tail_len;
    for (struct rte_mbuf *piece = received->frame->next; piece != NULL && room > 0; piece = piece->next) {
        uint32_t part = RTE_MIN(room, piece->data_len);
        memcpy(to, rte_pktmbuf_mtod(piece, uint8_t *), part);
        to += part;
        room -= part;
    }
}

void hw_release(const struct hw_received *frames, uint16_t count) {
    for (uint16_t i = 0; i < count; i++)
        rte_pktmbuf_free(frames[i].frame);
}

struct rte_mbuf *hw_frame(struct hw_queue *queue, const uint8_t *head, uint16_t len) {
    struct rte_mbuf *frame = rte_pktmbuf_alloc(queue->heads);
    if (frame == NULL)
        return NULL;
    char *to = rte_pktmbuf_append(frame, len);
    if (to == NULL) {
        rte_pktmbuf_free(frame);
        return NULL;
    }
    memcpy(to, head, len);
    return frame;
}

bool hw_append(struct hw_queue *queue, struct rte_mbuf *frame, const uint8_t *bytes, uint16_t len) {
    while (len > 0) {
        struct rte_mbuf *last = rte_pktmbuf_lastseg(frame);
        // Referenced pieces are not written to.
        uint16_t room = RTE_MBUF_DIRECT(last) ? rte_pktmbuf_tailroom(last) : 0;
        if (room == 0) {
            last = rte_pktmbuf_alloc(queue->heads);
            if (last == NULL)
                return false;
            rte_pktmbuf_chain(frame, last);
            continue;
        }
        uint16_t part = RTE_MIN(room, len);
        memcpy(rte_pktmbuf_append(frame, part), bytes, part);
        bytes += part;
        len -= part;
    }
    return true;
}

void *hw_refer(struct hw_queue *queue, struct rte_mbuf *frame, const uint8_t *bytes, uint16_t len) {
    struct rte_mbuf *piece = rte_pktmbuf_alloc(queue->pieces);
    if (piece == NULL)
        return NULL;
    struct reference *reference = rte_mbuf_to_priv(piece);
    reference->shared.free_cb = queue->port->free_piece;
    reference->shared.fcb_opaque = reference->place;
    rte_mbuf_ext_refcnt_set(&reference->shared, 1);
    rte_pktmbuf_attach_extbuf(piece, (void *)(uintptr_t)bytes, (uintptr_t)bytes, len, &reference->shared);
    piece->data_off = 0;
    piece->data_len = len;
    piece->pkt_len = len;
    rte_pktmbuf_chain(frame, piece);
    return reference->place;
}

void hw_complete(struct rte_mbuf *frame, bool ipv4, bool udp, uint16_t network, uint16_t transport) {
    frame->l2_len = network;
    frame->l3_len = transport - network;
    frame->ol_flags |= (ipv4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6) |
                       (udp ? RTE_MBUF_F_TX_UDP_CKSUM : RTE_MBUF_F_TX_TCP_CKSUM);
}

void hw_cut(struct rte_mbuf *frame, uint16_t head, uint16_t size) {
    frame->l4_len = head - frame->l2_len - frame->l3_len;
    frame->tso_segsz = size;
    frame->ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
}

uint16_t hw_send(struct hw_queue *queue, struct rte_mbuf **frames, uint16_t count, uint16_t *refused) {
    join();
    // Fills checksum fields as the driver expects, and again for frames that were not sent before.
    uint16_t ready = rte_eth_tx_prepare(queue->port->id, queue->number, frames, count);
    uint16_t sent = rte_eth_tx_burst(queue->port->id, queue->number, frames, ready);
    *refused = sent == ready && ready < count;
    if (*refused)
        rte_pktmbuf_free(frames[ready]);
    return sent + *refused;
}

void hw_drop(struct rte_mbuf **frames, uint16_t count) { rte_pktmbuf_free_bulk(frames, count); }
