/* Lists and sliding windows in memory. Memory may hold any bytes, so every length read from it is
 * bounded by the container's capacity. Freed slots are zeroed, so equal containers are equal bytes.
 * lang/interp/src/containers defines each operation. */
#ifndef HW_CONTAINERS_H
#define HW_CONTAINERS_H

/* ---- list<T, N>, and the shared operations of sorted and option lists ---- */

/* The first bytes of a list; elements of any type follow. */
typedef struct HW_MAY_ALIAS hw_list {
    uint32_t len;
    uint32_t pad;
} hw_list;

#ifdef __bpf__
/* Without a branch, because the verifier would follow both sides each time. */
HW_INLINE uint32_t hw_len(uint32_t len, uint32_t cap) {
    int64_t over = (int64_t)len - cap;
    __asm__("" : "+r"(over));
    return cap + (uint32_t)(over & over >> 63);
}
#else
HW_INLINE uint32_t hw_len(uint32_t len, uint32_t cap) { return len < cap ? len : cap; }
#endif

/* Opens a zeroed gap for an element at a position; NULL if the list is full. */
HW_INLINE void *hw_list_insert(void *list, uint32_t index, uint32_t cap, size_t stride) {
    hw_list *l = list;
    uint32_t len = hw_len(l->len, cap);
    if (len >= cap)
        return HW_NONE;
    uint8_t *slot = (uint8_t *)(l + 1) + index * stride;
    if (index < len)
        memmove(slot + stride, slot, (len - index) * stride);
    memset(slot, 0, stride);
    l->len = len + 1;
    return slot;
}

/* Opens a zeroed gap after the last element; NULL if the list is full. */
HW_INLINE void *hw_list_push(void *list, uint32_t cap, size_t stride) {
    return hw_list_insert(list, hw_len(((hw_list *)list)->len, cap), cap, stride);
}

/* Removes the element at a position below the length. */
HW_INLINE void hw_list_remove(void *list, uint32_t index, uint32_t cap, size_t stride) {
    hw_list *l = list;
    uint32_t len = hw_len(l->len, cap);
    uint8_t *first = (uint8_t *)(l + 1), *slot = first + index * stride;
    memmove(slot, slot + stride, (len - 1 - index) * stride);
    memset(first + (len - 1) * stride, 0, stride);
    l->len = len - 1;
}

/* ---- sliding_wnd<N, T> ---- */

typedef struct HW_MAY_ALIAS hw_span {
    uint64_t from;
    uint64_t to;
} hw_span;

/* Half-open runs of set positions at and above a head, in order, never touching. */
typedef struct HW_MAY_ALIAS hw_window {
    uint64_t head;
    uint32_t len;
    uint32_t pad;
    hw_span runs[];
} hw_window;

/* The number range in which a window counts. */
typedef struct hw_shape {
    uint32_t cap;  /* the maximum number of ranges */
    uint8_t bits;
    bool is_signed;
    bool circular;
} hw_shape;

HW_INLINE uint64_t hw_fit(uint64_t value, hw_shape shape) {
    return shape.is_signed ? (uint64_t)hw_sign(value, shape.bits) : hw_low(value, shape.bits);
}

HW_INLINE bool hw_less(uint64_t a, uint64_t b, hw_shape shape) {
    return shape.circular    ? hw_before(a, b, shape.bits)
           : shape.is_signed ? (int64_t)a < (int64_t)b
                             : a < b;
}

HW_INLINE uint32_t hw_window_len(const void *window, hw_shape shape) {
    return hw_len(((const hw_window *)window)->len, shape.cap);
}

HW_INLINE uint64_t hw_window_head(const void *window, hw_shape shape) {
    return hw_fit(((const hw_window *)window)->head, shape);
}

/* The distance of a position above the head; 0 for a position below it. */
HW_INLINE uint64_t hw_distance(uint64_t head, uint64_t x, hw_shape shape) {
    x = hw_fit(x, shape);
    return hw_less(x, head, shape) ? 0 : hw_low(x - head, shape.bits);
}

