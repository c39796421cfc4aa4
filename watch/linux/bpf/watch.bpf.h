// Events of every TCP connection on the machine, under any congestion control, from tracepoints.
//
// Each program is attached while one of its events has a subscriber. Only `state` is always
// attached: it gives new flows their cookies and forgets flows that have ended.
#pragma once

#include "gate.bpf.h"

// Returns whether a socket is in a network namespace that counts.
static __always_inline bool is_here(const struct sock *sk)
{
    return !choices.network || BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum) == choices.network;
}

// The flow of a socket, unless it is irrelevant.
static __always_inline struct flow *flow_of(struct sock *sk)
{
    if (!is_here(sk))
        return 0;
    u64 create = choices.marked_only ? 0 : BPF_SK_STORAGE_GET_F_CREATE;
    struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, create);
    if (flow && !flow->cookie) {
        flow->cookie = bpf_get_socket_cookie(sk);
        flow->local_port = sk->__sk_common.skc_num;
        flow->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
    }
    return flow;
}

// The segments marked as lost since the last call, and the step into congestion avoidance.
static __always_inline void note_changes(struct flow *flow, struct tcp_sock *tp, u8 ca_state)
{
    bool avoiding = tp->snd_cwnd >= tp->snd_ssthresh;
    u32 lost = tp->lost;

    if (flow->seen == settings.epoch) {
        if (lost != flow->lost && wanted(SEGMENT_LOST))
            emit(flow, tp, SEGMENT_LOST, tp->snd_una, ca_state == CA_LOSS, 0);
        if (avoiding && !flow->avoiding && wanted(AVOIDANCE_BEGAN))
            emit(flow, tp, AVOIDANCE_BEGAN, 0, 0, 0);
    }
    if (flow->seen != settings.epoch && !flow->ours)
        flow->una = tp->snd_una;
    flow->lost = lost;
    flow->avoiding = avoiding;
    flow->seen = settings.epoch;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state, struct sock *sk, int from, int to)
{
    if (sk->sk_protocol != TCP_PROTOCOL || from == LINUX_LISTEN || to == LINUX_LISTEN)
        return 0;
    struct flow *flow = flow_of(sk);
    if (!flow)
        return 0;
    struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
    if (!tp)
        return 0;

    if (to == LINUX_SYN_SENT || (to == LINUX_ESTABLISHED && !flow->began))
        flow->began = bpf_ktime_get_ns();
    if (to == LINUX_SYN_SENT || to == LINUX_ESTABLISHED) {
        flow->local_port = sk->__sk_common.skc_num;
        flow->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
    }
    // The socket gets its new state only after this program.
    struct occurrence occurrence = {STATE_CHANGED, to, {common_state(from), common_state(to)}};
    if (wanted(STATE_CHANGED))
        publish(flow, tp, &occurrence);
    if (to == LINUX_ESTABLISHED) {
        flow->seen = settings.epoch;
        flow->una = tp->snd_una;
        flow->lost = tp->lost;
        struct occurrence occurrence = {ESTABLISHED, to, {(u64)(tp->srtt_us >> 3) * 1000}};
        if (wanted(ESTABLISHED))
            publish(flow, tp, &occurrence);
    }
    if (to == LINUX_CLOSE) {
        u64 reason = sk->sk_err ? sk->sk_err : sk->sk_err_soft;
        u64 duration = flow->began ? bpf_ktime_get_ns() - flow->began : 0;
        bool established = from != LINUX_SYN_SENT && from != LINUX_SYN_RECV && from != LINUX_NEW_SYN_RECV;
        struct occurrence occurrence = {CLOSED, to, {reason, duration, established}};
        if (wanted(CLOSED))
            publish(flow, tp, &occurrence);
        close_gates(flow->cookie);
        u64 cookie = flow->cookie;
        bpf_map_delete_elem(&leases, &cookie);
        bpf_map_delete_elem(&departures, &cookie);
    }
    return 0;
}

