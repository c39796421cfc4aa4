//! NDP's behaviour, rule by rule, against a peer that the test plays.
//!
//! The numbers come from the paper (Handley et al., SIGCOMM 2017). A sender sends 30 unsolicited packets.
//! PULLs then follow at the rate of the receiver's link, which carries 1,500 bytes in 1.2 us at 10 Gbit/s.

use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Handle, Notice, Stack, StackConfig};
use hawser_testing::internet_checksum;

use super::calls::cable::Cable;
use super::*;

mod flood;
mod path;
mod pulls;

const DATA: u8 = 1;
const ACK: u8 = 2;
const NACK: u8 = 3;
const PULL: u8 = 4;
/// The bytes of data in a packet of 1,500 bytes, without the headers of IPv4 and of the transport.
const PART: u32 = 1_500 - 20 - 32;
const OVER: u32 = 0xffff_ffff;
const UNKNOWN_HOST: u32 = 0xffff_fffd;

/// A packet's kind, call, number and the field after it, then its priority and total length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    kind: u8,
    call: u64,
    number: u32,
    first: u32,
    /// In data, the number of the message's packets that came back to the sender.
    returned: u16,
    /// In answers, the total number of packets that will be pulled.
    promised: u32,
    priority: u8,
    len: usize,
}

struct Testbed {
    stack: Stack,
    end: Cable,
    endpoint: Handle,
    now: Instant,
    notices: Vec<(Handle, Notice)>,
    /// The total number of packets to pull, as the peer states it in its answers.
    promised: u32,
    /// The number of the message's packets that came back, as the peer states it in its data.
    returned: u16,
    /// The number by which the peer shows in its data that it receives.
    proof: u32,
    /// The bytes of each packet of the peer's messages except the last, as it states them.
    segment: u16,
}

impl Testbed {
    fn new(params: &[(&str, u64)]) -> Testbed {
        let params: Vec<_> = params
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        let [mut end, _] = cable(0, 1);
        end.caps.tx_csum = true; // Another test covers checksums.
        let interface =
            InterfaceConfig { addresses: vec![(address(0, 0).ip(), 24)], gateways: vec![], mtu: 1500 };
        let now = Instant::from_nanos(1_000_000_000);
        let program = program("ndp", Engine::Native, &params);
        let mut stack = Stack::new(program, StackConfig::new(interface, 7), end.caps()).expect("good");
        let endpoint = stack.listen(now, address(0, 80), 64).expect("free");
        Testbed {
            stack,
            end,
            endpoint,
            now,
            notices: Vec::new(),
            promised: 0,
            returned: 0,
            proof: 0,
            segment: PART as u16,
        }
    }

    fn call(&mut self, len: u32) -> Handle {
        let call = self
            .stack
            .call(self.now, self.endpoint, address(1, 80), &vec![7; len as usize]);
        call.expect("it is taken").expect("there is room")
    }

