/* ---- Functions ---- */

HW_PART uint64_t chain_go_0(hw_run *run, struct go *event);
HW_PART uint64_t chain_go_0_nothing(hw_run *run, struct go *event);
HW_PART uint64_t chain_go_0_other(hw_run *run, struct go *event);
HW_INLINE void mtp_compute(hw_run *run, const struct go *ev, struct work *w);
HW_FLAT HW_PART bool mtp_start(hw_run *run);
HW_INLINE void mtp_grow_absent(hw_run *run, struct job *j, uint16_t by);

HW_PART uint64_t chain_go_0_nothing(hw_run *run, struct go *event) {
    do {
        mtp_compute(run, event, ((struct work *)HW_AT(HW_AT(run->memory->globals)[0])));
    } while (0);
    return run->outcome;
}

HW_PART uint64_t chain_go_0_other(hw_run *run, struct go *event) {
    do {
        mtp_compute(run, event, ((struct work *)HW_AT(HW_AT(run->memory->globals)[0])));
    } while (0);
    return run->outcome;
}

HW_PART uint64_t chain_go_0(hw_run *run, struct go *event) {
    switch (run->memory->keyed_type) {
        case 0:
            return chain_go_0_nothing(run, event);
        default:
            return chain_go_0_other(run, event);
    }
}

HW_INLINE void mtp_compute(hw_run *run, const struct go *ev, struct work *w) {
    /* containers.mtp:15 */
    const uint16_t t = (uint16_t)ev->at;
    bool ok = true;
    uint16_t *slot = hw_list_push(&w->queue, 4, 2);
    if (slot)
        *slot = t;
    ok = slot != NULL;
    w->ok = ok;
    /* containers.mtp:16 */
    uint16_t *element = hw_list4_uint16_at(&w->queue, ev->at);
    if (element) {
        *element = (uint16_t)((uint32_t)*hw_list4_uint16_read(&w->queue, 0u) + (uint32_t)1);
    }
    /* containers.mtp:17 */
    uint32_t t0 = 0;
    uint32_t next = 0u;
    const uint32_t end = (uint32_t)hw_len(w->queue.len, 4);
    for (uint32_t round = HW_ZERO; HW_MORE(round < 4u && (next < end)); HW_NEXT(round), next = next + 1u) {
        t0 = next;
        w->total = w->total + (uint32_t)*hw_list4_uint16_read(&w->queue, t0);
    }
    /* containers.mtp:19 */
    struct job j = {0};
    j.rank = 5;
    /* containers.mtp:20 */
    j.id = ev->at;
    /* containers.mtp:21 */
    struct job aside = j;
    (void)hw_sorted3_s4_put(&w->jobs, &aside);
    /* containers.mtp:22 */
    struct job *element_2 = hw_sorted3_s4_at_key4(&w->jobs, 7u);
    if (element_2) {
        element_2->size = 3;
    }
    /* containers.mtp:23 */
    struct job *element_3 = hw_sorted3_s4_at_key4(&w->jobs, ev->at);
    mtp_grow_absent(run, element_3, 2u);
    /* containers.mtp:24 */
    w->total = w->total + (uint32_t)hw_sorted3_s4_first_from1(&w->jobs, 5u);
    /* containers.mtp:25 */
    bool t2 = false;
    bool ok_2 = true;
    ok_2 = hw_window_set(&w->seen, (uint32_t)(ev->at & 0xffffffu), (uint32_t)(((uint32_t)(ev->at & 0xffffffu) + 2) & 0xffffffu), (hw_shape){2, 24, false, true});
    t2 = ok_2;
    if (!t2) {
        hw_window_slide(&w->seen, (uint32_t)(hw_window_first_unset(&w->seen, 0u, (hw_shape){2, 24, false, true}) & 0xffffffu), (hw_shape){2, 24, false, true});
    }
    /* containers.mtp:26 */
    if (w->queue.len != 0) {
        hw_list_remove(&w->queue, 0, 4, 2);
    }
}

HW_FLAT HW_PART bool mtp_start(hw_run *run) {
    /* containers.mtp:30 */
    struct go *const e = hw_event_room(run, 152);
    if (!e) {
        run->outcome = HW_OUTCOME(HW_DROPPED, HW_EVENTS);
        return true;
    }
    memset((uint8_t *)e + 0, 0, 64);
    memset((uint8_t *)e + 64, 0, 64);
    memset((uint8_t *)e + 128, 0, 24);
    hw_keep_event(run, &e->head, 152, 0);
    return false;
}

HW_INLINE void mtp_grow_absent(hw_run *run, struct job *j, uint16_t by) {
    const struct job *j_seen = j ? j : HW_NOTHING;
    /* containers.mtp:12 */
    if (j) {
        j->size = (uint16_t)((uint32_t)j_seen->size + (uint32_t)by);
    }
}

HW_INLINE uint64_t mtp_chain(hw_run *run, hw_event *event, size_t room) {
    uint64_t outcome = HW_DONE;
    switch (event->event) {
        case 0:
            outcome = chain_go_0(run, (struct go *)event);
            break;
        default:
            break;
    }
    /* Only parsers give inputs up; a chain that would is over. */
    return (uint32_t)outcome == HW_DROPPED ? HW_STOP : outcome;
}

