//! Messages of NETLINK_SOCK_DIAG: what is asked, and what comes back (include/uapi/linux/inet_diag.h).
//!
//! Everything is read within bounds; what does not fit its format is left out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::AddressFamily;

use super::{Flow, State};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const TCP: u8 = 6;
/// All states but LISTEN, TIME-WAIT, CLOSE and the kernel's own for handshakes under way.
const CONNECTED: u32 = 0b1011_0011_1110;
/// Attributes, and how they are asked for.
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
/// It comes unasked, since Linux 5.8.
const INET_DIAG_CGROUP_ID: u16 = 21;
const EXTENSIONS: u8 = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);

/// No error has a larger number (include/linux/err.h).
const MAX_ERRNO: i32 = 4095;

const HEADER: usize = 16;
const MESSAGE: usize = 72;

/// A question.
#[derive(Debug)]
pub(super) struct Ask {
    bytes: [u8; HEADER + 56],
    dump: bool,
}

impl Ask {
    /// For all connections of a family.
    pub(super) fn all(family: AddressFamily) -> Self {
        Self::new(family, true)
    }

    /// For one connection.
    pub(super) fn one(local: SocketAddr, remote: SocketAddr) -> Self {
        let family = if local.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let mut ask = Self::new(family, false);
        ask.put(24, &local.port().to_be_bytes());
        ask.put(26, &remote.port().to_be_bytes());
        ask.put_address(28, local.ip());
        ask.put_address(44, remote.ip());
        ask
    }

    fn new(family: AddressFamily, dump: bool) -> Self {
        let mut ask = Self {
            bytes: [0; HEADER + 56],
            dump,
        };
        let flags = NLM_F_REQUEST | if dump { NLM_F_DUMP } else { 0 };
        ask.put(0, &((HEADER + 56) as u32).to_ne_bytes());
        ask.put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        ask.put(6, &flags.to_ne_bytes());
        ask.put(HEADER, &[family.as_raw() as u8, TCP, EXTENSIONS, 0]);
        ask.put(20, &CONNECTED.to_ne_bytes());
        ask.put(64, &[0xff; 8]); // any cookie: INET_DIAG_NOCOOKIE
        ask
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_address(&mut self, at: usize, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.put(at, &address.octets()),
            IpAddr::V6(address) => self.put(at, &address.octets()),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether more than one answer is expected.
    pub(super) fn is_dump(&self) -> bool {
        self.dump
    }
}

/// A part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Flow(Box<Flow>),
    End,
    Error(Errno),
}

/// The parts of an answer.
pub(crate) fn parts(mut answer: &[u8]) -> impl Iterator<Item = Part> + '_ {
    std::iter::from_fn(move || {
        loop {
            let length = word(answer, 0)? as usize;
            let kind = half(answer, 4)?;
            let body = answer.get(HEADER..length)?;
            answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
            match kind {
                NLMSG_DONE => return Some(Part::End),
                NLMSG_ERROR => {
                    return Some(match (word(body, 0)? as i32).wrapping_neg() {
                        // It says that all is well.
                        0 => Part::End,
                        error @ 1..=MAX_ERRNO => Part::Error(Errno::from_raw_os_error(error)),
                        _ => Part::Error(Errno::PROTO),
                    });
                }
                SOCK_DIAG_BY_FAMILY => {
                    if let Some(flow) = flow(body) {
                        return Some(Part::Flow(Box::new(flow)));
                    }
                }
                _ => {}
            }
        }
    })
}

