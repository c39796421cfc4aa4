//! Priority-based flow control. Switches pause their senders, with enough headroom and with too little. A
//! pause delays other traffic, and some pauses never end.

use std::fmt::Write as _;

use hawser_sim::Scenario;
use hawser_sim::report::{PauseReport, Report};

use crate::fabric::{HEADERS, datagrams, go, link};

/// The length of a 1000-byte datagram on the lines of these tests.
const PACKET: u64 = 1000 + HEADERS;
/// On a line of 8 Mbit/s a byte takes a microsecond.
const BYTES_PER_SECOND: u64 = 1_000_000;
/// The one-way delay of the paused link, in bytes on the line.
const DELAY_BYTES: u64 = 10_000;

/// The maximum number of bytes that arrive after a switch has requested a pause. The pause frame (64 bytes)
/// waits for the frame on the line back. Both directions take the delay, and the frame on the line is not
/// interrupted. The terms are those of IEEE 802.1Qbb, annex O. Cisco's white paper C11-542809 adds terms for
/// transceivers and for the sender's reaction, which take no time here.
const HEADROOM: u64 = 2 * DELAY_BYTES + 64 + 2 * PACKET;

/// A host sends 500 datagrams at 8 Mbit/s to a switch, from which a line of 1 Mbit/s continues.
fn narrow(switch: &str, link: &str, back: &str) -> Report {
    let (name, delay) = (datagrams().display().to_string(), DELAY_BYTES);
    go(&format!(
        "program = '{name}'\nduration = '1min'\nhost = [{{ name = 'a', mtu = {PACKET}, addresses = ['10.0.0.1/16'] }}, \
         {{ name = 'b', mtu = {PACKET}, addresses = ['10.0.0.2/16'] }}]\n\
         switch = [{{ name = 's', {switch} }}]\n\
         link = [{{ between = ['a', 's'], both = {{ rate = '8Mbit/s', delay = '{delay}us'{link} }} }},\n\
         {{ between = ['s', 'b'], forward = {{ rate = '1Mbit/s' }}, backward = {{ rate = '8Mbit/s' }} }}]\n\
         flow = [{{ from = 'a', to = 'b', one_way = true, \
         messages = {{ count = 500, size = 1000, delivery = 'datagrams' }} }}{back}]\n"
    ))
}

/// As many datagrams as keep the line from the switch back to the sender busy all the time.
fn busy_back() -> String {
    ",\n{ from = 'b', to = 'a', one_way = true, \
     messages = { count = 990, size = 1000, interval = '1032us', delivery = 'datagrams' } }"
        .to_owned()
}

fn pauses(report: &Report, from: &str, to: &str) -> PauseReport {
    let pauses = &link(report, from, to).pauses;
    assert_eq!(pauses.len(), 1, "{report}");
    pauses[0]
}

fn lossless(link: &str, back: &str) -> Report {
    let xoff = 20 * PACKET;
    // The extra PACKET - 1 bytes allow for a packet that crosses `pfc_xoff`. Packets of this size reach it
    // exactly, and do not need them.
    let headroom = HEADROOM + PACKET - 1;
    narrow(
        &format!(
            "buffer = '2kB', pfc_xoff = {xoff}, pfc_xon = {}, pfc_headroom = {headroom}",
            10 * PACKET
        ),
        link,
        back,
    )
}

#[test]
fn the_standard_headroom_prevents_losses() {
    for back in [String::new(), busy_back()] {
        let report = lossless("", &back);
        assert!(report.ok, "{report}");
        let messages = report.flows[0].forward.messages.expect("messages");
        assert_eq!((messages.sent, messages.received), (500, 500), "{report}");
        let paused = pauses(&report, "a", "s");
        assert_eq!((paused.lost, paused.is_paused), (0, false));
        // No more arrived than the formula gives. All data in flight when the pause was sent did arrive, less
        // an eighth of it that the narrow line carried away meanwhile.
        let above = paused.max_bytes - 20 * PACKET;
        let smallest = 2 * DELAY_BYTES * 7 / 8 - PACKET;
        assert!(
            (smallest..=HEADROOM).contains(&above),
            "{above} of {smallest} to {HEADROOM}"
        );
        // The switch requests a pause each time that its queue has fallen to XON and filled again. The narrow
        // line is never idle.
        assert!(paused.pauses > 5, "{paused:?}");
        let seconds = report.flows[0].forward.seconds.expect("it ended");
        let all = (PACKET + DELAY_BYTES + 8 * 500 * PACKET) as f64 / BYTES_PER_SECOND as f64;
        assert!((seconds - all).abs() < 1e-6, "{seconds} of {all}");
        // The host's line sent for as long as it takes, and was paused for the rest of the time, from the
        // first pause on.
        let sending = (500 * PACKET) as f64 / BYTES_PER_SECOND as f64;
        assert!(
            paused.seconds < all - sending + 0.2 && paused.seconds > 0.8 * (all - sending) - 0.2,
            "{paused:?}"
        );
    }
}