    /// Delivers a packet of a host: its kind, the call as that host numbers it, the packet's number and the
    /// field after it. For a data packet, `data` bytes of the whole packet arrive.
    fn put_from(&mut self, host: u8, (kind, call, number, first): (u8, u64, u32, u32), data: Option<u32>) {
        let mut bytes = [0; 32].to_vec();
        bytes[..4].copy_from_slice(&[0, 80, 0, 80]);
        (bytes[4], bytes[5]) = (kind, 30);
        bytes[8..16].copy_from_slice(&call.to_be_bytes());
        bytes[16..20].copy_from_slice(&number.to_be_bytes());
        bytes[20..24].copy_from_slice(&first.to_be_bytes());
        let whole = if kind == DATA {
            bytes[24..26].copy_from_slice(&self.segment.to_be_bytes());
            bytes[26..28].copy_from_slice(&self.returned.to_be_bytes());
            bytes[28..32].copy_from_slice(&self.proof.to_be_bytes());
            PART.min(first.saturating_sub(number.saturating_mul(PART)))
        } else {
            bytes[28..32].copy_from_slice(&self.promised.to_be_bytes());
            0
        };
        bytes.resize(32 + data.unwrap_or(whole) as usize, 9);
        let mut ip = [
            0x45,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            64,
            254,
            0,
            0,
            10,
            0,
            0,
            host + 1,
            10,
            0,
            0,
            1,
        ];
        ip[2..4].copy_from_slice(&(52 + whole as u16).to_be_bytes());
        let sum = internet_checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum);
        self.end.inbound.lock().push_back([&ip, &bytes[..]].concat());
    }

    fn put(&mut self, fields: (u8, u64, u32, u32)) {
        self.put_from(1, fields, None);
    }

    /// Delivers the header of a packet whose data was trimmed.
    fn put_cut(&mut self, fields: (u8, u64, u32, u32)) {
        self.put_from(1, fields, Some(0));
    }

    fn take(&mut self) -> Vec<Packet> {
        while self
            .stack
            .poll(self.now, &mut self.end)
            .expect("a cable does not fail")
        {}
        while let Some(notice) = self.stack.next_notice() {
            self.notices.push(notice);
        }
        let sent: Vec<Vec<u8>> = self.end.outbound.lock().drain(..).collect();
        let word = |b: &[u8], at: usize| u32::from_be_bytes(b[at..at + 4].try_into().expect("four"));
        let packet = |b: Vec<u8>| Packet {
            kind: b[24],
            call: u64::from(word(&b, 28)) << 32 | u64::from(word(&b, 32)),
            number: word(&b, 36),
            first: word(&b, 40),
            returned: word(&b, 44) as u16,
            promised: word(&b, 48),
            priority: b[1] >> 5,
            len: b.len(),
        };
        sent.into_iter().map(packet).collect()
    }

    /// Returns the packets that the stack sends within this many nanoseconds, and their times.
    fn wait(&mut self, nanos: u64) -> Vec<(u64, Packet)> {
        let start = self.now.as_nanos();
        let until = Instant::from_nanos(start + nanos);
        let mut sent: Vec<_> = self.take().into_iter().map(|packet| (0, packet)).collect();
        while let Some(next) = self.stack.next_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            let after = self.now.as_nanos() - start;
            sent.extend(self.take().into_iter().map(|packet| (after, packet)));
        }
        self.now = until;
        sent
    }

    /// Starts a call of this many packets and lets its first window leave. Returns its number as the peer has
    /// it.
    fn sending(&mut self, packets: u32) -> u64 {
        self.call(packets * PART);
        let sent = self.take();
        assert_eq!(numbers(&sent), (0..packets.min(30)).collect::<Vec<_>>());
        sent[0].call | 1
    }
}

fn numbers(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(|packet| packet.number).collect()
}

fn kinds(packets: &[Packet]) -> Vec<(u8, u32)> {
    packets
        .iter()
        .map(|packet| (packet.kind, packet.number))
        .collect()
}

const NOTHING: [(u8, u32); 0] = [];

#[test]
fn a_sender_begins_with_a_window_and_goes_on_when_it_is_pulled() {
    let mut stage = Testbed::new(&[]);
    let id = stage.sending(40);
    stage.put((ACK, id, 0, 1));
    assert_eq!(
        kinds(&stage.take()),
        NOTHING,
        "an acknowledgement releases nothing"
    );
    stage.put((PULL, id, 1, 0));
    assert_eq!(kinds(&stage.take()), [(DATA, 30)]);
    stage.put((PULL, id, 4, 0));
    assert_eq!(
        kinds(&stage.take()),
        [(DATA, 31), (DATA, 32), (DATA, 33)],
        "two PULLs were lost"
    );
    stage.put((PULL, id, 3, 0));
    assert_eq!(kinds(&stage.take()), NOTHING, "a late one");
    stage.put((PULL, id, 0xffff_ffff, 0));
    assert_eq!(
        numbers(&stage.take()),
        (34..40).collect::<Vec<_>>(),
        "no more than there is"
    );
}

