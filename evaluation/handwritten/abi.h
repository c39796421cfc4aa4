/* The record ABI under the names that the handwritten TCP uses. The declarations are in the header that
 * generated code includes as well. */
#ifndef HANDWRITTEN_ABI_H
#define HANDWRITTEN_ABI_H

#include "hawser.h"

typedef hw_id id_t_; /* the last byte is the number of bytes in use */
typedef hw_ip ip_t;
typedef hw_data data_t;
typedef hw_net net_t;
typedef hw_op op_t;
typedef hw_event event_t;

typedef hw_record record_t;
typedef hw_unit_rec unit_rec;
typedef hw_timer_rec timer_rec;
typedef hw_context_rec context_rec;
typedef hw_notify_rec notify_rec;
typedef hw_raise_rec raise_rec;
typedef hw_packet_rec packet_rec;
typedef struct { hw_signal_rec head; uint64_t value; } signal_rec;

typedef hw_memory memory_t;
typedef hw_records records_t;
typedef hw_events events_t;
typedef hw_packet packet_t;
typedef hw_built built_t;

enum { ON_KEYED, ON_FRESH, ON_GLOBAL, ON_TARGET };
enum { NOTE_CONNECTED = 1, NOTE_EOF, NOTE_CLOSED, NOTE_ACCEPTED, NOTE_FAILED };

#define REFUSE(code) HW_OUTCOME(HW_REFUSED, code)
#define INF UINT64_MAX
#define NO_DATA UINT32_MAX

#endif
