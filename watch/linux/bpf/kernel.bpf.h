// The parts of the kernel's own structures that these programs use: the fields that they touch, by name. The
// loader fills in the offset of each field from the running kernel's type information (CO-RE), so the
// offsets, the order and other fields do not matter here.
#pragma once

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#define relocated __attribute__((preserve_access_index))

// Numbers of the kernel's interface to programs (include/uapi, and RFC 9293 for the first).
enum { TCP_PROTOCOL = 6, SOL_TCP_ = 6, SOL_SOCKET_ = 1 };
enum { TCP_CONGESTION_ = 13, SO_MAX_PACING_RATE_ = 47 };
enum { IPV4 = 2, IPV6 = 10 };

// States of a connection (include/net/tcp_states.h).
enum {
    LINUX_ESTABLISHED = 1,
    LINUX_SYN_SENT,
    LINUX_SYN_RECV,
    LINUX_FIN_WAIT1,
    LINUX_FIN_WAIT2,
    LINUX_TIME_WAIT,
    LINUX_CLOSE,
    LINUX_CLOSE_WAIT,
    LINUX_LAST_ACK,
    LINUX_LISTEN,
    LINUX_CLOSING,
    LINUX_NEW_SYN_RECV,
};

// States of congestion control (enum tcp_ca_state).
enum { CA_OPEN, CA_DISORDER, CA_CWR, CA_RECOVERY, CA_LOSS };

// The kernel's own pacing of a flow's segments (enum sk_pacing).
enum { PACING_NONE, PACING_NEEDED };

typedef struct {
    __s64 counter;
} relocated atomic64_t;

struct ns_common {
    unsigned int inum;
} relocated;

struct net {
    struct ns_common ns;
} relocated;

typedef struct {
    struct net *net;
} relocated possible_net_t;

struct sock_common {
    unsigned char skc_state;
    u16 skc_family;
    u16 skc_num;
    __be16 skc_dport;
    atomic64_t skc_cookie;
    possible_net_t skc_net;
} relocated;

struct sock {
    struct sock_common __sk_common;
    u16 sk_protocol;
    u32 sk_pacing_status;
    unsigned long sk_pacing_rate;
    unsigned long sk_max_pacing_rate;
    int sk_err;
    int sk_err_soft;
} relocated;

struct inet_sock {
    struct sock sk;
} relocated;

struct inet_connection_sock {
    struct inet_sock icsk_inet;
    u32 icsk_rto;
    u8 icsk_ca_state : 5;
    u8 icsk_retransmits;
    u64 icsk_ca_priv[13]; // the congestion control's own
} relocated;

struct tcp_options_received {
    u16 snd_wscale : 4;
} relocated;

struct tcp_rack {
    u32 rtt_us;
} relocated;

struct minmax_sample {
    u32 v;
} relocated;

struct minmax {
    struct minmax_sample s[3];
} relocated;

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    struct tcp_options_received rx_opt;
    struct tcp_rack rack;
    u32 snd_una;
    u32 snd_nxt;
    u32 snd_wnd;
    u32 snd_cwnd;
    u32 snd_cwnd_cnt;
    u32 snd_cwnd_clamp;
    u32 snd_ssthresh;
    u32 prior_cwnd;
    u32 mss_cache;
    u32 srtt_us;
    u32 mdev_us;
    struct minmax rtt_min;
    u32 packets_out;
    u32 max_packets_out;
    u32 sacked_out;
    u32 lost_out;
    u32 lost;
    u32 total_retrans;
    u32 delivered;
    u32 rate_delivered;
    u32 rate_interval_us;
    u64 bytes_acked;
    u64 bytes_sent;
    u64 bytes_retrans;
    u64 bytes_received;
    u8 is_cwnd_limited : 1;
} relocated;

struct sk_buff {
    struct sock *sk;
    char cb[48];
    unsigned int len;
    u16 transport_header;
    unsigned char *head;
    unsigned char *data;
} relocated;

struct tcp_skb_cb {
    u32 seq;
    u32 end_seq;
    u32 ack_seq;
} relocated;

struct rate_sample {
    long rtt_us;
    u32 acked_sacked;
    int losses;
} relocated;

struct tcp_congestion_ops {
    u32 (*ssthresh)(struct sock *sk);
    void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
    u32 (*undo_cwnd)(struct sock *sk);
    void (*init)(struct sock *sk);
    void (*release)(struct sock *sk);
    char name[16];
};

struct bpf_iter__tcp {
    __bpf_md_ptr(void *, meta);
    __bpf_md_ptr(struct sock_common *, sk_common);
} relocated;

extern int bpf_sock_destroy(struct sock_common *sk) __ksym __weak;
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak; // Linux 6.2

// The distance from one sequence number to another, modulo 2^32 (RFC 9293, 3.4).
static __always_inline int distance(u32 from, u32 to)
{
    return (int)(to - from);
}
