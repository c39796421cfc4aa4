/* ---- Functions ---- */

HW_PART uint64_t chain_open_0(hw_run *run, struct open *event);
HW_PART uint64_t chain_open_0_nothing(hw_run *run, struct open *event);
HW_PART uint64_t chain_open_0_conn_0(hw_run *run, struct open *event);
HW_PART uint64_t chain_late_1(hw_run *run, struct late *event);
HW_PART uint64_t chain_late_1_conn_0(hw_run *run, struct late *event);
HW_PART uint64_t chain_told_2(hw_run *run, struct told *event);
HW_PART uint64_t wire_measure_P(hw_run *run, const struct P *h);
HW_PART uint64_t wire_write_P(hw_run *run, const struct P *h, hw_facts facts, hw_writer *out);
HW_PART void wire_put_P(hw_run *run, const struct P *h, uint64_t n, hw_writer *out);
HW_PART void wire_rule_next(hw_run *run, struct P *h, const struct P *previous, const uint64_t *args, hw_segment segment);
HW_FLAT HW_PART hw_built wire_build_P(hw_run *run, const hw_packet_rec *packet, struct P *h, hw_segment segment, uint8_t *header, uint64_t room);
HW_INLINE void mtp_make_no_context(hw_run *run, const struct open *ev);
HW_INLINE void mtp_make_absent(hw_run *run, const struct open *ev);
HW_INLINE void mtp_more(hw_run *run, const struct open *ev, struct conn *c);
HW_INLINE void mtp_expired(hw_run *run, const struct late *ev, const struct conn *c);
HW_FLAT HW_PART bool mtp_on_listen(hw_run *run, const hw_op *op);
HW_INLINE void mtp_arm_fresh(hw_run *run, struct conn *c, uint64_t d);
HW_INLINE void mtp_arm_absent(hw_run *run, struct conn *c, uint64_t d);
HW_INLINE void mtp_arm(hw_run *run, struct conn *c, uint64_t d);

HW_PART uint64_t chain_open_0_nothing(hw_run *run, struct open *event) {
    do {
        if (HW_AT(run->memory->fresh)) {
            mtp_make_no_context(run, event);
        } else {
            mtp_make_absent(run, event);
        }
    } while (0);
    return run->outcome;
}

HW_PART uint64_t chain_open_0_conn_0(hw_run *run, struct open *event) {
    struct conn *keyed = (struct conn *)HW_AT(run->memory->keyed);
    do {
        mtp_more(run, event, keyed);
    } while (0);
    return run->outcome;
}

HW_PART uint64_t chain_open_0(hw_run *run, struct open *event) {
    run->fresh_type = 0;
    switch (run->memory->keyed_type) {
        case 0:
            return chain_open_0_nothing(run, event);
        case 1:
            return chain_open_0_conn_0(run, event);
        default:
            return HW_DONE;
    }
}

HW_PART uint64_t chain_late_1_conn_0(hw_run *run, struct late *event) {
    struct conn *keyed = (struct conn *)HW_AT(run->memory->keyed);
    uint64_t *due = HW_NONE;
    if (keyed->rtx != 0 && (!due || keyed->rtx < *due))
        due = &keyed->rtx;
    if (keyed->idle != 0 && (!due || keyed->idle < *due))
        due = &keyed->idle;
    if (due)
        *due = 0;
    do {
        mtp_expired(run, event, keyed);
    } while (0);
    return run->outcome;
}

HW_PART uint64_t chain_late_1(hw_run *run, struct late *event) {
    switch (run->memory->keyed_type) {
        case 0:
            return HW_DONE;
        case 1:
            return chain_late_1_conn_0(run, event);
        default:
            return HW_DONE;
    }
}

HW_PART uint64_t chain_told_2(hw_run *run, struct told *event) {
    switch (run->memory->keyed_type) {
        case 0:
            return HW_DONE;
        default:
            return HW_DONE;
    }
}

HW_PART uint64_t wire_measure_P(hw_run *run, const struct P *h) {
    return 4;
}

HW_PART uint64_t wire_write_P(hw_run *run, const struct P *h, hw_facts facts, hw_writer *out) {
    const uint64_t start HW_UNUSED = out->at;
    uint64_t sum = 0;
    {
        uint8_t *p = hw_next(out, 4);
        if (p) {
            hw_wire_put(p, (uint64_t)h->port, 2);
            hw_wire_put(p + 2, (uint64_t)h->number, 2);
        }
    }
    return sum;
}

