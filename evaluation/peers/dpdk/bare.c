#include "bare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_pause.h>

// Headers of Ethernet, IPv4, and TCP with timestamps; the rest of an MTU of 1,500 bytes.
#define HEADERS (14 + 20 + 32)
#define PAYLOAD (1500 - 20 - 32)
// Frames that a queue holds, that are moved at a time, and that the thread's cache holds: as in Hawser's wire.
#define DESCRIPTORS 1024
#define BURST 64
#define CACHE 256

struct bare {
    uint16_t id;
    enum bare_work work;
    struct rte_mempool *frames;
    uint8_t headers[HEADERS];
    // The sum of all payload and all headers read, so that the compiler removes none of that work.
    volatile uint32_t sum;
    bool is_over;
};

static int start(struct bare *port) {
    struct rte_eth_conf conf = {0};
    uint16_t receive = DESCRIPTORS, send = DESCRIPTORS;
    int status = rte_eth_dev_configure(port->id, 1, 1, &conf);
    if (status == 0)
        status = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &receive, &send);
    if (status < 0)
        return status;
    unsigned count = receive + send + 2 * CACHE;
    port->frames = rte_pktmbuf_pool_create("bare", count, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
    if (port->frames == NULL)
        return -rte_errno;
    status = rte_eth_rx_queue_setup(port->id, 0, receive, 0, NULL, port->frames);
    if (status == 0)
        status = rte_eth_tx_queue_setup(port->id, 0, send, 0, NULL);
    return status == 0 ? rte_eth_dev_start(port->id) : status;
}

struct bare *bare_open(int count, char **arguments, const char *device, enum bare_work work, int *error) {
    rte_log_set_global_level(RTE_LOG_ERR);
    if (rte_eal_init(count, arguments) < 0) {
        *error = -rte_errno;
        return NULL;
    }
    // The folder is empty: no state is shared with other processes.
    rmdir(rte_eal_get_runtime_dir());
    struct bare *port = calloc(1, sizeof *port);
    *error = port == NULL ? -ENOMEM : rte_dev_probe(device);
    if (*error == 0) {
        // There is only one.
        port->id = rte_eth_find_next(0);
        port->work = work;
        // An EtherType for local experiments.
        port->headers[12] = 0x88;
        port->headers[13] = 0xb5;
        *error = start(port);
    }
    if (*error == 0)
        return port;
    free(port);
    return NULL;
}

bool bare_is_up(const struct bare *port) {
    struct rte_eth_link link;
    return rte_eth_link_get_nowait(port->id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

static void fill(struct bare *port, struct rte_mbuf *frame, const uint8_t *bytes, uint16_t len) {
    uint8_t *to = rte_pktmbuf_mtod(frame, uint8_t *);
    frame->data_len = HEADERS + len;
    frame->pkt_len = HEADERS + len;
    memcpy(to, port->headers, HEADERS);
    if (port->work == BARE_SUMS)
        port->sum += rte_raw_cksum(bytes, len);
    if (port->work != BARE_HEADERS)
        memcpy(to + HEADERS, bytes, len);
}

static void transmit(struct bare *port, struct rte_mbuf **frames, uint16_t count) {
    for (uint16_t sent = 0; sent < count;) {
        uint16_t taken = rte_eth_tx_burst(port->id, 0, frames + sent, count - sent);
        sent += taken;
        if (taken == 0)
            rte_pause();
    }
}

void bare_send(struct bare *port, const uint8_t *bytes, size_t len) {
    struct rte_mbuf *frames[BURST];
    while (len > 0) {
        unsigned count = RTE_MIN((len + PAYLOAD - 1) / PAYLOAD, (size_t)BURST);
        if (rte_pktmbuf_alloc_bulk(port->frames, frames, count) != 0)
            continue;
        for (unsigned i = 0; i < count; i++) {
            uint16_t piece = RTE_MIN(len, (size_t)PAYLOAD);
            fill(port, frames[i], bytes, piece);
            bytes += piece;
            len -= piece;
        }
        transmit(port, frames, count);
    }
}

void bare_end(struct bare *port) {
    struct rte_mbuf *frame = rte_pktmbuf_alloc(port->frames);
    if (frame == NULL)
        return;
    fill(port, frame, NULL, 0);
    transmit(port, &frame, 1);
}

// Takes a frame's payload, with room for `room` bytes; returns its length.
static size_t take(struct bare *port, struct rte_mbuf *frame, uint8_t *to, size_t room) {
    uint8_t headers[HEADERS];
    const uint8_t *from = rte_pktmbuf_mtod(frame, const uint8_t *);
    if (frame->data_len < HEADERS)
        return 0;
    size_t len = RTE_MIN((size_t)frame->data_len - HEADERS, room);
    memcpy(headers, from, HEADERS);
    port->sum += headers[12] + headers[HEADERS - 1];
    if (frame->data_len == HEADERS)
        port->is_over = true;
    if (port->work == BARE_SUMS)
        port->sum += rte_raw_cksum(from + HEADERS, len);
    if (port->work != BARE_HEADERS)
        memcpy(to, from + HEADERS, len);
    return len;
}

size_t bare_receive(struct bare *port, uint8_t *bytes, size_t room, bool *is_over) {
    struct rte_mbuf *frames[BURST];
    size_t got = 0;
    uint16_t count;
    do {
        // Without room for a frame, the caller waits for the end, which has no payload.
        size_t most = RTE_MAX((room - got) / PAYLOAD, (size_t)1);
        count = rte_eth_rx_burst(port->id, 0, frames, RTE_MIN(most, (size_t)BURST));
        for (uint16_t i = 0; i < count; i++)
            got += take(port, frames[i], bytes + got, room - got);
        rte_pktmbuf_free_bulk(frames, count);
    } while (count > 0 && room - got >= PAYLOAD);
    *is_over = port->is_over;
    return got;
}
