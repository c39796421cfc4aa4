//! Sessions on networks that drop packets that are too long for the path, reorder packets, lose them, or have
//! paths that come and go.

use std::time::Duration;

use hawser::lab::units::Rate;
use hawser::lab::{Lab, Rules};
use hawser::session::document::StatePlace;
use hawser_documents::temporary::Folder;
use hawser_experiments::{Direction, Report, Testbed, Transfer, opening};
use hawser_testing::Log;

use crate::TestResult;
use crate::network::{Link, MOBILE, WIFI, stage};

/// Returns the duration of a transfer at the rate of the links, in seconds.
fn ideal(links: &[Link], bytes: u64) -> f64 {
    let rate: f64 = links.iter().map(|link| f64::from(link.rate) * 1e6).sum();
    bytes as f64 * 8.0 / rate
}

fn transfer(stage: &Testbed, carriers: &[&str], bytes: u64, direction: Direction) -> TestResult<Report> {
    let mut transfer = Transfer::new(stage.document(carriers)?, bytes).verified();
    transfer.direction = direction;
    transfer.run(stage)
}

/// Applies these rules to both directions of the first link.
fn rules(rules: &str) -> String {
    format!("forward = {{ {rules} }}\nbackward = {{ {rules} }}")
}

/// A rule by which packets of more than 1,400 bytes are lost silently, while the interfaces accept 1,500.
const NARROW: &str = "path_mtu = 1400";

/// A path's MTU is below that of the interfaces, and no ICMP message reports it. TCP alone completes in both
/// directions.
pub(crate) fn tcp_completes_where_long_packets_are_lost() -> TestResult {
    let bytes = 8 << 20;
    for direction in [Direction::Up, Direction::Down] {
        let stage = stage(&[WIFI], &rules(NARROW))?;
        let report = transfer(&stage, &["tcp:wlan0"], bytes, direction)?;
        let ideal = ideal(&[WIFI], bytes);
        println!(
            "  {direction:?}: {:.2} s of an ideal {ideal:.2} s, {:?}",
            report.seconds, report.events
        );
        if report.seconds > ideal + 6.0 {
            return Err(format!("{direction:?}: {} s, {:?}", report.seconds, report.events).into());
        }
    }
    Ok(())
}

/// One of two paths has such an MTU. In the end, both carry data.
pub(crate) fn both_paths_carry_where_one_loses_long_packets() -> TestResult {
    let bytes = 32 << 20;
    for direction in [Direction::Up, Direction::Down] {
        let stage = stage(&[WIFI, MOBILE], &rules(NARROW))?;
        let report = transfer(&stage, &["tcp:wlan0", "tcp:wwan0"], bytes, direction)?;
        let (both, one) = (ideal(&[WIFI, MOBILE], bytes), ideal(&[MOBILE], bytes));
        println!(
            "  {direction:?}: {:.2} s of an ideal {both:.2} s, alone {one:.2} s, {:?}",
            report.seconds, report.events
        );
        if report.seconds > (both + one) / 2.0 {
            return Err(format!("{direction:?}: {} s, {:?}", report.seconds, report.events).into());
        }
    }
    Ok(())
}

/// The server's certificate fills packets. The first handshake completes although no connection is tried
/// twice.
pub(crate) fn a_handshake_completes_where_long_packets_are_lost() -> TestResult {
    let mut stage = stage(&[WIFI], &rules(NARROW))?;
    // The certificate takes some 3 KB.
    stage.certify(200)?;
    let log = Log::of_process();
    let opened = opening(&stage, stage.document(&["tcp:wlan0"])?)?;
    println!("  opened after {:.2} s", opened.first);
    log.expect(&["DEBUG hawser_carriers::tcp", "a TLS handshake stalls", "peer=10."]);
    log.expect(&[
        "INFO hawser_carriers::tcp",
        "the path loses long packets",
        "peer=10.",
    ]);
    // A handshake counts as stalled after a second, and round trips take 10 ms.
    if opened.first > 4.0 {
        Err(format!("{} s", opened.first).into())
    } else {
        Ok(())
    }
}

