//! Homa's behaviour, rule by rule, against a peer that the test plays.
//!
//! The numbers come from the paper and from HomaModule at 9edb9589:
//!
//! * cutoffs of 200, 2,800 and 15,000 bytes
//! * granted bytes at priorities 3 and below
//! * eight messages at a time
//! * RESEND after 5 ms, NEED_ACK after 2 ms, and an end after 100 ms

use hawser_testing::internet_checksum;

use super::wire::*;
use super::*;

/// An empty list of packets.
pub const NOTHING: [u8; 0] = [];
/// The bytes of data in a packet of 1,500 bytes, without the headers of IPv4 and of data.
const FULL: u64 = 1_500 - 20 - 56;

#[test]
fn packets_are_laid_out_as_the_module_has_them() {
    let mut stage = Testbed::new(&[]);
    stage.call(70_000);
    let sent = stage.take();
    let mut at = 0;
    for data in &sent {
        assert_eq!((data.kind(), data.get(DOFF)), (DATA, 14 << 4));
        assert_eq!((data.get(SPORT), data.get(DPORT)), (80, PORT));
        assert_eq!((data.get(MESSAGE_LENGTH), data.get(INCOMING)), (70_000, 60_000));
        assert_eq!(data.get(SENDER_ID) & 1, 0, "a client's");
        assert_eq!(
            (
                data.get(RETRANSMIT),
                data.get(ACK_CLIENT_ID),
                data.get(DATA_CUTOFF_VERSION)
            ),
            (0, 0, 0)
        );
        assert_eq!(data.offset(), at);
        at += data.bytes.len() as u64 - 56;
    }
    assert_eq!(at, 60_000);
    // A request with a gap that also lacks all its other unscheduled bytes causes RESEND, GRANT and CUTOFFS.
    let mut stage = Testbed::new(&[("FIFO_GRANT", 0)]);
    stage.request(70_000, 3_000, (1_000, 2_000));
    let grant = &stage.take()[0];
    assert_eq!(
        (grant.bytes.len(), grant.kind(), grant.get(DOFF)),
        (33, GRANT, 5 << 4)
    );
    assert_eq!(
        (
            grant.get(SENDER_ID),
            grant.get(GRANT_OFFSET),
            grant.get(GRANT_PRIORITY)
        ),
        (CALL | 1, 61_000, 0)
    );
    let resent = stage.wait(5_000);
    let asked: Vec<_> = resent
        .iter()
        .map(|p| {
            (
                p.kind(),
                p.bytes.len(),
                p.get(RESEND_OFFSET),
                p.get(RESEND_LENGTH),
            )
        })
        .collect();
    assert_eq!(asked, [(RESEND, 37, 0, 1_000), (RESEND, 37, 2_000, 59_000)]);
    assert!(
        resent
            .iter()
            .all(|p| p.get(RESEND_PRIORITY) == 7 && p.priority == 7)
    );
    stage.put(
        DATA,
        &[
            (MESSAGE_LENGTH, 70_000),
            (INCOMING, 3_000),
            (SEGMENT_OFFSET, 2_000),
        ],
        b"x",
    );
    let cutoffs = &stage.take()[0];
    assert_eq!(
        (cutoffs.kind(), cutoffs.bytes.len(), cutoffs.get(CUTOFF_VERSION)),
        (CUTOFFS, 62, 1)
    );
    let levels: Vec<u64> = (0..8)
        .map(|i| cutoffs.get((UNSCHED_CUTOFFS.0 + 4 * i, 4)))
        .collect();
    assert_eq!(levels, [0x7fff_ffff, 0, 0, 0, 1_000_000, 15_000, 2_800, 200]);
}