#[test]
fn a_busy_reverse_line_takes_a_packet_of_headroom() {
    let [idle, busy] =
        [String::new(), busy_back()].map(|back| pauses(&lossless("", &back), "a", "s").max_bytes);
    assert!(busy > idle && busy <= idle + PACKET, "{idle} {busy}");
}

/// Packets that the medium holds back arrive later than the headroom allows for.
#[test]
fn packets_are_lost_that_come_after_the_head_room_is_full() {
    let report = lossless(", reorder = 1, hold = '20ms'", "");
    let messages = report.flows[0].forward.messages.expect("messages");
    let paused = pauses(&report, "a", "s");
    assert!(
        paused.lost > 0 && messages.received == 500 - paused.lost,
        "{report}"
    );
    assert!(paused.max_bytes < 21 * PACKET + HEADROOM);
    assert_eq!(link(&report, "s", "b").dropped["queue"], paused.lost);
    assert!(
        report.to_string().contains("lost beyond its head room"),
        "{report}"
    );
}

/// Two hosts are behind one switch. One sends to a host behind a narrow line; the other, the victim, sends to
/// an idle host.
fn victim(s1: &str, s2: &str, class: u8) -> Report {
    let name = datagrams().display().to_string();
    go(&format!(
        "program = '{name}'\nduration = '1min'\n\
         host = [{{ name = 'a' }}, {{ name = 'v', params = {{ CLASS = {class} }} }}, {{ name = 'c' }}, {{ name = 'd' }}]\n\
         switch = [{{ name = 's1', {s1} }}, {{ name = 's2', {s2} }}]\n\
         link = [{{ between = ['a', 's1'], both = {{ rate = '8Mbit/s' }} }}, {{ between = ['v', 's1'], both = {{ rate = '8Mbit/s' }} }},\n\
         {{ between = ['s1', 's2'], both = {{ rate = '8Mbit/s' }} }}, {{ between = ['s2', 'd'], both = {{ rate = '8Mbit/s' }} }},\n\
         {{ between = ['s2', 'c'], both = {{ rate = '800kbit/s' }} }}]\n\
         flow = [{{ from = 'a', to = 'c', one_way = true, messages = {{ count = 200, size = 1000, delivery = 'datagrams' }} }},\n\
         {{ from = 'v', to = 'd', one_way = true, at = '500ms', \
         messages = {{ count = 20, size = 100, interval = '20ms', delivery = 'datagrams' }} }}]\n"
    ))
}

#[test]
fn a_pause_delays_other_destinations_but_not_priorities() {
    let pfc = "pfc_xoff = '10kB', pfc_headroom = '5kB'";
    // The victim's own three hops, behind one packet on each of the shared lines.
    let free = (3 * (100 + HEADERS) + PACKET) as f64 / BYTES_PER_SECOND as f64;
    let times = |report: &Report| report.flows[1].times.expect("times");
    let without = victim("buffer = '20kB'", "buffer = '20kB'", 0);
    assert!(
        times(&without).p50 < 0.03,
        "behind what the host's own line lets through: {without}"
    );
    assert!(link(&without, "s2", "c").dropped["queue"] > 0, "{without}");

    let held = victim(pfc, pfc, 0);
    assert!(times(&held).p50 > 2.0 * times(&without).p50, "{held}\n{without}");
    assert!(held.links.iter().all(|link| link.dropped.is_empty()), "{held}");
    // The pause spreads from port to port, back to the host that causes it.
    for (from, to) in [("s1", "s2"), ("a", "s1")] {
        assert!(pauses(&held, from, to).pauses > 0, "{held}");
    }

    let apart = format!("{pfc}, priorities = 2, pfc_priorities = [0]");
    let other = victim(&apart, &apart, 56);
    assert!(other.links.iter().all(|link| link.dropped.is_empty()), "{other}");
    let slowest = times(&other).max;
    assert!(slowest <= free + 1e-9, "{slowest} of {free}");
    assert!(
        link(&other, "s1", "s2")
            .pauses
            .iter()
            .all(|pauses| pauses.priority == 0)
    );
}

