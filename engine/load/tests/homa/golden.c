/* Prints what homa_wire.h makes of packets: the place of each field, and whole packets with stated values.
 * golden.rs compiles it against a checkout of PlatformLab/HomaModule. Arguments: the call's number as its sender has it,
 * and the number that a data packet acknowledges. */
#include <arpa/inet.h>
#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the header takes from the kernel. */
typedef uint8_t u8;
typedef uint16_t u16, __be16;
typedef uint32_t u32, __be32;
typedef uint64_t u64, __be64;
#define __packed __attribute__((packed))
#define be64_to_cpu be64toh
struct sk_buff { u32 len; };
static inline u32 skb_transport_offset(const struct sk_buff *skb) { return skb->len; }
#include "homa_wire.h"

#define FIELD(name, type, member) \
    printf("%s %zu %zu\n", name, offsetof(struct type, member), sizeof(((struct type *)0)->member))

static u64 id, acked;

static struct homa_common_hdr common(u8 type, u8 words)
{
    struct homa_common_hdr h;
    memset(&h, 0, sizeof h);
    h.sport = htons(80);
    h.dport = htons(4000);
    h.type = type;
    h.doff = words << 4;
    h.sender_id = htobe64(id);
    return h;
}

static void show(const char *name, const void *packet, size_t len)
{
    printf("%s ", name);
    for (size_t i = 0; i < len; i++)
        printf("%02x", ((const u8 *)packet)[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    id = strtoull(argv[1], NULL, 10);
    acked = strtoull(argv[2], NULL, 10);

    FIELD("SPORT", homa_common_hdr, sport);
    FIELD("DPORT", homa_common_hdr, dport);
    FIELD("SEQUENCE", homa_common_hdr, sequence);
    FIELD("KIND", homa_common_hdr, type);
    FIELD("DOFF", homa_common_hdr, doff);
    FIELD("SENDER_ID", homa_common_hdr, sender_id);
    FIELD("MESSAGE_LENGTH", homa_data_hdr, message_length);
    FIELD("INCOMING", homa_data_hdr, incoming);
    FIELD("ACK_CLIENT_ID", homa_data_hdr, ack.client_id);
    FIELD("ACK_SERVER_PORT", homa_data_hdr, ack.server_port);
    FIELD("DATA_CUTOFF_VERSION", homa_data_hdr, cutoff_version);
    FIELD("RETRANSMIT", homa_data_hdr, retransmit);
    FIELD("SEGMENT_OFFSET", homa_data_hdr, seg.offset);
    FIELD("GRANT_OFFSET", homa_grant_hdr, offset);
    FIELD("GRANT_PRIORITY", homa_grant_hdr, priority);
    FIELD("RESEND_OFFSET", homa_resend_hdr, offset);
    FIELD("RESEND_LENGTH", homa_resend_hdr, length);
    FIELD("RESEND_PRIORITY", homa_resend_hdr, priority);
    FIELD("UNSCHED_CUTOFFS", homa_cutoffs_hdr, unsched_cutoffs);
    FIELD("CUTOFF_VERSION", homa_cutoffs_hdr, cutoff_version);
    FIELD("NUM_ACKS", homa_ack_hdr, num_acks);
    FIELD("ACKS", homa_ack_hdr, acks);

    struct homa_data_hdr data = { .common = common(DATA, sizeof data / 4) };
    data.message_length = htonl(70000);
    data.incoming = htonl(60000);
    data.ack.client_id = htobe64(acked);
    data.ack.server_port = htons(acked ? 4000 : 0);
    data.seg.offset = htonl(-1);
    show("data", &data, sizeof data);

    struct homa_grant_hdr grant = { .common = common(GRANT, 5) };
    grant.offset = htonl(61000);
    grant.priority = 0;
    show("grant", &grant, sizeof grant);

    struct homa_resend_hdr resend = { .common = common(RESEND, 5) };
    resend.length = htonl(1000);
    resend.priority = HOMA_MAX_PRIORITIES - 1;
    show("resend", &resend, sizeof resend);

    struct homa_rpc_unknown_hdr unknown = { .common = common(RPC_UNKNOWN, 5) };
    show("unknown", &unknown, sizeof unknown);
    struct homa_busy_hdr busy = { .common = common(BUSY, 5) };
    show("busy", &busy, sizeof busy);
    struct homa_need_ack_hdr need_ack = { .common = common(NEED_ACK, 5) };
    show("need_ack", &need_ack, sizeof need_ack);

    /* homa_init and homa_prios_changed have these. */
    static const u32 cutoffs[HOMA_MAX_PRIORITIES] = { 0x7fffffff, 0, 0, 0, 1000000, 15000, 2800, 200 };
    struct homa_cutoffs_hdr levels = { .common = common(CUTOFFS, 5) };
    for (int i = 0; i < HOMA_MAX_PRIORITIES; i++)
        levels.unsched_cutoffs[i] = htonl(cutoffs[i]);
    levels.cutoff_version = htons(1);
    show("cutoffs", &levels, sizeof levels);

    struct homa_ack_hdr ack = { .common = common(ACK, 5) };
    ack.num_acks = htons(1);
    ack.acks[0].client_id = htobe64(acked);
    ack.acks[0].server_port = htons(4000);
    show("ack", &ack, sizeof ack);
    return 0;
}