/// The second session on such a network begins with small packets, and loses no carrier.
pub(crate) fn a_loss_of_long_packets_is_remembered() -> TestResult {
    let (bytes, folder) = (8 << 20, Folder::new()?);
    let stage = stage(&[WIFI], &rules(NARROW))?;
    let ideal = ideal(&[WIFI], bytes);
    for turn in [1, 2] {
        let mut document = stage.document(&["tcp:wlan0"])?;
        document.state = StatePlace::File(folder.join("state.json"));
        let report = Transfer::new(document, bytes).verified().run(&stage)?;
        println!(
            "  session {turn}: {:.2} s of an ideal {ideal:.2} s, {:?}",
            report.seconds, report.paths
        );
        if turn == 2 && (report.paths.len() > 1 || report.seconds > ideal + 1.0) {
            return Err(format!("{} s of {ideal} s: {:?}", report.seconds, report.events).into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// One packet of ten comes 20 ms late. QUIC does not treat it as lost permanently.
pub(crate) fn overtaken_packets_do_not_stop_quic() -> TestResult {
    let bytes = 8 << 20;
    let link = Link { rate: 20, delay: 10.0, queue: 100_000, ..WIFI };
    let stage = stage(&[link], &rules("reorder = \"10%\", hold = \"20ms\""))?;
    let tcp = transfer(&stage, &["tcp:wlan0"], bytes, Direction::Down)?;
    let quic = transfer(&stage, &["quic:wlan0"], bytes, Direction::Down)?;
    let ideal = ideal(&[WIFI], bytes) * 2.0;
    println!(
        "  ideal {ideal:.2} s: TCP {:.2} s, QUIC {:.2} s",
        tcp.seconds, quic.seconds
    );
    if quic.seconds > 2.0 * ideal {
        Err(format!("{} s of {ideal} s", quic.seconds).into())
    } else {
        Ok(())
    }
}

/// Transfers over a link that is up for half of the time.
fn flaps(stage: &Testbed, carrier: &str) -> TestResult<Report> {
    let mut transfer = Transfer::new(stage.document(&[carrier])?, 3 << 20).verified();
    for turn in 1..120u64 {
        let silent = turn % 2 == 1;
        let set = move |lab: &Lab| Ok(lab.link("wifi")?.silence(silent)?);
        transfer = transfer.act(Duration::from_millis(500 * turn), set);
    }
    transfer.run(stage)
}

/// A path that is silent in every other period of 500 ms carries data in the others.
pub(crate) fn a_flapping_path_has_short_gaps() -> TestResult {
    for carrier in ["tcp:wlan0", "quic:wlan0"] {
        let stage = stage(&[Link { rate: 10, ..WIFI }], "")?;
        let report = flaps(&stage, carrier)?;
        let pause = report.longest_pause_after(0.0);
        println!(
            "  {carrier}: {:.2} s, longest pause {pause:.2} s, {:?}",
            report.seconds, report.events
        );
        // The bound covers a silence that ends the carrier after 2 s, two attempts of 1.25 s, and a second
        // until the link is up. The rest is for the round trips of the handshakes on a busy machine.
        if pause > 6.0 {
            return Err(format!("{carrier}: a pause of {pause} s: {:?}", report.events).into());
        }
    }
    Ok(())
}

/// The rate of a link in its first seconds, and its rate from `FALLS` to `RETURNS`, in Mbit/s.
const RATES: (f64, f64) = (10.0, 0.1);
const FALLS: f64 = 2.0;
const RETURNS: f64 = 12.0;

/// Returns the duration in seconds of a transfer over a link whose rate falls and recovers, and another link
/// of `beside` Mbit/s.
fn ideal_with_a_fall(beside: f64, bytes: u64) -> f64 {
    let bits = bytes as f64 * 8.0;
    let before = (RATES.0 + beside) * 1e6 * FALLS;
    let during = (RATES.1 + beside) * 1e6 * (RETURNS - FALLS);
    match () {
        () if bits <= before => bits / ((RATES.0 + beside) * 1e6),
        () if bits <= before + during => FALLS + (bits - before) / ((RATES.1 + beside) * 1e6),
        () => RETURNS + (bits - before - during) / ((RATES.0 + beside) * 1e6),
    }
}

/// The rate of a link falls to a hundredth and recovers. Data that waited for the link does not delay the
/// rest.
pub(crate) fn a_rate_that_returns_is_used_again() -> TestResult {
    // The second link has 5 Mbit/s. The labs run in parallel, because each of them is idle for most of the
    // time.
    let cases: [(&[&str], f64, u64); 5] = [
        (&["tcp:wlan0"], 0.0, 8 << 20),
        (&["quic:wlan0"], 0.0, 8 << 20),
        (&["tcp:wlan0", "quic:wlan0"], 0.0, 8 << 20),
        (&["tcp:wlan0", "quic:wwan0"], 5.0, 20 << 20),
        (&["quic:wlan0", "quic:wwan0"], 5.0, 20 << 20),
    ];
    std::thread::scope(|scope| {
        let run = |(carriers, beside, bytes)| scope.spawn(move || with_a_fall(carriers, beside, bytes));
        let all: Vec<_> = cases.into_iter().map(run).collect();
        all.into_iter()
            .try_for_each(|one| one.join().map_err(|_| "a transfer panicked")?)
    })
}

fn with_a_fall(carriers: &[&str], beside: f64, bytes: u64) -> TestResult {
    let wifi = Link { rate: 10, queue: 100_000, ..WIFI };
    let mobile = Link { rate: 5, ..MOBILE };
    let links = if beside > 0.0 {
        vec![wifi, mobile]
    } else {
        vec![wifi]
    };
    let set = |rate: f64| {
        let rules = Rules { rate: Some(Rate((rate * 1e6) as u64)), ..Rules::default() };
        move |lab: &Lab| Ok(lab.link("wifi")?.set_both(&rules)?)
    };
    let stage = stage(&links, "")?;
    let transfer = Transfer::new(stage.document(carriers)?, bytes).verified();
    let transfer = transfer.act(Duration::from_secs_f64(FALLS), set(RATES.1));
    let report = transfer
        .act(Duration::from_secs_f64(RETURNS), set(RATES.0))
        .run(&stage)?;
    let ideal = ideal_with_a_fall(beside, bytes);
    let ratio = report.seconds / ideal;
    println!(
        "  {carriers:?}: {:.2} s of an ideal {ideal:.2} s: {ratio:.2}",
        report.seconds
    );
    // Headers take a twentieth.
    if ratio > 1.15 {
        Err(format!("{carriers:?}: {ratio:.2}, {:?}", report.events).into())
    } else {
        Ok(())
    }
}

/// One of two links falls to 0.5 Mbit/s, with a full queue before it. Data that QUIC sent there is sent over
/// the other as soon as the reader waits for it. The kernel's MPTCP runs beside it for comparison.
pub(crate) fn a_path_that_falls_does_not_stop_the_other() -> TestResult {
    let falls = |carriers: &[&str]| -> TestResult<f64> {
        let wifi = Link { rate: 10, queue: 150_000, ..WIFI };
        let stage = stage(&[wifi, Link { rate: 10, ..MOBILE }], "")?;
        let mut document = stage.document(carriers)?;
        if carriers.len() == 1 {
            document.connections[0].interfaces = vec!["wlan0".to_owned(), "wwan0".to_owned()];
            add_subflows(&stage)?;
        }
        let slow = Rules { rate: Some(Rate(500_000)), ..Rules::default() };
        let set = move |lab: &Lab| Ok(lab.link("wifi")?.set_both(&slow)?);
        let transfer = Transfer::new(document, 16 << 20).verified();
        let report = transfer.act(Duration::from_secs_f64(FALLS), set).run(&stage)?;
        let pause = report.longest_pause_after(FALLS);
        println!(
            "  {carriers:?}: {:.2} s, longest pause {pause:.2} s, {:?}",
            report.seconds, report.paths
        );
        Ok(pause)
    };
    let pause = falls(&["quic:wlan0", "quic:wwan0"])?;
    match falls(&["mptcp:wlan0"]) {
        Ok(of_mptcp) => println!("  QUIC {pause:.2} s, MPTCP {of_mptcp:.2} s"),
        Err(error) => println!("  MPTCP with two subflows was not measured: {error}"),
    }
    if pause > 2.0 {
        return Err(format!("a pause of {pause:.2} s").into());
    }
    Ok(())
}

/// Has the client's kernel open an MPTCP subflow over its second interface.
fn add_subflows(stage: &Testbed) -> TestResult {
    let client = stage.lab.host("client")?;
    let second = client
        .addresses()
        .iter()
        .filter(|address| address.is_ipv4())
        .nth(1);
    let second = second.ok_or("no second address")?.to_string();
    for arguments in [
        vec!["mptcp", "limits", "set", "subflow", "2"],
        vec!["mptcp", "endpoint", "add", &second, "dev", "wwan0", "subflow"],
    ] {
        let status = client.command("ip")?.args(&arguments).status()?;
        if !status.success() {
            return Err(format!("ip {arguments:?}: {status}").into());
        }
    }
    Ok(())
}

/// `all` stands for each interface that has a route to the server.
pub(crate) fn every_interface_with_a_route_is_used() -> TestResult {
    let stage = stage(&[WIFI, MOBILE], "")?;
    let report = Transfer::new(stage.document(&["tcp:all"])?, 8 << 20)
        .verified()
        .run(&stage)?;
    println!("  {:?} in {:.2} s", report.paths, report.seconds);
    let mut paths = report.paths.clone();
    paths.sort();
    match paths == ["tcp wlan0", "tcp wwan0"] {
        true => Ok(()),
        false => Err(format!("{paths:?}").into()),
    }
}

/// A translator changes its ports every 3 s.
pub(crate) fn rebinding_every_3_s_is_survived() -> TestResult {
    for carrier in ["tcp:wlan0", "mptcp:wlan0"] {
        let stage = stage(&[Link { rate: 10, ..WIFI }], "nat = { inside = \"client\" }")?;
        let mut transfer = Transfer::new(stage.document(&[carrier])?, 8 << 20).verified();
        for turn in 1..40u64 {
            transfer = transfer.act(Duration::from_millis(3_000 * turn), |lab| {
                Ok(lab.link("wifi")?.rebind()?)
            });
        }
        let report = transfer.run(&stage)?;
        let ideal = (8 << 20) as f64 * 8.0 / 10e6;
        println!(
            "  {carrier}: {:.2} s of {ideal:.2} s, {:?}",
            report.seconds, report.events
        );
        if report.seconds > 2.0 * ideal {
            return Err(format!(
                "{carrier}: {} s of {ideal} s: {:?}",
                report.seconds, report.events
            )
            .into());
        }
    }
    Ok(())
}
