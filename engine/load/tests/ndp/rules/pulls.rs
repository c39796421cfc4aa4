//! The pace of PULLs. The packets that they release arrive at the rate of the receiver's link (SIGCOMM 2017,
//! 3.2), here 10 Mbit/s, at which a byte takes 800 ns.

use super::*;

const BYTE: u64 = 800;
/// The bytes of headers before the data.
const HEADERS: u64 = 20 + 32;
const WHOLE: u64 = PART as u64 + HEADERS;

/// Returns a stage with that link. Short messages have no queue of their own.
fn stage() -> Testbed {
    Testbed::new(&[("LINK_RATE", 10_000_000), ("URGENT", 0)])
}

/// Returns the bytes whose time passes between each PULL of the next 4 ms and the next one.
fn paced(stage: &mut Testbed) -> Vec<u64> {
    let sent = stage.wait(4_000_000);
    let times: Vec<u64> = sent
        .iter()
        .filter(|(_, packet)| packet.kind == PULL)
        .map(|(at, _)| *at)
        .collect();
    times.windows(2).map(|pair| (pair[1] - pair[0]) / BYTE).collect()
}

/// Makes another host's message ask for one packet, which reveals the time of the PULL before it.
fn ask_another(stage: &mut Testbed) {
    stage.put_from(2, (DATA, 8, 0, 31 * PART), None);
}

#[test]
fn a_short_last_packet_takes_its_own_time() {
    let mut stage = stage();
    // 30 packets arrive unsolicited. Two whole packets and 100 bytes remain to be pulled.
    let len = 32 * PART + 100;
    (0..4).for_each(|number| stage.put((DATA, 8, number, len)));
    ask_another(&mut stage);
    assert_eq!(paced(&mut stage), [WHOLE, WHOLE, 100 + HEADERS]);
}

/// Only trimmed packets remain to be pulled: whole packets, and the last one at the end.
#[test]
fn packets_of_a_first_window_that_were_cut_take_their_own_time() {
    let mut stage = stage();
    let len = 3 * PART + 100;
    [0, 3, 1, 2, 3]
        .iter()
        .for_each(|number| stage.put_cut((DATA, 8, *number, len)));
    ask_another(&mut stage);
    let last = 100 + HEADERS;
    assert_eq!(paced(&mut stage), [WHOLE, last, WHOLE, WHOLE, last]);
}

/// The last packet was pulled, and an earlier one arrives trimmed.
#[test]
fn a_packet_that_is_cut_behind_the_last_pull_takes_its_own_time() {
    let mut stage = stage();
    let len = 30 * PART + 100;
    stage.put((DATA, 8, 0, len));
    stage.put_cut((DATA, 8, 5, len));
    ask_another(&mut stage);
    assert_eq!(paced(&mut stage), [100 + HEADERS, WHOLE]);
}

/// Two receivers' messages lack their last packets. Both ask for them on their own after 5 ms.
#[test]
fn a_last_packet_that_is_missing_takes_its_own_time() {
    let mut stage = stage();
    stage.put_from(1, (DATA, 8, 0, PART + 100), None);
    stage.put_from(2, (DATA, 8, 0, PART + 100), None);
    stage.take();
    stage.wait(4_000_000);
    assert_eq!(paced(&mut stage), [100 + HEADERS]);
}

/// Any host can claim that its message has long packets. No packet exceeds the path's MTU of 1,500 bytes.
#[test]
fn a_header_makes_no_pull_take_longer_than_a_packet_can() {
    let mut stage = stage();
    stage.segment = u16::MAX;
    (0..3).for_each(|number| stage.put_cut((DATA, 8, number, 900_000)));
    assert_eq!(paced(&mut stage), [1_500, 1_500]);
}
