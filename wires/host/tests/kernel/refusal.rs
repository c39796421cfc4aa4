//! Our ICMP errors, as Linux interprets them.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use hawser_host::packet::Receive;

use crate::TestResult;
use crate::cable::{KERNELS, OURS, set_up};

/// The errno of <asm-generic/errno.h> to which `icmp_err_convert` and `icmpv6_err_convert` map a protocol
/// unreachable and an unknown next header.
const ENOPROTOOPT: i32 = 92;
const EPROTO: i32 = 71;

pub(crate) fn protocol_unreachable_reaches_linux() -> TestResult {
    let (mut station, peer) = set_up(Receive::Fitting)?;
    station.refuses = Some(17);
    for ((ours, kernels), expected) in OURS.iter().zip(KERNELS).zip([ENOPROTOOPT, EPROTO]) {
        let socket = peer.run(|| UdpSocket::bind((kernels, 0)))??;
        socket.connect(SocketAddr::new(ours.parse()?, 4000))?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        socket.send(&[1; 100])?;
        let mut error = None;
        for _ in 0..100 {
            station.run(Duration::from_millis(20), |_, _| false)?;
            error = socket
                .recv(&mut [0; 10])
                .err()
                .filter(|e| e.raw_os_error() != Some(11));
            if error.is_some() {
                break;
            }
        }
        let error = error.ok_or_else(|| format!("no error from {ours}"))?;
        assert_eq!(error.raw_os_error(), Some(expected), "from {ours}: {error}");
    }
    assert_eq!(station.interface.counters().errors_sent, 2);
    Ok(())
}
