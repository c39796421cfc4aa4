/* What an eBPF program has in place of a C library, and how the kernel's verifier is shown that memory is there and that
 * loops end.
 *
 * All memory that a program works on lies in an arena (BPF_MAP_TYPE_ARENA, Linux 6.9), which the verifier lets a program
 * address as it likes: a page that is absent reads as zeros and takes no writes. So no access needs a proof, as none
 * does in native code, where the program's own bounds suffice. What the verifier has to see through stays on the stack,
 * of which there are 512 bytes: the structures that say where memory is, and variables of one number. All other
 * variables have a fixed place each in `hw_run.frame`, which no two functions share, since none calls itself. */
#ifndef HW_EBPF_H
#define HW_EBPF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A condition under which a loop goes on. `may_goto` (Linux 6.9) ends a loop after eight million rounds, so that the
 * verifier need not count them. Its encoding is spelled out because assemblers before LLVM 19 do not know it. */
#define HW_MORE(condition) ((condition) && hw_may_go_on())
#define hw_may_go_on() \
    ({ \
        __label__ over, on; \
        bool more = true; \
        __asm__ volatile goto("1: .byte 0xe5; .byte 0; .long ((%l[over] - 1b - 8) / 8) & 0xffff; .short 0" : : : : over); \
        goto on; \
    over: \
        more = false; \
    on: \
        ; \
        more; \
    })

/* An instruction that works on the register `at` alone, as above: its byte before the registers and its words behind them. */
#define HW_ON_REGISTER_CASE(register, byte) ".ifc %[at], " register "; .byte " byte "; .endif; "
#define HW_ON_REGISTER(operation, rest) \
    ".byte " operation "; " HW_ON_REGISTER_CASE("r0", "0x00") HW_ON_REGISTER_CASE("r1", "0x11") \
    HW_ON_REGISTER_CASE("r2", "0x22") HW_ON_REGISTER_CASE("r3", "0x33") HW_ON_REGISTER_CASE("r4", "0x44") \
    HW_ON_REGISTER_CASE("r5", "0x55") HW_ON_REGISTER_CASE("r6", "0x66") HW_ON_REGISTER_CASE("r7", "0x77") \
    HW_ON_REGISTER_CASE("r8", "0x88") HW_ON_REGISTER_CASE("r9", "0x99") rest

/* The address of a byte of the arena (`addr_space_cast`). */
static inline __attribute__((always_inline)) void *hw_arena_at(uint64_t offset) {
    void *at = (void *)offset;
    __asm__ volatile(HW_ON_REGISTER("0xbf", ".short 1; .long 1") : [at] "+r"(at));
    return at;
}

/* Where loops begin: a zero that the verifier does not know, so that a loop's rounds look alike to it and it need not go
 * through each. */
#define HW_ZERO (*(const volatile uint64_t *)hw_arena_at(HW_NOTHING_AT))

/* What a loop counts, one on; and what it has set: as it was, but the verifier knows no more than that it is a number. */
#define HW_STAY(variable) ((variable) ^= HW_ZERO)
#define HW_NEXT(counter) \
    ({ \
        (counter)++; \
        HW_STAY(counter); \
    })

/* Arrays of constants, all in the section that a loader makes a map of: compilers would put small ones in others. The
 * verifier is shown in a way that compilers leave as it is that an index is below the number of items, and compilers
 * that an item is not loaded by the instruction that loads from the arena elsewhere. */
#define HW_CONSTANT __attribute__((section(".rodata")))
#define HW_ITEM(items, index, count) \
    ({ \
        uint64_t below = (index); \
        __asm__ volatile("if %[below] < %[end] goto +1; %[below] = 0" : [below] "+r"(below) : [end] "i"(count)); \
        uint64_t item = (uint64_t)(items)[below]; \
        __asm__ volatile("" : "+r"(item)); \
        item; \
    })

/* A pointer to memory that is absent: the address of the arena's first byte is 0, and the verifier takes it for one
 * like others, so that it need not see why nothing is done by it. */
