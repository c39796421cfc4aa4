//! What can be wrong with a device, and the error then.

use hawser_host::netns::{Namespace, Netlink};
use hawser_host::{OpenError, PacketOptions, PacketWire, TunOptions, TunWire};

use crate::TestResult;

fn packet(name: &str) -> Result<(), OpenError> {
    PacketWire::open(name, PacketOptions::default()).map(drop)
}

pub(crate) fn of_packet_sockets() -> TestResult {
    assert!(matches!(packet("nowhere0"), Err(OpenError::Missing(name)) if name == "nowhere0"));
    assert!(matches!(packet("a-name-too-long-0"), Err(OpenError::Name(_))));
    assert!(matches!(packet(""), Err(OpenError::Name(_))));
    assert!(matches!(packet("lo"), Err(OpenError::Kind { .. })));
    let peer = Namespace::create()?;
    Netlink::open()?.add_veth("cable0", "eth0", &peer)?;
    assert!(matches!(packet("cable0"), Err(OpenError::Down(_))));
    Ok(())
}

pub(crate) fn of_tun_devices() -> TestResult {
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

/// Outside of a namespace of one's own, a packet socket takes a capability. Nothing is shown by a
/// process that has it.
pub(crate) fn permission() -> TestResult {
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
