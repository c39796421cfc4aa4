//! Links behave as their files describe: expected values follow from rate, size and delay.
//!
//! Lower bounds are exact; upper bounds leave room for other load on the machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use hawser_lab::{Direction, Lab, LabError, Spec};

use crate::probe::{HEADERS, Probe, percentile, rate};
use crate::{TestResult, pair};

const MS: Duration = Duration::from_millis(1);

/// Sends datagrams faster than the link. They arrive at the link's rate.
fn has_rate(lab: &Lab, bits: f64, share: f64) -> TestResult {
    let bytes = 1472;
    // Two hundred milliseconds at the link's rate, offered in half the time.
    let count = (bits * 0.2 / ((bytes + HEADERS) * 8) as f64) as u64;
    let arrivals = Probe::v4(lab)?.run(count, bytes, Duration::from_millis(100) / count as u32)?;
    // The shaper's initial burst says little about its rate.
    let measured = rate(&arrivals[arrivals.len() / 5..], bytes);
    assert!(
        (measured / bits - 1.0).abs() < share,
        "{measured:.0} bit/s instead of {bits:.0}"
    );
    Ok(())
}

pub(crate) fn the_kernel_shapes_to_the_rate() -> TestResult {
    let lab = pair("both = { rate = \"20Mbit/s\", queue = \"1MB\" }")?;
    assert!(
        matches!(lab.link("link")?.silence(true), Err(LabError::NotACell { .. })),
        "no cell is needed"
    );
    has_rate(&lab, 20e6, 0.1)
}

pub(crate) fn a_cell_keeps_its_rate() -> TestResult {
    has_rate(
        &pair("through = \"cell\"\nboth = { rate = \"20Mbit/s\" }")?,
        20e6,
        0.05,
    )
}

pub(crate) fn a_cell_delays_each_direction() -> TestResult {
    let lab = pair("forward = { delay = \"20ms\" }\nbackward = { delay = \"5ms\" }")?;
    let arrivals = Probe::v4(&lab)?.run(100, 100, 2 * MS)?;
    assert_eq!(arrivals.len(), 100);
    assert!(
        arrivals.iter().all(|arrival| arrival.delay() >= 20 * MS),
        "none came too early"
    );
    let median = percentile(&arrivals, 0.5);
    assert!(median < 24 * MS, "{median:?} instead of 20 ms");
    Ok(())
}

pub(crate) fn a_cell_loses_the_configured_share() -> TestResult {
    let lab = pair("forward = { loss = \"10%\" }")?;
    let (count, share) = (4000, 0.1);
    let probe = Probe::v4(&lab)?;
    let came = probe.run(count, 100, Duration::from_micros(50))?.len() as u64;
    // A receiver that is not scheduled for 15 ms has no room for more.
    let came = came + probe.overrun(&lab)?;
    let statistics = lab.link("link")?.statistics(Direction::Forward)?;
    assert_eq!(statistics.lost.get("overrun"), None, "{statistics:?}");
    // Four standard deviations of the binomial distribution; the seed is fixed.
    let (mean, deviation) = (
        count as f64 * share,
        (count as f64 * share * (1.0 - share)).sqrt(),
    );
    let lost = (count - came) as f64;
    assert!(
        (lost - mean).abs() < 4.0 * deviation,
        "{lost} lost instead of {mean}"
    );
    assert_eq!(statistics.lost["loss"] as f64, lost);
    Ok(())
}

pub(crate) fn packets_above_the_path_mtu_are_lost() -> TestResult {
    let lab = pair("forward = { path_mtu = 1000 }")?;
    // The headers of IPv4 and UDP take 28 bytes.
    for (bytes, comes) in [(1000 - 28, 10), (1001 - 28, 0)] {
        let arrivals = Probe::v4(&lab)?.run(10, bytes, MS)?;
        assert_eq!(arrivals.len(), comes, "{bytes} bytes");
    }
    assert_eq!(
        lab.link("link")?.statistics(Direction::Forward)?.lost["path_mtu"],
        10
    );
    Ok(())
}

pub(crate) fn the_same_seed_loses_the_same_packets() -> TestResult {
    let run = || -> TestResult<Vec<u64>> {
        let lab = pair("both = { loss = 0.2 }")?;
        let arrivals = Probe::v4(&lab)?.run(200, 100, Duration::from_micros(200))?;
        Ok(arrivals.iter().map(|arrival| arrival.number).collect())
    };
    let first = run()?;
    assert!(first.len() < 200);
    assert_eq!(first, run()?);
    Ok(())
}