// Runs before the acknowledgement of an arriving segment is processed.
static __always_inline void acknowledgment(struct flow *flow, struct tcp_sock *tp, const struct sk_buff *skb)
{
    const struct tcp_skb_cb *cb = (const void *)skb->cb;
    u32 ack = BPF_CORE_READ(cb, ack_seq);
    u32 una = tp->snd_una, flight = tp->snd_nxt - una;
    u16 window = 0;
    u8 ca_state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);

    bpf_probe_read_kernel(&window, sizeof(window), skb->head + skb->transport_header + 14); // RFC 9293, 3.1
    window = bpf_ntohs(window);

    if (distance(una, ack) > 0 && distance(ack, tp->snd_nxt) >= 0) {
        // Data acknowledged by unseen ACKs is counted with the next ACK, so the sum is right.
        u32 from = flow->seen == settings.epoch ? flow->una : una;
        flow->duplicates = 0;
        if (!flow->ours) {
            flow->una = ack;
            if (wanted(ACKED))
                emit(flow, tp, ACKED, ack - from, (u64)tp->rack.rtt_us * 1000, flight);
        }
    } else if (ack == una && flight && BPF_CORE_READ(cb, seq) == BPF_CORE_READ(cb, end_seq) &&
               (u32)window << BPF_CORE_READ_BITFIELD(tp, rx_opt.snd_wscale) == tp->snd_wnd) {
        // RFC 5681, section 2: DUPLICATE ACKNOWLEDGMENT
        flow->duplicates++;
        if (wanted(DUPLICATE_ACK))
            emit(flow, tp, DUPLICATE_ACK, flow->duplicates, 0, 0);
    }
    bool shut = window == 0;
    if (shut && !flow->shut && wanted(PEER_WINDOW_CLOSED))
        emit(flow, tp, PEER_WINDOW_CLOSED, tp->snd_nxt, 0, 0);
    flow->shut = shut;
    if (!flow->ours)
        note_changes(flow, tp, ca_state);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(segment_arrived, struct sock *sk, const struct sk_buff *skb)
{
    struct flow *flow = flow_of(sk);
    if (!flow)
        return 0;
    struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
    if (tp)
        acknowledgment(flow, tp, skb);
    return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(congestion, struct sock *sk, u8 to)
{
    struct flow *flow = flow_of(sk);
    if (!flow)
        return 0;
    struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
    if (!tp)
        return 0;
    u8 from = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);

    if (to == CA_LOSS) {
        if (wanted(TIMEOUT))
            emit(flow, tp, TIMEOUT, tp->inet_conn.icsk_retransmits > 0, 0, 0);
        note_changes(flow, tp, CA_LOSS);
    }
    if (to == CA_RECOVERY && from != CA_RECOVERY && wanted(RECOVERY_BEGAN))
        emit(flow, tp, RECOVERY_BEGAN, tp->snd_nxt - tp->snd_una, 0, 0);
    if (from == CA_RECOVERY && to < CA_RECOVERY && wanted(RECOVERY_ENDED))
        emit(flow, tp, RECOVERY_ENDED, 0, 0, 0);
    return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(sent_again, struct sock *sk, const struct sk_buff *skb)
{
    struct flow *flow = flow_of(sk);
    if (!flow || !wanted(RETRANSMITTED))
        return 0;
    struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
    if (!tp)
        return 0;
    const struct tcp_skb_cb *cb = (const void *)skb->cb;
    u32 at = BPF_CORE_READ(cb, seq);
    emit(flow, tp, RETRANSMITTED, at, BPF_CORE_READ(cb, end_seq) - at, 0);
    return 0;
}

// A packet enters the queue of a device: it is new data if it is TCP's and beyond all data that has left. A
// packet may pass several devices; the second time its data is not new.
//
// The socket of a packet is not trusted enough for socket storage, so `departures` is keyed by cookie.
SEC("tp_btf/net_dev_queue")
int BPF_PROG(queued, struct sk_buff *skb)
{
    struct sock *sk = skb->sk;
    if (!sk || !wanted(SENT))
        return 0;
    u8 state = sk->__sk_common.skc_state;
    if (state == LINUX_NEW_SYN_RECV || state == LINUX_TIME_WAIT || sk->sk_protocol != TCP_PROTOCOL || !is_here(sk))
        return 0;

    struct {
        __be16 source, destination;
        __be32 sequence, acknowledgment;
        u8 offset, flags;
    } header; // RFC 9293, 3.1
    unsigned char *head = skb->head;
    u32 before = skb->transport_header - (u32)(skb->data - head);
    if (bpf_probe_read_kernel(&header, sizeof(header), head + skb->transport_header))
        return 0;
    if (header.source != bpf_htons(sk->__sk_common.skc_num) ||
        header.destination != sk->__sk_common.skc_dport)
        return 0; // the packet has an outer header
    u32 headers = before + (header.offset >> 4) * 4;
    if (skb->len <= headers)
        return 0;

    u32 at = bpf_ntohl(header.sequence), end = at + (skb->len - headers);
    struct flow flow = {
        .cookie = sk->__sk_common.skc_cookie.counter,
        .local_port = bpf_ntohs(header.source),
        .remote_port = bpf_ntohs(header.destination),
    };
    struct departure now = {.sent = end, .epoch = settings.epoch};
    struct departure *last = bpf_map_lookup_elem(&departures, &flow.cookie);
    if (!flow.cookie || (!last && choices.marked_only))
        return 0;
    u32 sent = BPF_CORE_READ((struct tcp_sock *)sk, snd_nxt);
    if (last && last->epoch == now.epoch)
        sent = last->sent;
    if (distance(sent, end) <= 0 || distance(sent, at) < 0)
        return 0;
    if (last)
        *last = now;
    else
        bpf_map_update_elem(&departures, &flow.cookie, &now, BPF_ANY);
    // Data leaves in order, so data between the two left unseen: it is counted here.
    // The pointer is read-only.
    const struct tcp_sock *tp = 0;
    if (bpf_rdonly_cast)
        tp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
    emit(&flow, tp, SENT, sent, end - sent, 0);
    return 0;
}
