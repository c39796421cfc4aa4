// What a wire needs of DPDK, most of which is in its headers alone, as functions that can be linked to. Results below 0
// are negative errno.
#ifndef HAWSER_PORT_H
#define HAWSER_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct hw_port;
// One of its queues, to receive by and to send by.
struct hw_queue;

// What a port offers.
struct hw_info {
    uint8_t mac[6];
    // The longest IP packet.
    uint16_t mtu;
    // The interface of the host that the port stands on; 0: none.
    uint32_t interface;
    // How many queues it can have.
    uint16_t queues;
    // Pieces that a frame to send may have.
    uint16_t pieces;
    // The port completes checksums of TCP and UDP; it verifies them; it cuts super-segments of TCP; it may join what it
    // receives to such; the processor moves its bytes, so that they may lie anywhere; it stands on AF_XDP sockets; its peer can
    // write to received frames until they are released.
    bool sums, verifies, cuts, joins, copies, is_af_xdp, is_shared;
};

// A received frame.
struct hw_received {
    struct rte_mbuf *frame;
    // Its first piece.
    const uint8_t *head;
    uint32_t head_len;
    // Bytes in further pieces.
    uint32_t tail_len;
    // For a super-segment: payload bytes of each packet but the last; 0 for one packet.
    uint16_t seg_size;
    // The port has verified its checksum, or it comes from this machine and is not complete.
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

// Opens a port with so many queues, or has its driver give it up: `free_piece` is called when nothing refers to a piece of
// payload any more, with what `hw_refer` has returned for it, by any thread. `program` is the link of an XDP program, or below
// 0; it is closed before the driver gives the port up.
int hw_open(uint16_t port, const struct hw_info *info, uint16_t count, int program,
            void (*free_piece)(void *bytes, void *place), struct hw_port **opened);
void hw_close(struct hw_port *port);
int hw_counts(const struct hw_port *port, struct hw_counts *counts);
// How many frames a receive queue of it holds.
uint16_t hw_depth(const struct hw_port *port);
// Each is used by one thread at a time.
struct hw_queue *hw_queue(struct hw_port *port, uint16_t number);

uint16_t hw_receive(struct hw_queue *queue, struct hw_received *frames, uint16_t max);
// Copies the further pieces: `tail_len` bytes at most, whatever the pieces say by now.
void hw_copy_tail(const struct hw_received *frame, uint8_t *to);
void hw_release(const struct hw_received *frames, uint16_t count);

// A frame with its first bytes; null when memory has run out, or there are too many.
struct rte_mbuf *hw_frame(struct hw_queue *queue, const uint8_t *head, uint16_t len);
// Copies bytes behind a frame. False when memory has run out.
bool hw_append(struct hw_queue *queue, struct rte_mbuf *frame, const uint8_t *bytes, uint16_t len);
// Puts bytes behind a frame, which stay where they are. Returns a place of `HW_PLACE` bytes for what keeps them, or null
// when memory has run out.
void *hw_refer(struct hw_queue *queue, struct rte_mbuf *frame, const uint8_t *bytes, uint16_t len);
enum { HW_PLACE = 32 };
// The port is to complete a checksum.
void hw_complete(struct rte_mbuf *frame, bool ipv4, bool udp, uint16_t network, uint16_t transport);
// And to cut the frame, whose headers are `head` bytes long, to packets with `size` bytes of payload.
void hw_cut(struct rte_mbuf *frame, uint16_t head, uint16_t size);
// Sends frames from the front, and returns how many are done with; `refused` of them the port cannot send at all.
uint16_t hw_send(struct hw_queue *queue, struct rte_mbuf **frames, uint16_t count, uint16_t *refused);
void hw_drop(struct rte_mbuf **frames, uint16_t count);

#endif