pub(crate) fn a_full_queue_drops_packets() -> TestResult {
    let lab = pair("through = \"cell\"\nforward = { rate = \"1Mbit/s\", queue_packets = 5 }")?;
    let arrivals = Probe::v4(&lab)?.run(20, 1000, Duration::ZERO)?;
    assert_eq!(
        arrivals.iter().map(|a| a.number).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    // Each packet waits for those before it: 1042 bytes at 1 Mbit/s take 8.336 ms. The sender may be delayed
    // between the packets, so the time counts from the first.
    let last = arrivals[4].received - arrivals[0].sent;
    assert!(
        last > Duration::from_micros(5 * 8336 - 500) && last < 60 * MS,
        "{last:?}"
    );
    Ok(())
}

pub(crate) fn a_trace_is_followed() -> TestResult {
    let folder = hawser_documents::temporary::Folder::new()?;
    let path = folder.join("trace");
    // 1500 bytes in each 10 ms: 1.2 Mbit/s of IP packets.
    std::fs::write(&path, "10\n")?;
    let lab = pair(&format!("forward = {{ trace = {path:?} }}"))?;
    let arrivals = Probe::v4(&lab)?.run(20, 1472, Duration::ZERO)?;
    assert_eq!(arrivals.len(), 20);
    // The first leaves within 10 ms, and each other 10 ms after the previous one. The time is counted from
    // sending the first, because its reading time depends on other load on the processor.
    let span = arrivals[19].received - arrivals[0].sent;
    assert!(span > 190 * MS && span < 240 * MS, "{span:?}");
    Ok(())
}

pub(crate) fn reordered_frames_are_overtaken() -> TestResult {
    let lab = pair("forward = { delay = \"1ms\", reorder = 0.1, hold = \"20ms\" }")?;
    let arrivals = Probe::v4(&lab)?.run(200, 100, MS)?;
    assert_eq!(arrivals.len(), 200, "none is lost");
    let late = arrivals
        .windows(2)
        .filter(|pair| pair[0].number > pair[1].number)
        .count();
    assert!((5..=60).contains(&late), "{late} of about 20 were overtaken");
    Ok(())
}

pub(crate) fn ipv6_is_carried() -> TestResult {
    for lines in ["", "through = \"cell\""] {
        let lab = pair(lines)?;
        let address = lab.host("b")?.ipv6().ok_or("no IPv6")?;
        assert!(Probe::new(&lab, address)?.gets_through()?, "{lines}");
    }
    Ok(())
}

pub(crate) fn jumbo_frames_pass() -> TestResult {
    let lab = pair("through = \"cell\"\nmtu = 9000")?;
    assert_eq!(Probe::v4(&lab)?.run(3, 8900, MS)?.len(), 3);
    Ok(())
}

/// A filter sees the protocol inside IPv6, and a link with a translator for IPv4 passes IPv6 unchanged.
pub(crate) fn ipv6_is_filtered_and_not_translated() -> TestResult {
    let nat = "nat = { inside = \"a\" }";
    for (lines, v4, v6) in [
        ("both = { block = [\"ipv6\"] }", true, false),
        ("both = { block = [\"udp\"] }", false, false),
        (nat, true, true),
        (&format!("{nat}\nboth = {{ block = [\"ipv4\"] }}"), false, true),
    ] {
        let lab = pair(lines)?;
        for (passes, address) in [(v4, lab.host("b")?.ipv4()), (v6, lab.host("b")?.ipv6())] {
            let address = address.ok_or("no address")?;
            assert_eq!(
                Probe::new(&lab, address)?.gets_through()?,
                passes,
                "{lines}: {address}"
            );
        }
        if lines == nat {
            // No translator is involved: b sees a's own address.
            assert_eq!(
                lab.host("a")?.ipv6().map(|ip| ip.to_string()).as_deref(),
                Some("fd77::1")
            );
        }
    }
    Ok(())
}

/// A client with two links to a router, and a server behind the router.
const TWO_PATHS: &str = r#"
    host = [{ name = "client" }, { name = "router", router = true }, { name = "server" }]
    link = [
        { name = "slow", between = ["client", "router"], interfaces = ["slow0", "eth0"], both = { delay = "30ms" } },
        { name = "fast", between = ["client", "router"], interfaces = ["fast0", "eth1"] },
        { name = "far", between = ["router", "server"], through = "cell" },
    ]
"#;

pub(crate) fn routers_forward() -> TestResult {
    let lab = Lab::up(&Spec::parse(TWO_PATHS)?)?;
    let server = lab.host("server")?;
    for address in server.addresses() {
        let listener = server.run(|| TcpListener::bind(SocketAddr::new(*address, 0)))??;
        let to = listener.local_addr()?;
        let stream = lab
            .host("client")?
            .run(|| TcpStream::connect_timeout(&to, Duration::from_secs(5)))??;
        let (mut peer, _) = listener.accept()?;
        (&stream).write_all(b"ahoy")?;
        drop(stream);
        let mut text = String::new();
        peer.read_to_string(&mut text)?;
        assert_eq!(text, "ahoy");
    }
    Ok(())
}

pub(crate) fn sockets_leave_by_their_interface() -> TestResult {
    let lab = Lab::up(&Spec::parse(TWO_PATHS)?)?;
    let server = lab.host("server")?;
    let echo = server.run(|| UdpSocket::bind("0.0.0.0:7"))??;
    echo.set_read_timeout(Some(Duration::from_secs(5)))?;
    let to = SocketAddr::new(server.ipv4().ok_or("no IPv4")?, 7);
    let client = lab.host("client")?;
    for (source, slow) in [("10.77.0.1", true), ("10.77.1.1", false)] {
        // The socket is bound only to a source address: a rule chooses the interface.
        let socket = client.run(|| UdpSocket::bind((source, 0)))??;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        let start = std::time::Instant::now();
        socket.send_to(b"?", to)?;
        let (_, from) = echo.recv_from(&mut [0; 9])?;
        assert_eq!(from.ip().to_string(), source);
        echo.send_to(b"!", from)?;
        socket.recv(&mut [0; 9])?;
        let took = start.elapsed();
        // The slow link takes 30 ms each way.
        assert!(
            if slow { took >= 60 * MS } else { took < 30 * MS },
            "{took:?} by {source}"
        );
    }
    Ok(())
}
