// Linux's own TCP, watched and steered. There are events from tracepoints and a cgroup, a congestion control
// that takes its decisions from a process under leases, and an iterator that reaches live sockets.
//
// Some helpers (reading kernel memory, changing sockets) require a licence that is compatible with the GPL.
// The MIT licence is, and these programs are available under it at your choice, like all of Hawser; the
// string below is the licence in the kernel's words.
#include "steer.bpf.h"
#include "reach.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
