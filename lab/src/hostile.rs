//! Entry points for a fuzzer to the code that reads bytes from outside. They have no other use.

use std::sync::Arc;

use hawser_engine::wire::Csum;
use hawser_sim::frame::Frame;
use hawser_sim::link::{Rule, Verdict};
use hawser_sim::rng::Rng;
use hawser_time::Instant;
use parking_lot::Mutex;

use crate::names::Zone;
use crate::plan::LabPlan;
use crate::rules::filter::{Blocked, Filter};
use crate::rules::nat::Translator;
use crate::rules::trace::{Trace, TraceTimes};
use crate::spec::Spec;

const FILE: &str = r#"
    host = [{ name = "a" }, { name = "b" }]
    link = [{ between = ["a", "b"], nat = { inside = "a" } }]
    dns = [{ name = "x", addresses = ["b"] }]
"#;

/// Reads any text as a trace, and sends packets over it. They leave in order, and not before they came.
///
/// # Panics
/// A packet leaves too early or out of order.
pub fn trace(text: &str) {
    let Ok(line) = TraceTimes::parse(text) else { return };
    let mut rule = Trace::new(&Arc::new(Mutex::new(Some(Arc::new(line)))));
    let mut rng = Rng::new(1, "trace");
    let mut last = Instant::ORIGIN;
    for now in [
        0,
        1,
        1_000_000_000,
        1_000_000_001,
        86_400_000_000_000,
        u64::MAX / 2,
    ] {
        let now = Instant::from_nanos(now);
        let mut frame = frame(&[0; 1514]);
        let Verdict::Later(at) = rule.apply(now, &mut frame, &mut rng) else {
            continue;
        };
        assert!(at >= now && at >= last, "{at:?} after {last:?} and {now:?}");
        last = at;
    }
}

/// A filter, a translator and a resolver under test.
pub struct Target {
    filter: Filter,
    outward: Box<dyn Rule>,
    inward: Box<dyn Rule>,
    zone: Zone,
    now: Instant,
}

impl Default for Target {
    fn default() -> Target {
        Target::new()
    }
}

impl Target {
    /// Makes a target with two hosts, of which `a` is behind a translator.
    ///
    /// # Panics
    /// Never, because its lab file is valid.
    #[must_use]
    pub fn new() -> Target {
        let spec = Spec::parse(FILE).expect("a lab");
        let plan = LabPlan::new(&spec).expect("a plan");
        let nat = plan.links[0].nat.expect("a translator");
        let translator = Translator::new(&nat, 1, "hostile");
        let blocked = Blocked::default();
        blocked.set(&["mptcp:1", "icmp", "sctp:2"].map(|text| text.parse().expect("a selector")));
        Target {
            filter: Filter::new(&blocked),
            outward: translator.outward(),
            inward: translator.inward(),
            zone: Zone::new(&spec, &plan),
            now: Instant::ORIGIN,
        }
    }

    /// Passes an outgoing frame through the rules.
    pub fn outward(&mut self, bytes: &[u8]) {
        self.now = self.now.plus_nanos(1);
        cross(&mut [&mut self.filter, &mut *self.outward], self.now, bytes);
    }

    /// Passes an incoming frame through the rules.
    pub fn inward(&mut self, bytes: &[u8]) {
        self.now = self.now.plus_nanos(1);
        cross(&mut [&mut self.filter, &mut *self.inward], self.now, bytes);
    }

    /// Passes a question to the resolver.
    ///
    /// # Panics
    /// The answer is longer than a datagram may be (RFC 1035, 4.2.1).
    pub fn question(&mut self, bytes: &[u8]) {
        assert!(
            self.zone
                .answer(bytes)
                .is_none_or(|(_, answer)| answer.len() <= 512)
        );
    }
}

fn cross(rules: &mut [&mut dyn Rule], now: Instant, bytes: &[u8]) {
    let mut frame = frame(bytes);
    let mut rng = Rng::new(0, "unused");
    for rule in rules {
        rule.apply(now, &mut frame, &mut rng);
    }
    assert_eq!(frame.head.len(), bytes.len());
}

fn frame(bytes: &[u8]) -> Frame {
    Frame {
        head: bytes.to_vec(),
        csum: Csum::Unverified,
        link_header: 14,
        ..Frame::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translating_and_resolving_any_bytes_never_panics() {
        let mut rng = Rng::new(5, "hostile");
        let mut target = Target::new();
        for round in 0..100_000 {
            let mut bytes: Vec<u8> = (0..rng.below(120)).map(|_| rng.bits() as u8).collect();
            // Few random bytes are an IP packet, so half of them get an IP header.
            if bytes.len() > 40 && round % 2 == 0 {
                bytes[12..15].copy_from_slice(if round % 4 == 0 {
                    &[8, 0, 0x45]
                } else {
                    &[0x86, 0xdd, 0x60]
                });
                let len = (bytes.len() - 14) as u16;
                bytes[16..18].copy_from_slice(&len.to_be_bytes());
            }
            match round % 3 {
                0 => target.outward(&bytes),
                1 => target.inward(&bytes),
                _ => target.question(&bytes),
            }
        }
    }
}
