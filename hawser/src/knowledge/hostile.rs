//! Lines of strangers, for a fuzzer: it has no other use.

use std::sync::{Arc, Mutex};

use super::base::Base;
use super::control::protocol::{Command, LINE, parse, refusal};
use crate::policy::{Manager, Options, limits};

/// Takes bytes for lines of a controller, and does what they say: nothing panics, what is refused is
/// told with reasons, what is known stays within its limits, and what is listed is taken again.
///
/// # Panics
/// When a promise is broken.
pub fn lines(data: &[u8]) {
    const NOW: f64 = 1_700_000_000.0;
    let manager = Arc::new(Mutex::new(Manager::new(Options::default())));
    let base = Base::new(manager, None);
    for line in data.split(|byte| *byte == b'\n').filter(|line| line.len() <= LINE).take(64) {
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
            let again = base.put(&known.node.to_string(), NOW).expect("it was read before");
            assert_eq!(again.nodes[0].node, known.node);
        }
    }
}