/* The i-th run as distances from the head; an empty run at the head if it does not exist. */
HW_INLINE hw_span hw_window_run(const hw_window *w, uint64_t head, uint32_t i, hw_shape shape) {
    hw_span run = {0, 0};
    if (i < hw_window_len(w, shape)) {
        run.from = hw_distance(head, w->runs[i].from, shape);
        run.to = hw_distance(head, w->runs[i].to, shape);
    }
    return run;
}

HW_PART uint64_t hw_window_run_from(const void *window, uint64_t i, hw_shape shape) {
    const hw_window *w = window;
    return i < hw_window_len(w, shape) ? hw_fit(w->runs[i].from, shape) : 0;
}

HW_PART uint64_t hw_window_run_to(const void *window, uint64_t i, hw_shape shape) {
    const hw_window *w = window;
    return i < hw_window_len(w, shape) ? hw_fit(w->runs[i].to, shape) : 0;
}

/* Returns whether a position is set. */
HW_PART bool hw_window_is_set(const void *window, uint64_t x, hw_shape shape) {
    const hw_window *w = window;
    uint64_t head = hw_window_head(w, shape);
    uint64_t distance = hw_distance(head, x, shape);
    if (hw_less(x, head, shape))
        return false;
    for (uint32_t i = HW_ZERO; HW_MORE(i < hw_window_len(w, shape)); HW_NEXT(i)) {
        hw_span run = hw_window_run(w, head, i, shape);
        if (run.from <= distance && distance < run.to)
            return true;
    }
    return false;
}

/* The first set position not below `x`; the end of the last run if there is none, and the head of
 * a window without runs. */
HW_PART uint64_t hw_window_first_set(const void *window, uint64_t x, hw_shape shape) {
    const hw_window *w = window;
    uint64_t head = hw_window_head(w, shape), end = 0;
    uint64_t distance = hw_distance(head, x, shape);
    for (uint32_t i = HW_ZERO; HW_MORE(i < hw_window_len(w, shape)); HW_NEXT(i)) {
        hw_span run = hw_window_run(w, head, i, shape);
        if (distance < run.to)
            return hw_fit(head + hw_max_u64(run.from, distance), shape);
        end = run.to;
    }
    return hw_fit(head + end, shape);
}

HW_PART uint64_t hw_window_search_unset(const hw_window *w, uint64_t x, hw_shape shape) {
    uint64_t head = hw_window_head(w, shape);
    uint64_t distance = hw_distance(head, x, shape);
    for (uint32_t i = HW_ZERO; HW_MORE(i < hw_window_len(w, shape)); HW_NEXT(i)) {
        hw_span run = hw_window_run(w, head, i, shape);
        if (run.from <= distance && distance < run.to)
            return hw_fit(head + run.to, shape);
    }
    return hw_fit(head + distance, shape);
}

/* The first unset position not below `x` or the head. */
HW_INLINE uint64_t hw_window_first_unset(const void *window, uint64_t x, hw_shape shape) {
    const hw_window *w = window;
    if (HW_UNLIKELY(w->len != 0))
        return hw_window_search_unset(w, x, shape);
    uint64_t head = hw_window_head(w, shape);
    return hw_fit(head + hw_distance(head, x, shape), shape);
}

/* A run, given as distances. */
HW_INLINE void hw_window_put(hw_window *w, uint32_t i, hw_span run, hw_shape shape) {
    uint64_t head = hw_window_head(w, shape);
    w->runs[i].from = hw_fit(head + run.from, shape);
    w->runs[i].to = hw_fit(head + run.to, shape);
}

/* Replaces `old` runs from `first` on by room for `count` runs. */
HW_PART void hw_window_splice(hw_window *w, uint32_t first, uint32_t old, uint32_t count, hw_shape shape) {
    uint32_t len = hw_window_len(w, shape);
    memmove(w->runs + first + count, w->runs + first + old, (len - first - old) * sizeof(hw_span));
    uint32_t left = len - old + count;
    if (left < len)
        memset(w->runs + left, 0, (len - left) * sizeof(hw_span));
    w->len = left;
}