#[test]
fn a_refused_packet_goes_first_and_once_when_it_is_pulled() {
    let mut stage = Testbed::new(&[]);
    let id = stage.sending(40);
    stage.put((NACK, id, 5, 0));
    stage.put((NACK, id, 3, 0));
    stage.put((NACK, id, 5, 0));
    stage.put((NACK, id, 30, 0)); // never sent
    assert_eq!(kinds(&stage.take()), NOTHING);
    stage.put((PULL, id, 3, 0));
    assert_eq!(kinds(&stage.take()), [(DATA, 5), (DATA, 3), (DATA, 30)]);
}

/// A PULL that overtakes earlier refusals releases the refused packets as the refusals arrive, but no more
/// than it pulled.
#[test]
fn a_pull_that_overtakes_a_refusal_is_not_lost() {
    let mut stage = Testbed::new(&[]);
    let id = stage.sending(20);
    stage.put((PULL, id, 2, 0));
    assert_eq!(kinds(&stage.take()), NOTHING, "all has been sent");
    stage.put((NACK, id, 7, 0));
    assert_eq!(kinds(&stage.take()), [(DATA, 7)]);
    stage.put((NACK, id, 8, 0));
    stage.put((NACK, id, 9, 0));
    assert_eq!(kinds(&stage.take()), [(DATA, 8)]);
    stage.put((PULL, id, 3, 0));
    assert_eq!(kinds(&stage.take()), [(DATA, 9)]);
}

#[test]
fn a_header_without_its_data_is_refused_and_pulled() {
    let mut stage = Testbed::new(&[]);
    let len = 40 * PART;
    stage.put((DATA, 8, 0, len));
    let sent = stage.take();
    assert_eq!(kinds(&sent), [(ACK, 0), (PULL, 1)]);
    assert_eq!(
        (sent[0].call, sent[0].first, sent[0].priority, sent[1].priority),
        (9, 1, 7, 7)
    );
    stage.put_cut((DATA, 8, 2, len));
    stage.wait(1_000);
    let sent: Vec<_> = stage.wait(2_000).into_iter().map(|(_, packet)| packet).collect();
    assert_eq!(kinds(&sent), [(PULL, 2)], "not before the link has had its time");
    stage.put((DATA, 8, 0, len));
    assert_eq!(
        kinds(&stage.take()),
        [(ACK, 0)],
        "a copy is acknowledged and pulls nothing"
    );
    stage.put_cut((DATA, 8, 0, len));
    assert_eq!(kinds(&stage.take()), NOTHING, "it has come before");
}

#[test]
fn pulls_equal_the_packets_left_to_request() {
    let mut stage = Testbed::new(&[("URGENT", 0)]);
    let len = 32 * PART;
    for number in 0..30 {
        stage.put((DATA, 8, number, len));
    }
    let pulls = stage.wait(100_000).iter().filter(|(_, p)| p.kind == PULL).count();
    assert_eq!(pulls, 2, "30 came unasked");
    stage.put_cut((DATA, 8, 30, len));
    let pulls = stage.wait(100_000).iter().filter(|(_, p)| p.kind == PULL).count();
    assert_eq!(pulls, 1, "one more for the one that was cut");
}

#[test]
fn all_senders_share_the_pace_of_the_receivers_link() {
    let mut stage = Testbed::new(&[("URGENT", 0)]);
    for host in 1..=5 {
        for number in 0..4 {
            stage.put_from(host, (DATA, 8, number, 500 * PART), None);
        }
    }
    let sent = stage.wait(100_000);
    let times: Vec<u64> = sent
        .iter()
        .filter(|(_, p)| p.kind == PULL)
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(times.len(), 20);
    assert!(
        times
            .windows(2)
            .all(|pair| (1_190..=1_210).contains(&(pair[1] - pair[0]))),
        "{times:?}"
    );
}

