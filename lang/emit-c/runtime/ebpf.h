/* An eBPF program's replacement for a C library, and the means by which the kernel's verifier sees that memory
 * exists and that loops end.
 *
 * All memory of a program lies in an arena (BPF_MAP_TYPE_ARENA, Linux 6.9), which the verifier lets a program
 * address freely: an absent page reads as zeros and ignores writes. So accesses need no proof, as in native code,
 * where the program's own bounds suffice. Data that the verifier must see through is on the stack of 512
 * bytes: the structures that point to memory, and scalar variables. Every other variable has a fixed place in
 * `hw_run.frame`, which no two functions share, because no function calls itself. */
#ifndef HW_EBPF_H
#define HW_EBPF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A condition under which a loop continues. `may_goto` (Linux 6.9) ends a loop after eight million rounds, so
 * the verifier does not count them. Its encoding is written out because assemblers before LLVM 19 lack it. */
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

/* An instruction that works only on the register `at`, as above: the byte before the registers, and the words after them. */
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

/* The start of loops: a zero that the verifier does not know, so that all rounds of a loop look alike to it and it need
 * not go through each. */
#define HW_ZERO (*(const volatile uint64_t *)hw_arena_at(HW_NOTHING_AT))

/* Advances a loop's counter. A variable set in a loop keeps its value, but the verifier only knows it is a number. */
#define HW_STAY(variable) ((variable) ^= HW_ZERO)
#define HW_NEXT(counter) \
    ({ \
        (counter)++; \
        HW_STAY(counter); \
    })

/* Arrays of constants, all in the section from which a loader makes a map: compilers would put small ones elsewhere.
 * The assembly shows the verifier that an index is below the number of items, in a way that compilers keep. It also
 * keeps compilers from loading an item with the instruction that loads from the arena elsewhere. */
#define HW_CONSTANT __attribute__((section(".rodata")))
#define HW_ITEM(items, index, count) \
    ({ \
        uint64_t below = (index); \
        __asm__ volatile("if %[below] < %[end] goto +1; %[below] = 0" : [below] "+r"(below) : [end] "i"(count)); \
        uint64_t item = (uint64_t)(items)[below]; \
        __asm__ volatile("" : "+r"(item)); \
        item; \
    })

/* A pointer to absent memory: the address of the arena's first byte is 0. The verifier treats it like any other,
 * so that it need not see why it is not used. */
#define HW_NONE hw_arena_at(0)
/* The object behind a pointer into the arena: to the verifier, the pointer is a number. */
#define HW_AT(pointer) ((__typeof__(pointer))hw_arena_at((uint64_t)(pointer)))

/* The reverse: a pointer into the arena as a number, which called functions take in place of pointers. */
#define HW_NUMBER(pointer) hw_number(pointer)
static inline __attribute__((always_inline)) uint64_t hw_number(const void *pointer) {
    uint64_t at = (uint64_t)pointer;
    /* Moves the lower half at once: half a pointer may not lie on the stack. */
    __asm__ volatile(HW_ON_REGISTER("0xbc", ".short 0; .long 0") : [at] "+r"(at));
    return at;
}

/* The place of the run, common to all functions. */
#define HW_RUN ((hw_run *)hw_arena_at(HW_RUN_AT))

/* ---- Replacements of the C library: a few bytes of a constant number are moved inline ---- */

#define HW_IN_PLACE(len) (__builtin_constant_p(len) && (len) <= 64)

/* Functions that the verifier checks only once, for all callers: they are global, and take and return numbers. A
 * weak function could be replaced, so compilers do not remove an argument that its body does not
 * use. */
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
/* It only sets zeros. */
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
