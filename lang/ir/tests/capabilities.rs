//! Small programs, each with one known property.

use std::path::Path;

use hawser_driver::{MemoryLoader, compile_with};
use hawser_ir::Module;

use hawser_ir::capabilities::{Capabilities, Offer, Placement, SourceKind, lacks, pins, placements};

/// A program with a packet, a connection and a listener. `take` is the body for a connection. `more` holds
/// declarations, and `chain` holds further processors of the same chain.
struct Program<'a> {
    take: &'a str,
    more: &'a str,
    chain: &'a str,
    ids: &'a str,
    source: &'a str,
}

const PLAIN: Program<'static> = Program {
    take: "",
    more: "",
    chain: "take",
    ids: "flow_id id(i.src_ip, h.port);  set_flow_id(e, id);",
    source: "ip(253)",
};

impl Program<'_> {
    fn text(&self) -> String {
        let Program { take, more, chain, ids, source } = self;
        format!(
            "event came : NET_EVENT {{ ip_addr_t from; uint16 port; addr_t addr; uint32 len; }}\n\
             event late : TIMER_EVENT {{ }}\n\
             context conn {{ ip_addr_t peer; uint64 n; timer_t tick -> late; }}\n\
             context all {{ list<ip_addr_t, 4> hosts; uint64 n; }}\n\
             pkt_bp head {{ uint16 port; uint16 kind; data_t data; }}\n\
             sched nic = PRIO(2) {{ control: FIFO, ranked: RANK }};\n\
             {more}\n\
             void take(came ev, conn c, all a) {{ c.n += 1; {take} }}\n\
             void wake(late ev, conn c) {{ c.n += 1; }}\n\
             void make(came ev, no_ctx none) {{ conn c = new_ctx{{peer: ev.from}}; emit timer_start(c.tick, 1s); }}\n\
             list<event_t> parse(pkt_t p, IPheader i) {{\n\
             list<event_t> out; head h; p.extract(h); came e; e.from = i.src_ip; e.port = h.port;\n\
             e.addr = h.data.addr; e.len = h.data.len; {ids} out.add(e); return out; }}\n\
             dispatch d {{ came -> {{{chain}}}; late -> {{wake}}; }}\n\
             deploy {{ register_ep_chains(d); register_pkt_sched(nic); register_ctx_spec(all, GLOBAL);\n\
             register_ev_parser(parse, {source}); }}\n"
        )
    }

    fn module(&self) -> Module {
        let text = self.text();
        let compilation = compile_with(&MemoryLoader::new([("p.mtp", text.as_str())]), Path::new("p.mtp"));
        assert!(!compilation.failed(), "{}", compilation.render(false));
        compilation.module.expect("no error, so a module")
    }

    /// Returns the placement of the chain of `came`, with the texts of its reasons and of their lines.
    fn placed(&self, capabilities: &Capabilities) -> (Placement, Vec<String>) {
        let module = self.module();
        let event = module.events.iter().position(|event| event.name == "came");
        let placed = placements(&module, capabilities).swap_remove(event.expect("it is there"));
        let reasons = placed.reasons.into_iter().map(|reason| reason.text);
        (placed.placement, reasons.collect())
    }
}

fn xdp() -> Capabilities {
    Capabilities::for_target("xdp").expect("a target")
}

fn kernel(change: impl Fn(&mut Offer)) -> Capabilities {
    let mut capabilities = xdp();
    change(capabilities.kernel.as_mut().expect("chains run in the kernel"));
    capabilities
}

const BACK: &str = "IPheader ip; ip.dst_ip = c.peer; head h; h.port = 1; emit pkt_gen(ip, h);";