#[test]
fn pulls_of_a_short_message_precede_those_of_long_ones() {
    let mut stage = Testbed::new(&[]);
    for number in 0..20 {
        stage.put_from(1, (DATA, 8, number, 500 * PART), None);
    }
    for number in 0..4 {
        stage.put_from(2, (DATA, 6, number, 60 * PART), None);
    }
    let sent = stage.wait(30_000);
    let pulls: Vec<u64> = sent
        .iter()
        .filter(|(_, p)| p.kind == PULL)
        .map(|(_, p)| p.call)
        .collect();
    let last_short = pulls.iter().rposition(|call| *call == 7).expect("some");
    assert!(last_short <= 5, "{pulls:?}");
    assert_eq!(pulls.iter().filter(|call| **call == 7).count(), 4);
}

#[test]
fn a_packet_that_was_sent_back_goes_again() {
    let mut stage = Testbed::new(&[]);
    let id = stage.sending(2);
    // A switch only exchanges the addresses. When all packets have come back, the receiver knows no call.
    stage.put_cut((DATA, id & !1, 1, 2 * PART));
    assert_eq!(kinds(&stage.take()), NOTHING, "the other one may have arrived");
    stage.put_cut((DATA, id & !1, 0, 2 * PART));
    assert_eq!(kinds(&stage.take()), [(DATA, 1)]);
    stage.put((ACK, id, 1, 0));
    assert_eq!(kinds(&stage.take()), [(DATA, 0)], "there is room");
    let mut stage = Testbed::new(&[]);
    let id = stage.sending(2);
    stage.promised = 1;
    stage.put((NACK, id, 0, 0));
    stage.put_cut((DATA, id & !1, 1, 2 * PART));
    assert_eq!(kinds(&stage.take()), NOTHING, "it would meet the same queue");
    stage.put((PULL, id, 1, 0));
    let again = stage.take();
    assert_eq!(kinds(&again), [(DATA, 0)]);
    assert_eq!(again[0].returned, 1, "the receiver pulls it");
    stage.promised = 2;
    stage.put((ACK, id, 0, 1));
    assert_eq!(kinds(&stage.take()), NOTHING, "the PULL is to come");
    stage.put((PULL, id, 2, 0));
    assert_eq!(kinds(&stage.take()), [(DATA, 1)]);
    // A receiver that does not know of the returned packet pulls no more. The packet leaves without a PULL
    // when no other is under way.
    let mut stage = Testbed::new(&[]);
    let id = stage.sending(3);
    stage.put_cut((DATA, id & !1, 2, 3 * PART));
    stage.put((ACK, id, 0, 1));
    assert_eq!(kinds(&stage.take()), NOTHING, "packet 1 is under way");
    stage.put((ACK, id, 1, 2));
    assert_eq!(kinds(&stage.take()), [(DATA, 2)]);
    assert_eq!(stage.stack.contexts(), 2, "the endpoint and the call");
}

/// The receiver pulls the packets that came back to its senders, at most one more for each arriving packet,
/// whatever number it states.
#[test]
fn packets_returned_to_their_sender_are_pulled() {
    let mut stage = Testbed::new(&[]);
    stage.returned = 3;
    let mut asked = Vec::new();
    for number in 0..4 {
        stage.put((DATA, 8, number, 20 * PART));
        let sent = stage.wait(10_000);
        asked.push(sent.iter().filter(|(_, p)| p.kind == PULL).count());
        let answer = sent.iter().find(|(_, p)| p.kind == ACK).expect("an answer");
        assert_eq!(answer.1.promised as usize, asked.iter().sum::<usize>());
    }
    assert_eq!(asked, [2, 1, 0, 0]);
    stage.returned = u16::MAX;
    for number in 4..8 {
        stage.put((DATA, 8, number, 20 * PART));
        let sent = stage.wait(10_000);
        assert_eq!(sent.iter().filter(|(_, p)| p.kind == PULL).count(), 2);
    }
}

#[test]
fn unanswered_packets_are_retried_with_backoff_until_failure() {
    let mut stage = Testbed::new(&[]);
    let call = stage.call(2 * PART);
    stage.take();
    let times: Vec<u64> = stage
        .wait(4_999_000_000)
        .iter()
        .map(|(at, _)| *at / 1_000_000)
        .collect();
    assert_eq!(times[..8], [5, 5, 15, 15, 35, 35, 75, 75]);
    stage.wait(2_000_000_000);
    assert!(
        stage.notices.contains(&(call, Notice::Failed(Errno(110)))),
        "ETIMEDOUT"
    );
    assert_eq!((stage.stack.contexts(), stage.stack.held_bytes()), (1, (0, 0)));
}

