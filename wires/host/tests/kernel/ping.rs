//! Echo requests from Linux, through a raw socket.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_testing::internet_checksum;
use socket2::{Domain, Protocol, Socket, Type};

use crate::TestResult;

/// Sends an echo request of `len` bytes to `to`, and compares the reply.
pub(crate) fn ping(to: IpAddr, len: usize) -> TestResult {
    let (domain, protocol, request, reply) = match to {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8, 0),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128, 129),
    };
    let mut socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.connect(&SocketAddr::new(to, 0).into())?;
    let mut message = vec![request, 0, 0, 0, 0x12, 0x34, 0, 7];
    message.extend((0..len).map(|i| (i * 7) as u8));
    if to.is_ipv4() {
        let sum = internet_checksum(&[&message]);
        message[2..4].copy_from_slice(&sum);
    }
    socket.send(&message)?;
    let mut buffer = vec![0; 65_536];
    loop {
        let n = socket.read(&mut buffer).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => format!("no echo of {len} bytes from {to}").into(),
            _ => Box::<dyn std::error::Error + Send + Sync>::from(error),
        })?;
        // IPv4 raw sockets show the network header, and IPv6 ones do not.
        let answer = if to.is_ipv4() {
            &buffer[20..n]
        } else {
            &buffer[..n]
        };
        if answer[0] != reply {
            continue;
        }
        if to.is_ipv4() && internet_checksum(&[answer]) != [0, 0] {
            return Err("the echo's checksum is wrong".into());
        }
        if answer[4..] != message[4..] {
            return Err("the echo differs from the request".into());
        }
        return Ok(());
    }
}
