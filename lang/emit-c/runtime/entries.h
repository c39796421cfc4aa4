/* Programs that run the chains of a transport program on memory of the arena, one call each. The call is described in the
 * arena itself, by offsets. Another program decides on the next step (`hw_programs`); without one, in BPF_PROG_TEST_RUN,
 * the call just ends. */
#ifndef HW_ENTRIES_H
#define HW_ENTRIES_H

#define HW_SECTION(name) __attribute__((section(name), used))

/* An arena (map type 33) that user space maps as well (flag 1 << 10). The loader has it mapped at an address whose lower
 * half is 0 (`map_extra`). So addresses in it, of which the kernel takes that half, are offsets. */
struct {
    int (*type)[33];
    int (*map_flags)[1 << 10];
    int (*max_entries)[HW_ARENA_PAGES];
} hw_arena HW_SECTION(".maps");

/* A call; offsets are from the arena's start, and 0 means none. */
typedef struct hw_call {
    uint64_t outcome; /* the result */
    uint64_t params, scratch;
    /* A chain: the places of its event, its contexts and its records. */
    uint64_t event, keyed, fresh, keyed_type, wanted;
    uint64_t records, records_end;
    uint64_t globals[HW_CONTEXTS];
} hw_call;

_Static_assert(HW_CALL_AT + sizeof(hw_call) <= HW_RUN_AT && HW_RUN_AT + sizeof(hw_run) <= HW_NOTHING_AT, "memory is apart");

/* Other programs: the one that continues after a chain, then those that its owner adds. */
struct {
    int (*type)[3]; /* BPF_MAP_TYPE_PROG_ARRAY */
    int (*max_entries)[HW_PROGRAMS];
    uint32_t *key;
    uint32_t *value;
} hw_programs HW_SECTION(".maps");

static long (*const hw_tail_call)(void *context, void *programs, uint32_t index) = (void *)12;

/* A program that runs the chain of the events with a number, if there is room for its records. */
#define HW_CHAIN(number, chain, type, bytes) \
    HW_SECTION("xdp") int hw_chain_##number(void *context) { \
        __asm__ volatile("" : : "r"(&hw_arena)); \
        hw_call *call = hw_arena_at(HW_CALL_AT); \
        type *event = hw_arena_at(call->event); \
        if (call->records_end - call->records < (bytes)) { \
            call->outcome = HW_NO_ROOM; \
        } else { \
            hw_prepare(HW_RUN, call); \
            HW_RUN->now = event->head.now; \
            call->outcome = chain(HW_RUN, event); \
            call->records = (uint32_t)(uint64_t)HW_RUN->at; \
        } \
        hw_tail_call(context, &hw_programs, 0); \
        return 0; \
    }

HW_INLINE void hw_prepare(hw_run *run, const hw_call *call) {
    *run = (hw_run){
        .params = (const uint64_t *)call->params,
        .at = (uint8_t *)call->records,
        .wanted = call->wanted,
        .event = (uint8_t *)call->event,
        .memory = {{
            .keyed = (uint8_t *)call->keyed,
            .fresh = (uint8_t *)call->fresh,
            .globals = (uint8_t *const *)call->globals,
            .scratch = (uint8_t *)call->scratch,
            .keyed_type = (uint32_t)call->keyed_type,
        }},
    };
}

char hw_license[] HW_SECTION("license") = "GPL";

#endif
