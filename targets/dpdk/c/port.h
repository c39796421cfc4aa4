// What a wire needs of DPDK, most of which is in its headers alone, as functions that can be linked to. Results below 0
// are negative errno.
#ifndef HAWSER_PORT_H
#define HAWSER_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct hw_port;

// What a port offers.
struct hw_info {
    uint8_t mac[6];
    // The longest IP packet.
    uint16_t mtu;
    // The interface of the host that the port stands on; 0: none.
    uint32_t interface;
    // The port completes checksums of TCP and UDP; it verifies them; it sends frames in several pieces; the processor
    // moves its bytes, so that they may lie anywhere.
    bool sums, verifies, gathers, copies;
};

// A received frame.
struct hw_received {
    struct rte_mbuf *frame;
    // Its first piece.
    const uint8_t *head;
    uint32_t head_len;
    // Bytes in further pieces.
    uint32_t tail_len;
    // The port has verified its checksum.
    bool is_verified;
};

// What a port has counted.
struct hw_counts {
    uint64_t missed;
};

// Between the two, DPDK's messages are kept; `hw_log_end` copies the last `room` bytes of them. One thread at a time.
void hw_log_begin(void);
size_t hw_log_end(char *text, size_t room);

// Starts DPDK, once for a process. The thread is no longer free to run on any processor; it may end.
int hw_start(int count, char **arguments);

// Has a driver take a device, and finds the port.
int hw_probe(const char *device, uint16_t *port);
// The driver gives the device up.
void hw_remove(uint16_t port);
int hw_info(uint16_t port, struct hw_info *info);

// Opens a port: `free_piece` is called when nothing refers to a piece of payload any more, with what
// `hw_refer` has returned for it, by any thread.
int hw_open(uint16_t port, const struct hw_info *info, bool promiscuous,
            void (*free_piece)(void *bytes, void *place), struct hw_port **opened);
void hw_close(struct hw_port *port);
int hw_counts(const struct hw_port *port, struct hw_counts *counts);
// How many frames its receive queue holds.
uint16_t hw_depth(const struct hw_port *port);

uint16_t hw_receive(struct hw_port *port, struct hw_received *frames, uint16_t max);
// Copies the further pieces.
void hw_copy_tail(const struct hw_received *frame, uint8_t *to);
void hw_release(const struct hw_received *frames, uint16_t count);

// A frame with its first bytes; null when memory has run out, as in the next two.
struct rte_mbuf *hw_frame(struct hw_port *port, const uint8_t *head, uint16_t len);
// Room for more bytes of a frame behind the last.
uint8_t *hw_append(struct rte_mbuf *frame, uint16_t len);
// Puts bytes behind a frame, which stay where they are. Returns a place of `HW_PLACE` bytes for what keeps them.
void *hw_refer(struct hw_port *port, struct rte_mbuf *frame, const uint8_t *bytes, uint16_t len);
enum { HW_PLACE = 32 };
// The port is to complete a checksum.
void hw_complete(struct rte_mbuf *frame, bool ipv4, bool udp, uint16_t network, uint16_t transport);
// Sends frames from the front, and returns how many.
uint16_t hw_send(struct hw_port *port, struct rte_mbuf **frames, uint16_t count);
void hw_drop(struct rte_mbuf **frames, uint16_t count);

#endif
