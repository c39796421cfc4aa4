//! The library's notifications, which come between the data: RFC 6458, section 6.

use super::abi::notification;
use super::address;
use crate::sctp::path::{PathEvent, PathState};

/// A relevant notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The association is up.
    Up,
    /// The association was lost: the peer sent ABORT, or did not answer.
    Lost,
    /// The association ended in order.
    Ended,
    /// The association could not be set up.
    NotSetUp,
    /// The peer will send no more data (SHUTDOWN).
    Shutdown,
    /// The peer's adaptation layer indication (RFC 5061, 4.2.6).
    Adaptation(u32),
    /// A path changed.
    Path(PathEvent),
}

/// Reads one notification. Returns `None` if it is not relevant, or malformed.
pub(crate) fn parse(bytes: &[u8]) -> Option<Notice> {
    match field_16(bytes, 0)? {
        notification::ASSOCIATION_CHANGE => match field_16(bytes, 8)? {
            1 | 3 => Some(Notice::Up),
            2 => Some(Notice::Lost),
            4 => Some(Notice::Ended),
            5 => Some(Notice::NotSetUp),
            _ => None,
        },
        notification::PEER_ADDRESS_CHANGE => {
            let peer = *address::unpack(bytes.get(8..136)?).first()?;
            let state = match field_32(bytes, 136)? {
                1 => PathState::Available,
                2 => PathState::Unreachable,
                3 => PathState::Removed,
                4 => PathState::Added,
                5 => PathState::Primary,
                6 => PathState::Confirmed,
                _ => return None,
            };
            Some(Notice::Path(PathEvent { peer, state }))
        }
        notification::SHUTDOWN => Some(Notice::Shutdown),
        notification::ADAPTATION => field_32(bytes, 8).map(Notice::Adaptation),
        _ => None,
    }
}

fn field_16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|field| u16::from_ne_bytes(*field))
}

fn field_32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|field| u32::from_ne_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u16, length: u32) -> Vec<u8> {
        [&kind.to_ne_bytes()[..], &[0, 0], &length.to_ne_bytes()].concat()
    }

    #[test]
    fn an_association_change_is_its_state() {
        // sctp_assoc_change: header, state, error, streams out, streams in, association.
        for (state, notice) in [
            (1, Notice::Up),
            (2, Notice::Lost),
            (4, Notice::Ended),
            (5, Notice::NotSetUp),
        ] {
            let mut bytes = header(1, 20);
            bytes.extend(u16::to_ne_bytes(state));
            bytes.extend([0; 10]);
            assert_eq!(parse(&bytes), Some(notice));
        }
    }

    #[test]
    fn a_path_change_has_its_address() {
        let peer: std::net::SocketAddr = "192.0.2.1:9".parse().unwrap();
        let mut bytes = header(2, 152);
        bytes.extend(bytemuck::bytes_of(&address::store(peer)));
        bytes.extend(2u32.to_ne_bytes());
        bytes.extend([0; 12]);
        assert_eq!(
            parse(&bytes),
            Some(Notice::Path(PathEvent { peer, state: PathState::Unreachable }))
        );
        for cut in 0..140 {
            assert_eq!(parse(&bytes[..cut]), None);
        }
    }

    #[test]
    fn an_adaptation_indication_is_its_number() {
        let mut bytes = header(6, 16);
        bytes.extend(0x4857_5352u32.to_ne_bytes());
        bytes.extend([0; 4]);
        assert_eq!(parse(&bytes), Some(Notice::Adaptation(0x4857_5352)));
    }
}
