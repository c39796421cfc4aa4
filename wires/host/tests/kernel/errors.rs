//! Faults of a device, and the resulting errors.

use std::time::Duration;

use hawser_engine::wire::Wire;
use hawser_host::netns::{Namespace, Netlink};
use hawser_host::packet::Receive;
use hawser_host::{Interface, OpenError, PacketOptions, PacketWire, TunOptions, TunWire};

use crate::TestResult;

fn packet(name: &str) -> Result<(), OpenError> {
    PacketWire::open(name, PacketOptions::default()).map(drop)
}

pub(crate) fn opening_an_invalid_packet_device_fails() -> TestResult {
    assert!(matches!(packet("nowhere0"), Err(OpenError::Missing(name)) if name == "nowhere0"));
    assert!(matches!(packet("a-name-too-long-0"), Err(OpenError::Name(_))));
    assert!(matches!(packet(""), Err(OpenError::Name(_))));
    assert!(matches!(packet("lo"), Err(OpenError::Kind { .. })));
    let peer = Namespace::create()?;
    Netlink::open()?.add_veth("cable0", "eth0", &peer)?;
    assert!(matches!(packet("cable0"), Err(OpenError::Down(_))));
    Ok(())
}

/// A server must not wait for ever for frames of an interface that was removed.
pub(crate) fn receiving_on_a_removed_interface_fails() -> TestResult {
    for receive in [Receive::Buffer, Receive::Ring] {
        let peer = Namespace::create()?;
        let mut netlink = Netlink::open()?;
        netlink.add_veth("cable0", "eth0", &peer)?;
        netlink.bring_up("cable0")?;
        let options = PacketOptions { receive, ..PacketOptions::default() };
        let mut wire = PacketWire::open("cable0", options)?;
        let speed = Interface::line_rate("cable0");
        assert_eq!(
            speed,
            Some(10_000_000_000),
            "what the kernel's veth driver states"
        );
        // An interface that is down still exists.
        netlink.take_down("cable0")?;
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(110));
            assert_eq!(wire.receive(8)?, 0);
        }
        netlink.remove("cable0")?;
        std::thread::sleep(Duration::from_millis(110));
        let error = wire.receive(8).expect_err("it is gone");
        assert_eq!(error.to_string(), "the interface 'cable0' was removed");
    }
    Ok(())
}

pub(crate) fn opening_an_invalid_tun_device_fails() -> TestResult {
    let tun = |name: &str| TunWire::open(name, TunOptions::default());
    assert!(matches!(tun("a-name-too-long-0"), Err(OpenError::Name(_))));
    let first = tun("hawser0")?;
    assert!(matches!(tun("hawser0"), Err(OpenError::Busy(name)) if name == "hawser0"));
    let peer = Namespace::create()?;
    Netlink::open()?.add_veth("cable0", "eth0", &peer)?;
    assert!(matches!(tun("cable0"), Err(OpenError::Kind { .. })));
    drop(first);
    Ok(())
}

/// Outside a user namespace, a packet socket needs a capability. In a process that has it, the test passes
/// without a check.
pub(crate) fn a_packet_socket_needs_permission() -> TestResult {
    match packet("lo") {
        Err(error @ OpenError::Permission { .. }) => {
            let text = error.to_string();
            assert!(text.contains("CAP_NET_RAW") && text.contains("unshare"), "{text}");
            Ok(())
        }
        Err(OpenError::Kind { .. }) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}