#[test]
fn unscheduled_bytes_use_the_priority_of_the_peers_cutoffs() {
    let mut stage = Testbed::new(&[]);
    stage.call(10);
    assert_eq!(stage.take()[0].priority, 6, "before the peer said anything");
    let id = |stage: &mut Testbed| {
        stage.call(10);
        stage.take()[0].get(SENDER_ID) | 1
    };
    let of_call = id(&mut stage);
    let mut levels = packet(
        CUTOFFS,
        &[
            (SPORT, PORT),
            (DPORT, 80),
            (SENDER_ID, of_call),
            (CUTOFF_VERSION, 9),
        ],
        &[],
    );
    for (i, level) in [0u32, 0, 0, 0, 1_000_000, 15_000, 2_800, 200]
        .into_iter()
        .enumerate()
    {
        levels[28 + 4 * i..32 + 4 * i].copy_from_slice(&level.to_be_bytes());
    }
    stage.put_from(1, &levels);
    stage.take();
    for (len, priority) in [
        (200, 7),
        (201, 6),
        (2_800, 6),
        (2_801, 5),
        (15_000, 5),
        (15_001, 4),
        (1_000_000, 4),
    ] {
        stage.call(len);
        let sent = stage.take();
        assert!(
            sent.iter().all(|p| p.priority == priority),
            "{len}: {}",
            sent[0].priority
        );
        assert!(sent.iter().all(|p| p.get(DATA_CUTOFF_VERSION) == 9));
    }
    // The stack keeps no state about a host to which it sends no data.
    stage.put_from(2, &levels);
    stage.take();
    let peer = address(2, PORT as u16);
    stage
        .stack
        .call(stage.now, stage.endpoint, peer, b"x")
        .expect("taken")
        .expect("room");
    assert_eq!(stage.take()[0].priority, 6);
}

#[test]
fn a_sender_with_other_cutoffs_is_informed_once_a_millisecond() {
    let mut stage = Testbed::new(&[]);
    let old = |stage: &mut Testbed, at: u64| {
        stage.put(
            DATA,
            &[(MESSAGE_LENGTH, 1_000), (INCOMING, 1_000), (SEGMENT_OFFSET, at)],
            b"x",
        );
        kinds(&stage.take())
    };
    assert_eq!(old(&mut stage, 0), [CUTOFFS]);
    assert_eq!(old(&mut stage, 1), NOTHING);
    stage.wait(1_000);
    assert_eq!(old(&mut stage, 2), [CUTOFFS]);
    stage.wait(1_000);
    stage.request(1_000, 1_000, (3, 4));
    assert_eq!(kinds(&stage.take()), NOTHING, "of those that it has");
}

/// Starts a call and returns its id as the peer sends it, after the unscheduled bytes have left.
fn sending(stage: &mut Testbed, len: usize) -> u64 {
    stage.call(len);
    stage.take()[0].get(SENDER_ID) | 1
}

#[test]
fn a_grant_releases_bytes_at_its_priority_up_to_the_end() {
    let mut stage = Testbed::new(&[]);
    let id = sending(&mut stage, 70_000);
    assert_eq!(
        kinds(&stage.wait(1_000)),
        NOTHING,
        "no more than the unscheduled bytes"
    );
    stage.put(
        GRANT,
        &[(SENDER_ID, id), (GRANT_OFFSET, 65_000), (GRANT_PRIORITY, 2)],
        &[],
    );
    let sent = stage.take();
    assert_eq!(
        (sent[0].range().0, sent.last().expect("some").range().1),
        (60_000, 65_000)
    );
    assert!(sent.iter().all(|p| p.priority == 2 && p.get(INCOMING) == 65_000));
    stage.put(GRANT, &[(SENDER_ID, id), (GRANT_OFFSET, 64_000)], &[]);
    assert_eq!(kinds(&stage.take()), NOTHING, "an old one");
    stage.put(
        GRANT,
        &[
            (SENDER_ID, id),
            (GRANT_OFFSET, 0xffff_ffff),
            (GRANT_PRIORITY, 255),
        ],
        &[],
    );
    let sent = stage.take();
    assert_eq!(
        (sent[0].range().0, sent.last().expect("some").range().1),
        (65_000, 70_000)
    );
    assert!(sent.iter().all(|p| p.priority == 7));
    stage.put(GRANT, &[(SENDER_ID, id), (GRANT_OFFSET, 80_000)], &[]);
    assert_eq!(kinds(&stage.take()), NOTHING, "all has left");
}

