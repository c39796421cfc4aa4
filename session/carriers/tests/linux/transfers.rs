//! Transfers: correctness, speed and memory use.

use crate::TestResult;
use crate::network::{Peer, client, expect, number, two_links, value};

/// Two paths of 10 Mbit/s each.
const TEN: &str = "both = { rate = \"10Mbit/s\", queue = \"60kB\" }";
const BOTH: &str = "from=10.77.0.1,10.77.1.1 to=10.77.0.2,10.77.1.2";

/// The decision record measured 19.1 to 19.3 Mbit/s over two paths of 10 Mbit/s; at least 18 is required
/// here.
pub(crate) fn two_paths_add_up() -> TestResult {
    let lab = two_links(TEN)?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2,10.77.1.2")?;
    let (line, _) = client(&lab, &format!("send {BOTH} bytes=12000000"))?;
    expect(
        value(&line, "intact")? == "true",
        "the bytes are not those that were sent",
    )?;
    expect(
        value(&line, "half")? == "true",
        "the peers do not know each other",
    )?;
    let rate = number(&line, "kbits")?;
    expect((18_000..20_000).contains(&rate), format!("{rate} kbit/s"))
}

pub(crate) fn one_path_carries_its_rate() -> TestResult {
    let lab = two_links(TEN)?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2")?;
    let (line, _) = client(&lab, "send from=10.77.0.1 to=10.77.0.2 bytes=4000000")?;
    expect(
        value(&line, "intact")? == "true",
        "the bytes are not those that were sent",
    )?;
    let rate = number(&line, "kbits")?;
    expect((8_900..10_000).contains(&rate), format!("{rate} kbit/s"))
}

pub(crate) fn two_ipv6_paths_add_up() -> TestResult {
    let lab = two_links(TEN)?;
    let _sink = Peer::sink(&lab, "at=fd77::2,fd77:0:0:1::2")?;
    let (line, _) = client(
        &lab,
        "send from=fd77::1,fd77:0:0:1::1 to=fd77::2,fd77:0:0:1::2 bytes=8000000",
    )?;
    expect(
        value(&line, "intact")? == "true",
        "the bytes are not those that were sent",
    )?;
    let rate = number(&line, "kbits")?;
    // This is more than one path can carry.
    expect(rate > 10_000, format!("{rate} kbit/s"))
}

/// The accepted data fits into the buffers of both ends, and the memory of neither process grows.
pub(crate) fn a_slow_reader_stops_the_sender() -> TestResult {
    const BYTES: u64 = 20_000_000;
    let lab = two_links("")?;
    let sink = Peer::sink(&lab, "at=10.77.0.2,10.77.1.2 slow=1500")?;
    let before = sink.peak_memory()?;
    let (line, _) = client(&lab, &format!("send {BOTH} bytes={BYTES}"))?;
    expect(
        value(&line, "intact")? == "true",
        "the bytes are not those that were sent",
    )?;
    let accepted = number(&line, "accepted")?;
    expect(
        (500_000..3_000_000).contains(&accepted),
        format!("{accepted} bytes were accepted"),
    )?;
    let grown = sink.peak_memory()? - before;
    println!("  the sink grew by {grown} kB");
    expect(grown < 24_000, format!("the sink grew by {grown} kB"))
}

pub(crate) fn a_hundred_associations_transfer_at_once() -> TestResult {
    let lab = two_links("")?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2,10.77.1.2")?;
    let (line, took) = client(&lab, &format!("send {BOTH} bytes=300000 count=100"))?;
    expect(line.starts_with("ok=100"), "not all came through")?;
    expect(
        value(&line, "intact")? == "true",
        "the bytes are not those that were sent",
    )?;
    expect(took.as_secs() < 20, format!("it took {took:?}"))
}

/// A client that knows only one address of a server with two gets its answer, also over the other's link.
pub(crate) fn the_addressed_server_address_answers() -> TestResult {
    let lab = two_links("")?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2,10.77.1.2")?;
    for at in ["10.77.0.2", "10.77.1.2"] {
        let (line, _) = client(&lab, &format!("send to={at} bytes=100000"))?;
        expect(value(&line, "intact")? == "true", format!("{at} did not answer"))?;
        expect(
            value(&line, "primary")? == format!("{at}:5001"),
            format!("another address than {at} answered"),
        )?;
    }
    Ok(())
}
