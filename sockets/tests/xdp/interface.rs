//! Unusual interfaces: one with a large MTU, and one that disappears.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use hawser_sockets::host::netns::Netlink;

use crate::polled;
use crate::testbed::{DEVICE, KERNEL_END, TestResult, Testbed, hawser_v4};

/// With an MTU of 9000 bytes a segment takes three buffers.
pub(crate) fn jumbo_frames_carry_streams(stage: &Testbed) -> TestResult {
    let mut netlink = Netlink::open()?;
    for name in [KERNEL_END, DEVICE] {
        netlink.set_mtu(name, 9000)?;
    }
    polled::linux_echoes_our_data(stage)?;
    polled::our_stack_echoes_data_of_linux(stage)?;
    let counters = netlink.interface_counters(KERNEL_END)?;
    // One acknowledgment follows two packets of 9000 bytes; with an MTU of 1500 bytes no packet is larger
    // than 1514.
    for (bytes, frames) in [
        (counters.sent_bytes, counters.sent),
        (counters.received_bytes, counters.received),
    ] {
        assert!(bytes / frames > 3000, "{frames} frames have {bytes} bytes");
    }
    Ok(())
}

pub(crate) fn an_idle_stack_ends_with_its_interface(stage: &Testbed) -> TestResult {
    let mut endpoint = stage.endpoint(&[])?;
    endpoint.listen(SocketAddr::new(hawser_v4(), 80), 1)?;
    while endpoint.poll()? {}
    assert!(
        Command::new("ip")
            .args(["link", "delete", DEVICE])
            .status()?
            .success()
    );
    let begin = Instant::now();
    let error = loop {
        if let Err(error) = endpoint.wait(None).and_then(|()| endpoint.poll()) {
            break error;
        }
        assert!(begin.elapsed() < Duration::from_secs(2), "nothing was noticed");
    };
    assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
    Ok(())
}
