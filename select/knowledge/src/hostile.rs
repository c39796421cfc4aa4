//! Lines of strangers, for a fuzzer: it has no other use.

use std::sync::Arc;

use parking_lot::Mutex;

use super::base::Base;
use super::control::protocol::{Command, parse, refusal};
use hawser_connect::policy::{Manager, Options, limits};
use hawser_socket::local::LINE;

/// Takes bytes for lines of a controller, and does what they say: nothing panics, what is refused is
/// told with reasons, what is known stays within its limits, and what is listed is taken again.
///
/// # Panics
/// When a promise is broken.
pub fn lines(data: &[u8]) {
    const NOW: f64 = 1_700_000_000.0;
    let manager = Arc::new(Mutex::new(Manager::new(Options::default())));
    let base = Base::new(manager, None);
    for line in data
        .split(|byte| *byte == b'\n')
        .filter(|line| line.len() <= LINE)
        .take(64)
    {
        match parse(line) {
            Ok(Command::Put(document)) => match base.put(&document, NOW) {
                Ok(put) => assert!(!put.nodes.is_empty()),
                Err(findings) => {
                    assert!((1..=limits::FINDINGS.max(limits::NODES)).contains(&findings.len()));
                    assert!(refusal("put", &findings)["findings"][0]["path"].is_string());
                }
            },
            Ok(Command::List(filter) | Command::Watch(filter)) => {
                base.list(NOW).iter().for_each(|known| {
                    let _ = filter.takes(known);
                });
            }
            Ok(Command::Delete(uid)) => drop(base.delete(&uid, NOW)),
            Err(findings) => assert_eq!(findings.len(), 1),
        }
        base.expire(NOW);
        let all = base.list(NOW);
        assert!(all.len() <= super::Origin::Controller.most());
        if let Some(known) = all.last() {
            let again = base
                .put(&known.node.to_string(), NOW)
                .expect("it was read before");
            assert_eq!(again.nodes[0].node, known.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that mean something, cut, joined and changed at random.
    #[test]
    fn mutated_lines_do_no_harm() {
        const LINES: [&str; 6] = [
            r#"{"put":{"uid":"a","root":true,"expire":-1,"properties":{"interface":{"value":"eth0","precedence":2}}}}"#,
            r#"{"put":[{"uid":"b","link":true,"match":[{"uid":{"value":"a"}}],"properties":[[{"rtt":{"value":{"start":1,"end":"Inf"}}},{"rtt":{"value":[1,"x"],"score":5}}]]}]}"#,
            r#"{"list":{"source":"controller","uid":"a","interface":"eth0"}}"#,
            r#"{"delete":"a"}"#,
            r#"{"watch":{}}"#,
            r#"{"put":{"uid":"c","expires":1e308,"own/x":1,"properties":{"own/x":{"banned":[null,true]}}}}"#,
        ];
        let mut seed = 1u64;
        let mut random = |below: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..3_000 {
            let mut data = Vec::new();
            for _ in 0..1 + random(4) {
                data.extend_from_slice(LINES[random(LINES.len())].as_bytes());
                data.push(b'\n');
            }
            for _ in 0..random(6) {
                if data.is_empty() {
                    break;
                }
                let place = random(data.len());
                match random(4) {
                    0 => drop(data.remove(place)),
                    1 => data[place] = random(256) as u8,
                    2 => data.insert(place, b"{}[]\",:19"[random(9)]),
                    _ => data.truncate(place.max(1)),
                }
            }
            lines(&data);
        }
    }
}