/// Delivers the first packet of a request, with the number of the call and its host: 1,000 bytes, and no more
/// unscheduled ones.
fn begins(stage: &mut Testbed, host: u8, call: u64, len: u64) -> Vec<Packet> {
    let fields = [
        (SPORT, PORT),
        (DPORT, 80),
        (SENDER_ID, call),
        (MESSAGE_LENGTH, len),
        (INCOMING, 1_000),
        (DATA_CUTOFF_VERSION, 1),
    ];
    stage.put_from(host, &packet(DATA, &fields, &[1; 1_000]));
    stage.take()
}

#[test]
fn grants_go_to_the_shortest_remainder_one_per_host() {
    let mut stage = Testbed::new(&[("FIFO_GRANT", 0)]);
    let granted = |packets: Vec<Packet>| -> Vec<(u64, u64, u64)> {
        packets
            .iter()
            .map(|p| (p.get(SENDER_ID) & !1, p.get(GRANT_OFFSET), p.get(GRANT_PRIORITY)))
            .collect()
    };
    // Seven hosts: with more of them, higher priorities are in use. The limit leaves room for eight windows.
    for host in 1..8 {
        let len = 100_000 + 1_000 * u64::from(host);
        let more = u64::from(host) - 1;
        let priority = 3u64.saturating_sub(more + 4u64.saturating_sub(more + 1));
        assert_eq!(
            granted(begins(&mut stage, host, 2 * u64::from(host), len)),
            [(2 * u64::from(host), 61_000, priority)]
        );
    }
    // A second message of a host waits if it has more bytes left, and goes first if it has fewer.
    assert_eq!(granted(begins(&mut stage, 1, 100, 200_000)), []);
    assert_eq!(granted(begins(&mut stage, 1, 102, 90_000)), [(102, 61_000, 3)]);
    // All 480,000 bytes are granted. A new message waits for arrivals, although it has the fewest bytes left.
    assert_eq!(granted(begins(&mut stage, 9, 104, 80_000)), []);
    let fields = [
        (SPORT, PORT),
        (DPORT, 80),
        (SENDER_ID, 102),
        (MESSAGE_LENGTH, 90_000),
        (SEGMENT_OFFSET, 1_000),
        (DATA_CUTOFF_VERSION, 1),
    ];
    stage.put_from(1, &packet(DATA, &fields, &[1; 1_400]));
    assert_eq!(granted(stage.take()), [(104, 2_400, 3)]);
}

#[test]
fn a_ninth_host_waits_for_a_grant() {
    let mut stage = Testbed::new(&[("FIFO_GRANT", 0), ("MAX_INCOMING", 10_000_000)]);
    for host in 1..9 {
        assert_eq!(kinds(&begins(&mut stage, host, 2, 100_000)), [GRANT]);
    }
    assert_eq!(kinds(&begins(&mut stage, 9, 2, 100_000)), NOTHING);
    assert_eq!(
        kinds(&begins(&mut stage, 10, 2, 99_999)),
        [GRANT],
        "the least left"
    );
}

#[test]
fn without_a_window_messages_share_the_incoming_limit() {
    let mut stage = Testbed::new(&[("FIFO_GRANT", 0), ("WINDOW", 0), ("MAX_INCOMING", 400_000)]);
    let offsets =
        |packets: Vec<Packet>| -> Vec<u64> { packets.iter().map(|p| p.get(GRANT_OFFSET)).collect() };
    assert_eq!(offsets(begins(&mut stage, 1, 2, 500_000)), [201_000]);
    assert_eq!(offsets(begins(&mut stage, 2, 2, 500_000)), [1_000 + 400_000 / 3]);
}

#[test]
fn the_oldest_message_gets_a_share_at_the_highest_priority() {
    let mut stage = Testbed::new(&[]);
    begins(&mut stage, 1, 2, 900_000);
    stage.wait(400);
    let sent = begins(&mut stage, 1, 4, 500_000);
    let granted: Vec<_> = sent
        .iter()
        .map(|p| (p.get(SENDER_ID), p.get(GRANT_OFFSET), p.get(GRANT_PRIORITY)))
        .collect();
    // In its turn the message was granted a window. As the first and the oldest, it was granted 50,000 more
    // at once, and now gets the same again.
    assert_eq!(granted, [(5, 61_000, 0), (3, 161_000, 7)]);
    assert_eq!(
        kinds(&begins(&mut stage, 1, 6, 500_000)),
        NOTHING,
        "not before 320 us are over"
    );
    stage.wait(400);
    let sent = begins(&mut stage, 1, 8, 500_000);
    assert_eq!(
        sent[0].get(SENDER_ID),
        5,
        "the oldest has 160,000 that have not come, and does not respond"
    );
}

