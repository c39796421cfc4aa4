//! Flows of calls: each message whole, once, at the host that it was for, and its reply to who made the call.

use std::fmt::Write as _;
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::report::Report;
use hawser_sim::scenario::units::{Span, Value};
use hawser_sim::swarm::{self, Abilities, Ability, Carried, Subject};
use hawser_sim::{Options, ResolveError, Scenario, run};

fn try_on(engine: Engine, text: &str) -> Result<Report, String> {
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
        Ok(resolve_with_on(Some(engine), name, settings)?)
    };
    let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    run(&scenario, &resolve, Options::default()).map_err(|error| error.to_string())
}

fn on(engine: Engine, text: &str) -> Report {
    try_on(engine, text).unwrap_or_else(|error| panic!("{error}"))
}

fn go(text: &str) -> Report {
    on(Engine::Native, text)
}

/// Hosts `h0` and so on at a switch.
fn star(hosts: usize, link: &str) -> String {
    let mut text = "program = 'homa'\nduration = '30s'\nlinger = '1s'\nforget = '1s'\n\
                    switch = [{ name = 's', priorities = 8 }]\n"
        .to_owned();
    for host in 0..hosts {
        let _ = writeln!(text, "[[host]]\nname = 'h{host}'");
        let _ = writeln!(text, "[[link]]\nbetween = ['h{host}', 's']\nboth = {{ {link} }}");
    }
    text
}

const FAST: &str = "rate = '10Gbit/s', delay = '1us'";

/// All call all others with messages of all lengths, the short ones alike among them, through losses.
#[test]
fn all_hosts_call_all_others_the_same_on_both_engines() {
    let text = star(
        4,
        &format!("{FAST}, loss = 0.02, reorder = 0.05, hold = '20us', duplicate = 0.02"),
    ) + "[[flow]]\nfrom = 'h[0-3]'\nto = 'h[0-3]'\npairs = 'others'\n\
           calls = { count = 30, size = [1, 40000], reply = [1, 3000], interval = '50us', arrivals = 'poisson' }\n\
           [[flow]]\nfrom = 'h[1-3]'\nto = 'h0'\ncalls = { count = 50, size = [1, 3], reply = [1, 9] }\n";
    let reports = [Engine::Interp, Engine::Native].map(|engine| on(engine, &text));
    for report in &reports {
        assert!(report.ok, "{report}");
        assert_eq!(report.flows.len(), 7, "one for each host that calls");
        for flow in &report.flows {
            let calls = if flow.flow == 0 { 30 } else { 50 };
            for direction in [&flow.forward, &flow.backward] {
                let messages = direction
                    .messages
                    .map(|messages| (messages.sent, messages.received));
                assert_eq!(messages, Some((calls, calls)), "{flow}");
            }
            assert_eq!(flow.times.map(|times| times.count as u64), Some(calls));
        }
    }
    assert_eq!(reports[0].trace_hash, reports[1].trace_hash);
    assert_eq!(
        (reports[0].flows[0].to.as_str(), reports[0].flows[4].to.as_str()),
        ("3 hosts", "h0")
    );
}

/// One at a time: each call takes a round trip, and the next one begins then.
#[test]
fn no_more_calls_are_under_way_than_may_be() {
    let text = |outstanding| {
        star(2, "delay = '100us'")
            + &format!(
                "[[flow]]\nfrom = 'h0'\nto = 'h1'\ncalls = {{ count = 12, size = 100, reply = 100, {outstanding} }}\n"
            )
    };
    let took = |outstanding| {
        let report = go(&text(outstanding));
        assert!(report.ok, "{report}");
        let flow = &report.flows[0];
        (flow.backward.seconds, flow.times.map(|times| times.max))
    };
    // There and back over two links each: 400 us.
    assert_eq!(took("outstanding = 1"), (Some(0.0048), Some(400e-6)));
    assert_eq!(took("outstanding = 4"), (Some(0.0012), Some(400e-6)));
    assert_eq!(took(""), (Some(400e-6), Some(400e-6)));
}

