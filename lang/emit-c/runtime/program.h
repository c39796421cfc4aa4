/* A program's table: how an engine finds its functions. */
#ifndef HW_PROGRAM_H
#define HW_PROGRAM_H

struct hw_input;
struct hw_events;
struct hw_segment;
struct hw_built;

typedef struct hawser_program {
    uint32_t abi;       /* HAWSER_ABI */
    uint32_t size;      /* of this structure */
    const char *name;
    const char *digest; /* of the text that this was compiled from */
    /* Runs the chain of an event and appends its records; gives an HW_OUTCOME. */
    uint64_t (*react)(const uint64_t *params, uint8_t *event, const hw_memory *memory, hw_records *out);
    /* Turns an input into events; gives an HW_OUTCOME, HW_DROPPED among them. */
    uint64_t (*parse)(const uint64_t *params, uint32_t parser, const struct hw_input *input,
                      struct hw_events *out);
    /* Writes the header of one packet of a `pkt_gen`. */
    void (*build)(const uint64_t *params, const hw_packet_rec *packet, uint8_t *image,
                  const struct hw_segment *segment, struct hw_built *out);
    /* Whether the later of two images of a blueprint replaces the earlier. */
    uint32_t (*coalesce)(const uint64_t *params, uint32_t blueprint, const uint8_t *earlier, const uint8_t *later);
} hawser_program;

#endif