#[test]
fn requested_bytes_are_sent_again_and_count_as_granted() {
    let mut stage = Testbed::new(&[]);
    let id = sending(&mut stage, 70_000);
    let ask = |stage: &mut Testbed, offset: u64, len: u64| {
        stage.put(
            RESEND,
            &[
                (SENDER_ID, id),
                (RESEND_OFFSET, offset),
                (RESEND_LENGTH, len),
                (RESEND_PRIORITY, 5),
            ],
            &[],
        );
        stage.take()
    };
    let sent = ask(&mut stage, 100, 2_000);
    assert_eq!(
        (sent[0].range(), sent[1].range()),
        ((100, 100 + FULL), (100 + FULL, 2_100))
    );
    assert!(
        sent.iter()
            .all(|p| p.get(RETRANSMIT) == 1 && p.priority == 5 && p.get(INCOMING) == 2_100)
    );
    let sent = ask(&mut stage, 59_000, 5_000);
    assert_eq!((sent[0].range(), sent[0].get(RETRANSMIT)), ((59_000, 60_000), 1));
    let (first, last) = (&sent[1], sent.last().expect("more"));
    assert_eq!(
        (first.range().0, last.range().1, first.get(RETRANSMIT)),
        (60_000, 64_000, 0),
        "the grant was lost"
    );
    let sent = ask(&mut stage, 65_000, 1_000);
    assert_eq!(sent[0].kind(), BUSY, "nothing of it had left");
    stage.wait(10_000);
    assert_eq!(
        data_bytes(&ask(&mut stage, 0, 0xffff_ffff)),
        66_000,
        "all that was sent"
    );
}

#[test]
fn forged_resends_are_not_amplified() {
    let mut stage = Testbed::new(&[]);
    let id = sending(&mut stage, 1_000_000);
    stage.put(GRANT, &[(SENDER_ID, id), (GRANT_OFFSET, 1_000_000)], &[]);
    assert_eq!(data_bytes(&stage.take()), 940_000);
    stage.wait(2_500);
    let mut again = 0;
    for _ in 0..500 {
        stage.put(
            RESEND,
            &[(SENDER_ID, id), (RESEND_OFFSET, 0), (RESEND_LENGTH, 1_000_000)],
            &[],
        );
        again += data_bytes(&stage.take());
    }
    // One window and two shares of the oldest message: bytes that a receiver can miss, for each 2.5 ms.
    assert_eq!(again, 160_000);
    // In total, the sender repeats at most four times the message on top of that. More requests cannot be due
    // to loss.
    for _ in 0..100 {
        stage.wait(2_500);
        stage.put(
            RESEND,
            &[(SENDER_ID, id), (RESEND_OFFSET, 0), (RESEND_LENGTH, 1_000_000)],
            &[],
        );
        again += data_bytes(&stage.take());
    }
    assert_eq!(again, 4_160_000);
    // A RESEND about an unknown call gets an answer of 28 bytes to 37, whatever it asks for.
    stage.put(RESEND, &[(SENDER_ID, 6), (RESEND_LENGTH, 1_000_000)], &[]);
    let sent = stage.take();
    assert_eq!((kinds(&sent), sent[0].bytes.len()), (vec![UNKNOWN], 28));
    // The longest answer to a packet of an unknown call has 80 bytes for 28.
    stage.put(NEED_ACK, &[(SENDER_ID, 7)], &[]);
    assert_eq!((stage.take()[0].bytes.len(), size(NEED_ACK)), (80, 28));
}

