//! The paper's links: 1 Gbit/s with a round trip of 0.25 ms; 200 Mbit/s with 1.8 ms; 190 Mbit/s down and 35
//! Mbit/s up with 46 ms.

use std::time::Duration;

use crate::report::Report;
use crate::{Bare, Direction, Error, Testbed, Transfer};

/// The three links, as a lab file. Each queue holds at least the bandwidth-delay product of the slowest link.
pub(super) const LAB: &str = r#"# The links of the MULTI paper's testbed (Figures 3 and 4).
name = "MULTI"
seed = 1
host = [{ name = "client" }, { name = "server" }]

[[link]]
name = "ethernet"
between = ["client", "server"]
interfaces = ["eth", "eth0"]
through = "cell"
both = { rate = "1Gbit/s", queue = "1MB", delay = "125us" }

[[link]]
name = "wifi"
between = ["client", "server"]
interfaces = ["wlan", "eth1"]
through = "cell"
both = { rate = "200Mbit/s", queue = "500kB", delay = "900us" }

[[link]]
name = "5g"
between = ["client", "server"]
interfaces = ["wwan", "eth2"]
through = "cell"
both = { queue = "1MB", delay = "23ms" }
forward = { rate = "35Mbit/s" }
backward = { rate = "190Mbit/s" }
"#;

/// Each link's interface, its name in the paper, and its rates down and up in Mbit/s.
pub(super) const LINKS: [(&str, &str, [u64; 2]); 3] = [
    ("eth", "Ethernet", [1_000, 1_000]),
    ("wlan", "WiFi", [200, 200]),
    ("wwan", "5G", [190, 35]),
];

pub(super) fn stage() -> Result<Testbed, Error> {
    Testbed::from_toml(LAB)
}

/// Both directions, down first, with their names in the paper.
pub(super) const DIRECTIONS: [(Direction, &str); 2] = [(Direction::Down, "Rx"), (Direction::Up, "Tx")];

/// Runs one transfer by a session over `carriers`, such as `tcp:eth`.
pub(super) fn session(
    stage: &Testbed,
    carriers: &[&str],
    scheduler: &str,
    bytes: u64,
    direction: Direction,
) -> Result<Report, Error> {
    let mut document = stage.document(carriers)?;
    document.scheduler = scheduler.into();
    let transfer = Transfer::new(document, bytes);
    let transfer = if direction == Direction::Up {
        transfer.up()
    } else {
        transfer
    };
    transfer.run(stage)
}

/// Runs the same transfer over one carrier without a session.
pub(super) fn bare(
    stage: &Testbed,
    carrier: &str,
    bytes: u64,
    direction: Direction,
) -> Result<Report, Error> {
    let (transport, interface) = carrier
        .split_once(':')
        .ok_or("a carrier is TRANSPORT:INTERFACE")?;
    let bare = Bare {
        quic: transport == "quic",
        interface: interface.into(),
        tcp: hawser::session::TcpOptions::default(),
        bytes,
        direction,
        timeout: Duration::from_secs(300),
    };
    bare.run(stage)
}