/// In a ring of five switches each host sends to the second next. Each line waits for room that the next one
/// should free, so no line sends. The report shows the circle.
#[test]
fn a_pause_deadlock_is_reported() {
    let ring = |pfc: &str| {
        let mut text = format!(
            "program = '{}'\nduration = '20s'\n\
             flow = [{{ from = 'h[0-4]', to = ['h2', 'h3', 'h4', 'h0', 'h1'], pairs = 'in-order', one_way = true, \
             messages = {{ count = 200, size = 1000, delivery = 'datagrams' }} }}]\n",
            datagrams().display()
        );
        for number in 0..5 {
            let next = (number + 1) % 5;
            write!(
                text,
                "[[host]]\nname = 'h{number}'\n[[switch]]\nname = 's{number}'\n{pfc}\n\
                 [[link]]\nbetween = ['h{number}', 's{number}']\nboth = {{ rate = '80Mbit/s' }}\n\
                 [[link]]\nbetween = ['s{number}', 's{next}']\nboth = {{ rate = '8Mbit/s' }}\n"
            )
            .expect("text");
        }
        let report = go(&text);
        let received = report.flows.iter().filter_map(|flow| flow.forward.messages);
        (received.map(|messages| messages.received).sum::<u64>(), report)
    };
    let (received, report) = ring("pfc_xoff = '10kB'\npfc_headroom = '15kB'");
    assert!(received < 500, "{received}");
    for number in 0..5 {
        let (from, to) = (format!("s{number}"), format!("s{}", (number + 1) % 5));
        let paused = pauses(&report, &from, &to);
        assert!(
            paused.is_paused && paused.seconds > 0.9 * report.seconds,
            "{report}"
        );
        assert_eq!(paused.lost, 0);
    }
    assert!(report.to_string().contains("and still"), "{report}");
    // With room for everything the circle does not form.
    assert_eq!(ring("pfc_xoff = '1MB'\npfc_headroom = '15kB'").0, 1000);
}

#[test]
fn a_switch_that_goes_down_while_pausing_releases_its_peers() {
    let name = datagrams().display().to_string();
    let report = go(&format!(
        "program = '{name}'\nduration = '1min'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         switch = [{{ name = 's', pfc_xoff = '20kB', pfc_headroom = '30kB' }}]\n\
         link = [{{ between = ['a', 's'], both = {{ rate = '8Mbit/s', delay = '1ms' }} }},\n\
         {{ between = ['s', 'b'], both = {{ rate = '80kbit/s' }} }}]\n\
         at = [{{ time = '1s', switch = 's', state = 'down' }}, {{ time = '2s', switch = 's', state = 'up' }}]\n\
         flow = [{{ from = 'a', to = 'b', one_way = true, \
         messages = {{ count = 500, size = 1000, delivery = 'datagrams' }} }}]\n"
    ));
    let line = link(&report, "a", "s");
    assert_eq!((line.sent, line.delivered), (500, 500), "{report}");
    let paused = pauses(&report, "a", "s");
    assert!(
        !paused.is_paused && paused.seconds > 0.5 && paused.seconds < 1.1,
        "{report}"
    );
}

#[test]
fn invalid_thresholds_are_rejected_with_reason_and_place() {
    let text = |switch: &str, rate: &str| {
        format!(
            "program = 'x'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\nswitch = [{{ name = 's', {switch} }}]\n\
             link = [{{ between = ['a', 's'], both = {{ {rate} }} }}, {{ between = ['s', 'b'], backward = {{ rate = '1Gbit/s' }} }}]\n\
             flow = [{{ from = 'a', to = 'b', bulk = {{ bytes = 1 }} }}]\n"
        )
    };
    let good =
        "pfc_xoff = '50kB', pfc_xon = '20kB', pfc_headroom = '20kB', priorities = 2, pfc_priorities = [1]";
    let (line, message) = ("rate = '1Gbit/s'", "a good one");
    if let Err(error) = Scenario::parse(&text(good, line)) {
        panic!("{message}: {error}");
    }
    let cases = [
        (
            "pfc_xon = '20kB'",
            "line 3: `switch[0].pfc_xon`: `pfc_xoff` is missing, without which no priority pauses\n  hint: \
             pfc_xoff = ",
        ),
        (
            "pfc_headroom = '20kB'",
            "`switch[0].pfc_headroom`: `pfc_xoff` is missing",
        ),
        (
            "pfc_priorities = [0]",
            "`switch[0].pfc_priorities`: `pfc_xoff` is missing",
        ),
        (
            "pfc_xoff = 0",
            "`switch[0].pfc_xoff`: a sender that may send no byte would never send",
        ),
        (
            "pfc_xoff = '50kB'",
            "`switch[0].pfc_xoff`: `pfc_headroom` is missing; it holds the data that arrives until a pause \
             takes effect\n  hint: 2 × delay",
        ),
        (
            "pfc_xoff = '50kB', pfc_xon = '50kB', pfc_headroom = 1",
            "`switch[0].pfc_xon`: 50000 bytes are not below the 50000 of `pfc_xoff`",
        ),
        (
            "pfc_xoff = '50kB', pfc_headroom = 1, pfc_priorities = []",
            "`switch[0].pfc_priorities`: no priority pauses",
        ),
        (
            "pfc_xoff = '50kB', pfc_headroom = 1, pfc_priorities = [1]",
            "`switch[0].pfc_priorities`: the priority 1 does not exist: the switch has 1\n  hint: 0 to 0",
        ),
        (
            "pfc_xoff = '50kB', pfc_headroom = 1, priorities = 2, trim_to = 64",
            "`switch[0].pfc_xoff`: a switch either pauses its senders or trims packets that find no room\n  \
             hint: remove `trim_to`",
        ),
        ("pfc_xof = 1", "unknown key `pfc_xof`"),
    ];
    for (switch, expected) in cases {
        let error = crate::by_line(
            &Scenario::parse(&text(switch, line))
                .expect_err(switch)
                .to_string(),
        );
        assert!(error.contains(expected), "{error}\ninstead of\n{expected}");
    }
    let error = crate::by_line(
        &Scenario::parse(&text(good, "delay = '1us'"))
            .expect_err("no rate")
            .to_string(),
    );
    let expected = "line 4: `link[0]`: `s` pauses its senders, but a line without a rate has no queue in \
                    which packets could wait\n  hint: ";
    assert!(error.contains(expected), "{error}");
}