/// A host that goes down in the middle: its own calls have no end, and calls to it fail or are made again.
#[test]
fn calls_to_a_host_that_falls_are_made_again() {
    let text = star(3, FAST)
        + "[[at]]\ntime = '5ms'\nhost = 'h1'\nstate = 'down'\n[[at]]\ntime = '300ms'\nhost = 'h1'\nstate = 'up'\n\
           [[flow]]\nfrom = ['h0', 'h2']\nto = ['h1']\n\
           calls = { count = 100, size = [1, 20000], reply = 50, interval = '200us', retry = '10ms' }\n\
           [[flow]]\nfrom = ['h1']\nto = ['h0']\ncalls = { count = 100, size = 5000, reply = 5000, interval = '100us' }\n";
    let report = go(&text);
    assert!(report.ok, "{report}");
    for flow in &report.flows[..2] {
        assert_eq!(
            flow.backward.messages.map(|messages| messages.received),
            Some(100),
            "{flow}"
        );
    }
    let own = report.flows[2]
        .backward
        .messages
        .map(|messages| messages.received);
    assert!(own.is_some_and(|own| (40..=100).contains(&own)), "{own:?}");
}

/// Without `retry` a call that fails is a failure of the run, and the report says which.
#[test]
fn a_call_that_fails_is_reported() {
    let text = star(2, FAST)
        + "[[at]]\ntime = '0s'\nlink = 'h1-s'\nstate = 'down'\n\
           [[flow]]\nfrom = 'h0'\nto = 'h1'\ncalls = { count = 2, size = 10, reply = 10 }\n";
    let report = go(&text);
    let expected = "flow 0 (calls h0 -> h1:7001): call 0: failed: Connection timed out";
    assert!(
        report
            .failures
            .first()
            .is_some_and(|fault| fault.starts_with(expected)),
        "{report}"
    );
    let ends = report.flows[0].ends.as_ref().expect("it failed");
    assert_eq!([&ends[0].host, &ends[1].host], ["h0", "h1"]);
}

#[test]
fn a_program_is_asked_only_for_what_it_offers() {
    let refused = |program: &str, app: &str| {
        let text = star(2, FAST).replace("'homa'", &format!("'{program}'"));
        let text = text + &format!("[[flow]]\nfrom = 'h0'\nto = 'h1'\n{app}\n");
        try_on(Engine::Native, &text)
            .err()
            .unwrap_or_else(|| panic!("{program} runs {app}"))
    };
    assert_eq!(
        refused("homa", "bulk = { bytes = 1 }"),
        "`flow[0].bulk`: `homa` offers no connections\n  hint: it carries calls: `calls = { size = 100, reply = 100 }`"
    );
    assert_eq!(
        refused("homa", "calls = { size = 1 }"),
        "`flow[0].calls`: `homa` offers calls, and no messages without a reply\n  hint: give `reply`: the size of \
         each reply"
    );
    assert_eq!(
        refused("tcp", "calls = { size = 1, reply = 1 }"),
        "`flow[0].calls`: `tcp` offers neither calls nor messages from endpoints\n  hint: it carries connections: \
         `request = { size = 100, response = 100 }`"
    );
}

/// The swarm draws calls for a program that carries them, over a link or a fabric, and all of them come to an end.
#[test]
fn a_swarm_of_calls_is_safe_and_live_and_the_same_on_both_engines() {
    let carried = Carried {
        longest: 4000,
        ..Carried::CALLS
    };
    let abilities = Abilities::MINIMAL.with(Ability::Ends).with(Ability::Restart);
    let subject = Subject::new("homa", abilities).carrying(carried);
    let mut fabrics = 0;
    for seed in 1..=12 {
        let mut scenario = swarm::scenario(seed, &subject);
        // Round trips here are a thousand times those of the networks that its defaults are for.
        let params = [
            ("RESEND_AFTER", 500),
            ("ACK_AFTER", 500),
            ("TIMEOUT", 5000),
            ("LINGER", 20_000),
        ];
        let params = params.map(|(name, millis)| (name.to_owned(), Value::Span(Span(millis * 1_000_000))));
        scenario.params.extend(params);
        fabrics += usize::from(!scenario.switch.is_empty());
        let text = scenario.to_toml().expect("it can be written");
        let reports = [Engine::Interp, Engine::Native].map(|engine| on(engine, &text));
        assert!(reports[0].ok, "{}", swarm::explain(&scenario, &reports[0]));
        assert_eq!(reports[0].trace_hash, reports[1].trace_hash, "seed {seed}");
    }
    assert!((1..12).contains(&fabrics), "{fabrics} of 12");
}