#[test]
fn a_server_that_forgot_a_call_receives_it_again() {
    let mut stage = Testbed::new(&[]);
    let id = sending(&mut stage, 70_000);
    stage.put(GRANT, &[(SENDER_ID, id), (GRANT_OFFSET, 70_000)], &[]);
    stage.take();
    stage.put(UNKNOWN, &[(SENDER_ID, id)], &[]);
    let sent = stage.take();
    assert_eq!((data_bytes(&sent), sent[0].get(RETRANSMIT)), (60_000, 1));
    stage.put(GRANT, &[(SENDER_ID, id), (GRANT_OFFSET, 70_000)], &[]);
    assert_eq!(data_bytes(&stage.take()), 10_000, "granted anew");
    // Once the reply has begun, it is too late to begin again: the call times out, as after a reboot.
    stage.put(
        DATA,
        &[
            (SENDER_ID, id),
            (MESSAGE_LENGTH, 9_000),
            (INCOMING, 9_000),
            (SEGMENT_OFFSET, 0),
            (DATA_CUTOFF_VERSION, 1),
        ],
        b"x",
    );
    stage.put(UNKNOWN, &[(SENDER_ID, id)], &[]);
    assert_eq!(kinds(&stage.take()), NOTHING);
}

#[test]
fn a_client_that_forgot_a_call_ends_it_at_the_server() {
    let mut stage = Testbed::new(&[]);
    stage.request(2, 2, (0, 1));
    stage.take();
    assert_eq!(stage.stack.contexts(), 2);
    stage.put(UNKNOWN, &[], &[]);
    stage.take();
    assert_eq!(
        stage.stack.contexts(),
        1,
        "it was rebooted in the middle of its request"
    );
    let mut stage = Testbed::new(&[]);
    let (call, _) = stage.replies(10);
    stage.put(UNKNOWN, &[], &[]);
    stage.take();
    assert_eq!(stage.end_of(call), Some(&Notice::Closed), "it may have the reply");
}

/// Checks that late packets of the test's call get no answer. Its request of one byte was served, and is not
/// served again.
pub fn is_remembered(stage: &mut Testbed) {
    stage.request(1, 1, (0, 1));
    stage.put(DATA, &[(MESSAGE_LENGTH, 1), (INCOMING, 1)], &[9]); // from a sender with other cutoffs
    stage.put(RESEND, &[(RESEND_LENGTH, 0xffff_ffff)], &[]);
    stage.put(GRANT, &[(GRANT_OFFSET, 100_000)], &[]);
    stage.put(UNKNOWN, &[], &[]);
    assert_eq!(kinds(&stage.take()), NOTHING);
    let accepted = |(_, notice): &&(Handle, Notice)| matches!(notice, Notice::Accepted(_));
    assert_eq!(stage.notices.iter().filter(accepted).count(), 1);
    assert_eq!((stage.stack.contexts(), stage.stack.held_bytes()), (2, (0, 0)));
}

/// The client lives for at most a second after the last packet that it receives. A packet each way takes at
/// most 20 ms.
#[test]
fn an_abandoned_reply_is_not_restarted() {
    let mut stage = Testbed::new(&[]);
    let (call, _) = stage.replies(10);
    stage.wait(100_000);
    assert_eq!(stage.end_of(call), Some(&Notice::Failed(Errno(110))), "ETIMEDOUT");
    is_remembered(&mut stage);
    stage.stack.release(call);
    stage.wait(1_019_900);
    is_remembered(&mut stage);
    stage.wait(100);
    assert_eq!(stage.stack.contexts(), 1);
    stage.put(RESEND, &[(RESEND_LENGTH, 0xffff_ffff)], &[]);
    assert_eq!(kinds(&stage.take()), [UNKNOWN], "nobody can ask any more");
}

/// Hosts that have not shown that they receive share a part of the places. Beyond it, each host receives a
/// number that only that host can state.
#[test]
fn a_spoofed_flood_leaves_room_for_a_receiving_host() {
    let mut stage = Testbed::new(&[("UNPROVEN", 8)]);
    let request = |call: u64, version: u64| {
        let fields = [
            (SPORT, PORT),
            (DPORT, 80),
            (SENDER_ID, call),
            (MESSAGE_LENGTH, 1),
            (INCOMING, 1),
            (DATA_CUTOFF_VERSION, version),
        ];
        packet(DATA, &fields, &[9])
    };
    for host in 30..40 {
        stage.put_from(host, &request(CALL, 1));
    }
    assert_eq!(kinds(&stage.take()), [CUTOFFS; 2], "eight of ten are served");
    assert_eq!(stage.stack.contexts(), 1 + 8);
    stage.put_from(1, &request(CALL, 1));
    let version = stage.take()[0].get(CUTOFF_VERSION);
    stage.put_from(2, &request(CALL, version));
    let other = stage.take()[0].get(CUTOFF_VERSION);
    assert_ne!(version, other, "it is another host's");
    assert_eq!(stage.stack.contexts(), 1 + 8);
    // The host begins its call anew, and all its later calls are served at once.
    for call in 0..100 {
        stage.put_from(1, &request(CALL + 2 * call, version));
    }
    assert_eq!(kinds(&stage.take()), NOTHING);
    assert_eq!(stage.stack.contexts(), 1 + 8 + 100);
}

