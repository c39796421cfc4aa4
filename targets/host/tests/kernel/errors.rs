//! What can be wrong with a device, and what is said about it.

use hawser_host::netns::{Namespace, Netlink};
use hawser_host::{OpenError, PacketOptions, PacketWire, TunOptions, TunWire};

use crate::TestResult;

pub(crate) fn say_what_is_wrong() -> TestResult {
    let packet = |name: &str| PacketWire::open(name, PacketOptions::default()).map(|_| ());
    assert!(matches!(packet("nowhere0"), Err(OpenError::Missing(name)) if name == "nowhere0"));
    assert!(matches!(packet("a-name-too-long-0"), Err(OpenError::Name(_))));
    assert!(matches!(packet(""), Err(OpenError::Name(_))));
    assert!(matches!(packet("lo"), Err(OpenError::Kind { .. })));
    let peer = Namespace::create()?;
    Netlink::open()?.add_veth("cable0", "eth0", &peer)?;
    assert!(matches!(packet("cable0"), Err(OpenError::Down(_))));

    let tun = |name: &str| TunWire::open(name, TunOptions::default());
    assert!(matches!(tun("a-name-too-long-0"), Err(OpenError::Name(_))));
    let first = tun("hawser0")?;
    assert!(matches!(tun("hawser0"), Err(OpenError::Busy(name)) if name == "hawser0"));
    assert!(matches!(tun("cable0"), Err(OpenError::Kind { .. })));
    drop(first);
    Ok(())
}