#[test]
fn a_receiver_requests_missing_packets() {
    let mut stage = Testbed::new(&[]);
    stage.put((DATA, 8, 1, 3 * PART));
    stage.take();
    let sent = stage.wait(5_000_000);
    let sent: Vec<_> = sent.into_iter().map(|(_, packet)| packet).collect();
    assert_eq!(kinds(&sent), [(NACK, 0), (PULL, 1)]);
}

#[test]
fn an_unwanted_reply_ends_at_its_server() {
    let mut stage = Testbed::new(&[]);
    stage.put((DATA, 9, 0, 10)); // of a call that this host never made or that has ended
    let sent = stage.take();
    assert_eq!((kinds(&sent), sent[0].first), (vec![(ACK, 0)], OVER));
    let call = accepted(&mut stage);
    assert_eq!(stage.stack.send_message(stage.now, call, &[1; 5_000]), Ok(true));
    assert_eq!(stage.take().len(), 4);
    stage.put((ACK, 8, 0, OVER));
    stage.take();
    assert!(stage.notices.contains(&(call, Notice::Closed)));
    // Late copies of the request are answered but not served again, until the call is forgotten.
    is_remembered(&mut stage);
    stage.stack.release(call);
    stage.wait(19_900_000);
    is_remembered(&mut stage);
    stage.wait(100_000);
    assert_eq!(stage.stack.contexts(), 1);
}

/// Checks that only the end of call 8 answers its late packets. Its request of one packet was served, and is
/// not served again.
fn is_remembered(stage: &mut Testbed) {
    stage.put_cut((DATA, 8, 0, 10));
    stage.put((NACK, 8, 0, 0));
    stage.put((PULL, 8, 1, 0));
    stage.put((ACK, 8, 0, 1));
    assert_eq!(kinds(&stage.take()), NOTHING);
    stage.put((DATA, 8, 0, 10));
    let sent = stage.take();
    assert_eq!((kinds(&sent), sent[0].first), (vec![(ACK, 0)], OVER));
    let accepted = |(_, notice): &&(Handle, Notice)| matches!(notice, Notice::Accepted(_));
    assert_eq!(stage.notices.iter().filter(accepted).count(), 1);
    assert_eq!((stage.stack.contexts(), stage.stack.held_bytes()), (2, (0, 0)));
}

/// Returns the call that the stack accepted, whose request of 10 bytes it has read.
fn accepted(stage: &mut Testbed) -> Handle {
    stage.put((DATA, 8, 0, 10));
    stage.take();
    let accepted = stage.notices.iter().find_map(|(_, notice)| match notice {
        Notice::Accepted(call) => Some(*call),
        _ => None,
    });
    let call = accepted.expect("a call was accepted");
    stage.stack.accept(stage.endpoint);
    let mut request = Vec::new();
    assert_eq!(stage.stack.recv_message(stage.now, call, &mut request), Ok(true));
    call
}

#[test]
fn an_abandoned_reply_is_not_restarted() {
    let mut stage = Testbed::new(&[]);
    let call = accepted(&mut stage);
    assert_eq!(stage.stack.send_message(stage.now, call, &[1; 10]), Ok(true));
    stage.wait(4_999_000_000);
    assert!(!stage.notices.contains(&(call, Notice::Failed(Errno(110)))));
    stage.wait(1_000_000);
    assert!(
        stage.notices.contains(&(call, Notice::Failed(Errno(110)))),
        "ETIMEDOUT"
    );
    is_remembered(&mut stage);
    // The client is gone 5 s after the last packet that it can have received, and all its packets are gone 20
    // ms later.
    stage.wait(5_019_900_000);
    is_remembered(&mut stage);
    stage.wait(100_000);
    assert_eq!(stage.stack.contexts(), 1);
}