/// A rejected client asks for its reply, and begins the call anew with the number that it received.
#[test]
fn a_client_that_was_turned_away_states_its_number() {
    let mut stage = Testbed::new(&[]);
    stage.call(10);
    let id = stage.take()[0].get(SENDER_ID) | 1;
    stage.put(CUTOFFS, &[(SENDER_ID, id), (CUTOFF_VERSION, 777)], &[]);
    assert_eq!(kinds(&stage.take()), NOTHING);
    assert_eq!(kinds(&stage.wait(5_000)), [RESEND]);
    stage.put(UNKNOWN, &[(SENDER_ID, id)], &[]);
    let sent = stage.take();
    assert_eq!(
        (kinds(&sent), sent[0].get(DATA_CUTOFF_VERSION)),
        (vec![DATA], 777)
    );
}

#[test]
fn a_call_closed_without_a_reply_is_not_restarted() {
    let mut stage = Testbed::new(&[]);
    stage.request(1, 1, (0, 1));
    stage.take();
    let (call, _) = stage.accepted();
    stage.stack.close(stage.now, call);
    stage.take();
    is_remembered(&mut stage);
    assert!(stage.stack.send_message(stage.now, call, b"too late").is_err());
    stage.wait(1_019_900);
    is_remembered(&mut stage);
    stage.wait(100);
    assert_eq!(stage.stack.contexts(), 1);
}

/// Makes a call and replies to it. Returns its number.
pub fn whole_call(stage: &mut Testbed) -> (u64, Vec<Packet>) {
    stage.call(10);
    let sent = stage.take();
    let id = sent[0].get(SENDER_ID);
    let fields = [
        (SENDER_ID, id | 1),
        (MESSAGE_LENGTH, 1),
        (INCOMING, 1),
        (DATA_CUTOFF_VERSION, 1),
    ];
    stage.put(DATA, &fields, b"y");
    let after = stage.take();
    (id, [sent, after].concat())
}

#[test]
fn acknowledgements_ride_on_data_or_are_many_in_one_packet() {
    let mut stage = Testbed::new(&[]);
    let (first, sent) = whole_call(&mut stage);
    assert_eq!(kinds(&sent), [DATA], "nothing is acknowledged at once");
    let (second, sent) = whole_call(&mut stage);
    assert_eq!(
        (sent[0].get(ACK_CLIENT_ID), sent[0].get(ACK_SERVER_PORT)),
        (first, PORT)
    );
    // A server that asks receives all acknowledgements that wait for its host. The header acknowledges the
    // call itself.
    stage.put(NEED_ACK, &[(SENDER_ID, 77)], &[]);
    let ack = &stage.take()[0];
    assert_eq!(
        (ack.kind(), ack.bytes.len(), ack.get(SENDER_ID), ack.get(NUM_ACKS)),
        (ACK, 80, 76, 1)
    );
    assert_eq!((ack.get((ACKS.0, 8)), ack.get((ACKS.0 + 8, 2))), (second, PORT));
    assert!(ack.bytes[40..].iter().all(|byte| *byte == 0));
    // Replies to six earlier calls arrive: five acknowledgements wait, and leave with the sixth.
    let calls: Vec<u64> = (0..6)
        .map(|_| {
            stage.call(10);
            stage.take()[0].get(SENDER_ID)
        })
        .collect();
    let mut sent = Vec::new();
    for id in &calls {
        assert_eq!(kinds(&sent), NOTHING);
        stage.put(
            DATA,
            &[
                (SENDER_ID, id | 1),
                (MESSAGE_LENGTH, 1),
                (INCOMING, 1),
                (DATA_CUTOFF_VERSION, 1),
            ],
            b"y",
        );
        sent = stage.take();
    }
    assert_eq!(
        (kinds(&sent), sent[0].get(SENDER_ID), sent[0].get(NUM_ACKS)),
        (vec![ACK], calls[5], 5)
    );
    let listed: Vec<u64> = (0..5).map(|i| sent[0].get((ACKS.0 + 10 * i, 8))).collect();
    assert_eq!(listed, calls[..5]);
}