#[test]
fn chains_that_change_state_and_answer_run_in_the_kernel() {
    let host = "`head` may go to another host than the frame's sender";
    let back = "`head` goes back to the frame's sender";
    let cases: &[(&str, Placement, &[&str])] = &[
        ("", Placement::Kernel, &["it changes contexts and timers alone"]),
        (
            "emit timer_start(c.tick, 1s);",
            Placement::Kernel,
            &["it changes contexts and timers alone"],
        ),
        (BACK, Placement::Kernel, &[back]),
        (
            "IPheader ip; ip.dst_ip = ev.from; head h; emit pkt_gen(ip, h);",
            Placement::Kernel,
            &[back],
        ),
        (
            "IPheader ip; head h; emit pkt_gen(ip, h);",
            Placement::Both,
            &[host],
        ),
        (
            "IPheader ip; ip.dst_ip = a.hosts[0]; head h; emit pkt_gen(ip, h);",
            Placement::Both,
            &[host],
        ),
        (
            "IPheader ip; ip.dst_ip = ipv4(1); head h; emit pkt_gen(ip, h);",
            Placement::Both,
            &[host],
        ),
        (
            "IPheader ip; ip.dst_ip = c.peer; if (ev.len > 9) ip.dst_ip = a.hosts[1]; head h; emit pkt_gen(ip, h);",
            Placement::Both,
            &[host],
        ),
        (
            "IPheader ip; ip.dst_ip = c.peer; head h; if (ev.len > 9) h.data = data(c.self, 0, 5); emit pkt_gen(ip, h);",
            Placement::Both,
            &[
                "`head` goes back to the frame's sender, unless it carries payload",
                "`head` may carry payload",
            ],
        ),
        (
            "IPheader ip; ip.dst_ip = c.peer; head h; emit pkt_gen(ip, h, queue nic.ranked, rank 1);",
            Placement::Both,
            &["`head` goes through the queue `nic.ranked` (RANK)"],
        ),
        (
            "emit notify(EOF);",
            Placement::Both,
            &["`notify` is carried out by the stack's thread"],
        ),
        (
            "emit add_rx_data_seg(ev.addr, ev.len, c.self, 0); emit del_ctx();",
            Placement::Both,
            &[
                "`add_rx_data_seg` is carried out by the stack's thread",
                "`del_ctx` is carried out by the stack's thread",
            ],
        ),
    ];
    for (take, placement, reasons) in cases {
        let placed = Program { take, ..PLAIN }.placed(&xdp());
        let reasons = reasons.iter().map(|reason| (*reason).to_owned()).collect();
        assert_eq!(placed, (*placement, reasons), "{take}");
    }
}

#[test]
fn packet_fields_written_by_helpers_are_found() {
    let more = "void address(IPheader ip, conn c, all a, bool all_of_them) { ip.dst_ip = c.peer;\n\
                if (all_of_them) relay(ip, a); }\n\
                void relay(IPheader ip, all a) { ip.dst_ip = a.hosts[2]; }\n\
                void fill(head h, conn c) { h.port = 3; load(h, c); }\n\
                void load(head h, conn c) { h.data = data(c.self, 0, 5); }\n\
                void send(IPheader ip, head h) { emit pkt_gen(ip, h); }\n\
                void wait(conn c) { emit timer_start(c.tick, 1s); }";
    let take = |body| Program { take: body, more, ..PLAIN }.placed(&xdp()).1;
    assert_eq!(
        take("wait(c); IPheader ip; ip.dst_ip = c.peer; head h; h.port = 3; send(ip, h);"),
        ["`head` goes back to the frame's sender"]
    );
    assert_eq!(
        take("IPheader ip; ip.dst_ip = c.peer; head h; fill(h, c); send(ip, h);"),
        [
            "`head` goes back to the frame's sender, unless it carries payload",
            "`head` may carry payload"
        ]
    );
    assert_eq!(
        take("IPheader ip; address(ip, c, a, false); head h; send(ip, h);"),
        ["`head` may go to another host than the frame's sender"]
    );
}

