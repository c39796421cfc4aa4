//! Sessions with a gateway that has a name. A name server that answers late, or for one family only, delays
//! none of them.

use std::time::{Duration, Instant};

use hawser::session::document::Transport;
use hawser::session::open;

use crate::TestResult;
use crate::testbed::{Testbed, limits};

/// The names of the gateway, which listens at its IPv4 address and refuses TCP at its IPv6 address.
const NAMES: &str = r#"
    [[dns]]
    name = "half.example"
    addresses = ["10.77.0.2"]
    ipv6 = { answer = "silence" }
    [[dns]]
    name = "late.example"
    addresses = ["gateway"]
    ipv4 = { delay = "700ms" }
    [[dns]]
    name = "none.example"
    both = { answer = "missing" }
"#;

/// Returns the time to open a session with the gateway by this name.
fn opens(stage: &Testbed, name: &str) -> TestResult<Duration> {
    let mut document = stage.document()?;
    name.clone_into(&mut document.host);
    document
        .connections
        .retain(|connection| connection.transport == Transport::Tcp);
    stage.as_client(async move {
        let began = Instant::now();
        let (session, warnings) = open(&document).await?;
        assert_eq!(warnings, [], "that a family has no address is not known yet");
        session.opened().await?;
        let took = began.elapsed();
        session.close(0).await?;
        Ok(took)
    })
}

fn stage() -> TestResult<Testbed> {
    let mut stage = Testbed::with_names(NAMES)?;
    stage.serve(&["web.example:80"], limits())?;
    Ok(stage)
}

/// RFC 8305, 3 and 8: a session starts 50 ms after the first addresses, without those of the other family.
pub(crate) fn an_unanswered_aaaa_holds_up_no_session() -> TestResult {
    let stage = stage()?;
    let took = opens(&stage, "half.example")?;
    println!("  AAAA is not answered: {took:.2?}");
    // The resolver waits 5 s for an answer (resolv.conf(5)); everything else is round trips of 10 ms.
    if took > Duration::from_secs(2) {
        Err(format!("{took:?}").into())
    } else {
        Ok(())
    }
}

/// Known addresses are tried at once. Later ones are tried when they arrive, even if all others have failed.
pub(crate) fn late_addresses_open_a_session() -> TestResult {
    let stage = stage()?;
    let took = opens(&stage, "late.example")?;
    println!("  the address that leads there comes after 0.7 s: {took:.2?}");
    let expected = Duration::from_millis(700)..Duration::from_millis(2_700);
    if expected.contains(&took) {
        Ok(())
    } else {
        Err(format!("{took:?}").into())
    }
}

/// A name that does not exist is reported as such.
pub(crate) fn a_name_that_does_not_exist_is_reported() -> TestResult {
    let stage = stage()?;
    let error = opens(&stage, "none.example")
        .err()
        .ok_or("there is no such name")?
        .to_string();
    if error.contains("the name `none.example` does not exist") {
        Ok(())
    } else {
        Err(error.into())
    }
}