#[test]
fn an_acknowledgement_in_data_ends_a_call_of_another_port() {
    let mut stage = Testbed::new(&[]);
    let (call, _) = stage.replies(10);
    // The data is for another port of the host.
    let fields = [
        (SPORT, PORT),
        (DPORT, 99),
        (SENDER_ID, 4),
        (MESSAGE_LENGTH, 1),
        (ACK_CLIENT_ID, CALL),
        (ACK_SERVER_PORT, 80),
    ];
    stage.put_from(1, &packet(DATA, &fields, b"x"));
    stage.take();
    assert_eq!(stage.end_of(call), Some(&Notice::Closed));
}

#[test]
fn a_client_without_the_whole_reply_answers_need_ack_by_resend() {
    let mut stage = Testbed::new(&[]);
    let id = sending(&mut stage, 10);
    stage.put(
        DATA,
        &[
            (SENDER_ID, id),
            (MESSAGE_LENGTH, 9),
            (INCOMING, 9),
            (SEGMENT_OFFSET, 3),
            (DATA_CUTOFF_VERSION, 1),
        ],
        b"xyz",
    );
    stage.put(NEED_ACK, &[(SENDER_ID, id)], &[]);
    let sent = stage.take();
    assert_eq!(
        (
            kinds(&sent),
            sent[0].get(RESEND_OFFSET),
            sent[0].get(RESEND_LENGTH)
        ),
        (vec![RESEND], 0, 3)
    );
}

#[test]
fn the_message_with_the_least_left_is_sent_first() {
    let mut stage = Testbed::new(&[]);
    stage.end.takes = 3_000;
    stage.call(50_000);
    let lens = |packets: &[Packet]| -> Vec<u64> { packets.iter().map(|p| p.get(MESSAGE_LENGTH)).collect() };
    assert_eq!(lens(&stage.take()), [50_000; 2]);
    stage.call(3_000);
    stage.call(2_000);
    stage.end.takes = usize::MAX;
    let sent = lens(&stage.take());
    assert_eq!(sent[..5], [2_000, 2_000, 3_000, 3_000, 3_000]);
    assert!(sent[5..].iter().all(|len| *len == 50_000));
}

#[test]
fn a_host_that_refuses_ends_the_call_at_once() {
    let mut stage = Testbed::new(&[]);
    let call = stage.call(10);
    stage.take();
    let frame = {
        stage
            .stack
            .call(stage.now, stage.endpoint, address(1, 81), b"other")
            .expect("taken")
            .expect("room");
        while stage.stack.poll(stage.now, &mut stage.end).expect("a cable") {}
        stage.end.outbound.lock().pop_front().expect("a packet")
    };
    let mut icmp = [&[3, 3, 0, 0, 0, 0, 0, 0], &frame[..]].concat();
    let sum = internet_checksum(&[&icmp]);
    icmp[2..4].copy_from_slice(&sum);
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
    ip[2..4].copy_from_slice(&(20 + icmp.len() as u16).to_be_bytes());
    let sum = internet_checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum);
    stage.end.inbound.lock().push_back([&ip, &icmp[..]].concat());
    stage.take();
    assert_eq!(stage.end_of(call), None, "another call was meant");
    assert_eq!(stage.stack.contexts(), 2);
    assert!(
        stage
            .notices
            .iter()
            .any(|(_, n)| *n == Notice::Failed(Errno(111))),
        "ECONNREFUSED"
    );
}

