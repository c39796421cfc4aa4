/* ---- Functions ---- */

HW_PART uint64_t invariants_0(hw_run *run, const struct counter *keyed);
HW_PART uint64_t chain_ask_0(hw_run *run, struct ask *event);
HW_PART uint64_t chain_ask_0_nothing(hw_run *run, struct ask *event);
HW_PART uint64_t chain_ask_0_counter_0(hw_run *run, struct ask *event);
HW_INLINE void mtp_make_no_context(hw_run *run, const struct ask *ev);
HW_INLINE void mtp_make_absent(hw_run *run, const struct ask *ev);
HW_INLINE bool mtp_check(hw_run *run, const struct ask *ev, const struct counter *c);
HW_INLINE bool mtp_take(hw_run *run, const struct ask *ev, struct counter *c);
HW_FLAT HW_PART bool mtp_on_listen(hw_run *run, const hw_op *op);
HW_INLINE uint32_t mtp_count(hw_run *run, struct counter *c);
HW_INLINE bool mtp_checked(hw_run *run, const struct counter *c, uint32_t n, uint32_t *result);

HW_PART uint64_t invariants_0(hw_run *run, const struct counter *keyed) {
    if (HW_UNLIKELY(!(keyed->calls <= (keyed->limit + 100)))) {
        return HW_OUTCOME(HW_ASSERT, 1);
    }
    return HW_DONE;
}

HW_PART uint64_t chain_ask_0_nothing(hw_run *run, struct ask *event) {
    do {
        if (HW_AT(run->memory->fresh)) {
            mtp_make_no_context(run, event);
        } else {
            mtp_make_absent(run, event);
        }
    } while (0);
    if (run->outcome & 2)
        return run->outcome;
    uint64_t broken;
    if (run->created && (broken = invariants_0(run, (struct counter *)HW_AT(run->memory->fresh))) != 0)
        return broken;
    return run->outcome;
}

HW_PART uint64_t chain_ask_0_counter_0(hw_run *run, struct ask *event) {
    struct counter *keyed = (struct counter *)HW_AT(run->memory->keyed);
    do {
        if (mtp_check(run, event, keyed))
            break;
        if (mtp_take(run, event, keyed))
            break;
    } while (0);
    if (run->outcome & 2)
        return run->outcome;
    uint64_t broken;
    if ((broken = invariants_0(run, keyed)) != 0)
        return broken;
    return run->outcome;
}

HW_PART uint64_t chain_ask_0(hw_run *run, struct ask *event) {
    run->fresh_type = 0;
    switch (run->memory->keyed_type) {
        case 0:
            return chain_ask_0_nothing(run, event);
        case 1:
            return chain_ask_0_counter_0(run, event);
        default:
            return HW_DONE;
    }
}

HW_INLINE void mtp_make_no_context(hw_run *run, const struct ask *ev) {
    struct counter *fresh = (struct counter *)HW_AT(run->memory->fresh);
    /* control.mtp:16 */
    {
        struct counter *made = (struct counter *)HW_AT(run->memory->fresh);
        const hw_id made_id = hw_id_at(&made->head.id);
        *made = (struct counter){.limit = 10u};
        made->head.id = made_id;
        run->created = 1;
        run->subject = run->memory->keyed_type == 0;
        hw_context_rec *hw_new = (hw_context_rec *)HW_AT(run->at);
        run->at += sizeof(hw_context_rec);
        hw_new->header = (hw_record){HW_NEW_CONTEXT, 1, 0, sizeof(hw_context_rec)};
        hw_new->id = made_id;
        hw_new->context = 0;
        hw_new->pad = 0;
    }
    fresh->calls = ev->n;
}

HW_INLINE void mtp_make_absent(hw_run *run, const struct ask *ev) {
    /* control.mtp:16 */
}

HW_INLINE bool mtp_check(hw_run *run, const struct ask *ev, const struct counter *c) {
    /* control.mtp:17 */
    if (ev->n > c->limit) {
        run->outcome = HW_OUTCOME(HW_REFUSED, 90u);
        return true;
    }
    return false;
}