#[test]
fn elements_of_a_list_are_not_distinguished() {
    let more = "struct two { uint64 a, b, c;  ip_addr_t host; }\n\
                void set(two w, all a) { w.host = a.hosts[0]; }";
    let begin = "IPheader ip; head h; list<two, 2> l; l[0].host = c.peer;";
    let end = "ip.dst_ip = l[0].host; emit pkt_gen(ip, h);";
    for (between, reason) in [
        ("", "`head` goes back to the frame's sender"),
        (
            "set(l[1], a);",
            "`head` may go to another host than the frame's sender",
        ),
        (
            "two w; w.host = a.hosts[0]; l.push_back(w);",
            "`head` may go to another host than the frame's sender",
        ),
    ] {
        let take = format!("{begin} {between} {end}");
        let placed = Program { take: &take, more, ..PLAIN }.placed(&xdp());
        assert_eq!(placed.1, [reason], "{between}");
    }
}

#[test]
fn a_packet_with_a_crc_is_left_to_the_stack() {
    let more = "pkt_bp sealed { uint16 port; crc32_t sum over (this); }";
    let take = "IPheader ip; ip.dst_ip = c.peer; sealed s; emit pkt_gen(ip, s);";
    let placed = Program { take, more, ..PLAIN }.placed(&xdp());
    let reason = "`sealed` ends with a CRC-32 of all of it".to_owned();
    assert_eq!(placed, (Placement::Both, vec![reason]));
}

#[test]
fn one_of_several_packets_reuses_the_frame() {
    let two = format!("{{ {BACK} }} {{ {BACK} }}");
    let (placement, reasons) = Program { take: &two, ..PLAIN }.placed(&xdp());
    assert_eq!(placement, Placement::Both);
    assert_eq!(
        reasons[1],
        "of up to 2 packets one goes back in the frame's place"
    );
}

#[test]
fn chains_that_create_contexts_stay_in_the_stack() {
    let makes = "`new_ctx` is carried out by the stack's thread";
    let more = "context door { uint64 n; }\n\
                void open(came ev, door l) { conn c = new_ctx{peer: ev.from}; }";
    let of = |chain| Program { chain, more, ..PLAIN }.placed(&xdp());
    for chain in ["open", "take, open", "take, make", "make"] {
        assert_eq!(of(chain), (Placement::Both, vec![makes.to_owned()]), "{chain}");
    }
}

#[test]
fn a_chain_beyond_the_kernels_limits_stays_in_the_stack() {
    let user = |program: Program<'_>, capabilities: &Capabilities, reason: &str| {
        let (placement, reasons) = program.placed(capabilities);
        assert_eq!(placement, Placement::User, "{reasons:?}");
        assert!(reasons.iter().any(|found| found == reason), "{reasons:?}");
    };
    let externs = Program {
        take: "ask(c);",
        more: "extern instr_t look_up(uint64 n) -> found;\nevent found : EVENT { uint64 value; }\n\
               void ask(conn c) { emit look_up(c.n) -> found; }",
        ..PLAIN
    };
    user(externs, &xdp(), "it calls the extern `look_up`");
    let udp = Program { source: "udp(9)", ..PLAIN };
    assert_eq!(udp.placed(&xdp()).0, Placement::Kernel);
    let packets = kernel(|offer| offer.sources = vec![SourceKind::Ip]);
    user(udp, &packets, "it comes from datagrams to UDP port 9");
    let trimmed = Program { source: "trimmed(253)", ..PLAIN };
    user(trimmed, &xdp(), "it comes from packets with trimmed data");
    let steps = PLAIN.module().chains[0].bounds.steps;
    let exactly = kernel(|offer| offer.limits.steps = Some(steps));
    assert_eq!(PLAIN.placed(&exactly).0, Placement::Kernel);
    let below = kernel(|offer| offer.limits.steps = Some(steps - 1));
    user(
        PLAIN,
        &below,
        &format!("it takes up to {steps} steps, more than {}", steps - 1),
    );
    let notice = Program { take: "emit notify(EOF);", ..PLAIN };
    // A notice is 88 bytes: `NotifyRec`.
    let short = kernel(|offer| offer.limits.record_bytes = Some(87));
    user(notice, &short, "it takes up to 88 bytes of records, more than 87");
    // The context's header and 16 + 8 + 8 bytes.
    let small = kernel(|offer| offer.limits.context_bytes = Some(71));
    user(
        PLAIN,
        &small,
        "it takes up to 72 bytes of a context, more than 71",
    );
}

