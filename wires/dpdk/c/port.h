// The parts of DPDK that a wire needs, most of which exist only in its headers, as functions that can be linked.
// Results below 0 are negative errno.
#ifndef HAWSER_PORT_H
#define HAWSER_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct hw_port;
// One of its queues, for receiving and for sending.
struct hw_queue;

// The capabilities of a port.
struct hw_info {
    uint8_t mac[6];
    // The longest IP packet, bytes.
    uint16_t mtu;
    // The host interface to which the port belongs; 0: none.
    uint32_t interface;
    // The maximum number of its queues.
    uint16_t queues;
    // The maximum number of pieces of a frame to send.
    uint16_t pieces;
    // Features of the port: it completes checksums of TCP and UDP; verifies them; cuts super-segments of TCP;
    // may join received packets into super-segments. The processor moves its bytes, so that they may lie
    // anywhere; it uses AF_XDP sockets; its peer can write to received frames until they are released.
    bool sums, verifies, cuts, joins, copies, is_af_xdp, is_shared;
};

// A received frame.
struct hw_received {
    struct rte_mbuf *frame;
    // Its first piece.
    const uint8_t *head;
    uint32_t head_len;
    // The number of bytes in further pieces.
    uint32_t tail_len;
    // For a super-segment, the payload bytes of each packet but the last; 0 for one packet.
    uint16_t seg_size;
    // The port has verified its checksum, or it comes from this machine and its checksum is incomplete.
    bool is_verified;
};

// Counters of a port.
struct hw_counts {
    uint64_t missed;
};

// Between these two calls, DPDK's messages are kept; `hw_log_end` copies the last `room` bytes. One thread at a time.
void hw_log_begin(void);
size_t hw_log_end(char *text, size_t room);

// Starts DPDK, once per process. The thread is then bound to its processor; it may end.
int hw_start(int count, char **arguments);

// Lets a driver take a device, and finds the port.
int hw_probe(const char *device, uint16_t *port);
// Makes the driver release the device.
void hw_remove(uint16_t port);
int hw_info(uint16_t port, struct hw_info *info);

// Opens a port with `count` queues, or makes its driver release it on failure. Any thread may call `free_piece`, with
// the result of `hw_refer`, once a piece of payload has no more references. `program` is the link of an XDP program,
// or below 0; it is closed before the driver releases the port.
int hw_open(uint16_t port, const struct hw_info *info, uint16_t count, int program,
            void (*free_piece)(void *bytes, void *place), struct hw_port **opened);
void hw_close(struct hw_port *port);
int hw_counts(const struct hw_port *port, struct hw_counts *counts);
// The number of frames that a receive queue of it holds.
uint16_t hw_depth(const struct hw_port *port);
// One thread at a time may use each queue.
struct hw_queue *hw_queue(struct hw_port *port, uint16_t number);

uint16_t hw_receive(struct hw_queue *queue, struct hw_received *frames, uint16_t max);
// Copies the further pieces: at most `tail_len` bytes, whatever the pieces contain by now.
void hw_copy_tail(const struct hw_received *frame, uint8_t *to);
void hw_release(const struct hw_received *frames, uint16_t count);

// A frame with its first bytes; null if memory has run out, or there are too many bytes.
struct rte_mbuf *hw_frame(struct hw_queue *queue, const uint8_t *head, uint16_t len);
// Copies bytes to the end of a frame. False if memory has run out.
bool hw_append(struct hw_queue *queue, struct rte_mbuf *frame, const uint8_t *bytes, uint16_t len);
// Appends bytes to a frame by reference. Returns a place of `HW_PLACE` bytes for their owner, or null if
// memory has run out.
void *hw_refer(struct hw_queue *queue, struct rte_mbuf *frame, const uint8_t *bytes, uint16_t len);
enum { HW_PLACE = 32 };
// Makes the port complete a checksum.
void hw_complete(struct rte_mbuf *frame, bool ipv4, bool udp, uint16_t network, uint16_t transport);
// Makes it also cut the frame, whose headers have `head` bytes, into packets with `size` bytes of payload.
void hw_cut(struct rte_mbuf *frame, uint16_t head, uint16_t size);
// Sends frames from the front, and returns the number that are finished; the port cannot send `refused` of them.
uint16_t hw_send(struct hw_queue *queue, struct rte_mbuf **frames, uint16_t count, uint16_t *refused);
void hw_drop(struct rte_mbuf **frames, uint16_t count);

#endif
