// The minimum that moves an application's bytes from process to process through a port of DPDK: a loop at layer 2, whose
// frames have the size of TCP's and no protocol. It is an upper bound for a stack on the same port.
#ifndef HAWSER_BENCH_BARE_H
#define HAWSER_BENCH_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bare;

// The work on a frame besides its headers.
enum bare_work {
    // None: payload is counted, but neither written nor read.
    BARE_HEADERS,
    // Copies from and to the application's memory.
    BARE_COPIES,
    // The same, and its Internet checksum at both ends, as for TCP without checksum offload.
    BARE_SUMS,
};

// Starts DPDK and opens the port of a virtual device. Null if either fails, with a negative errno in `error`.
struct bare *bare_open(int count, char **arguments, const char *device, enum bare_work work, int *error);
// Returns whether the other end exists.
bool bare_is_up(const struct bare *port);
// Sends all of the bytes; waits for room without sleeping.
void bare_send(struct bare *port, const uint8_t *bytes, size_t len);
// Reports the end of the data.
void bare_end(struct bare *port);
// Receives the available bytes that fit; returns their number. `is_over` is set at the peer's end of data.
size_t bare_receive(struct bare *port, uint8_t *bytes, size_t room, bool *is_over);

#endif
