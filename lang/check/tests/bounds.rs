//! Compares chains' worst cases with numbers worked out by hand.
//!
//! Sizes of the records in bytes (`hawser_ir::abi`): ordered data 72, timers 24, contexts 56, notices 88,
//! packets 128 and the blueprint's image, raises 56 and the event, signals 16 and the structure.

use crate::common;

use common::{bounds, chain, module, repository};
use hawser_ir::Precondition;

const HEAD: &str = "
    event ask : APP_EVENT { uint32 n; }
    event wake : TIMER_EVENT { }
    event reported : EVENT { uint64 n; }
    signal loss { uint64 at; }
    context conn { uint32 n; list<uint32, 6> l; timer_t t -> wake; }
    pkt_bp hello { uint32 a; data_t data; }
    void report(conn c) { emit raise(reported{n: 5}, c.self); }
";

fn chain_bounds(processors: &str, chain: &str) -> [u32; 4] {
    bounds(
        &module(&format!(
            "{HEAD} {processors} dispatch d {{ ask -> {{{chain}}}; }}"
        )),
        "ask",
    )
}

#[test]
fn instructions_of_a_body_add_up() {
    let body = "void f(ask ev, conn c) {
        IPheader ip;  hello h;
        emit pkt_gen(ip, h);  emit timer_start(c.t, 5ms);  emit signal(loss{at: 1});  report(c);  emit del_ctx();
    }";
    // The image of `hello`: 4 bytes, padding to 8, a `data_t` of 64. An event is 144 bytes and 8.
    assert_eq!(
        chain_bounds(body, "f"),
        [5, (136 + 72) + 24 + (16 + 8) + (56 + 152) + 56, 1, 1]
    );
}

#[test]
fn a_branch_costs_its_dearer_side() {
    let body = "void f(ask ev, conn c) { if (ev.n == 1) emit notify(EOF); else { emit timer_stop(c.t);  emit timer_stop(c.t); } }";
    assert_eq!(
        chain_bounds(body, "f"),
        [2, 88, 0, 0],
        "two records on one side, more bytes on the other"
    );
}

#[test]
fn loops_multiply_and_stop_at_a_list_s_end() {
    let body = "void f(ask ev, conn c) { for (i in 0..ev.n, 5) for (x in c.l, 100) if (x == i) report(c); }";
    assert_eq!(chain_bounds(body, "f"), [5 * 6, 30 * 208, 0, 30]);
}

#[test]
fn steps_after_return_do_not_count() {
    let body = "void f(ask ev, conn c) {
        if (ev.n == 1) { emit notify(EOF);  return; }
        emit timer_stop(c.t);
    }";
    assert_eq!(chain_bounds(body, "f"), [1, 88, 0, 0]);
}

#[test]
fn steps_after_done_do_not_count_in_callers() {
    let body = "void f(ask ev, conn c) { if (ev.n == 1) { emit notify(EOF);  stop(); } }
                void stop() { done; }
                void g(ask ev, conn c) { emit timer_stop(c.t); }";
    assert_eq!(chain_bounds(body, "f, g"), [1, 88, 0, 0]);
}

#[test]
fn alternative_cases_do_not_add_up() {
    let body = "context other { uint32 n; }
                void f(ask ev, conn c) { emit notify(EOF); }
                void g(ask ev, other c) { emit notify(EOF);  c.n = 1; }
                void h(ask ev, no_ctx none) { conn c = new_ctx{n: 5};  c.n += 1; }
                void all(ask ev) { report_all(ev); }
                void report_all(ask ev) { emit raise(reported{n: ev.n}); }";
    let text = format!("{HEAD} {body} dispatch d {{ ask -> {{f, g, h, all}}; }}");
    let module = module(&text);
    assert_eq!(bounds(&module, "ask"), [2, 88 + 208, 0, 1]);
    let whens: Vec<Precondition> = chain(&module, "ask").processors.iter().map(|p| p.when).collect();
    let contexts = |name| {
        module
            .contexts
            .iter()
            .position(|c| c.name == name)
            .map(|i| hawser_ir::ContextId(i as u32))
    };
    let (conn, other) = (contexts("conn").expect("conn"), contexts("other").expect("other"));
    assert_eq!(
        whens,
        [
            Precondition::Found(conn),
            Precondition::Found(other),
            Precondition::NotFound,
            Precondition::Always
        ]
    );
    assert_eq!(chain(&module, "ask").creates, Some(conn));
}

#[test]
fn stop_and_wait_has_the_expected_bounds() {
    let module = module(&repository("examples/stop-and-wait.mtp"));
    // The image of `SW`: 12 bytes of header, padding to 16, a `data_t` of 64. A packet thus takes 216.
    assert_eq!(bounds(&module, "sw_send"), [3, 72 + 216 + 24, 1, 0]);
    // A signal is a record of 16 bytes and its field of 4, rounded up to 8.
    assert_eq!(bounds(&module, "sw_timeout"), [3, 216 + 24 + 24, 1, 0]);
    assert_eq!(bounds(&module, "sw_listen"), [1, 56, 0, 0]);
    assert_eq!(bounds(&module, "sw_connect"), [4, 56 + 2 * 72 + 88, 0, 0]);
    // A packet's data, its acknowledgement, the next packet and its timer: five records. The path that ends
    // in `done` has four: timer_stop, flush, notify, del_ctx.
    assert_eq!(bounds(&module, "sw_pkt"), [5, 2 * 72 + 216 + 216 + 24, 2, 0]);
    let parsers: Vec<u32> = module.parsers.iter().map(|p| p.max_events).collect();
    assert_eq!(parsers, [1; 5]);
}

