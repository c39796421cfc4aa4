//! Peers that attack the library: what they send ends nothing but, at worst, their own association.

use crate::TestResult;
use crate::network::{Peer, client, expect, two_links, value};

/// A peer that has shaken hands sends INIT again, with a parameter of length 0. usrsctp 0.9.5 goes
/// through it for ever (`sctp_are_there_new_addresses`).
pub(crate) fn a_parameter_without_length_ends_no_server() -> TestResult {
    let lab = two_links("")?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2")?;
    let (line, _) = client(&lab, "attack at=10.77.0.1 to=10.77.0.2")?;
    expect(line.starts_with("attacked"), line)?;
    let (line, _) = client(
        &lab,
        "send from=10.77.1.1 to=10.77.0.2 bytes=100000 handshake=3000",
    )?;
    expect(
        line.starts_with("ok=1") && value(&line, "intact")? == "true",
        "the server serves no longer",
    )
}

/// A server does the same to its client, by INIT with tag 0.
pub(crate) fn a_parameter_without_length_ends_no_client() -> TestResult {
    let lab = two_links("")?;
    let mut rogue = Peer::start(&lab, "server", "rogue at=10.77.0.2")?;
    expect(rogue.line()? == "ready", "no rogue server")?;
    let _sink = Peer::sink(&lab, "at=10.77.1.2")?;
    let (line, _) = client(
        &lab,
        "send after=10.77.0.2 to=10.77.1.2 bytes=100000 handshake=3000",
    )?;
    expect(
        line.starts_with("ok=1") && value(&line, "intact")? == "true",
        "the client connects no longer",
    )
}
