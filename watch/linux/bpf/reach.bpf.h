// Programs for the sockets of a cgroup, and access to a live socket from outside.
#pragma once

#include "steer.bpf.h"

// Marks the flows of the cgroup, gives them this congestion control if requested, and reports their round
// trips if the congestion control does not.
SEC("sockops")
int in_cgroup(struct bpf_sock_ops *ops)
{
    struct bpf_sock *sk = ops->sk;
    if (!sk)
        return 1;
    bool established = ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB ||
                       ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;
    if (!established && ops->op != BPF_SOCK_OPS_TCP_CONNECT_CB && ops->op != BPF_SOCK_OPS_RTT_CB)
        return 1;
    struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!flow)
        return 1;
    if (!flow->cookie)
        flow->cookie = bpf_get_socket_cookie(ops);
    if (ops->op == BPF_SOCK_OPS_RTT_CB) {
        struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
        if (tp && !flow->ours && wanted(ROUND_TRIP))
            emit(flow, tp, ROUND_TRIP, (u64)ops->args[0] * 1000, 0, 0);
        return 1;
    }
    flow->local_port = ops->local_port;
    flow->remote_port = bpf_ntohl(ops->remote_port);
    if (established) {
        // Departures to watch, if only marked flows are watched.
        struct departure none = {0};
        bpf_map_update_elem(&departures, &flow->cookie, &none, BPF_NOEXIST);
        bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
        if (choices.adopt) {
            char name[16];
            for (u32 i = 0; i < sizeof(name); i++)
                name[i] = choices.congestion_control[i];
            bpf_setsockopt(ops, SOL_TCP_, TCP_CONGESTION_, name, sizeof(name));
        }
    }
    return 1;
}

// In the order of `Operation` in `src/socket_iterator.rs`.
enum { INSPECT, SET_CONGESTION_CONTROL, SET_TCP_OPTION, SET_SOCKET_OPTION, DESTROY, ADOPT, PUT_BACK };

static __always_inline int option(struct tcp_sock *tp, struct request *request, int level)
{
    int value = request->number;
    return bpf_setsockopt(tp, level, request->option, &value, sizeof(value));
}

static __always_inline bool is_ours(const char name[16])
{
    for (u32 i = 0; i < 16; i++) {
        if (name[i] != choices.congestion_control[i])
            return false;
        if (!name[i])
            break;
    }
    return true;
}

static __always_inline int choose(struct tcp_sock *tp, char name[16])
{
    return bpf_setsockopt(tp, SOL_TCP_, TCP_CONGESTION_, name, 16);
}

// Finds the congestion control to which a flow will return, and makes sure that it can, by choosing it. The choice
// has no effect if it runs the flow already, and fails if it is no longer available.
static __always_inline int before_adoption(struct tcp_sock *tp, struct adoption *adoption, char own[16])
{
    int error = bpf_getsockopt(tp, SOL_TCP_, TCP_CONGESTION_, own, 16);
    if (error)
        return error;
    if (tp->inet_conn.icsk_ca_priv[NOTE_MARK] == NOTE) {
        // A process of the same kind holds the flow if the name it noted still exists. Ours is this process's.
        u64 name[2] = {tp->inet_conn.icsk_ca_priv[NOTE_NAME], tp->inet_conn.icsk_ca_priv[NOTE_NAME_END]};
        // A successor of that name starts afresh when chosen, with a different note: then the holder has ended.
        if (!is_ours(own) && !choose(tp, own) && tp->inet_conn.icsk_ca_priv[NOTE_NAME] == name[0]) {
            adoption->outcome = HELD;
            __builtin_memcpy(adoption->name, own, 16);
            return -16 /* EBUSY */;
        }
        if (name[0])
            __builtin_memcpy(own, name, 16);
    }
    error = choose(tp, own);
    if (error) {
        adoption->outcome = FINAL;
        __builtin_memcpy(adoption->name, own, 16);
    }
    return error;
}

// Gives a flow our congestion control for as long as something of it is leased.
static __always_inline int adopt(struct tcp_sock *tp, struct adoption *adoption)
{
    struct flow *flow = bpf_sk_storage_get(&flows, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
    char own[16] = {0}, ours[16];

    adoption->outcome = FAILED;
    if (!flow)
        return -12 /* ENOMEM */;
    int error = flow->ours ? 0 : before_adoption(tp, adoption, own);
    if (!error && !flow->ours && !is_ours(own)) {
        for (u32 i = 0; i < sizeof(ours); i++)
            ours[i] = choices.congestion_control[i];
        // `begin` stores it in the socket.
        __builtin_memcpy(flow->before, own, sizeof(own));
        flow->stays_until = bpf_ktime_get_ns() + ADOPTION;
        error = choose(tp, ours);
        if (error)
            flow->before[0] = 0;
    }
    if (!error)
        adoption->outcome = ADOPTED;
    return error;
}

// Returns adopted flows without a lease to their former congestion control, among all visited flows.
static __always_inline void put_back_idle(struct tcp_sock *tp, struct request *request)
{
    struct flow *flow = bpf_sk_storage_get(&flows, tp, 0, 0);

    if (!flow || !flow->before[0] || is_leased(flow->cookie))
        return;
    put_back(tp, flow);
    request->done++;
}

// Applies a request to the socket that it names, or to all.
SEC("iter/tcp")
int reach(struct bpf_iter__tcp *context)
{
    struct sock_common *sk = context->sk_common;
    u32 first = 0;
    if (!sk)
        return 0;
    struct request *request = bpf_map_lookup_elem(&requests, &first);
    if (!request)
        return 0;
    u64 cookie = bpf_get_socket_cookie(sk);
    struct adoption *adoption = request->what == ADOPT ? bpf_map_lookup_elem(&adoptions, &cookie) : 0;
    if (cookie != request->flow && !adoption && request->what != PUT_BACK)
        return 0;
    struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
    if (!tp)
        return 0;
    if (request->what == PUT_BACK) {
        put_back_idle(tp, request);
        return 0;
    }
    if (adoption) {
        adoption->error = adopt(tp, adoption);
        return 0;
    }

    int error = 0;
    switch (request->what) {
    case SET_CONGESTION_CONTROL:
        error = choose(tp, request->text);
        break;
    case SET_TCP_OPTION: error = option(tp, request, SOL_TCP_); break;
    case SET_SOCKET_OPTION: error = option(tp, request, SOL_SOCKET_); break;
    case DESTROY: error = bpf_sock_destroy ? bpf_sock_destroy(sk) : -95 /* EOPNOTSUPP */; break;
    default: break;
    }
    request->answer.snd_una = tp->snd_una;
    request->answer.snd_nxt = tp->snd_nxt;
    request->answer.snd_wnd = tp->snd_wnd;
    request->answer.snd_cwnd = tp->snd_cwnd;
    request->answer.snd_ssthresh = tp->snd_ssthresh;
    request->answer.snd_cwnd_clamp = tp->snd_cwnd_clamp;
    request->answer.mss = tp->mss_cache;
    request->answer.lost = tp->lost;
    request->answer.pacing_rate = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;
    request->error = error;
    request->done++;
    return 0;
}
