// The least that moves an application's bytes from process to process through a port of DPDK: a loop at layer 2, in which
// frames have the size of TCP's and no protocol. What a stack on the same port could reach at most.
#ifndef HAWSER_BENCH_BARE_H
#define HAWSER_BENCH_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bare;

// What is done with a frame beside its headers.
enum bare_work {
    // Nothing: payload is counted, and neither written nor read.
    BARE_HEADERS,
    // It is copied from the application's memory, and to it.
    BARE_COPIES,
    // The same, and its Internet checksum is made at both ends, as TCP's is where no adapter does that.
    BARE_SUMS,
};

// Starts DPDK and opens the port of a virtual device. Null, and `error` is a negative errno, when either fails.
struct bare *bare_open(int count, char **arguments, const char *device, enum bare_work work, int *error);
// Whether there is somebody at the other end.
bool bare_is_up(const struct bare *port);
// Sends all of the bytes; waits, without sleep, for room.
void bare_send(struct bare *port, const uint8_t *bytes, size_t len);
// Says that nothing more follows.
void bare_end(struct bare *port);
// Receives as much as there is and as has room; returns how many bytes. `is_over` once the peer has said so.
size_t bare_receive(struct bare *port, uint8_t *bytes, size_t room, bool *is_over);

#endif
