//! Packets that exceed the MTU of a link on their path.

use super::rules::is_remembered;
use super::wire::*;
use super::*;

#[test]
fn a_message_too_long_for_its_path_fails_at_once() {
    calls::ends_for_its_path("homa", [address(0, 0).ip(), address(1, 0).ip()], 1_400);
    let hosts = ["fd00::1", "fd00::2"].map(|host| host.parse().expect("an address"));
    calls::ends_for_its_path("homa", hosts, 1_300);
}

/// Returns the first packets of a message of this many bytes, as frames.
fn frames(stage: &mut Testbed) -> Vec<Vec<u8>> {
    while stage.stack.poll(stage.now, &mut stage.end).expect("a cable") {}
    stage.end.outbound.lock().drain(..).collect()
}

fn put_too_big(stage: &mut Testbed, mtu: u16, frame: &[u8]) {
    stage.end.inbound.lock().push_back(calls::too_big(mtu, frame));
    stage.take();
}

/// Any host can quote a packet with a forged length.
#[test]
fn a_message_that_fits_its_path_goes_on() {
    let mut stage = Testbed::new(&[]);
    let call = stage.call(1_000);
    let mut frame = frames(&mut stage).remove(0);
    frame[2..4].copy_from_slice(&1_500_u16.to_be_bytes());
    put_too_big(&mut stage, 1_076, &frame);
    assert_eq!(stage.end_of(call), None, "1,000 bytes and headers of 76");
    put_too_big(&mut stage, 1_075, &frame);
    assert_eq!(stage.end_of(call), Some(&Notice::Failed(Errno(90))), "EMSGSIZE");
}

/// A reply shows that the request has arrived, so that errors about its copies do not count.
#[test]
fn a_request_that_has_arrived_does_not_end_its_call() {
    let mut stage = Testbed::new(&[]);
    let call = stage.call(3_000);
    let frame = frames(&mut stage).remove(0);
    let number = u64::from_be_bytes(frame[40..48].try_into().expect("eight"));
    let fields = [
        (SENDER_ID, number | 1),
        (MESSAGE_LENGTH, 2_000),
        (INCOMING, 2_000),
        (SEGMENT_OFFSET, 0),
        (DATA_CUTOFF_VERSION, 1),
    ];
    stage.put(DATA, &fields, &[1; 1_000]);
    put_too_big(&mut stage, 1_400, &frame);
    assert_eq!(stage.end_of(call), None);
}

/// A reply that does not fit its path ends once, at its server. The call is not served again.
#[test]
fn a_reply_that_does_not_fit_its_path_ends() {
    let mut stage = Testbed::new(&[]);
    stage.request(1, 1, (0, 1));
    stage.take();
    let (call, _) = stage.accepted();
    assert_eq!(stage.stack.send_message(stage.now, call, &[5; 3_000]), Ok(true));
    let frame = frames(&mut stage).remove(0);
    put_too_big(&mut stage, 1_400, &frame);
    assert_eq!(stage.end_of(call), Some(&Notice::Failed(Errno(90))), "EMSGSIZE");
    put_too_big(&mut stage, 1_300, &frame);
    is_remembered(&mut stage);
    let failed = |(_, notice): &&(Handle, Notice)| matches!(notice, Notice::Failed(_));
    assert_eq!(stage.notices.iter().filter(failed).count(), 1);
}