#define HW_NONE hw_arena_at(0)
/* What a pointer that lies in the arena points to: to the verifier it is a number. */
#define HW_AT(pointer) ((__typeof__(pointer))hw_arena_at((uint64_t)(pointer)))

/* The way back: a pointer to the arena as a number, which functions that are called take in place of pointers. */
#define HW_NUMBER(pointer) hw_number(pointer)
static inline __attribute__((always_inline)) uint64_t hw_number(const void *pointer) {
    uint64_t at = (uint64_t)pointer;
    /* A move of the lower half, all at once: half a pointer may not lie on the stack. */
    __asm__ volatile(HW_ON_REGISTER("0xbc", ".short 0; .long 0") : [at] "+r"(at));
    return at;
}

/* Where all find the run. */
#define HW_RUN ((hw_run *)hw_arena_at(HW_RUN_AT))

/* ---- What a C library would have: few bytes of a known number are moved in place ---- */

#define HW_IN_PLACE(len) (__builtin_constant_p(len) && (len) <= 64)

/* What the verifier goes through once, whoever calls it: functions that are known outside the file, which take and return
 * numbers. Another one may take a weak function's place, so compilers leave no argument out that its body has no use
 * for. */
#define HW_APART __attribute__((noinline, weak))

HW_APART uint64_t hw_copy_up(uint64_t to_at, uint64_t from_at, uint64_t len) {
    uint8_t *to = hw_arena_at(to_at);
    const uint8_t *from = hw_arena_at(from_at);
    uint64_t at = HW_ZERO;
    for (; HW_MORE(at + 8 <= len); at += 8, HW_STAY(at))
        __builtin_memcpy(to + at, from + at, 8);
    for (; HW_MORE(at < len); HW_NEXT(at))
        to[at] = from[at];
    return 0;
}

HW_APART uint64_t hw_copy_down(uint64_t to_at, uint64_t from_at, uint64_t len) {
    uint8_t *to = hw_arena_at(to_at);
    const uint8_t *from = hw_arena_at(from_at);
    for (; HW_MORE(len > 0); len--, HW_STAY(len))
        to[len - 1] = from[len - 1];
    return 0;
}

HW_APART uint64_t hw_clear(uint64_t to_at, uint64_t len) {
    uint8_t *to = hw_arena_at(to_at);
    uint64_t at = HW_ZERO;
    for (; HW_MORE(at + 8 <= len); at += 8, HW_STAY(at))
        __builtin_memset(to + at, 0, 8);
    for (; HW_MORE(at < len); HW_NEXT(at))
        to[at] = 0;
    return 0;
}

HW_APART uint64_t hw_differ(uint64_t a_at, uint64_t b_at, uint64_t len) {
    const uint8_t *a = hw_arena_at(a_at), *b = hw_arena_at(b_at);
    for (uint64_t at = HW_ZERO; HW_MORE(at < len); HW_NEXT(at))
        if (a[at] != b[at])
            return 1;
    return 0;
}

#define memcpy(to, from, len) \
    (HW_IN_PLACE(len) ? (void)__builtin_memcpy(to, from, HW_IN_PLACE(len) ? (len) : 0) \
                      : (void)hw_copy_up(HW_NUMBER(to), HW_NUMBER(from), len))
/* Only zeros are ever set. */
#define memset(to, zero, len) \
    (HW_IN_PLACE(len) ? (void)__builtin_memset(to, 0, HW_IN_PLACE(len) ? (len) : 0) : (void)hw_clear(HW_NUMBER(to), len))
#define memmove(to, from, len) hw_move(HW_NUMBER(to), HW_NUMBER(from), len)
#define memcmp(a, b, len) hw_differ(HW_NUMBER(a), HW_NUMBER(b), len)

static inline __attribute__((always_inline)) void hw_move(uint64_t to, uint64_t from, uint64_t len) {
    if (to <= from)
        hw_copy_up(to, from, len);
    else
        hw_copy_down(to, from, len);
}

#endif