#[test]
fn a_call_closed_without_a_reply_fails_at_its_client() {
    let mut stage = Testbed::new(&[]);
    let call = accepted(&mut stage);
    stage.stack.close(stage.now, call);
    stage.take();
    is_remembered(&mut stage);
    assert!(stage.stack.send_message(stage.now, call, b"too late").is_err());
    let mut stage = Testbed::new(&[]);
    let call = stage.call(10);
    let id = stage.take()[0].call | 1;
    stage.put((ACK, id, 0, OVER));
    stage.take();
    assert!(
        stage.notices.contains(&(call, Notice::Failed(Errno(104)))),
        "ECONNRESET"
    );
    assert_eq!(stage.stack.contexts(), 1);
}

#[test]
fn first_windows_to_one_host_share_a_bound() {
    let mut stage = Testbed::new(&[]);
    let begun = |sent: &[Packet]| -> Vec<(u64, usize)> {
        let mut counts: Vec<(u64, usize)> = Vec::new();
        for packet in sent.iter().filter(|packet| packet.kind == DATA) {
            match counts.last_mut().filter(|(call, _)| *call == packet.call) {
                Some((_, count)) => *count += 1,
                None => counts.push((packet.call, 1)),
            }
        }
        counts
    };
    // Two windows of 30 packets may be unanswered. Later messages wait in order, even one that would fit.
    for packets in [40, 20, 30, 2, 8, 300] {
        stage.call(packets * PART);
    }
    let sent = begun(&stage.take());
    let first = sent[0].0;
    let call = |number: u64| first + 2 * number;
    assert_eq!(sent, [(call(0), 30), (call(1), 20)]);
    assert_eq!(kinds(&stage.take()), NOTHING);
    // Another host has its own limit.
    let other = stage
        .stack
        .call(stage.now, stage.endpoint, address(2, 80), &[1; 10]);
    other.expect("it is taken").expect("there is room");
    assert_eq!(begun(&stage.take()), [(call(6), 1)]);
    // With the first answer, the 20 packets of the second message no longer count, so that the third has
    // room. No packet is counted twice.
    stage.put((ACK, call(1) | 1, 0, 1));
    stage.put((ACK, call(1) | 1, 1, 2));
    assert_eq!(begun(&stage.take()), [(call(2), 30)]);
    // A refusal is an answer, too.
    stage.put((NACK, call(2) | 1, 0, 0));
    assert_eq!(begun(&stage.take()), [(call(3), 2), (call(4), 8)]);
    // The reply and the end of a call are answers, too.
    stage.put((DATA, call(3) | 1, 0, 10));
    assert_eq!(begun(&stage.take()), []);
    stage.put((ACK, call(0) | 1, 0, OVER));
    assert_eq!(begun(&stage.take()), [(call(5), 30)]);
}

/// Any host can begin calls and never acknowledge their replies.
#[test]
fn unresponsive_hosts_do_not_delay_other_hosts() {
    let mut stage = Testbed::new(&[]);
    let mut call = |host: u8, len: usize| {
        let called = stage
            .stack
            .call(stage.now, stage.endpoint, address(host, 80), &vec![1; len]);
        let taken = called.expect("it is taken").is_some();
        (
            taken,
            stage.take().iter().filter(|packet| packet.kind == DATA).count(),
        )
    };
    // 60 packets are on their way to each host, and 128 messages wait for it; further calls are refused. Once
    // no more messages can wait, messages begin at once.
    let taken = [1, 2, 3].map(|host| (0..300).filter(|_| call(host, 10).0).count());
    assert_eq!(taken, [188, 188, 300]);
    assert_eq!(call(1, 10), (false, 0), "a crowd waits for it");
    assert_eq!(call(4, 10), (true, 1), "another host is not concerned");
}

