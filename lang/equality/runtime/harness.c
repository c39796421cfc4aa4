/* Runs recorded vectors through one program's generated C, to be compiled under sanitizers.
 *
 * Every region is allocated separately, exactly as large as necessary, so that the sanitizers detect
 * every access beyond it. lang/equality/src/vectors.rs describes the format of the file. Exits with 1 at
 * the first byte that differs from the recording. */
#include "program.c"

#include <stdio.h>
#include <stdlib.h>

enum { END, REACT, PARSE, BUILD, COALESCE };

static uint64_t *words, *at, *last;
static unsigned long call;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "call %lu: %s\n", call, what);
    exit(1);
}

static uint64_t word(void) {
    if (at == last)
        fail("the vectors end early");
    return *at++;
}

/* A blob in memory of its own; NULL if it is empty. */
typedef struct blob {
    uint8_t *bytes;
    size_t len;
} blob;

static blob take(void) {
    blob b = {NULL, word()};
    if (b.len > (size_t)(last - at) * 8)
        fail("a blob beyond the vectors");
    if (b.len > 0) {
        b.bytes = malloc(b.len);
        if (!b.bytes)
            fail("no memory");
        memcpy(b.bytes, at, b.len);
        at += (b.len + 7) / 8;
    }
    return b;
}

/* Compares with the next blob. */
static void expect(const char *what, const uint8_t *found, size_t len) {
    blob wanted = take();
    if (wanted.len != len)
        fail(what);
    for (size_t i = 0; i < len; i++) {
        if (wanted.bytes[i] != found[i]) {
            fprintf(stderr, "%s, byte %zu: expected %02x, found %02x\n", what, i, wanted.bytes[i], found[i]);
            fail(what);
        }
    }
    free(wanted.bytes);
}

static void expect_word(const char *what, uint64_t found) {
    uint64_t wanted = word();
    if (wanted != found) {
        fprintf(stderr, "%s: expected %llu, found %llu\n", what, (unsigned long long)wanted,
                (unsigned long long)found);
        fail(what);
    }
}

static uint8_t *room_of(size_t len) {
    uint8_t *room = malloc(len ? len : 1);
    if (!room)
        fail("no memory");
    return room;
}

static void react(const hawser_program *program, const uint64_t *params) {
    uint64_t keyed_type = word(), has_fresh = word(), room = word(), wanted = word(), globals = word();
    blob event = take(), keyed = take(), fresh = take();
    blob *global = calloc(globals + 1, sizeof *global);
    uint8_t **starts = calloc(globals + 1, sizeof *starts);
    if (!global || !starts)
        fail("no memory");
    for (uint64_t i = 0; i < globals; i++) {
        global[i] = take();
        starts[i] = global[i].bytes;
    }
    blob scratch = take();
    hw_memory memory = {.keyed = keyed.bytes, .fresh = has_fresh ? fresh.bytes : NULL, .globals = starts,
                        .scratch = scratch.bytes, .keyed_type = (uint32_t)keyed_type};
    uint8_t *start = room_of(room);
    hw_records records = {.at = start, .end = start + room, .wanted = wanted};
    uint64_t outcome = program->react(params, event.bytes, &memory, &records);
    expect_word("outcome", outcome);
    expect("event", event.bytes, event.len);
    expect("keyed context", keyed.bytes, keyed.len);
    expect("new context", fresh.bytes, fresh.len);
    for (uint64_t i = 0; i < globals; i++) {
        expect("global context", global[i].bytes, global[i].len);
        free(global[i].bytes);
    }
    expect("scratchpad", scratch.bytes, scratch.len);
    expect("records", start, (size_t)(records.at - start));
    free(start);
    free(event.bytes);
    free(keyed.bytes);
    free(fresh.bytes);
    free(scratch.bytes);
    free(global);
    free(starts);
}

static void parse(const hawser_program *program, const uint64_t *params) {
    uint64_t parser = word(), max_events = word(), room = word();
    blob net = take(), head = take(), tail = take();
    uint64_t merged = word(), addr = word(), verify = word(), crc = word();
    blob icmp = take(), op = take();
    hw_packet packet = {.net = (const hw_net *)net.bytes, .head = head.bytes, .head_len = head.len,
                        .tail = tail.bytes, .tail_len = tail.len, .merged = merged, .addr = addr,
                        .verify = (uint32_t)verify, .crc = (uint32_t)crc};
    uint8_t *start = room_of(room);
    hw_events events = {.at = start, .end = start + room, .count = 0, .capacity = (uint32_t)max_events};
    uint32_t error = program->parse(params, (uint32_t)parser, &packet, (const hw_icmp *)icmp.bytes,
                                    (const hw_op *)op.bytes, &events);
    expect_word("error", error);
    expect("events", start, error ? 0 : (size_t)(events.at - start));
    free(start);
    free(net.bytes);
    free(head.bytes);
    free(tail.bytes);
    free(icmp.bytes);
    free(op.bytes);
}

static void build(const hawser_program *program, const uint64_t *params) {
    blob packet = take(), image = take();
    uint64_t index = word(), count = word(), len = word(), room = word();
    uint8_t *header = room_of(room);
    hw_built built = program->build(params, (const hw_packet_rec *)packet.bytes, image.bytes, (uint32_t)index,
                                    (uint32_t)count, (uint32_t)len, header, (uint32_t)room);
    expect_word("whether a checksum is left", built.has_csum != 0);
    expect_word("where the checksum is", built.has_csum ? built.csum_at : 0);
    expect("image", image.bytes, image.len);
    expect("header", header, built.len);
    free(header);
    free(packet.bytes);
    free(image.bytes);
}

static void coalesce(const hawser_program *program, const uint64_t *params) {
    uint64_t blueprint = word();
    blob earlier = take(), later = take();
    uint32_t replaces = program->coalesce(params, (uint32_t)blueprint, earlier.bytes, later.bytes);
    expect_word("whether it replaces", replaces != 0);
    free(earlier.bytes);
    free(later.bytes);
}

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        fail("the vectors cannot be read");
    long len = ftell(file);
    rewind(file);
    if (len < 16 || len % 8 != 0)
        fail("the vectors are no whole words");
    words = malloc((size_t)len);
    if (!words || fread(words, 8, (size_t)len / 8, file) != (size_t)len / 8)
        fail("the vectors cannot be read");
    fclose(file);
    at = words;
    last = words + len / 8;
}

int main(int count, char **arguments) {
    if (count != 2)
        fail("expected the path of the vectors");
    load(arguments[1]);
    const hawser_program *program = PROGRAM();
    blob params = take();
    for (;; call++) {
        switch (word()) {
            case END:
                free(params.bytes);
                free(words);
                return call > 0 ? 0 : 1;
            case REACT: react(program, (const uint64_t *)params.bytes); break;
            case PARSE: parse(program, (const uint64_t *)params.bytes); break;
            case BUILD: build(program, (const uint64_t *)params.bytes); break;
            case COALESCE: coalesce(program, (const uint64_t *)params.bytes); break;
            default: fail("a call of no kind");
        }
    }
}
