//! Packets that are longer than a link of their path takes.

use super::*;

/// RFC 1191, 4: a router that does not forward a packet quotes it and states the MTU of the next link, here 1,400 bytes.
#[test]
fn a_message_whose_packets_a_router_finds_too_long_ends_at_once() {
    let mut stage = Stage::new(&[]);
    let call = stage.call(3_000);
    while stage.stack.poll(stage.now, &mut stage.end).expect("a cable") {}
    let frame = stage.end.outbound.lock().pop_front().expect("a packet");
    assert_eq!(frame.len(), 1_500);
    let too_long = |mtu: u16| {
        let [high, low] = mtu.to_be_bytes();
        let mut icmp = [&[3, 4, 0, 0, 0, 0, high, low], &frame[..64]].concat();
        let sum = internet_checksum(&[&icmp]);
        icmp[2..4].copy_from_slice(&sum);
        let mut ip = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1];
        ip[2..4].copy_from_slice(&(20 + icmp.len() as u16).to_be_bytes());
        let sum = internet_checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum);
        [&ip, &icmp[..]].concat()
    };
    let failed = |stage: &Stage| {
        let is_failure =
            |(of, notice): &&(Handle, Notice)| *of == call && *notice == Notice::Failed(Errno(90));
        stage.notices.iter().any(|notice| is_failure(&notice))
    };
    stage.end.inbound.lock().push_back(too_long(1_500));
    stage.take();
    assert!(!failed(&stage), "its packets are as long as that");
    stage.end.inbound.lock().push_back(too_long(1_400));
    stage.take();
    assert!(failed(&stage), "EMSGSIZE");
    // The next message to this host is cut to what its path takes.
    stage.call(3_000);
    let lens: Vec<usize> = stage.take().iter().map(|packet| packet.len).collect();
    assert_eq!(lens, [1_400, 1_400, 356]);
}