#[test]
fn chains_of_other_events_name_their_source() {
    let module = PLAIN.module();
    let late = module.events.iter().position(|event| event.name == "late");
    let placed = placements(&module, &xdp()).swap_remove(late.expect("it is there"));
    assert_eq!(placed.placement, Placement::User);
    assert_eq!(placed.reasons[0].text, "it comes from the timer `tick` of `conn`");
}

#[test]
fn a_reason_names_the_lines_of_its_construct() {
    let program = Program { take: "\nemit notify(EOF);", ..PLAIN };
    let (module, text) = (program.module(), program.text());
    let placed = placements(&module, &xdp());
    let span = placed[0].reasons[0].spans[0];
    assert_eq!(&text[span.start as usize..span.end as usize], "emit notify(EOF);");
}

#[test]
fn a_crc_over_the_payload_is_checked_by_the_stack() {
    let text = PLAIN
        .text()
        .replace("data_t data; }", "crc32_t sum over (this); data_t data; }");
    let compilation = compile_with(&MemoryLoader::new([("p.mtp", text.as_str())]), Path::new("p.mtp"));
    assert!(!compilation.failed(), "{}", compilation.render(false));
    let module = compilation.module.expect("no error, so a module");
    let placed = placements(&module, &xdp());
    assert_eq!(placed[0].placement, Placement::User);
    assert_eq!(
        placed[0].reasons[0].text,
        "the payload is checked, by the CRC-32 of `head`"
    );
    assert_eq!(
        lacks(&module, &Capabilities::for_target("host").expect("a target")),
        []
    );
}

#[test]
fn a_target_without_a_kernel_runs_all_in_the_stack() {
    let host = Capabilities::for_target("host").expect("a target");
    assert_eq!(PLAIN.placed(&host).0, Placement::User);
    assert_eq!(lacks(&PLAIN.module(), &host), []);
}

#[test]
fn a_missing_capability_is_reported_with_its_place() {
    let externs = Program {
        take: "emit look_up(c.n) -> found;",
        more: "extern instr_t look_up(uint64 n) -> found;\nevent found : EVENT { uint64 value; }",
        ..PLAIN
    };
    let host = Capabilities::for_target("host").expect("a target");
    let missing = lacks(&externs.module(), &host);
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].text, "the target has no extern `look_up`");
    assert_eq!(missing[0].spans.len(), 1);
    let texts = |program: Program<'_>, capabilities: &Capabilities| -> Vec<String> {
        let missing = lacks(&program.module(), capabilities);
        missing.into_iter().map(|reason| reason.text).collect()
    };
    let trimmed = Program { source: "trimmed(253)", ..PLAIN };
    assert_eq!(
        texts(trimmed, &xdp()),
        [
            "none of its chains can run in the kernel",
            "it comes from packets with trimmed data"
        ]
    );
    let mut poor = host;
    poor.stack.sources.clear();
    poor.stack.instructions.clear();
    poor.stack.payload = false;
    poor.stack.queues.clear();
    poor.stack.limits.steps = Some(1);
    let sends = Program { take: BACK, ..PLAIN };
    let found = texts(sends, &poor);
    for text in [
        "the target has no source for the parser `parse`",
        "the target has no instruction `pkt_gen`",
        "`head` goes through the queue `default` (FIFO)",
        "packets carry no payload",
    ] {
        assert!(found.iter().any(|found| found == text), "{found:?}");
    }
}