/// The minimum headroom of a scenario is the value that the error demands if it is one byte smaller.
#[test]
fn head_room_is_at_least_that_of_the_formula() {
    let text = |headroom: u64, link: &str, at: &str| {
        format!(
            "program = 'x'\nhost = [{{ name = 'a', mtu = 9000 }}, {{ name = 'b' }}]\n\
             switch = [{{ name = 's', pfc_xoff = '50kB',\n pfc_headroom = {headroom} }}]\n\
             link = [{{ between = ['a', 's'], {link} }}, {{ between = ['s', 'b'], both = {{ rate = '1Gbit/s' }} }}]\n\
             flow = [{{ from = 'a', to = 'b', bulk = {{ bytes = 1 }} }}]\n{at}"
        )
    };
    let both = "both = { rate = '100Gbit/s', delay = '1us' }";
    // 1 µs each way at 100 Gbit/s is 25,000 bytes.
    let even = 25_000 + 64 + 2 * 9000 + 8999;
    let uneven =
        "forward = { rate = '100Gbit/s', delay = '1us' }, backward = { rate = '10Gbit/s', delay = '3us' }";
    let varied = "both = { rate = '100Gbit/s', delay = '1us', jitter = '1us' }";
    let later = "[[at]]\ntime = '2s'\nlink = 'a-s'\nforward = { delay = '3us' }\n\
                 [[at]]\ntime = '1s'\nlink = 'a-s'\nboth = { rate = '10Gbit/s' }\n\
                 [[at]]\ntime = '3s'\nlink = 'a-s'\nboth = { rate = '100Gbit/s' }\n";
    for (link, at, min, place) in [
        (both, "", even, "over `a-s` until"),
        (
            uneven,
            "",
            50_000 + 10 * (64 + 9000) + 9000 + 8999,
            "over `a-s` until",
        ),
        (varied, "", even + 12_500, "over `a-s` until"),
        (both, later, even + 25_000, "over `a-s` from 3s on until"),
        (
            "both = { rate = '1kbit/s' }",
            "",
            64 + 9000 + 9000 + 8999,
            "over `a-s` until",
        ),
    ] {
        if let Err(error) = Scenario::parse(&text(min, link, at)) {
            panic!("{link}: {error}");
        }
        let error = crate::by_line(
            &Scenario::parse(&text(min - 1, link, at))
                .expect_err(link)
                .to_string(),
        );
        let expected = format!(
            "line 4: `switch[0].pfc_headroom`: {} bytes are less than the {min} that may arrive {place} a pause takes \
             effect\n  hint: pfc_headroom = {min}: ",
            min - 1
        );
        assert!(error.starts_with(&expected), "{error}\ninstead of\n{expected}");
    }
    let fabric = "program = 'x'\n[topology]\nkind = 'dumbbell'\nhosts = 1\n\
                  host_link = { rate = '10Gbit/s', delay = '1us' }\ncore_link = { rate = '10Gbit/s', delay = '10us' }\n\
                  [topology.switch]\npfc_xoff = '50kB'\npfc_headroom = '20kB'\n\
                  [[flow]]\nfrom = 'h0'\nto = 'h1'\nbulk = { bytes = 1 }\n";
    let error = crate::by_line(
        &Scenario::parse(fabric)
            .expect_err("too little for the core")
            .to_string(),
    );
    let expected = "line 9: `topology.switch.pfc_headroom`: 20000 bytes are less than the 29563 that may \
                    arrive over `left-right` until a pause takes effect\n  hint: pfc_headroom = 29563: \
                    25000 bytes under way in 20us there and back at 10Gbit/s, 1564 while a pause and the \
                    packet before it leave, a packet of 1500 on the line, and 1499 by which one may exceed \
                    `pfc_xoff`";
    assert_eq!(error, expected);
}