HW_PART void wire_put_P(hw_run *run, const struct P *h, uint64_t n, hw_writer *out) {
    wire_write_P(run, h, (hw_facts){n, n, 0}, out);
}

HW_PART void wire_rule_next(hw_run *run, struct P *h, const struct P *previous, const uint64_t *args, hw_segment segment) {
    const hw_facts facts HW_UNUSED = {0, 0, 0};
    if (segment.count <= 1) {
        h->number = (uint16_t)(uint16_t)args[0];
    } else if (segment.index == 0) {
        h->number = (uint16_t)(uint16_t)args[0];
    } else if (segment.index + 1 == segment.count) {
        h->number = (uint16_t)(uint16_t)((uint32_t)previous->number + (uint32_t)1);
    } else {
        h->number = (uint16_t)(uint16_t)((uint32_t)previous->number + (uint32_t)1);
    }
}

HW_FLAT HW_PART hw_built wire_build_P(hw_run *run, const hw_packet_rec *packet, struct P *h, hw_segment segment, uint8_t *header, uint64_t room) {
    if (packet->rules > 0) {
        struct P previous HW_UNUSED; /* what rules read of it */
        previous.number = h->number;
        if (packet->rules == 1 && packet->rule[0] == 0) {
            wire_rule_next(run, h, &previous, packet->args + 0, segment);
        } else {
            hw_rule_args args = {{0}, 0};
            for (unsigned i = HW_ZERO; HW_MORE(i < packet->rules && i < HW_MAX_RULES); HW_NEXT(i)) {
                switch (packet->rule[i]) {
                    case 0:
                        hw_take_args(&args, packet, 1);
                        wire_rule_next(run, h, &previous, args.value, segment);
                        break;
                    default:
                        break;
                }
            }
        }
    }
    h->data.len = segment.len;
    const uint64_t n = wire_measure_P(run, h);
    const hw_facts facts = {n + segment.len + 0, n, segment.len};
    hw_writer *out = &(hw_writer){header, room, HW_ZERO};
    uint64_t sum HW_UNUSED = wire_write_P(run, h, facts, out);
    hw_built built = {0, 0, 0, 0};
    built.len = (uint32_t)hw_min(out->at, room);
    return built;
}

