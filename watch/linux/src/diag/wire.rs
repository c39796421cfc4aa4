//! Messages of NETLINK_SOCK_DIAG about TCP: requests and flows (include/uapi/linux/inet_diag.h).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use hawser_host::netlink::{Attributes, Message, Request, u32_at, u64_at};
use rustix::net::AddressFamily;

use super::{FlowState, Identity, TcpFlow};

/// NETLINK_SOCK_DIAG of <linux/netlink.h>.
pub(super) const PROTOCOL: i32 = 4;

pub(crate) const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_DUMP: i32 = 0x300;
const TCP: u8 = 6;
/// All states except LISTEN, TIME-WAIT, CLOSE and the kernel's internal ones for handshakes in progress.
const CONNECTED: u32 = 0b1011_0011_1110;
/// Attributes, and how they are requested.
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
/// The kernel sends it without a request, since Linux 5.8.
const INET_DIAG_CGROUP_ID: u16 = 21;
const EXTENSIONS: u8 = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
/// INET_DIAG_NOCOOKIE: the request names no cookie.
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// The size of `struct inet_diag_sockid`, in bytes: ports, addresses, the interface, the cookie.
const ID: usize = 48;
/// The size of `struct inet_diag_msg`, in bytes.
const MESSAGE: usize = 72;

/// Requests all connections of a family.
pub(super) fn all(family: AddressFamily) -> Request {
    let mut id = [0; ID];
    id[40..].copy_from_slice(&NO_COOKIE);
    request(family, NLM_F_DUMP, &id)
}

/// Requests one connection.
pub(super) fn one(identity: &Identity) -> Request {
    let Identity { local, remote, .. } = identity;
    let family = if local.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let mut id = [0; ID];
    id[..2].copy_from_slice(&local.port().to_be_bytes());
    id[2..4].copy_from_slice(&remote.port().to_be_bytes());
    put_address(&mut id[4..20], local.ip());
    put_address(&mut id[20..36], remote.ip());
    id[36..40].copy_from_slice(&identity.interface.to_ne_bytes());
    id[40..44].copy_from_slice(&(identity.cookie as u32).to_ne_bytes());
    id[44..].copy_from_slice(&((identity.cookie >> 32) as u32).to_ne_bytes());
    request(family, 0, &id)
}

/// Builds a `struct inet_diag_req_v2` with a `struct inet_diag_sockid`.
fn request(family: AddressFamily, flags: i32, id: &[u8; ID]) -> Request {
    let mut request = Request::new(SOCK_DIAG_BY_FAMILY, flags);
    request.put(&[family.as_raw() as u8, TCP, EXTENSIONS, 0]);
    request.put(&CONNECTED.to_ne_bytes());
    request.put(id);
    request
}

fn put_address(place: &mut [u8], address: IpAddr) {
    match address {
        IpAddr::V4(address) => place[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => place.copy_from_slice(&address.octets()),
    }
}

/// Parses the flow that a message describes; `None` if the message is malformed.
pub(crate) fn flow(message: Message<'_>) -> Option<TcpFlow> {
    if message.kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let body = message.body;
    let family = AddressFamily::from_raw(u16::from(*body.first()?));
    let linux_state = *body.get(1)?;
    let local = address(body, family, 8)?;
    let remote = address(body, family, 24)?;
    let port = |at: usize| Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]));
    let cookie = u64::from(u32_at(body, 44)?) | u64::from(u32_at(body, 48)?) << 32;
    let interface = u32_at(body, 40)?;
    let mut flow = TcpFlow {
        cookie,
        interface,
        local: end(local, port(4)?, interface),
        remote: end(remote, port(6)?, interface),
        congestion_control: String::new(),
        namespace: 0,
        inode: u32_at(body, 68)?,
        cgroup: 0,
        state: FlowState::default(),
    };
    for (kind, value) in Attributes(body.get(MESSAGE..)?) {
        match kind {
            INET_DIAG_INFO => flow.state = FlowState::from_tcp_info(value),
            INET_DIAG_CONG => {
                let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
                flow.congestion_control = String::from_utf8_lossy(name).into_owned();
            }
            INET_DIAG_CGROUP_ID => flow.cgroup = u64_at(value, 0).unwrap_or(0),
            _ => {}
        }
    }
    flow.state.set_linux_state(linux_state);
    Some(flow)
}

/// Makes an end of a connection. A link-local address is unique only on its interface (RFC 4007, 6).
fn end(address: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            SocketAddrV6::new(address, port, 0, interface).into()
        }
        address => SocketAddr::new(address, port),
    }
}

fn address(body: &[u8], family: AddressFamily, at: usize) -> Option<IpAddr> {
    let bytes: [u8; 16] = body.get(at..at + 16)?.try_into().ok()?;
    match family {
        AddressFamily::INET => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
        AddressFamily::INET6 => Some(Ipv6Addr::from(bytes).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> Message<'_> {
        Message { kind: SOCK_DIAG_BY_FAMILY, sequence: 1, body }
    }

    fn body() -> Vec<u8> {
        let mut body = vec![0; MESSAGE];
        body[0] = 2; // AF_INET
        body[1] = 1; // established
        body[4..8].copy_from_slice(&[0, 80, 0x30, 0x39]); // ports 80, 12345
        body[8..12].copy_from_slice(&[10, 0, 0, 1]);
        body[24..28].copy_from_slice(&[10, 0, 0, 2]);
        body[40..44].copy_from_slice(&7_u32.to_ne_bytes());
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
    fn a_flow_is_read_from_its_message() {
        let flow = flow(message(&body())).expect("a flow");
        assert_eq!(flow.local, "10.0.0.1:80".parse().expect("an address"));
        assert_eq!(flow.remote, "10.0.0.2:12345".parse().expect("an address"));
        assert_eq!((flow.cookie, flow.interface), (0x0102_0304_0506_0708, 7));
        assert_eq!(flow.congestion_control, "reno");
        assert_eq!((flow.state.state, flow.inode, flow.cgroup), (3, 4711, 77));
    }

    #[test]
    fn a_link_local_address_has_its_interface() {
        let mut body = body();
        body[0] = 10; // AF_INET6
        body[8..24].copy_from_slice(&"fe80::1".parse::<Ipv6Addr>().expect("an address").octets());
        body[24..40].copy_from_slice(&"2001:db8::2".parse::<Ipv6Addr>().expect("an address").octets());
        let flow = flow(message(&body)).expect("a flow");
        assert_eq!(flow.local.to_string(), "[fe80::1%7]:80");
        assert_eq!(flow.remote.to_string(), "[2001:db8::2]:12345");
    }

    #[test]
    fn a_message_shorter_than_its_structure_is_no_flow() {
        let whole = body();
        for length in 0..whole.len() {
            let read = flow(message(&whole[..length]));
            assert_eq!(read.is_some(), length >= MESSAGE, "{length}");
        }
        let other = Message { kind: SOCK_DIAG_BY_FAMILY + 1, ..message(&whole) };
        assert_eq!(flow(other), None);
    }
}
