//! MPTCP carriers: used if both ends and the path support it, and otherwise reported as absent.

use hawser::lab::Rules;
use hawser_experiments::{Report, Testbed, Transfer};

use crate::TestResult;
use crate::network::{WIFI, stage};

fn transfer(stage: &Testbed) -> TestResult<Report> {
    Transfer::new(stage.document(&["mptcp:wlan0"])?, 2 << 20)
        .verified()
        .run(stage)
}

pub(crate) fn mptcp_is_used_or_reported_as_absent() -> TestResult {
    let mut stage = stage(&[WIFI], "")?;
    let spoken = transfer(&stage)?;
    stage.mptcp = false;
    let refused = transfer(&stage)?;
    stage.mptcp = true;
    let block = Some(vec!["mptcp".parse()?]);
    stage
        .lab
        .link("wifi")?
        .set_both(&Rules { block, ..Rules::default() })?;
    let blocked = transfer(&stage)?;
    for (what, report, path) in [
        ("both ends speak it", spoken, "mptcp wlan0"),
        ("the server does not", refused, "tcp wlan0"),
        ("something on the way drops its option", blocked, "tcp wlan0"),
    ] {
        println!(
            "  {what}: {:?} in {:.2} s, {:?}",
            report.paths, report.seconds, report.events
        );
        let fell_back = report.when("fell back").is_some();
        if report.paths != [path] || fell_back != path.starts_with("tcp") {
            return Err(format!("{what}: {:?}, {:?}", report.paths, report.events).into());
        }
    }
    Ok(())
}