/// RFC 792: destination unreachable, port. The caller of such a packet gets ECONNREFUSED.
#[test]
fn a_request_that_is_too_long_is_refused() {
    for (len, at) in [(1_000_001, 0), (0xffff_ffff, 0xffff_fffe)] {
        let mut stage = Testbed::new(&[]);
        let fields = [(MESSAGE_LENGTH, len), (INCOMING, 100), (SEGMENT_OFFSET, at)];
        stage.put(DATA, &fields, b"x");
        assert_eq!(stage.take()[0].bytes[..2], [3, 3], "{len} bytes");
        assert_eq!(stage.stack.contexts(), 1);
    }
}

#[test]
fn a_reply_that_is_too_long_ends_its_call() {
    let mut stage = Testbed::new(&[]);
    let call = stage.call(10);
    let id = stage.take()[0].get(SENDER_ID) | 1;
    let fields = [(SENDER_ID, id), (MESSAGE_LENGTH, 1_000_001), (INCOMING, 60_000)];
    stage.put(DATA, &fields, b"x");
    stage.take();
    assert_eq!(stage.end_of(call), Some(&Notice::Failed(Errno(90))), "EMSGSIZE");
}

#[test]
fn malformed_packets_are_dropped() {
    let mut stage = Testbed::new(&[]);
    let good = [(MESSAGE_LENGTH, 100), (INCOMING, 100), (DATA_CUTOFF_VERSION, 1)];
    let bad = |fields: &[(Field, u64)], data: &[u8]| {
        let mut stage = Testbed::new(&[]);
        stage.put(DATA, &[&good, fields].concat(), data);
        assert_eq!(kinds(&stage.take()), NOTHING, "{fields:?}");
        assert_eq!(stage.stack.contexts(), 1, "{fields:?}");
    };
    bad(&[], &[]); // without data
    bad(&[(MESSAGE_LENGTH, 0)], b"x");
    bad(&[(SEGMENT_OFFSET, 100)], b"x");
    bad(&[(SEGMENT_OFFSET, 99)], b"xy");
    bad(&[(SEGMENT_OFFSET, 0xffff_ffff), (SEQUENCE, 0xffff_fff0)], b"x");
    bad(&[(SENDER_ID, CALL | 1)], b"x"); // a reply to a call that was never made
    // Of a message that has begun, data with another length is dropped, and data that has arrived is not
    // accepted twice.
    stage.request(100, 100, (0, 50));
    stage.put(
        DATA,
        &[
            (MESSAGE_LENGTH, 50),
            (SEGMENT_OFFSET, 50),
            (DATA_CUTOFF_VERSION, 1),
        ],
        &[1; 50],
    );
    stage.request(100, 100, (0, 99));
    assert_eq!(kinds(&stage.take()), NOTHING);
    assert!(stage.notices.is_empty());
    stage.request(100, 100, (0, 100));
    stage.take();
    assert_eq!(stage.accepted().1, [9; 100]);
    // Unknown kinds, a kind that is only for traces, and unknown calls.
    for kind in [0, 0x0f, FREEZE, 0x19, 0xff] {
        stage.put(kind, &[], &[]);
    }
    for kind in [GRANT, UNKNOWN, BUSY, CUTOFFS, ACK] {
        stage.put(kind, &[(SENDER_ID, 6)], &[0; 30]);
    }
    assert_eq!(kinds(&stage.take()), NOTHING);
    // Truncated at every length: a packet that is shorter than its header is dropped.
    for kind in DATA..=ACK {
        let whole = packet(kind, &[(SPORT, PORT), (DPORT, 80), (SENDER_ID, 8)], &[]);
        for len in 0..whole.len() {
            stage.put_from(1, &whole[..len]);
        }
    }
    assert_eq!(kinds(&stage.take()), NOTHING);
    assert_eq!(stage.stack.contexts(), 2);
    assert_eq!(stage.stack.counters().asserts, 0);
}

#[test]
fn incomplete_requests_are_bounded() {
    let mut stage = Testbed::new(&[]);
    for call in 0..20_000u64 {
        begins(&mut stage, (call % 200) as u8 + 1, 2 * call, 1_000_000);
    }
    let c = stage.stack.counters();
    assert_eq!(c.asserts + c.dangling + c.oversize, 0);
    stage.wait(200_000);
    assert_eq!((stage.stack.contexts(), stage.stack.held_bytes()), (1, (0, 0)));
}