/// Returns the reasons why a program of one connection and one GLOBAL context is pinned to a shard. `more`
/// holds declarations, and `chains` holds the chains of the packet and of the raised event. `deployed` is the
/// rest.
fn pinned(more: &str, chains: &str, deployed: &str) -> Vec<String> {
    let text = format!(
        "event came : NET_EVENT {{ ip_addr_t lip, rip; uint16 lport, rport; }}\n\
         event begun : SYS_EVENT {{ }}\n\
         event raised : EVENT {{ uint64 n; }}\n\
         context conn {{ ip_addr_t lip, rip; uint16 lport, rport; uint64 n; }}\n\
         context all {{ uint64 n; }}\n\
         pkt_bp head {{ uint16 sport, dport; }}\n\
         begun begin() {{ begun e; return e; }}\n\
         void set_up(begun ev, all a) {{ a.n = ev.rand; }}\n\
         came parse(pkt_t p, IPheader i) {{ head h; p.extract(h); came e; e.lip = i.dst_ip; e.rip = i.src_ip;\n\
         e.lport = h.dport; e.rport = h.sport; flow_id id(e.lip, e.rip, e.lport, e.rport); set_flow_id(e, id); return e; }}\n\
         {more}\n\
         dispatch d {{ begun -> {{set_up}}; {chains} }}\n\
         deploy {{ register_ep_chains(d); register_ctx_spec(all, GLOBAL); register_ev_parser(begin, start);\n\
         register_ev_parser(parse, ip(6)); {deployed} }}\n"
    );
    let compilation = compile_with(&MemoryLoader::new([("p.mtp", text.as_str())]), Path::new("p.mtp"));
    assert!(!compilation.failed(), "{}", compilation.render(false));
    let module = compilation.module.expect("no error, so a module");
    pins(&module).into_iter().map(|reason| reason.text).collect()
}

#[test]
fn shared_variables_pin_a_program_to_one_shard() {
    const ENDS: &str = "register_ctx_ends(conn, lip, lport, rip, rport);";
    const NONE: [&str; 0] = [];
    let take = |body: &str| format!("void take(came ev, conn c, all a) {{ {body} }}");
    let cases: [(&str, &str, &str, &[&str]); 9] = [
        // A variable that only `start` writes is a constant.
        (&take("c.n += a.n;"), "came -> {take};", ENDS, &NONE),
        (
            &take("a.n += 1;"),
            "came -> {take};",
            ENDS,
            &["the chain of `came` has a context beside the GLOBAL `all`"],
        ),
        // A function to which the context is passed writes it, in a chain other than the one that reads it.
        (
            "void grow(all a) { a.n += 1; } void more(raised ev, all a) { grow(a); }\n\
             void take(came ev, conn c, all a) { c.n += a.n; emit raise(raised{n: 1}); }",
            "came -> {take}; raised -> {more};",
            ENDS,
            &["the chain of `came` has a context beside the GLOBAL `all`"],
        ),
        // An event that concerns only the GLOBAL context goes to the shard of that context.
        (
            "void more(raised ev, all a) { a.n += 1; } void take(came ev, conn c) { emit raise(raised{n: 1}); }",
            "came -> {take}; raised -> {more};",
            ENDS,
            &NONE,
        ),
        (
            "void take(came ev, all a) { a.n += 1; }",
            "came -> {take};",
            ENDS,
            &["`came` comes from outside and concerns the GLOBAL `all`"],
        ),
        (
            &take(""),
            "came -> {take};",
            "",
            &["no context states the ends of its connection (`register_ctx_ends`)"],
        ),
        (
            "sched nic = PRIO(1) { ranked: RANK }; void take(came ev, conn c) { }",
            "came -> {take};",
            "register_pkt_sched(nic); register_ctx_ends(conn, lip, lport, rip, rport);",
            &["the queue `nic.ranked` orders packets of all connections"],
        ),
        (
            "sched nic = PRIO(1) { paced: RATE(PER_FLOW) }; void take(came ev, conn c) { }",
            "came -> {take};",
            "register_pkt_sched(nic); register_ctx_ends(conn, lip, lport, rip, rport);",
            &NONE,
        ),
        (
            "void take(came ev, conn c) { flow_id id(c.n); emit add_id(id); }",
            "came -> {take};",
            ENDS,
            &["`add_id` gives a context further ids, by which packets arrive"],
        ),
    ];
    for (more, chains, deployed, expected) in cases {
        assert_eq!(pinned(more, chains, deployed), expected, "{more}");
    }
}
