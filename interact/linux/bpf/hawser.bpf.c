// Linux's own TCP, watched and steered: events from tracepoints and a cgroup, a congestion control that
// takes its decisions from a process under leases, and an iterator that reaches live sockets.
//
// Some helpers (reading kernel memory, changing sockets) are for programs under a licence that goes with
// the GPL. The MIT licence does, and these programs are under it at your choice, as all of Hawser is; the
// string below is the licence in the words that the kernel knows.
#include "steer.bpf.h"
#include "reach.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