HW_INLINE void mtp_make_no_context(hw_run *run, const struct open *ev) {
    struct conn *fresh = (struct conn *)HW_AT(run->memory->fresh);
    /* instructions.mtp:13 */
    {
        struct conn *made = (struct conn *)HW_AT(run->memory->fresh);
        const hw_id made_id = hw_id_at(&made->head.id);
        memset(made, 0, 104);
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
    fresh->port = ev->port;
    /* instructions.mtp:14 */
    mtp_arm_fresh(run, fresh, UINT64_C(5000000));
    /* instructions.mtp:15 */
    {
        hw_unit_rec *hw_new = (hw_unit_rec *)HW_AT(run->at);
        run->at += sizeof(hw_unit_rec);
        hw_new->header = (hw_record){HW_NEW_TX, 1, 0, sizeof(hw_unit_rec)};
        hw_put_id(&hw_new->uid, &fresh->head.id);
        hw_new->addr = UINT64_C(0);
        hw_new->len = UINT64_C(18446744073709551615);
        hw_new->off = 0;
    }
}

HW_INLINE void mtp_make_absent(hw_run *run, const struct open *ev) {
    /* instructions.mtp:13 */
    /* instructions.mtp:14 */
    mtp_arm_absent(run, HW_NONE, UINT64_C(5000000));
    /* instructions.mtp:15 */
    {
        hw_unit_rec *hw_new = (hw_unit_rec *)HW_AT(run->at);
        run->at += sizeof(hw_unit_rec);
        hw_new->header = (hw_record){HW_NEW_TX, 1, 0, sizeof(hw_unit_rec)};
        hw_new->uid = (hw_id){{0}};
        hw_new->addr = UINT64_C(0);
        hw_new->len = UINT64_C(18446744073709551615);
        hw_new->off = 0;
    }
}

HW_INLINE void mtp_more(hw_run *run, const struct open *ev, struct conn *c) {
    /* instructions.mtp:18 */
    mtp_arm(run, c, UINT64_C(1000000000));
    /* instructions.mtp:19 */
    c->idle = 0;
    {
        hw_timer_rec *hw_new = (hw_timer_rec *)HW_AT(run->at);
        run->at += sizeof(hw_timer_rec);
        hw_new->header = (hw_record){HW_TIMER_STOP, 0, 0, sizeof(hw_timer_rec)};
        hw_new->deadline = 0;
        hw_new->timer = 1;
        hw_new->pad = 0;
    }
    /* instructions.mtp:20 */
    {
        hw_unit_rec *hw_new = (hw_unit_rec *)HW_AT(run->at);
        run->at += sizeof(hw_unit_rec);
        hw_new->header = (hw_record){HW_ADD_TX, (const void *)c != HW_AT(run->memory->keyed), 0, sizeof(hw_unit_rec)};
        hw_put_id(&hw_new->uid, &c->head.id);
        hw_new->addr = ev->addr;
        hw_new->len = (uint64_t)ev->len;
        hw_new->off = 0;
    }
    /* instructions.mtp:23 */
    struct P *const p = (struct P *)((hw_packet_rec *)HW_AT(run->at) + 1);
    memset(p, 0, sizeof *p);
    p->port = c->port;
    /* instructions.mtp:24 */
    const uint64_t t_2 = (uint64_t)UINT64_C(0);
    const uint32_t t_3 = (uint32_t)ev->len;
    const uint32_t t_4 = (uint32_t)100u;
    hw_data *data = &p->data;
    hw_put_id(&data->uid, &c->head.id);
    data->off = t_2;
    data->addr = 0;
    data->len = t_3;
    data->seg_size = t_4;
    /* instructions.mtp:25 */
    hw_net ip = {0};
    {
        hw_packet_rec *hw_new = (hw_packet_rec *)HW_AT(run->at);
        run->at += sizeof(hw_packet_rec) + 72;
        hw_new->header = (hw_record){HW_PACKET, run->created, 0, sizeof(hw_packet_rec) + 72};
        hw_new->net = ip;
        hw_new->rank = 0;
        hw_new->args[0] = 3u;
        hw_new->args[1] = 0;
        hw_new->args[2] = 0;
        hw_new->args[3] = 0;
        hw_new->queue = 0;
        hw_new->blueprint = 0;
        hw_new->rules = 1;
        hw_new->rule[0] = 0;
        hw_new->rule[1] = 0;
        hw_new->rule[2] = 0;
        hw_new->rule[3] = 0;
        hw_new->data_at = 8;
        hw_new->bytes = 72;
    }
    /* instructions.mtp:27 */
    struct opened o = {0};
    o.port = c->port;
    /* instructions.mtp:28 */
    if (HW_UNLIKELY(run->wanted & 0x1u)) {
        {
            hw_signal_rec *hw_new = (hw_signal_rec *)HW_AT(run->at);
            run->at += sizeof(hw_signal_rec) + 8;
            hw_new->header = (hw_record){HW_SIGNAL, 0, 0, sizeof(hw_signal_rec) + 8};
            hw_new->signal = 0;
            hw_new->bytes = 8;
            memcpy(hw_new + 1, &o, 8);
        }
    }
    /* instructions.mtp:29 */
    {
        hw_notify_rec *hw_new = (hw_notify_rec *)HW_AT(run->at);
        run->at += sizeof(hw_notify_rec);
        hw_new->header = (hw_record){HW_NOTIFY, 0, 0, sizeof(hw_notify_rec)};
        hw_new->id = (hw_id){{0}};
        hw_new->code = 1;
        hw_new->error = 0;
        hw_new->arg[0] = 0;
        hw_new->arg[1] = 0;
        hw_new->arg[2] = 0;
        hw_new->arg[3] = 0;
    }
    /* instructions.mtp:31 */
    struct told t;
    hw_zero(&t, sizeof t);
    t.n = ev->len;
    /* instructions.mtp:32 */
    (&t.head)->event = 2;
    {
        hw_raise_rec *hw_new = (hw_raise_rec *)HW_AT(run->at);
        run->at += sizeof(hw_raise_rec) + 152;
        hw_new->header = (hw_record){HW_RAISE, 3, 0, sizeof(hw_raise_rec) + 152};
        hw_put_id(&hw_new->target, &c->parent);
        hw_new->event = 2;
        hw_new->bytes = 152;
        memcpy(hw_new + 1, &t, 152);
    }
}

HW_INLINE void mtp_expired(hw_run *run, const struct late *ev, const struct conn *c) {
    /* instructions.mtp:34 */
    {
        hw_context_rec *hw_new = (hw_context_rec *)HW_AT(run->at);
        run->at += sizeof(hw_context_rec);
        hw_new->header = (hw_record){HW_DEL_CONTEXT, 0, 0, sizeof(hw_context_rec)};
        hw_new->id = (hw_id){{0}};
        hw_new->context = 0;
        hw_new->pad = 0;
    }
}

HW_FLAT HW_PART bool mtp_on_listen(hw_run *run, const hw_op *op) {
    /* instructions.mtp:36 */
    struct open *const e = hw_event_room(run, 168);
    if (!e) {
        run->outcome = HW_OUTCOME(HW_DROPPED, HW_EVENTS);
        return true;
    }
    memset((uint8_t *)e + 0, 0, 24);
    memset((uint8_t *)e + 146, 0, 22);
    const hw_id t = hw_id_at(&op->self);
    hw_event *header = &e->head;
    header->ids = 1;
    header->id[0] = t;
    header->id[1] = (hw_id){{0}};
    header->id[2] = (hw_id){{0}};
    /* instructions.mtp:37 */
    e->port = op->local_port;
    hw_event *const header_2 = &e->head;
    header_2->ids = 1;
    /* instructions.mtp:38 */
    hw_id *const id = &header_2->id[0];
    *id = (hw_id){{0}};
    size_t len = 0;
    len = hw_pack(id->bytes, len, 39, op->local_port, 2);
    id->bytes[39] = (uint8_t)len;
    header_2->id[1] = (hw_id){{0}};
    header_2->id[2] = (hw_id){{0}};
    /* instructions.mtp:40 */
    hw_keep_event(run, &e->head, 168, 0);
    return false;
}

HW_INLINE void mtp_arm_fresh(hw_run *run, struct conn *c, uint64_t d) {
    /* instructions.mtp:10 */
    const uint64_t t = hw_max_u64(hw_sat_add(run->now, d), 1);
    c->rtx = t;
    {
        hw_timer_rec *hw_new = (hw_timer_rec *)HW_AT(run->at);
        run->at += sizeof(hw_timer_rec);
        hw_new->header = (hw_record){HW_TIMER_START, 1, 0, sizeof(hw_timer_rec)};
        hw_new->deadline = t;
        hw_new->timer = 0;
        hw_new->pad = 0;
    }
}

HW_INLINE void mtp_arm_absent(hw_run *run, struct conn *c, uint64_t d) {
    const struct conn *c_seen = c ? c : HW_NOTHING;
    /* instructions.mtp:10 */
    const uint64_t t = hw_max_u64(hw_sat_add(run->now, d), 1);
    if (c) {
        c->rtx = t;
    }
    {
        hw_timer_rec *hw_new = (hw_timer_rec *)HW_AT(run->at);
        run->at += sizeof(hw_timer_rec);
        hw_new->header = (hw_record){HW_TIMER_START, 1, 0, sizeof(hw_timer_rec)};
        hw_new->deadline = t;
        hw_new->timer = 0;
        hw_new->pad = 0;
    }
}

HW_INLINE void mtp_arm(hw_run *run, struct conn *c, uint64_t d) {
    /* instructions.mtp:10 */
    const uint64_t t = hw_max_u64(hw_sat_add(run->now, d), 1);
    c->rtx = t;
    {
        hw_timer_rec *hw_new = (hw_timer_rec *)HW_AT(run->at);
        run->at += sizeof(hw_timer_rec);
        hw_new->header = (hw_record){HW_TIMER_START, 0, 0, sizeof(hw_timer_rec)};
        hw_new->deadline = t;
        hw_new->timer = 0;
        hw_new->pad = 0;
    }
}

HW_INLINE uint64_t mtp_chain(hw_run *run, hw_event *event, size_t room) {
    uint64_t outcome = HW_DONE;
    switch (event->event) {
        case 0:
            if (room < 648)
                return HW_NO_ROOM;
            outcome = chain_open_0(run, (struct open *)event);
            break;
        case 1:
            if (room < 56)
                return HW_NO_ROOM;
            outcome = chain_late_1(run, (struct late *)event);
            break;
        case 2:
            outcome = chain_told_2(run, (struct told *)event);
            break;
        default:
            break;
    }
    /* Only parsers give inputs up; a chain that would is over. */
    return (uint32_t)outcome == HW_DROPPED ? HW_STOP : outcome;
}

