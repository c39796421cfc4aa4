//! Unsuitable interfaces and processes, and the resulting errors.

use std::process::{Command, ExitCode};

use hawser_host::netns::{Namespace, Netlink, enter_user_namespace};
use hawser_host::{OpenError as InterfaceError, PacketOptions, PacketWire};
use hawser_xdp::{OpenError, XdpOptions, XdpWire};

use crate::TestResult;
use crate::cable::{self, DEVICE, PEER, ip, lay};

fn open(name: &str) -> Result<(), OpenError> {
    XdpWire::open(name, &XdpOptions::default()).map(drop)
}

pub(crate) fn an_unusable_interface_is_reported() -> TestResult {
    let interface = |name| match open(name) {
        Err(OpenError::Interface(error)) => Ok(error),
        other => Err(format!("{name}: {other:?}")),
    };
    assert!(matches!(interface("nowhere0")?, InterfaceError::Missing(name) if name == "nowhere0"));
    assert!(matches!(interface("a-name-too-long-0")?, InterfaceError::Name(_)));
    assert!(matches!(interface("lo")?, InterfaceError::Kind { .. }));
    let _peer = lay(1500, 1500)?;
    Netlink::open()?.take_down(DEVICE)?;
    assert!(matches!(interface(DEVICE)?, InterfaceError::Down(_)));
    Netlink::open()?.bring_up(DEVICE)?;

    let first = cable::open()?;
    let second = open(DEVICE).err().ok_or("two programs at once")?;
    assert!(matches!(second, OpenError::Busy { .. }), "{second}");
    drop(first);
    let many = XdpOptions { addresses: vec![[10, 9, 1, 2].into(); 65], ..XdpOptions::default() };
    let many = XdpWire::open(DEVICE, &many).err().ok_or("65 addresses")?;
    assert!(matches!(many, OpenError::Addresses { count: 65, .. }), "{many}");

    ip("link add wide0 numrxqueues 2 numtxqueues 2 type veth peer name wide1 numrxqueues 2 numtxqueues 2")?;
    ip("link set wide0 up")?;
    let wide = open("wide0").err().ok_or("two queues")?;
    assert!(matches!(wide, OpenError::Queues { queues: 2, .. }), "{wide}");
    for (error, name) in [(second, DEVICE), (many, DEVICE), (wide, "wide0")] {
        let text = error.to_string();
        assert!(text.contains(&format!("packet:{name}")), "{text}");
    }
    Ok(())
}

/// Runs in a separate process, because a process with several threads cannot enter a user namespace.
pub(crate) fn a_packet_socket_works_in_a_user_namespace() -> TestResult {
    let output = Command::new(std::env::current_exe()?)
        .arg("in-user-namespace")
        .output()?;
    let printed = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{printed}");
    assert!(
        printed.contains("in a user namespace") && printed.contains("packet:cable0 works here"),
        "{printed}"
    );
    Ok(())
}

/// Prints the reason why the wire cannot be opened, and succeeds if a packet socket can.
pub(crate) fn in_user_namespace() -> ExitCode {
    let try_both = || -> TestResult {
        enter_user_namespace()?;
        let peer = Namespace::create()?;
        let mut netlink = Netlink::open()?;
        netlink.add_veth(DEVICE, PEER, &peer)?;
        netlink.bring_up(DEVICE)?;
        match open(DEVICE) {
            Err(error @ OpenError::UserNamespace { .. }) => println!("{error}"),
            other => return Err(format!("{other:?}").into()),
        }
        PacketWire::open(DEVICE, PacketOptions::default())?;
        Ok(())
    };
    match try_both() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
