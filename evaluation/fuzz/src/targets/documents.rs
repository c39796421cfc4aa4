//! Any text as a file that users write: a scenario, a lab, a trace, resolv.conf and hosts, or a destination.
//! The text is parsed or rejected. A parsed scenario is unchanged when it is written and parsed again.
//!
//! The first byte selects the kind of file.

use hawser_lab::spec::Spec;
use hawser_race::resolve::{Config, HostTarget};
use hawser_sim::Scenario;

pub(crate) fn fuzz(data: &[u8]) {
    let [what, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    match what % 5 {
        0 => scenario(text),
        1 => drop(Spec::parse(text)),
        2 => {
            let (resolv_conf, hosts) = text.split_once('\0').unwrap_or((text, ""));
            drop(Config::parse(resolv_conf, hosts));
        }
        3 => hawser_lab::hostile::trace(text),
        _ => drop(HostTarget::parse(text)),
    }
}

fn scenario(text: &str) {
    let Ok(scenario) = Scenario::parse(text) else {
        return;
    };
    let written = scenario.to_toml().expect("what was read can be written");
    assert_eq!(Scenario::parse(&written).as_ref(), Ok(&scenario), "{written}");
}
