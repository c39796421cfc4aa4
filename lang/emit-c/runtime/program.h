/* A program's table: how an engine finds its functions. */
#ifndef HW_PROGRAM_H
#define HW_PROGRAM_H

typedef struct hawser_program {
    uint32_t abi;       /* HAWSER_ABI */
    uint32_t size;      /* of this structure */
    const char *name;
    const char *digest; /* of the text that this was compiled from */
    /* Runs the chain of an event and appends its records; gives an HW_OUTCOME. */
    uint64_t (*react)(const uint64_t *params, uint8_t *event, const hw_memory *memory, hw_records *out);
    /* Turns an input into events. What the parser's source does not give is empty, never absent. Gives
     * why the input is dropped: an HW_TRUNCATED, …; 0: `out` has its events. */
    uint32_t (*parse)(const uint64_t *params, uint32_t parser, const hw_packet *packet, const hw_icmp *icmp,
                      const hw_op *op, hw_events *out);
    /* Writes the header of packet `index` of `count` of a `pkt_gen`, which has `len` bytes of payload,
     * to at most `room` bytes. Called in order: the segmentation rules change `image`. */
    hw_built (*build)(const uint64_t *params, const hw_packet_rec *packet, uint8_t *image, uint32_t index,
                      uint32_t count, uint32_t len, uint8_t *header, uint32_t room);
    /* Whether the later of two images of a blueprint replaces the earlier. */
    uint32_t (*coalesce)(const uint64_t *params, uint32_t blueprint, const uint8_t *earlier, const uint8_t *later);
} hawser_program;

#endif
