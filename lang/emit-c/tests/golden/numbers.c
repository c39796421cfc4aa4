/* ---- Functions ---- */

HW_PART uint64_t chain_go_0(hw_run *run, struct go *event);
HW_PART uint64_t chain_go_0_nothing(hw_run *run, struct go *event);
HW_PART uint64_t chain_go_0_other(hw_run *run, struct go *event);
HW_INLINE void mtp_compute(hw_run *run, const struct go *ev, struct numbers *n);
HW_FLAT HW_PART bool mtp_start(hw_run *run);
HW_INLINE uint16_t mtp_product(hw_run *run, uint16_t x, uint16_t y);

HW_PART uint64_t chain_go_0_nothing(hw_run *run, struct go *event) {
    do {
        mtp_compute(run, event, ((struct numbers *)HW_AT(HW_AT(run->memory->globals)[0])));
    } while (0);
    return run->outcome;
}

HW_PART uint64_t chain_go_0_other(hw_run *run, struct go *event) {
    do {
        mtp_compute(run, event, ((struct numbers *)HW_AT(HW_AT(run->memory->globals)[0])));
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

HW_INLINE void mtp_compute(hw_run *run, const struct go *ev, struct numbers *n) {
    /* numbers.mtp:8 */
    n->a = (uint8_t)((uint32_t)n->a + (uint32_t)1);
    /* numbers.mtp:9 */
    n->b = mtp_product(run, n->b, 3u);
    /* numbers.mtp:10 */
    n->c = (uint32_t)(((uint32_t)(uint32_t)(n->c & 0xffffffu) << 4) & 0xffffffu);
    /* numbers.mtp:11 */
    n->d = (int32_t)((uint32_t)(int32_t)hw_div_i64(n->d, (int32_t)n->b) - (uint32_t)(n->d >> 3));
    /* numbers.mtp:12 */
    n->e = hw_mul_div_u64(n->e, UINT64_C(3), (uint64_t)n->a);
    /* numbers.mtp:13 */
    n->f = ((int32_t)(n->s - (uint32_t)(n->c & 0xffffffu)) < 0) && ((n->e % 10) == 3);
    /* numbers.mtp:14 */
    n->s = (uint32_t)hw_max_seq(n->s, 7u, 32);
    /* numbers.mtp:15 */
    n->g = (n->f != 0) ? (uint8_t)(((uint32_t)(uint8_t)(n->g & 0x1fu) + (uint32_t)1) & 0x1fu) : 0u;
    /* numbers.mtp:16 */
    const uint64_t t = n->e;
    const uint64_t t_2 = UINT64_C(1);
    const uint64_t t_3 = UINT64_C(2);
    uint8_t packed[4];
    size_t packed_len = 0;
    packed_len = hw_pack(packed, packed_len, 4, n->a, 1);
    packed_len = hw_pack(packed, packed_len, 4, (uint32_t)(n->c & 0xffffffu), 3);
    const uint64_t t_4 = hw_siphash(t_2, t_3, packed, packed_len);
    n->e = t + t_4;
}

HW_FLAT HW_PART bool mtp_start(hw_run *run) {
    /* numbers.mtp:20 */
    struct go *const e = hw_event_room(run, 144);
    if (!e) {
        run->outcome = HW_OUTCOME(HW_DROPPED, HW_EVENTS);
        return true;
    }
    memset((uint8_t *)e + 0, 0, 64);
    memset((uint8_t *)e + 64, 0, 64);
    memset((uint8_t *)e + 128, 0, 16);
    hw_keep_event(run, &e->head, 144, 0);
    return false;
}

HW_INLINE uint16_t mtp_product(hw_run *run, uint16_t x, uint16_t y) {
    /* numbers.mtp:5 */
    return (uint16_t)((uint32_t)x * (uint32_t)y);
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