#[test]
fn a_part_binds_each_context_that_contains_it() {
    let module = module(&repository("lang/tests/pass/composition.mtp"));
    let whens = |event| {
        chain(&module, event)
            .processors
            .iter()
            .map(|p| p.when)
            .collect::<Vec<_>>()
    };
    let (a, b) = (hawser_ir::ContextId(0), hawser_ir::ContextId(1));
    assert_eq!(
        whens("a_ack"),
        [
            Precondition::Found(a),
            Precondition::Found(a),
            Precondition::Always
        ]
    );
    assert_eq!(
        whens("b_ack"),
        [
            Precondition::Found(b),
            Precondition::Found(b),
            Precondition::Always
        ]
    );
    assert_eq!(
        whens("idle"),
        [Precondition::Found(a), Precondition::Found(b)],
        "the timer's event carries either"
    );
    assert_eq!(chain(&module, "a_ack").globals, [hawser_ir::ContextId(2)]);
}

/// Returns the steps of a chain. A statement weighs 1, an operation 1, a constant 0, a function's entry 1 and
/// its frame / 8, a round 1.
fn steps(processors: &str, of: &str) -> u64 {
    chain(
        &module(&format!("{HEAD} {processors} dispatch d {{ ask -> {{{of}}}; }}")),
        "ask",
    )
    .bounds
    .steps
}

#[test]
fn steps_multiply_in_loops_and_add_up_in_calls() {
    // Entry 1, the statement 1, load 1.
    let once = steps("void f(ask ev, conn c) { c.n = ev.n; }", "f");
    assert_eq!(once, 3);
    // The loop: 1; a round: 1 and the statement.
    let hundred = steps("void f(ask ev, conn c) { for (i in 0..100) c.n = ev.n; }", "f");
    assert_eq!(hundred, 1 + frame(1) + 1 + 100 * (1 + 2));
    let nested = steps(
        "void f(ask ev, conn c) { for (i in 0..100) for (j in 0..50) c.n = ev.n; }",
        "f",
    );
    assert_eq!(nested, 1 + frame(2) + 1 + 100 * (1 + 1 + 50 * (1 + 2)));
    // Each call: the statement 1, and the callee.
    let twice = steps(
        "void g(ask ev, conn c) { c.n = ev.n; } void f(ask ev, conn c) { g(ev, c); g(ev, c); }",
        "f",
    );
    assert_eq!(twice, 1 + 2 * (1 + 3));
}

/// Returns the steps to zero a frame of counters of 4 bytes.
fn frame(counters: u64) -> u64 {
    (4 * counters).div_ceil(8)
}

/// 34 functions, each of which calls the previous one twice: 2^34 calls in 40 lines.
#[test]
fn calls_that_double_are_refused_with_their_number() {
    let mut text = format!("{HEAD} void f0(ask ev, conn c) {{ c.n += 1; }}");
    for n in 1..34 {
        text += &format!(
            "void f{n}(ask ev, conn c) {{ f{m}(ev, c); f{m}(ev, c); }}",
            m = n - 1
        );
    }
    let (module, diagnostics) = common::check(&format!("{text} dispatch d {{ ask -> {{f33}}; }}"));
    assert!(module.is_none());
    let codes: Vec<_> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, ["E0712"], "{diagnostics:?}");
}

/// One program is just within the limit, one just beyond it.
#[test]
fn the_step_limit_is_ten_million() {
    let text = |rounds: u32| {
        let f = format!("void f(ask ev, conn c) {{ for (i in 0..1000) for (j in 0..{rounds}) c.n = ev.n; }}");
        format!("{HEAD} {f} dispatch d {{ ask -> {{f}}; }}")
    };
    // With 3 steps a round, 1,000 × (2 + 3 × 3,332) and 3 are below 10^7; with one more round each they are
    // not.
    assert!(common::check(&text(3332)).0.is_some());
    let (module, diagnostics) = common::check(&text(3334));
    assert!(
        module.is_none() && diagnostics[0].code == "E0712",
        "{diagnostics:?}"
    );
}

/// Parsers count, and so do all elements that a search may examine.
#[test]
fn a_parser_that_searches_in_loops_is_refused() {
    let text = "
        event seen : NET_EVENT { uint32 n; list<uint32, 1000> l; }
        list<event_t> parse(pkt_t p, IPheader i) {
            list<event_t> out;  seen ev;
            for (a in 0..1000) for (b in 0..1000) ev.l.push_back(a + b);
            out.add(ev);  return out;
        }
        void f(seen ev) { }
        dispatch d { seen -> {f}; }
        deploy { register_ep_chains(d); register_ev_parser(parse, ip(200)); }";
    let (module, diagnostics) = common::check(text);
    let wrong: Vec<_> = diagnostics
        .iter()
        .filter(|f| f.severity == hawser_syntax::Severity::Error)
        .collect();
    assert!(
        module.is_none() && wrong.len() == 1 && wrong[0].code == "E0712",
        "{diagnostics:?}"
    );
}