#[test]
fn messages_waiting_for_a_dead_host_fail_with_the_others() {
    let begin = || {
        let mut stage = Testbed::new(&[]);
        let calls: Vec<Handle> = (0..12).map(|_| stage.call(10 * PART)).collect();
        let sent = stage.take();
        assert_eq!(sent.len(), 60);
        (stage, calls, sent[0].call | 1)
    };
    let failed = |stage: &Testbed, calls: &[Handle]| -> Vec<bool> {
        let failed = |call: &Handle| stage.notices.contains(&(*call, Notice::Failed(Errno(110))));
        calls.iter().map(failed).collect()
    };
    let (mut stage, calls, _) = begin();
    stage.wait(4_999_000_000);
    assert_eq!(failed(&stage, &calls), [false; 12]);
    stage.wait(1_000_000);
    assert_eq!(failed(&stage, &calls), [true; 12], "ETIMEDOUT");
    assert_eq!((stage.stack.contexts(), stage.stack.held_bytes()), (1, (0, 0)));
    // An answer to another message shows that the host is alive.
    let (mut stage, calls, first) = begin();
    stage.wait(3_000_000_000);
    stage.put((ACK, first, 0, 1));
    stage.wait(2_000_000_000);
    let expected: Vec<bool> = (0..12).map(|call| (1..6).contains(&call)).collect();
    assert_eq!(failed(&stage, &calls), expected);
}

#[test]
fn a_message_that_is_too_long_ends_at_both_ends() {
    const TOO_LONG: u32 = 0xffff_fffe;
    let mut stage = Testbed::new(&[]);
    stage.put_from(1, (DATA, 8, 0, 1_000_001), Some(PART));
    let sent = stage.take();
    assert_eq!((kinds(&sent), sent[0].first), (vec![(ACK, 0)], TOO_LONG));
    assert_eq!(stage.stack.contexts(), 1);
    let id = stage.sending(40);
    stage.put((ACK, id, 0, TOO_LONG));
    stage.take();
    let failed = Notice::Failed(Errno(90));
    assert!(
        stage.notices.iter().any(|(_, notice)| *notice == failed),
        "EMSGSIZE"
    );
}

#[test]
fn malformed_packets_are_dropped() {
    let mut stage = Testbed::new(&[]);
    for (fields, data) in [
        ((DATA, 8, 0, 0), Some(1)),                  // a message of no bytes
        ((DATA, 8, 5, 5 * PART), Some(1)),           // beyond its end
        ((DATA, 8, 0xffff_ffff, 5 * PART), Some(1)), // far beyond it
        ((0, 8, 0, 5), None),                        // unknown kinds
        ((5, 8, 0, 5), None),
        ((ACK, 8, 0, 5), None), // of an unknown call
        ((NACK, 8, 0, 5), None),
        ((PULL, 8, 9, 5), None),
    ] {
        stage.put_from(1, fields, data);
        assert_eq!(kinds(&stage.take()), NOTHING, "{fields:?}");
        assert_eq!(stage.stack.contexts(), 1, "{fields:?}");
    }
    let id = stage.sending(40);
    stage.put((ACK, id, 30, 0)); // never sent
    stage.put((ACK, id, 0, 31));
    stage.put((PULL, id, 1, 0));
    assert_eq!(kinds(&stage.take()), [(DATA, 30)]);
    assert_eq!(stage.stack.counters().asserts, 0);
}

#[test]
fn each_packet_takes_another_path() {
    let mut stage = Testbed::new(&[]);
    let interface = InterfaceConfig {
        addresses: vec![("fd00::1".parse().expect("an address"), 64)],
        gateways: vec![],
        mtu: 1500,
    };
    let program = program("ndp", Engine::Native, &[]);
    let config = StackConfig::new(interface, 7);
    let mut stack = Stack::new(program, config, stage.end.caps()).expect("good");
    let endpoint = stack
        .listen(stage.now, "[fd00::1]:80".parse().expect("an address"), 64)
        .expect("free");
    let peer = "[fd00::2]:80".parse().expect("an address");
    let call = stack.call(stage.now, endpoint, peer, &[1; 40_000]);
    call.expect("it is taken").expect("there is room");
    while stack
        .poll(stage.now, &mut stage.end)
        .expect("a cable does not fail")
    {}
    let sent = stage.end.outbound.lock();
    let labels: std::collections::BTreeSet<[u8; 3]> = sent
        .iter()
        .map(|packet| [packet[1] & 0xf, packet[2], packet[3]])
        .collect();
    assert!(sent.len() >= 28 && labels.len() == sent.len(), "{labels:?}");
}