/* A range as distances; false if none of it is at or above the head. */
HW_INLINE bool hw_window_clip(const hw_window *w, uint64_t a, uint64_t b, hw_span *range, hw_shape shape) {
    uint64_t head = hw_window_head(w, shape);
    range->from = hw_distance(head, a, shape);
    range->to = hw_distance(head, b, shape);
    return hw_less(hw_fit(a, shape), hw_fit(b, shape), shape) && range->from < range->to;
}

/* Sets [a, b), merging it with the runs that it overlaps or touches. Returns false, without a change, if
 * there would be too many runs. */
HW_PART bool hw_window_set(void *window, uint64_t a, uint64_t b, hw_shape shape) {
    hw_window *w = window;
    hw_span range;
    if (!hw_window_clip(w, a, b, &range, shape))
        return true;
    uint32_t len = hw_window_len(w, shape), first = HW_ZERO, met = HW_ZERO;
    uint64_t head = hw_window_head(w, shape);
    while (HW_MORE(first < len && hw_window_run(w, head, first, shape).to < range.from))
        first++;
    while (HW_MORE(first + met < len && hw_window_run(w, head, first + met, shape).from <= range.to))
        met++;
    if (met == 0 && len == shape.cap)
        return false;
    if (met > 0) {
        range.from = hw_min_u64(hw_window_run(w, head, first, shape).from, range.from);
        range.to = hw_max_u64(hw_window_run(w, head, first + met - 1, shape).to, range.to);
    }
    hw_window_splice(w, first, met, 1, shape);
    hw_window_put(w, first, range, shape);
    return true;
}

/* Unsets [a, b). Returns false, without a change, if that would split a run and no other is free. */
HW_PART bool hw_window_unset(void *window, uint64_t a, uint64_t b, hw_shape shape) {
    hw_window *w = window;
    hw_span range;
    if (!hw_window_clip(w, a, b, &range, shape))
        return true;
    uint32_t len = hw_window_len(w, shape), first = HW_ZERO, met = HW_ZERO;
    uint64_t head = hw_window_head(w, shape);
    while (HW_MORE(first < len && hw_window_run(w, head, first, shape).to <= range.from))
        first++;
    while (HW_MORE(first + met < len && hw_window_run(w, head, first + met, shape).from < range.to))
        met++;
    if (met == 0)
        return true;
    hw_span left = {hw_window_run(w, head, first, shape).from, range.from};
    hw_span right = {range.to, hw_window_run(w, head, first + met - 1, shape).to};
    uint32_t on_left = left.from < left.to, on_right = right.from < right.to;
    if (len - met + on_left + on_right > shape.cap)
        return false;
    hw_window_splice(w, first, met, on_left + on_right, shape);
    if (on_left)
        hw_window_put(w, first, left, shape);
    if (on_right)
        hw_window_put(w, first + on_left, right, shape);
    return true;
}

HW_PART void hw_window_forget(hw_window *w, uint64_t to, hw_shape shape) {
    uint64_t head = hw_window_head(w, shape);
    uint64_t moved = hw_distance(head, to, shape);
    uint32_t len = hw_window_len(w, shape), gone = HW_ZERO;
    while (HW_MORE(gone < len && hw_window_run(w, head, gone, shape).to <= moved))
        gone++;
    hw_window_splice(w, 0, gone, 0, shape);
    if (gone < len && hw_distance(head, hw_fit(w->runs[0].from, shape), shape) < moved)
        w->runs[0].from = to;
}

/* Moves the head up to `to` and forgets all positions below. A fresh window (head 0, no runs) can move
 * anywhere; otherwise a `to` not above the head has no effect. */
HW_INLINE void hw_window_slide(void *window, uint64_t to, hw_shape shape) {
    hw_window *w = window;
    uint64_t head = hw_window_head(w, shape);
    to = hw_fit(to, shape);
    bool fresh = head == 0 && w->len == 0;
    if (!fresh && !hw_less(head, to, shape))
        return;
    if (HW_UNLIKELY(w->len != 0))
        hw_window_forget(w, to, shape);
    w->head = to;
}

#endif
