//! A scenario at each of its documented limits (docs/scenarios.md) runs.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::fmt::Write;
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::report::Report;
use hawser_sim::{Options, ResolveError, Scenario, run};

const HOSTS: usize = 1000;
const SWITCHES: usize = 1000;
const LINKS: usize = 10_000;
const CHANGES: usize = 100_000;
const CONNECTIONS: usize = 10_000;

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Native), name, settings)?)
}

fn go(text: &str) -> Report {
    let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error}"));
    run(&scenario, &resolve, Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// A host behind each switch, with the switches linked in a ring to those that follow them.
fn ring() -> String {
    let mut text = String::from("duration = '1s'\nprogram = 'tcp'\n");
    for number in 0..HOSTS {
        let _ = writeln!(text, "[[host]]\nname = 'h{number}'");
    }
    for number in 0..SWITCHES {
        let _ = writeln!(text, "[[switch]]\nname = 's{number}'");
    }
    let to_hosts = (0..HOSTS).map(|number| (format!("h{number}"), number));
    let around = (HOSTS..LINKS).map(|number| {
        let (from, by) = (number % SWITCHES, number / SWITCHES);
        (format!("s{from}"), (from + by) % SWITCHES)
    });
    for (number, (from, to)) in to_hosts.chain(around).enumerate() {
        let _ = writeln!(
            text,
            "[[link]]\nname = 'l{number}'\nbetween = ['{from}', 's{to}']"
        );
    }
    text
}

#[test]
fn the_largest_network_of_streams_runs() {
    let mut text = ring();
    for number in 0..CHANGES {
        let (time, link, delay) = (number % 1000, number % LINKS, 1 + number % 7);
        let _ = writeln!(
            text,
            "[[at]]\ntime = '{time}us'\nlink = 'l{link}'\nboth = {{ delay = '{delay}us' }}"
        );
    }
    let _ = writeln!(
        text,
        "[[flow]]\nfrom = 'h[0-{}]'\nto = 'h[{}-{}]'\npairs = 'in-order'\ncount = {}\nbulk = {{ bytes = 1 }}",
        HOSTS / 2 - 1,
        HOSTS / 2,
        HOSTS - 1,
        CONNECTIONS / (HOSTS / 2)
    );
    let report = go(&text);
    assert!(report.failures.is_empty(), "{:?}", report.failures.first());
    assert_eq!(report.flows.len(), CONNECTIONS);
}

/// Every host may call every other one: almost a million pairs.
#[test]
fn every_host_may_call_every_other_in_the_largest_network() {
    let text = ring().replace("program = 'tcp'", "program = 'homa'");
    let last = HOSTS - 1;
    let report = go(&format!(
        "{text}[[flow]]\nfrom = 'h[0-{last}]'\nto = 'h[0-{last}]'\npairs = 'others'\n\
         calls = {{ count = 2, size = 100, reply = 8 }}\n"
    ));
    assert!(report.failures.is_empty(), "{:?}", report.failures.first());
    assert_eq!(report.flows.len(), HOSTS);
}
