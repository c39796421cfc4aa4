//! UDP (RFC 768) around the packets of programs that register `udp(port)`.
//!
//! The UDP header counts as the last part of the network header: a program sees its own packets, and the
//! ports in [`Net`]. For packets without a UDP header they are 0.

use hawser_ir::abi::{Csum, Net};

use super::address::is_ipv4;
use super::checksum::Sum;
use super::verdict::DropReason;

/// UDP's protocol number.
pub const PROTOCOL: u8 = 17;
/// The size of the UDP header, in bytes.
pub const HEADER: usize = 8;
/// The offset of the checksum in the header.
pub(super) const CHECKSUM: usize = 6;

/// The bytes of a datagram in two pieces, as the wire holds them.
type Pieces<'a> = (&'a [u8], &'a [u8]);

/// Passes over the header of a datagram. Sets the ports, counts the header as part of the network's, and cuts
/// off bytes behind the length that the datagram states.
///
/// # Errors
/// Returns an error if the datagram is damaged or shorter than it states.
pub fn open<'a>(net: &mut Net, (head, tail): Pieces<'a>, csum: Csum) -> Result<Pieces<'a>, DropReason> {
    let (header, _) = head.split_first_chunk::<HEADER>().ok_or(DropReason::Truncated)?;
    let stated = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if stated < HEADER {
        return Err(DropReason::Malformed);
    }
    let head = &head[..head.len().min(stated)];
    let tail = tail.get(..stated - head.len()).ok_or(DropReason::Truncated)?;
    let has_sum = header[6..8] != [0, 0];
    if !has_sum && !is_ipv4(&net.dst_ip) {
        return Err(DropReason::Checksum); // RFC 8200, 8.1
    }
    let sum = Sum::of_pseudo(&net.src_ip, &net.dst_ip, PROTOCOL, stated as u32);
    if has_sum && csum == Csum::Unverified && !sum.with(head).with(tail).is_valid() {
        return Err(DropReason::Checksum);
    }
    net.tot_len = u32::from(net.hdr_len) + stated as u32;
    pass(net, header);
    Ok((&head[HEADER..], tail))
}

/// Does the same for one of our datagrams whose beginning an ICMP error quotes.
pub fn quoted<'a>(net: &mut Net, quote: &'a [u8]) -> Option<&'a [u8]> {
    let (header, rest) = quote.split_first_chunk::<HEADER>()?;
    pass(net, header);
    Some(rest)
}

fn pass(net: &mut Net, header: &[u8; HEADER]) {
    net.src_port = u16::from_be_bytes([header[0], header[1]]);
    net.dst_port = u16::from_be_bytes([header[2], header[3]]);
    net.hdr_len += HEADER as u16;
}

/// Writes the header of a datagram of `len` bytes, header included. The checksum field gets the
/// pseudo-header's sum.
pub fn write(header: &mut [u8], net: &Net, len: u16) {
    header[..2].copy_from_slice(&net.src_port.to_be_bytes());
    header[2..4].copy_from_slice(&net.dst_port.to_be_bytes());
    header[4..6].copy_from_slice(&len.to_be_bytes());
    let sum = Sum::of_pseudo(&net.src_ip, &net.dst_ip, PROTOCOL, u32::from(len));
    header[6..HEADER].copy_from_slice(&sum.folded());
}

#[cfg(test)]
mod tests {
    use hawser_ir::buf::NET_ZERO;
    use hawser_testing::internet_checksum;

    use super::*;

    fn net(v4: bool) -> Net {
        let mut net = NET_ZERO;
        for (address, last) in [(&mut net.src_ip, 1), (&mut net.dst_ip, 2)] {
            *address = if v4 {
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last]
            } else {
                [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
            };
        }
        net.hdr_len = if v4 { 20 } else { 40 };
        (net.src_port, net.dst_port) = (0x1234, 53);
        net
    }

    /// Returns a datagram with these bytes, whose checksum is that of RFC 768.
    fn datagram(net: &Net, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        write(&mut out, net, (HEADER + bytes.len()) as u16);
        out.extend(bytes);
        let (src, dst) = match is_ipv4(&net.dst_ip) {
            true => (&net.src_ip[12..], &net.dst_ip[12..]),
            false => (&net.src_ip[..], &net.dst_ip[..]),
        };
        let len = (out.len() as u32).to_be_bytes();
        out[6..8].fill(0);
        let sum = internet_checksum(&[src, dst, &len, &[0, 0, 0, PROTOCOL], &out]);
        out[6..8].copy_from_slice(&sum);
        out
    }

    #[test]
    fn a_datagram_is_opened_wherever_it_is_cut() {
        for v4 in [true, false] {
            let whole = datagram(&net(v4), b"seven bytes more");
            for cut in HEADER..=whole.len() {
                let mut seen = net(v4);
                (seen.src_port, seen.dst_port) = (0, 0);
                let pieces = whole.split_at(cut);
                let (head, tail) = open(&mut seen, pieces, Csum::Unverified).expect("intact");
                assert_eq!([head, tail].concat(), b"seven bytes more");
                let header = net(v4).hdr_len;
                assert_eq!(
                    (seen.src_port, seen.dst_port, seen.hdr_len),
                    (0x1234, 53, header + 8)
                );
                assert_eq!(seen.tot_len, u32::from(header) + whole.len() as u32);
            }
        }
    }

    #[test]
    fn malformed_udp_datagrams_are_refused() {
        let whole = datagram(&net(true), b"data");
        let refused = |whole: &[u8], v4| open(&mut net(v4), (whole, &[]), Csum::Unverified).err();
        for cut in 0..whole.len() {
            assert_eq!(refused(&whole[..cut], true), Some(DropReason::Truncated), "{cut}");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 0x40;
            assert!(refused(&other, true).is_some(), "byte {at}");
        }
        let with = |from: usize, bytes: [u8; 2]| {
            let mut other = whole.clone();
            other[from..from + 2].copy_from_slice(&bytes);
            other
        };
        assert_eq!(refused(&with(4, [0, 7]), true), Some(DropReason::Malformed));
        assert_eq!(
            refused(&with(6, [0, 0]), true),
            None,
            "IPv4 may go without (RFC 768)"
        );
        assert_eq!(
            refused(&with(6, [0, 0]), false),
            Some(DropReason::Checksum),
            "IPv6 may not (RFC 8200, 8.1)"
        );
        let padded = [&whole[..], &[9; 5]].concat();
        let (head, tail) =
            open(&mut net(true), (&padded, &[]), Csum::Unverified).expect("padding is not its own");
        assert_eq!((head, tail), (&b"data"[..], &[][..]));
    }
}