/// `RTO` is the minimum. The first answer to a packet that was sent once gives the round-trip time.
/// Unanswered packets are sent again after three of them.
#[test]
fn the_first_answer_shows_how_long_to_wait() {
    let mut stage = Testbed::new(&[]);
    let id = stage.sending(2);
    assert_eq!(stage.wait(4_000_000), []);
    stage.put((ACK, id, 0, 1));
    let again: Vec<_> = stage
        .wait(20_000_000)
        .iter()
        .map(|(at, p)| (*at, p.kind, p.number))
        .collect();
    assert_eq!(again, [(12_000_000, DATA, 1)]);
}

/// A full reply to a host without the port ends its call. A trimmed one gets no answer, because no data of it
/// has arrived.
#[test]
fn a_trimmed_reply_to_a_closed_port_gets_no_answer() {
    let mut stage = Testbed::new(&[]);
    stage.stack.close(stage.now, stage.endpoint);
    stage.take();
    stage.put_cut((DATA, 9, 0, 10));
    assert_eq!(kinds(&stage.take()), NOTHING);
    stage.put((DATA, 9, 0, 10));
    let sent = stage.take();
    assert_eq!((kinds(&sent), sent[0].first), (vec![(ACK, 0)], OVER));
}

/// A call that its application aborts without a reply is forgotten and may come again. A call whose reply had
/// begun is remembered.
#[test]
fn an_aborted_call_is_remembered_when_its_reply_had_begun() {
    let mut stage = Testbed::new(&[]);
    let call = accepted(&mut stage);
    stage.stack.abort(stage.now, call);
    stage.take();
    assert_eq!(stage.stack.contexts(), 1, "the endpoint");
    let mut stage = Testbed::new(&[]);
    let call = accepted(&mut stage);
    assert_eq!(stage.stack.send_message(stage.now, call, &[1; 5_000]), Ok(true));
    stage.take();
    stage.stack.abort(stage.now, call);
    stage.take();
    assert_eq!(stage.stack.contexts(), 2);
}

/// After silence, the sender repeats packets that were neither acknowledged nor refused. Refused packets wait
/// for their PULL. One of them is sent if the receiver gives no sign for a fifth of `TIMEOUT`.
#[test]
fn silence_does_not_repeat_refused_packets() {
    let mut stage = Testbed::new(&[]);
    let id = stage.sending(3);
    stage.promised = 1;
    stage.put((NACK, id, 0, 0));
    stage.put((ACK, id, 1, 0));
    let again = stage.wait(900_000_000);
    assert!(
        !again.is_empty() && again.iter().all(|(_, p)| (p.kind, p.number) == (DATA, 2)),
        "{again:?}"
    );
    stage.put((ACK, id, 2, 0));
    let (at, first) = stage.wait(3_000_000_000)[0];
    assert_eq!((first.kind, first.number), (DATA, 0));
    assert!(at >= 1_000_000_000, "{at}");
}

/// Ten PULLs of 1.2 ms each leave before the receiver takes silence for a loss, 5 ms after the last of them.
#[test]
fn a_receiver_with_unsent_pulls_requests_no_packets() {
    let mut stage = Testbed::new(&[("LINK_RATE", 10_000_000), ("URGENT", 0)]);
    for number in 0..10 {
        stage.put((DATA, 8, number, 40 * PART));
    }
    let asked = stage.wait(30_000_000);
    let first = asked
        .iter()
        .find(|(_, p)| p.kind == NACK)
        .expect("it asks in the end");
    assert_eq!(first.0, 12_000_000 + 5_000_000);
    let pulls = asked.iter().filter(|(at, p)| p.kind == PULL && *at <= 12_000_000);
    assert_eq!(pulls.count(), 10);
}
