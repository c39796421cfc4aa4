//! Packets that exceed the MTU of a link on their path.

use super::calls;
use super::*;

#[test]
fn a_message_too_long_for_its_path_fails_at_once() {
    calls::ends_for_its_path("ndp", [address(0, 0).ip(), address(1, 0).ip()], 1_400);
    let hosts = ["fd00::1", "fd00::2"].map(|host| host.parse().expect("an address"));
    calls::ends_for_its_path("ndp", hosts, 1_300);
}

/// Returns the first packet that has left, as a frame.
fn frame(stage: &mut Testbed) -> Vec<u8> {
    while stage.stack.poll(stage.now, &mut stage.end).expect("a cable") {}
    stage.end.outbound.lock().drain(..).next().expect("a packet")
}

/// Returns whether the call has ended with EMSGSIZE once a router has stated its MTU.
fn ends(stage: &mut Testbed, call: Handle, mtu: u16, frame: &[u8]) -> bool {
    stage.end.inbound.lock().push_back(calls::too_big(mtu, frame));
    stage.take();
    stage.notices.contains(&(call, Notice::Failed(Errno(90))))
}

/// Any host can quote a packet with a forged length.
#[test]
fn a_message_that_fits_its_path_goes_on() {
    let mut stage = Testbed::new(&[]);
    let call = stage.call(1_000);
    let mut frame = frame(&mut stage);
    frame[2..4].copy_from_slice(&1_500_u16.to_be_bytes());
    assert!(
        !ends(&mut stage, call, 1_052, &frame),
        "1,000 bytes and headers of 52"
    );
    assert!(ends(&mut stage, call, 1_051, &frame));
}

/// An acknowledged message has arrived, so that errors about its copies do not count.
#[test]
fn a_message_that_has_arrived_does_not_end_its_call() {
    let mut stage = Testbed::new(&[]);
    let call = stage.call(2 * PART);
    let frame = frame(&mut stage);
    let number = u64::from_be_bytes(frame[28..36].try_into().expect("eight"));
    stage.put((ACK, number | 1, 1, 2));
    assert!(!ends(&mut stage, call, 1_400, &frame));
}

/// A reply that does not fit its path ends once, at its server. The call is not served again.
#[test]
fn a_reply_that_does_not_fit_its_path_ends() {
    let mut stage = Testbed::new(&[]);
    let call = accepted(&mut stage);
    assert_eq!(stage.stack.send_message(stage.now, call, &[1; 5_000]), Ok(true));
    let frame = frame(&mut stage);
    assert!(ends(&mut stage, call, 1_400, &frame));
    ends(&mut stage, call, 1_300, &frame);
    is_remembered(&mut stage);
    let failed = |(_, notice): &&(Handle, Notice)| matches!(notice, Notice::Failed(_));
    assert_eq!(stage.notices.iter().filter(failed).count(), 1);
}