/// `struct inet_diag_msg` and its attributes.
fn flow(body: &[u8]) -> Option<Flow> {
    let family = AddressFamily::from_raw(u16::from(*body.first()?));
    let linux_state = *body.get(1)?;
    let local = address(body, family, 8)?;
    let remote = address(body, family, 24)?;
    let port = |at: usize| Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]));
    let cookie = u64::from(word(body, 44)?) | u64::from(word(body, 48)?) << 32;
    let mut flow = Flow {
        cookie,
        local: SocketAddr::new(local, port(4)?),
        remote: SocketAddr::new(remote, port(6)?),
        congestion_control: String::new(),
        namespace: 0,
        inode: word(body, 68)?,
        cgroup: 0,
        state: State::default(),
    };
    let mut rest = body.get(MESSAGE..)?;
    while let (Some(length), Some(kind)) = (half(rest, 0), half(rest, 2)) {
        let Some(value) = rest.get(4..usize::from(length)) else {
            break;
        };
        match kind {
            INET_DIAG_INFO => flow.state = State::from_tcp_info(value),
            INET_DIAG_CONG => {
                let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
                flow.congestion_control = String::from_utf8_lossy(name).into_owned();
            }
            INET_DIAG_CGROUP_ID => {
                let id = value.get(..8).and_then(|bytes| bytes.try_into().ok());
                flow.cgroup = id.map_or(0, u64::from_ne_bytes);
            }
            _ => {}
        }
        rest = rest
            .get(usize::from(length).next_multiple_of(4)..)
            .unwrap_or_default();
    }
    flow.state.set_linux_state(linux_state);
    Some(flow)
}

fn address(body: &[u8], family: AddressFamily, at: usize) -> Option<IpAddr> {
    let bytes: [u8; 16] = body.get(at..at + 16)?.try_into().ok()?;
    match family {
        AddressFamily::INET => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
        AddressFamily::INET6 => Some(Ipv6Addr::from(bytes).into()),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message: header, body.
    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn body() -> Vec<u8> {
        let mut body = vec![0; MESSAGE];
        body[0] = 2; // AF_INET
        body[1] = 1; // established
        body[4..8].copy_from_slice(&[0, 80, 0x30, 0x39]); // ports 80, 12345
        body[8..12].copy_from_slice(&[10, 0, 0, 1]);
        body[24..28].copy_from_slice(&[10, 0, 0, 2]);
        body[44..52].copy_from_slice(&0x0102_0304_0506_0708_u64.to_le_bytes());
        body[68..72].copy_from_slice(&4711_u32.to_ne_bytes());
        body.extend([9, 0, INET_DIAG_CONG as u8, 0]);
        body.extend(b"reno\0\0\0\0");
        body.extend([12, 0, INET_DIAG_CGROUP_ID as u8, 0]);
        body.extend(77_u64.to_ne_bytes());
        body
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn an_answer_is_read() {
        let mut answer = message(SOCK_DIAG_BY_FAMILY, &body());
        answer.extend(message(NLMSG_DONE, &[0; 4]));
        let read: Vec<Part> = parts(&answer).take(2).collect();
        let Part::Flow(flow) = &read[0] else {
            panic!("{read:?}")
        };
        assert_eq!(flow.local, "10.0.0.1:80".parse().expect("an address"));
        assert_eq!(flow.remote, "10.0.0.2:12345".parse().expect("an address"));
        assert_eq!(flow.cookie, 0x0102_0304_0506_0708);
        assert_eq!(flow.congestion_control, "reno");
        assert_eq!((flow.state.state, flow.inode, flow.cgroup), (3, 4711, 77));
        assert_eq!(read[1], Part::End);
    }

    #[test]
    fn what_is_cut_short_is_left_out() {
        let whole = message(SOCK_DIAG_BY_FAMILY, &body());
        for length in 0..whole.len() {
            assert_eq!(parts(&whole[..length]).count(), 0, "{length}");
        }
        for length in 0..body().len() {
            // A body that ends early, in a message that is whole.
            let flows = parts(&message(SOCK_DIAG_BY_FAMILY, &body()[..length])).count();
            assert_eq!(flows, usize::from(length >= MESSAGE), "{length}");
        }
        assert_eq!(parts(&[0; 64]).count(), 0);
    }

    #[test]
    fn an_error_is_told() {
        let error = message(NLMSG_ERROR, &(-2_i32).to_ne_bytes());
        assert_eq!(parts(&error).next(), Some(Part::Error(Errno::NOENT)));
        for (number, part) in [
            (0, Part::End),
            (2, Part::Error(Errno::PROTO)),
            (i32::MIN, Part::Error(Errno::PROTO)),
        ] {
            assert_eq!(
                parts(&message(NLMSG_ERROR, &number.to_ne_bytes())).next(),
                Some(part),
                "{number}"
            );
        }
    }
}