HW_INLINE bool mtp_take(hw_run *run, const struct ask *ev, struct counter *c) {
    /* control.mtp:19 */
    const uint32_t t = mtp_count(run, c);
    const uint32_t t_2 = t + c->calls;
    const uint32_t t_3 = mtp_count(run, c);
    uint32_t sum = t_2 + t_3;
    /* control.mtp:20 */
    bool t_4 = ev->n > 1;
    if (t_4) {
        const uint32_t t_5 = mtp_count(run, c);
        t_4 = t_5 > 2;
    }
    if (t_4 || (sum == 4)) {
        uint32_t t_6;
        if (mtp_checked(run, c, ev->n, &t_6)) {
            return true;
        }
        c->limit = t_6;
    }
    /* control.mtp:21 */
    uint32_t i = 0;
    uint32_t next = 0u;
    const uint32_t end = ev->n;
    for (uint32_t round = HW_ZERO; HW_MORE(round < 5u && (next < end)); HW_NEXT(round), next = next + 1u) {
        i = next;
        /* control.mtp:22 */
        if (i == 2) {
            continue;
        }
        /* control.mtp:23 */
        if (c->calls > 50) {
            break;
        }
        /* control.mtp:24 */
        c->calls = c->calls + i;
    }
    return false;
}

HW_FLAT HW_PART bool mtp_on_listen(hw_run *run, const hw_op *op) {
    /* control.mtp:28 */
    struct ask *const e = hw_event_room(run, 152);
    if (!e) {
        run->outcome = HW_OUTCOME(HW_DROPPED, HW_EVENTS);
        return true;
    }
    memset((uint8_t *)e + 0, 0, 24);
    memset((uint8_t *)e + 148, 0, 4);
    const hw_id t = hw_id_at(&op->self);
    hw_event *header = &e->head;
    header->ids = 1;
    header->id[0] = t;
    header->id[1] = (hw_id){{0}};
    header->id[2] = (hw_id){{0}};
    /* control.mtp:29 */
    e->n = op->backlog;
    hw_event *const header_2 = &e->head;
    header_2->ids = 1;
    /* control.mtp:30 */
    hw_id *const id = &header_2->id[0];
    *id = (hw_id){{0}};
    size_t len = 0;
    len = hw_pack(id->bytes, len, 39, op->local_port, 2);
    id->bytes[39] = (uint8_t)len;
    header_2->id[1] = (hw_id){{0}};
    header_2->id[2] = (hw_id){{0}};
    /* control.mtp:32 */
    hw_keep_event(run, &e->head, 152, 0);
    return false;
}

HW_INLINE uint32_t mtp_count(hw_run *run, struct counter *c) {
    /* control.mtp:7 */
    c->calls = c->calls + 1;
    /* control.mtp:8 */
    return c->calls;
}

HW_INLINE bool mtp_checked(hw_run *run, const struct counter *c, uint32_t n, uint32_t *result) {
    *result = 0;
    /* control.mtp:11 */
    if (n == 3) {
        run->outcome = HW_OUTCOME(HW_STOP, 0);
        return true;
    }
    /* control.mtp:12 */
    if (HW_UNLIKELY(!(n < 1000))) {
        run->outcome = HW_OUTCOME(HW_ASSERT, 0);
        return true;
    }
    /* control.mtp:13 */
    *result = n * 2;
    return false;
}

HW_INLINE uint64_t mtp_chain(hw_run *run, hw_event *event, size_t room) {
    uint64_t outcome = HW_DONE;
    switch (event->event) {
        case 0:
            if (room < 56)
                return HW_NO_ROOM;
            outcome = chain_ask_0(run, (struct ask *)event);
            break;
        default:
            break;
    }
    /* Only parsers give inputs up; a chain that would is over. */
    return (uint32_t)outcome == HW_DROPPED ? HW_STOP : outcome;
}

