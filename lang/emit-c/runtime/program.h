/* A program's table, through which an engine finds its functions. */
#ifndef HW_PROGRAM_H
#define HW_PROGRAM_H

typedef struct hawser_program {
    uint32_t abi;       /* HAWSER_ABI */
    uint32_t size;      /* of this structure */
    const char *name;
    const char *digest; /* of the source text */
    /* Runs the chain of an event and appends its records; returns an HW_OUTCOME. */
    uint64_t (*react)(const uint64_t *params, uint8_t *event, const hw_memory *memory, hw_records *out);
    /* Turns an input into events. Fields that the parser's source lacks are empty, never absent. Returns the
     * reason why the input is dropped: HW_TRUNCATED, …; 0: `out` has its events. */
    uint32_t (*parse)(const uint64_t *params, uint32_t parser, const hw_packet *packet, const hw_icmp *icmp,
                      const hw_op *op, hw_events *out);
    /* Writes the header of packet `index` of `count` of a `pkt_gen`, which has `len` bytes of payload,
     * to at most `room` bytes. Calls are in order, because the segmentation rules change `image`. */
    hw_built (*build)(const uint64_t *params, const hw_packet_rec *packet, uint8_t *image, uint32_t index,
                      uint32_t count, uint32_t len, uint8_t *header, uint32_t room);
    /* Returns whether the later of two images of a blueprint replaces the earlier one. */
    uint32_t (*coalesce)(const uint64_t *params, uint32_t blueprint, const uint8_t *earlier, const uint8_t *later);
} hawser_program;

#endif
