//! Unsuitable devices, and the resulting errors.

use hawser_dpdk::{DpdkWire, OpenError};
use hawser_engine::wire::{TxFrame, Wire};
use hawser_host::OpenError as InterfaceError;
use hawser_host::netns::{Namespace, Netlink};
use hawser_testing::TestResult;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

fn refused(device: &str) -> TestResult<OpenError> {
    Ok(DpdkWire::open(device).err().ok_or(format!("`{device}` opens"))?)
}

pub(crate) fn an_invalid_device_name_is_reported() -> TestResult {
    for device in [
        "",
        ",",
        "bus=vdev",
        "class=eth",
        "net_ring0 net_ring1",
        "net_ring0\n",
        "n\0t",
        "netz_ß0",
    ] {
        assert!(matches!(refused(device)?, OpenError::Name(name) if name == device));
    }
    Ok(())
}

pub(crate) fn the_error_includes_the_message_of_dpdk() -> TestResult {
    let messages = [
        ("net_bogus0", "net_bogus0"),
        ("0000:99:00.0", "Cannot find device"),
        ("net_af_packet77,iface=nowhere0", "No such device"),
        (
            "net_af_packet77,iface=nowhere0",
            "the interface 'nowhere0' does not exist",
        ),
        ("net_af_packet77", "append iface=NAME"),
        ("net_bogus0", "no driver of this DPDK"),
    ];
    for (device, message) in messages {
        let error = refused(device)?;
        assert!(matches!(error, OpenError::Probe { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(device) && text.contains(message), "{text}");
    }
    Ok(())
}

/// The thread lacks a capability, and the error names it.
pub(crate) fn a_missing_capability_is_named() -> TestResult {
    let mut sets = capabilities(None)?;
    sets.effective = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    let error = refused("net_af_packet79,iface=lo")?.to_string();
    assert!(
        error.contains("CAP_NET_RAW") && error.contains("unshare"),
        "{error}"
    );
    DpdkWire::open("net_ring79")?;
    Ok(())
}

/// The test asks for more queues than the driver was given.
pub(crate) fn a_port_of_one_queue_has_no_second() -> TestResult {
    Netlink::open()?.bring_up("lo")?;
    let device = "net_af_packet78,iface=lo";
    let error = DpdkWire::open_queues(device, &[], 2).err().ok_or("it opens")?;
    let is_named = matches!(error, OpenError::Queues { queues: 1, wanted: 2, .. });
    assert!(is_named && error.to_string().contains("qpairs"), "{error}");
    Ok(())
}

/// A second port on a device is refused, and the first one continues.
pub(crate) fn a_device_in_use_stays() -> TestResult {
    let mut open = DpdkWire::open("net_ring77")?;
    let error = refused("net_ring77")?;
    assert!(
        matches!(&error, OpenError::Busy(name) if name == "net_ring77"),
        "{error}"
    );
    let frame = TxFrame { head: vec![0; 60], ..TxFrame::default() };
    assert_eq!(open.transmit(&[frame])?, 1);
    assert_eq!(open.receive(64)?, 1);
    drop(open);
    DpdkWire::open("net_ring77")?;
    Ok(())
}

pub(crate) fn an_interface_that_is_down_is_named() -> TestResult {
    let mut netlink = Netlink::open()?;
    netlink.add_veth("down0", "down1", &Namespace::current()?)?;
    let error = refused("net_af_packet78,iface=down0")?;
    assert!(
        matches!(&error, OpenError::Interface(InterfaceError::Down(name)) if name == "down0"),
        "{error}"
    );
    netlink.bring_up("down0")?;
    DpdkWire::open("net_af_packet78,iface=down0")?;
    Ok(())
}
