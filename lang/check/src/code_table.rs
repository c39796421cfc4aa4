//! The rows of the table behind `hawser explain` for the codes that the checker reports (`codes`).

use hawser_syntax::codes::Code;

use crate::codes::*;

/// All rows, in order of code.
pub const CODES: &[Code] = &[
    Code {
        code: UNKNOWN_NAME,
        title: "an unknown name",
        text: "Names of variables are known from their declaration to the end of their block; all other
names are known in all files of a program, in any order. A file takes part when it is
imported:

    import \"newreno.mtp\";",
    },
    Code {
        code: DEFINED_TWICE,
        title: "a name that is defined twice",
        text: "All files of a program share one namespace: types, constants, variants of enums, functions
and chains. Within a block, variables have names of their own; an inner block may use one
again. A function's parameters belong to its outermost block.",
    },
    Code {
        code: UNKNOWN_TYPE,
        title: "not a type",
        text: "A type is built in (`uint32`, `seq<32>`, `duration_t`, `list<T, N>`, …) or declared by the
program: a `struct`, an `enum`, an event, a context, a blueprint.",
    },
    Code {
        code: UNKNOWN_MEMBER,
        title: "no such member",
        text: "After the dot follows a field of the structure before it, or something that its type has:

    ev.now   ev.rand   ev.hash      every event
    c.self                          every context
    c.rtx.armed                     a timer
    l.len   l.full   w.head         lists and windows
    h.data.len   h.data.addr        a payload",
    },
    Code {
        code: NOT_A_VALUE,
        title: "a name that is not allowed here",
        text: "A name is that of a value, a type, a function or another declaration, and each has its uses.
Events are raised, signals are signalled, processors are listed in chains, helpers are called.",
    },
    Code {
        code: RESERVED_NAME,
        title: "a reserved name",
        text: "The names of built-in types, functions, instructions and errno codes are taken; so are the
fields that every event (`now`, `rand`, `hash`) and every context (`self`) has.",
    },
    Code {
        code: TYPE_ARGUMENTS,
        title: "wrong arguments for a type",
        text: "Built-in types state their sizes, so that memory is known before a program runs:

    seq<32>   bytes<16>   list<block, 4>   sliding_wnd<8, seq<32>>
    sorted_list<rpc, 64, by (remaining, id), key id>",
    },
    Code {
        code: TYPE_NOT_HERE,
        title: "a type that is not allowed here",
        text: "Timers and parts belong to contexts, checksums and `data_t` to packets. `instr_t`,
`event_t`, `pkt_t`, `op_t`, `icmp_t` and `no_ctx` are allowed in signatures, and some of them in
local variables. A context is not stored in another value: keep its id.",
    },
    Code {
        code: RECURSIVE_TYPE,
        title: "a type that contains itself",
        text: "Values have a fixed size, so a structure holds neither itself nor a list of itself. Keep an
id, or an index into a list.",
    },
    Code {
        code: TOO_LARGE,
        title: "a size out of range",
        text: "A structure, a list, or the variables of a function together with those of the functions that it
calls take at most 1 MiB, and a list holds at least one element. Bytes to be sent or received
belong into ordered data, not into contexts.",
    },
    Code {
        code: NOT_CONSTANT,
        title: "a value that is unknown when the program is compiled",
        text: "Sizes, loop bounds, constants and variants of enums are known when the program is compiled:
made of literals, other constants and operators. A `param` is set later, by operators;
initial values of a context's fields may use it, and earlier fields too:

    param duration_t MIN_RTO = 1s;
    context c { uint32 mss; uint32 cwnd = 3 * mss; duration_t rto = MIN_RTO; }",
    },
    Code {
        code: ENUM_VALUE,
        title: "the value of a variant",
        text: "Each variant of an enum has a value of its own that fits the enum's type:

    enum state_t : uint8 { CLOSED, LISTEN, SYN_SENT = 5 }",
    },
    Code {
        code: EVENT_KIND,
        title: "a kind of event",
        text: "Events come from an application (APP_EVENT), a packet (NET_EVENT), a timer (TIMER_EVENT),
the target (SYS_EVENT), or only from `raise` (EVENT). A timer's event has no fields: it
carries its context, which has all that is needed.",
    },
    Code {
        code: TIMER_EVENT,
        title: "a timer without its event",
        text: "A timer says what happens when it fires:

    event tcp_rtx : TIMER_EVENT { }
    context tcp_conn { timer_t rtx -> tcp_rtx; }",
    },
    Code {
        code: TWO_SCRATCHPADS,
        title: "a second scratchpad",
        text: "A program has one scratchpad: it lives for one packet or request, zero at its start. Files
that belong to several programs declare a struct, and the program makes it a part:

    scratchpad { bool change_cwnd; part cc_sample sample; }",
    },
    Code {
        code: ACCESS,
        title: "a field that others cannot modify",
        text: "`modifiable(min, max)` states the range that others may set a number to; both ends are
constants of the field's type, and min is not above max. It implies `observable`.",
    },
    Code {
        code: TABLE,
        title: "a table of constants",
        text: "A table has at least one value, and as many as its brackets say; they may be left empty:

    const uint8 TOKENS[4] = {1, 2, 4, 8};
    const duration_t WAITS[] = {1ms, 5ms, 25ms};

`WAITS[i]` is a value, 0 where there is none; `WAITS.len` is the number of values, a constant. All are
constants of one scalar type, in at most 1 MiB.",
    },
    Code {
        code: EXTENSION,
        title: "an extension of something else",
        text: "`extend` adds members to a context, an event, the scratchpad or a structure that some file of the
program declares, and says which of them it is:

    import \"tcp.mtp\";
    extend context tcp_conn { uint64 marked; }
    extend event tcp_seg { bool ce; }

A timer's event has no fields. A format of packets (`pkt_bp`, `opt_t`) cannot be extended.",
    },
    Code {
        code: NO_COMMON_FIELD,
        title: "structures without a common field",
        text: "`place = {a, b};` assigns each field of a and of b to the field of the same name in the place,
and leaves out fields that the place does not have. Here it has none of them, so nothing would
be assigned. Rename a field, or assign it by its own name:

    e = {h};            // e.seq = h.seq; e.ack = h.ack;
    e.from = i.src_ip;",
    },
    Code {
        code: MISMATCH,
        title: "a value of another type",
        text: "This place needs one type, and the value has another that is not converted to it.
Structures, lists and windows are copied and passed whole, and only to their own type.",
    },
    Code {
        code: NEEDS_CAST,
        title: "a conversion that must be explicit",
        text: "Integers are converted implicitly where no value is lost, and an assignment drops upper bits;
but neither changes between signed and unsigned, and operands never lose anything:

    int64(a) - int64(b)      uint32(seq_a - seq_b)      uint64(ev.now)",
    },
    Code {
        code: OPERATOR,
        title: "an operator that does not take these types",
        text: "Sequence numbers take `+ n`, `- n` and `-` of their own type, and circular comparison. Times
take `- time` and `± duration`; durations also `* n`, `/ n`, `/ duration`, shifts. Addresses
take `+ n` and `== NONE`. Ids and IP addresses are compared by `==` and `!=` alone.",
    },
    Code {
        code: LITERAL,
        title: "a literal that does not fit",
        text: "A literal takes the type of the other operand, and must be a value of it: `x < 300` needs an
`x` of more than 8 bits. Durations have units (`5ms`), and only 0 goes without one. In an
id, every value needs a width: `flow_id id(uint8(6), port);`",
    },
    Code {
        code: CONDITION,
        title: "a condition that is not a bool",
        text: "`if`, `!`, `&&`, `||` and `?:` ask for `bool`; numbers are compared: `if (n != 0)`. A
`uint1` is allowed too, because it holds the same two values.",
    },
    Code {
        code: NOT_ASSIGNABLE,
        title: "this cannot be assigned to",
        text: "Variables and fields are assigned to. Timers are started and stopped by instructions,
contexts are made by `new_ctx`, and a parser's input is constant.",
    },
    Code {
        code: ARGUMENT_COUNT,
        title: "the wrong number of arguments",
        text: "Functions and instructions take an exact number of arguments; optional ones are the
last ones. `queue q`, `rank r` and `cost c` are allowed in `pkt_gen`
alone.",
    },
    Code {
        code: NOT_INDEXED,
        title: "this is not indexed",
        text: "Lists are indexed by position, sorted lists by key, option lists by the name of a member:

    l[0]      grants[rpc_id]      h.opts[mss].value",
    },
    Code {
        code: OPERATION_HERE,
        title: "an operation in the middle of an expression",
        text: "An operation that changes a container is a statement, the whole right side of a declaration or an
assignment, or the whole condition of an `if`, so that the order of effects is plain:

    bool ok = c.received.set(a, b);
    if (!c.queue.push_back(x)) refuse(ENOBUFS);",
    },
    Code {
        code: NO_EFFECT,
        title: "a statement without an effect",
        text: "A statement assigns, calls or issues something. The value of a lone expression
is lost.",
    },
    Code {
        code: ID_TOO_LONG,
        title: "an id that is too long",
        text: "An id is a tuple of at most 39 bytes: two IPv6 addresses and two ports take 36, an id in a
tuple the bytes that it uses. Units of data are sought within their context, so their ids need no
`self` of it:

    flow_id unit(number);               // not (c.self, number): 36 and 4 bytes

Hash a longer tuple: `keyed_hash(k0, k1, a, b)` gives 8 bytes.",
    },
    Code {
        code: LOOP_BOUND,
        title: "a loop without a bound",
        text: "A chain's worst case is known before it runs, so every loop states the maximum number of rounds that it
makes, as a constant from 1 to 65536. A loop over a list makes at most as many as the list
holds:

    for (x in c.blocks, 4) { … }      for (i in 0..n, 16) { … }",
    },
    Code {
        code: OUTSIDE_LOOP,
        title: "a jump outside a loop",
        text: "`break` and `continue` are allowed inside a `for` only. `return` ends the function, `done` \
               the chain.",
    },
    Code {
        code: RETURN,
        title: "a result of another form",
        text: "A processor returns `void` and uses `emit`, or declares one list, adds to it and returns it:

    list<instr_t> f(ev_t ev, ctx_t c) { list<instr_t> out; out.add(timer_stop(c.rtx)); return out; }",
    },
    Code {
        code: BARE_RETURN,
        title: "a `return` without its value",
        text: "A function with a result returns one on every path; `return;` belongs to `void` functions.
Where the paper prints a bare `return;` in a function that returns `list<instr_t>`, write
`return out;`.",
    },
    Code {
        code: MISSING_RETURN,
        title: "a path without a result",
        text: "Every path through a function with a result ends in `return e;`. Lists of instructions and
of events may be left to the end of the function.",
    },
    Code {
        code: RECURSION,
        title: "functions that call each other",
        text: "A chain's worst case is known before it runs, so functions do not recurse, neither
themselves nor through others, and at most 64 functions call one another in turn. Use a bounded
loop; work that is left over goes on in an event that is raised.",
    },
    Code {
        code: NEW_CONTEXT,
        title: "how a context is made",
        text: "A context is made by a declaration, outside loops, and at most one in a chain:

    tcp_conn c = new_ctx{mss: m, parent: l.self};

Its id is the first id of the event that found no context; `c` is a reference to it. Contexts
that exist are parameters of processors; GLOBAL ones are always there.",
    },
    Code {
        code: INSTRUCTION_VARIABLE,
        title: "an instruction is set once",
        text: "An `instr_t` is set where it is declared; its arguments are those of that moment. It is
issued when it is added to the list:

    instr_t i = timer_start(c.rtx, RTO);
    out.add(i);",
    },
    Code {
        code: INSTRUCTION_HERE,
        title: "an instruction has no value",
        text: "No instruction returns a value, and none can fail. It is issued by `emit`, or added to the
list that the processor returns. Its result arrives as an event.",
    },
    Code {
        code: NOT_AN_INSTRUCTION,
        title: "not an instruction",
        text: "The instructions are those of the paper's Table 1 and of `docs/language.md`, and the
program's effectful externs. Helpers are called without `emit`; what they emit is issued
then.",
    },
    Code {
        code: PARSER_ONLY,
        title: "allowed in parsers only",
        text: "Ids, headers and events are settled before a chain runs: `set_flow_id`, `extract` and
`out.add(event)` are allowed in parsers, shims and helpers that only those call.",
    },
    Code {
        code: CHAIN_ONLY,
        title: "allowed in chains only",
        text: "Parsers and shims turn an input into events, and coalescing rules compare two blueprints;
they issue no instructions and end no chains.",
    },
    Code {
        code: MISSING_CASE,
        title: "a `match` that leaves out variants",
        text: "A `match` without `default` names every variant of its enum, so that a variant that is added
later is not forgotten. Name the missing ones, or say what is done about all others:

    match (h.kind) {
        QUESTION -> answer(ev);
        ANSWER, REFUSAL -> finish(c);
        default -> { }
    }

A value that came from outside may be the number of no variant; it runs `default`, or no arm at all.",
    },
    Code {
        code: CASE,
        title: "a wrong case of a `match`",
        text: "The cases are variants of the matched enum, `A` or `kind_t::A`, each in one arm alone, or
`default`, once. Numbers and ranges are tested by `if`:

    if (n < 4) … else if (n in {7, 9}) …",
    },
    Code {
        code: PACKET,
        title: "a packet without a blueprint",
        text: "`pkt_gen(net, bp, rule(x)…, queue q, rank r, cost c)`: the network header comes first, then a
variable of a `pkt_bp`:

    IPheader ip;  ip.dst_ip = c.rip;
    emit pkt_gen(ip, h, s_seq(c.nxt));",
    },
    Code {
        code: RULE,
        title: "a segmentation rule",
        text: "A rule names a scalar field of one blueprint, and what it is in the first, the middle, the
last and the only packet. An instruction takes at most four rules of its own blueprint, with
four arguments in all, and at most one for each field:

    seg_rule s_seq(x) [TCPBP::seq, x, prev.seq + prev.data.len];",
    },
    Code {
        code: QUEUE,
        title: "a queue that is not declared, or of another policy",
        text: "Queues are declared by `sched nic = PRIO(8) { q0: RANK, q1: RATE(PER_FLOW) };` and named
with their schedule: `queue nic.q0`, `set_queue_rate(nic.q1, r)`. Only a queue that is RANK takes
`rank r`, and only one that is RATE or RATE(PER_FLOW) has a rate and takes `cost c`.",
    },
    Code {
        code: SCHED,
        title: "a packet schedule",
        text: "A schedule is `PRIO(n)` over at most n queues (and at most 64), the first of the highest
priority; each queue is FIFO, RANK, RATE or RATE(PER_FLOW).",
    },
    Code {
        code: TIMER,
        title: "not a timer",
        text: "Timers are fields of contexts: `timer_start(c.rtx, d)`, `timer_stop(c.rtx)`. Name a timer
with its context each time, and pass the context to functions, not the timer.",
    },
    Code {
        code: RAISE,
        title: "an event that programs cannot raise",
        text: "Programs raise events of kind EVENT, for this context's id or another's:

    event conn_ready : EVENT { id_t who; }
    emit raise(conn_ready{who: c.self}, c.parent);",
    },
    Code {
        code: SIGNAL,
        title: "a signal that is not declared",
        text: "A signal to the interactive layer is declared: `signal loss { seq<32> at; }`, then `emit
signal(loss{at: x});`",
    },
    Code {
        code: NOTIFY,
        title: "an unknown form of a notice",
        text: "The application is notified of CONNECTED, EOF, CLOSED, `ACCEPTED, id`, `FAILED, errno`, or a
structure of the program's own with up to four numbers: `emit notify(wc{wr_id: x, status:
0});`",
    },
    Code {
        code: EXTERN,
        title: "an extern of the wrong form",
        text: "A pure extern takes and returns numbers and is allowed in parsers; an effectful one returns
`instr_t`, and is answered by an event:

    extern uint64 mr_addr(uint32 rkey, uint64 va);
    extern instr_t mem_atomic(addr_t a, uint64 cmp) -> atomic_done;",
    },
    Code {
        code: WIRE_FIELD,
        title: "a field that cannot be sent",
        text: "Packets consist of `uintN`, `intN`, `bool`, `seq<W>`, `varint_t`, `bytes<N>`, `ip_addr_t`,
checksums, header lengths, one `data_t`, one option list, and nested structures: absent
unless `when (e)`, or repeated as `list<T, N> x count(n)` with an earlier field `n`.",
    },
    Code {
        code: NOT_WHOLE_BYTES,
        title: "fields that end inside a byte",
        text: "Fields are packed from the most significant bit. Addresses, varints, nested headers,
options, the payload and the end of the header begin at a byte.",
    },
    Code {
        code: WIRE_TWICE,
        title: "a second one in a header",
        text: "A blueprint has at most one payload, one option list and one header length. The option list
ends the header; fields after the payload are trailers.",
    },
    Code {
        code: HEADER_LENGTH,
        title: "a header length in words",
        text: "`hdrlen4_t` counts the header in words of 4 bytes, and has 4 bits: without options the
header is a multiple of 4 bytes long, and at most 60.",
    },
    Code {
        code: FILL,
        title: "a fill",
        text: "An initialiser on the wire is computed for each packet and verified by `extract`: `uint16
length = len(this);`. Only numbers of a fixed width have one. A checksum covers `(pseudo,
this)` or `(this)`; `mask{…}` names fields of the same header that a `crc32_t` takes as
ones.",
    },
    Code {
        code: OPTION_LIST,
        title: "an option list",
        text: "An option list names a union of options, and the most that are kept:

    opt_list tcp_options { uint32 len = off * 4 - 20; uint32 type_select = 8; pad 4; list<any_opt, 5> opts; }

With a header length in 4-byte words the list is padded to words, too.",
    },
    Code {
        code: OPTION_MEMBER,
        title: "a member of an option union",
        text: "The first field of a member is a constant that selects it; among members that agree in it,
the one with more constants comes first. A constant `len` is the number of bytes that the
fields take.",
    },
    Code {
        code: NET_HEADER,
        title: "a field of the network header",
        text: "`net_header IPheader { … }` names fields of the built-in header, with their types; it may be
left out. Addresses are `ip_addr_t`, for IPv4 and IPv6 alike.",
    },
    Code {
        code: CANNOT_BIND,
        title: "a parameter that cannot be bound",
        text: "A processor's parameters are bound by their types: the chain's event (`event_t` for every
event), the keyed context, GLOBAL contexts, the scratchpad, or a `part` of a context or of
the scratchpad.",
    },
    Code {
        code: TWO_KEYED,
        title: "more than one keyed context",
        text: "A chain has one keyed context, found by the event's ids, beside the GLOBAL ones. To
change another context, raise an event for it. A `no_ctx` processor runs only when
none was found.",
    },
    Code {
        code: TWO_NEW_CONTEXTS,
        title: "more than one new context",
        text: "One slot is reserved before a chain runs, so no path makes two contexts, and all make the
same type. A second one is made in the chain of an event that is raised.",
    },
    Code {
        code: REFUSE_NOT_APP,
        title: "a refusal that is not allowed here",
        text: "`refuse(code)` turns an application's request down, or a packet; a timer cannot be refused.
`done;` ends the chain and keeps its changes.",
    },
    Code {
        code: REFUSE_AFTER_CHANGE,
        title: "a refusal after a change",
        text: "A refused request has no effect, and changes are not rolled back: on no path to `refuse`
may an existing context have been written or an instruction issued, in this processor or in
those before it. Check first, then act.",
    },
    Code {
        code: KEPT_ADDRESS,
        title: "a packet's address in a context",
        text: "The bytes to which a packet's `addr_t` refers are valid until the end of its batch.
`add_rx_data_seg` keeps them; a context cannot. An application's address lives until it is
notified.",
    },
    Code {
        code: CHAIN_CYCLE,
        title: "a chain that contains itself",
        text: "A named chain stands for its processors, wherever it is used: `chain tail = {cc, output};`
Such chains cannot contain each other.",
    },
    Code {
        code: TWO_CHAINS,
        title: "a second chain for an event",
        text: "An event has one chain, whose processors run in order. Tails that several events share have
a name: `chain tail = {…};`",
    },
    Code {
        code: NOT_A_PROCESSOR,
        title: "not allowed in a chain",
        text: "A chain is made of processors, functions that return `void` or `list<instr_t>`, and of named
chains.",
    },
    Code {
        code: CHAIN_TOO_LARGE,
        title: "a worst case that is too large",
        text: "The engine runs a chain only if it has room for the worst case: at most 65536 records of 16 MiB in
all. Nested loops multiply; lower their bounds, and raise an event to go on.",
    },
    Code {
        code: ATTACH,
        title: "a processor that cannot be attached",
        text: "`attach cap after cc;` makes `cap` run just after `cc` in every chain that has `cc` and whose
event `cap` takes; there must be one. An attachment to a running program contains processors,
helpers, structures, enums, constants, params and signals: contexts, events and packets stay as
they are, because they are in use.",
    },
    Code {
        code: TOO_MANY_STEPS,
        title: "too much work for one event",
        text: "A chain runs to its end before the next event, so the work of one event is bounded: at most 10,000,000
steps for a chain or a parser, and at most 100,000 that an attachment adds to a chain of a running
program. A step is a statement, an operation in an expression, a round of a loop, an element that a
search may look at, or 8 bytes that are moved. Rounds multiply and calls add up, as they may be at
worst; `hawser check` prints the largest figure. Lower the loops' bounds, or do a part of the work and
`raise` an event for the rest.",
    },
    Code {
        code: WHICH_PART,
        title: "an ambiguous part",
        text: "A context or a scratchpad may have several parts of one type: a congestion controller for each of
two paths. A processor that takes the type names the part on which it runs, and so may a chain
for all in it; a name chooses the part so called wherever there are several, and a part that is the only
one of its type needs none:

    context conn { part cc_t main; part cc_t spare; }
    scratchpad { part cc_sample main; part cc_sample spare; }
    dispatch d { acked -> {take, cubic(main), cubic(spare)}; }",
    },
    Code {
        code: NO_CONTEXT,
        title: "an instruction about a context that does not exist",
        text: "`notify`, `del_ctx`, `add_id`, `drop_id` and ordered data concern a keyed context: the one that was
found, or the one that the chain has made. There is none before `new_ctx` in a `no_ctx` processor, in the
chain of a GLOBAL context's timer, and in chains on GLOBAL contexts alone. A GLOBAL context has neither
ordered data nor an application, and its id is `NONE`; it has timers, and `raise(ev{…}, g.self)` raises an
event that concerns no keyed context.",
    },
    Code {
        code: REGISTRATION,
        title: "an unknown registration",
        text: "`deploy` registers chains, contexts and parsers:

    deploy {
        register_ep_chains(d);
        register_ctx_spec(tcp_listen_context, SHARD);
        register_ev_parser(parse_tcp, ip(6));
    }",
    },
    Code {
        code: SOURCE,
        title: "a source of events",
        text: "A parser is fed by `ip(protocol)`, `udp(port)` or `icmp_error`; a shim by an application's
request (`connect`, `listen`, `send`, `recv`, `close`, `abort`, `release`, `option`) or by `start`.",
    },
    Code {
        code: SOURCE_TWICE,
        title: "two parsers for one source",
        text: "Each source has one parser, which returns all events of an input, in order.",
    },
    Code {
        code: PARSER,
        title: "a parser of another form",
        text: "A parser's signature follows its source, and its events are of the source's kind:

    list<event_t> parse(pkt_t p, IPheader i)                  ip(n), udp(port); NET_EVENT
    list<event_t> parse(pkt_t p, IPheader i, icmp_t e)        icmp_error; NET_EVENT
    list<event_t> shim(op_t op)                               requests; APP_EVENT
    list<event_t> begin()                                     start; SYS_EVENT

A single event type may stand for the list. One input gives at most 256 events.",
    },
    Code {
        code: GRANULARITY,
        title: "a granularity",
        text: "A context is `FLOW` (the default: one per id), `SHARD` (one per id, replicated, as listeners
are) or `GLOBAL` (exactly one). Where an application opens several under one id, `select ev.hash`
says which of them an event goes to: by the hash of its first id. Nothing else can be selected by.",
    },
    Code {
        code: ENDS,
        title: "two ends that a context does not have",
        text: "`register_ctx_ends` names four fields of a context, by which an application and the interactive
layer know the connection's two ends: addresses of the type `ip_addr_t`, ports of the type `uint16`.

    context conn { ip_addr_t here, there; uint16 here_port, there_port; }
    deploy { register_ctx_ends(conn, here, here_port, there, there_port); }",
    },
    Code {
        code: UNUSED_VARIABLE,
        title: "a variable that is not used",
        text: "A warning: no statement refers to the variable after its declaration. A name that begins with `_`
causes no warning.",
    },
    Code {
        code: UNUSED_PARAMETER,
        title: "a parameter that is not used",
        text: "A warning: no statement refers to the parameter of a helper or a rule. Processors and parsers
take theirs by type, used or not. A name that begins with `_` causes no warning.",
    },
    Code {
        code: UNUSED_FUNCTION,
        title: "a function that is never run",
        text: "A warning: the function is in no chain, no function calls it, and it is not a parser.",
    },
    Code {
        code: UNUSED_EVENT,
        title: "an event without a chain",
        text: "A warning: the event has no effect, because no dispatch table lists a chain for it.",
    },
    Code {
        code: UNUSED_PARAM,
        title: "a param that is not used",
        text: "A warning: setting the param would have no effect.",
    },
    Code {
        code: NOT_REGISTERED,
        title: "chains that never run",
        text: "A warning: a dispatch table is in force once `deploy` registers it by `register_ep_chains`.",
    },
    Code {
        code: DIVISION_BY_ZERO,
        title: "a division by zero",
        text: "A warning: an operation in a chain cannot fail, so `x / 0` is 0 and `x % 0` is x. A division by the literal 0
is probably a mistake.",
    },
    Code {
        code: NARROW_PRODUCT,
        title: "a value that may overflow before it widens",
        text: "A warning: arithmetic runs at the wider operand's width, and widens when it is assigned. A product
of two `uint32` is a `uint32`, also where a `uint64` takes it; so are a sum and a shift of constants,
which do not fit. Cast an operand first:

    uint64 bytes = uint64(packets) * size;",
    },
    Code {
        code: CONSTANT_COMPARISON,
        title: "a comparison that is always true or always false",
        text: "A warning: no value of the operand's type makes a difference, as in `n >= 0` where n is unsigned, or
`n < 256` where n is a `uint8`. The same goes for comparisons that others decide: `n > 5 && n < 3` never
holds, `n < 5 || n >= 5` always does, and behind `if (n > 5)` so does `else if (n <= 5)`.",
    },
    Code {
        code: DEAD_CODE,
        title: "a statement that is never reached",
        text: "A warning: the statement before it ends the chain (`done`, `refuse`), the function (`return`) or the
round (`break`, `continue`).",
    },
    Code {
        code: NO_EVENTS,
        title: "a parser that never returns an event",
        text: "A warning: the input of the source has no effect, because no path adds an event to the list that the
parser returns.",
    },
    Code {
        code: TIMER_NEVER_STARTED,
        title: "a timer that is never started",
        text: "A warning: no instruction `timer_start` names the timer, so that its event never occurs.",
    },
    Code {
        code: CONTEXT_NEVER_MADE,
        title: "a context that is never created",
        text: "A warning: a context of granularity FLOW or SHARD is made by `new_ctx` in some chain. Without that,
chains that need it never run. A GLOBAL one always exists.",
    },
    Code {
        code: DEFAULT_OUTSIDE,
        title: "an initial value outside `modifiable`",
        text: "A warning: `modifiable(min, max)` states which values others may set, and the field begins with one
that they could not set again.",
    },
    Code {
        code: ASSIGNED_FILL,
        title: "an assignment to a field that is computed",
        text: "A warning: a field with an initialiser on the wire, a checksum or a header length is computed when
the packet is built. The value that a chain assigns to it is not sent.",
    },
    Code {
        code: SHRINKING_LIST,
        title: "elements removed from the list of the loop",
        text: "A warning: `for (x in list)` counts positions. When an element goes, those behind it move up, and the
next one is passed over. Leave the loop after the removal, or note what to remove and do it after
the loop.",
    },
    Code {
        code: REPEATED,
        title: "the same text twice, without effect",
        text: "A warning: the second of two equal conditions in a chain of `if` and `else if` never holds, `a && a` is
`a`, `a < a` and `a - a` have one result, and `c.x = c.x` has no effect. Where both branches of an `if` or of
`c ? a : b` are the same, the condition has no effect. One of the two places is probably a mistake.",
    },
    Code {
        code: OUT_OF_RANGE,
        title: "a constant that is out of range",
        text: "A warning: a position beyond the size of a list or a table reads as zero and ignores writes, a shift by the width or
more is taken modulo the width, and a loop from 8 to below 0 takes no round.",
    },
    Code {
        code: UNREAD_FIELD,
        title: "a field that is never read",
        text: "A warning: no processor, function, invariant or deployment reads the field of a context, a structure or
a scratchpad. Assigning it, or adding to it, has no effect. Fields that are `observable` or
`modifiable` are read from outside, and so are those of structures that externs and signals take.",
    },
    Code {
        code: UNUSED_CONSTANT,
        title: "a constant, a value of an enum or a signal that is never used",
        text: "A warning: the program does not use the name. It is given for the main file alone, since files that are
imported serve other programs as well. Values of an enum that comes from outside, by a header, an event,
a signal, a conversion or an observable field, are never called unused.",
    },
    Code {
        code: LOST_VALUE,
        title: "a value that is replaced before it is read",
        text: "A warning: the same place is assigned again, and no statement in between reads it. The first assignment
has no effect.",
    },
];
