//! TCP options as bytes (RFC 9293, 3.2; 7323; 2018; 2385; 7413; 9768).

use crate::script::syntax::tree::TcpOption;

/// The magic number of Fast Open under the experimental kind (RFC 7413, 4.1.1).
const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];
/// The kinds of accurate ECN (RFC 9768, 3.2.3), which determine the first counter.
const ACC_ECN_0: u8 = 172;
const ACC_ECN_1: u8 = 174;

/// Writes options, padded to a multiple of four bytes with end-of-list options.
pub(super) fn write(options: &[TcpOption]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for option in options {
        match option {
            TcpOption::Eol => bytes.push(0),
            TcpOption::Nop => bytes.push(1),
            TcpOption::Mss(value) => kind(&mut bytes, 2, &value.to_be_bytes()),
            TcpOption::Wscale(shift) => kind(&mut bytes, 3, &[*shift]),
            TcpOption::SackOk => kind(&mut bytes, 4, &[]),
            TcpOption::Sack(blocks) => {
                let edges = blocks
                    .iter()
                    .flat_map(|(from, to)| [from.to_be_bytes(), to.to_be_bytes()]);
                kind(&mut bytes, 5, &edges.flatten().collect::<Vec<u8>>());
            }
            TcpOption::Timestamp { val, ecr } => {
                kind(&mut bytes, 8, &[val.to_be_bytes(), ecr.to_be_bytes()].concat());
            }
            TcpOption::Md5(digest) => kind(&mut bytes, 19, digest),
            TcpOption::FastOpen(cookie, false) => kind(&mut bytes, 34, cookie),
            TcpOption::FastOpen(cookie, true) => {
                kind(&mut bytes, 254, &[&FAST_OPEN_MAGIC[..], cookie].concat())
            }
            TcpOption::AccEcn(counters) => acc_ecn(&mut bytes, counters),
            TcpOption::Other(number, body) => kind(&mut bytes, *number, body),
        }
    }
    while bytes.len() % 4 != 0 {
        bytes.push(0);
    }
    bytes
}

fn kind(bytes: &mut Vec<u8>, number: u8, body: &[u8]) {
    bytes.extend([number, body.len() as u8 + 2]);
    bytes.extend(body);
}

fn acc_ecn(bytes: &mut Vec<u8>, counters: &[(String, u32)]) {
    let number = if counters.first().is_some_and(|(name, _)| name == "e1b") {
        ACC_ECN_1
    } else {
        ACC_ECN_0
    };
    let body: Vec<u8> = counters
        .iter()
        .flat_map(|(_, value)| value.to_be_bytes()[1..].to_vec())
        .collect();
    kind(bytes, number, &body);
}

/// Parses options. Returns `None` if they do not fit their header.
pub(super) fn read(mut bytes: &[u8]) -> Option<Vec<TcpOption>> {
    let mut options = Vec::new();
    while let Some((&number, rest)) = bytes.split_first() {
        if number < 2 {
            options.push(if number == 0 {
                TcpOption::Eol
            } else {
                TcpOption::Nop
            });
            bytes = rest;
            continue;
        }
        let (&len, rest) = rest.split_first()?;
        let body = rest.get(..usize::from(len).checked_sub(2)?)?;
        options.push(one(number, body));
        bytes = &rest[body.len()..];
    }
    Some(options)
}

fn one(number: u8, body: &[u8]) -> TcpOption {
    let word = |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
    match (number, body.len()) {
        (2, 2) => TcpOption::Mss(u16::from_be_bytes([body[0], body[1]])),
        (3, 1) => TcpOption::Wscale(body[0]),
        (4, 0) => TcpOption::SackOk,
        (5, len) if len > 0 && len % 8 == 0 => {
            TcpOption::Sack((0..len).step_by(8).map(|at| (word(at), word(at + 4))).collect())
        }
        (8, 8) => TcpOption::Timestamp { val: word(0), ecr: word(4) },
        (19, _) => TcpOption::Md5(body.to_vec()),
        (34, _) => TcpOption::FastOpen(body.to_vec(), false),
        (254, 2..) if body[..2] == FAST_OPEN_MAGIC => TcpOption::FastOpen(body[2..].to_vec(), true),
        (ACC_ECN_0 | ACC_ECN_1, len) if len % 3 == 0 && len <= 9 => {
            let names = if number == ACC_ECN_1 {
                ["e1b", "ceb", "e0b"]
            } else {
                ["e0b", "ceb", "e1b"]
            };
            let values = body.chunks(3).map(|b| u32::from_be_bytes([0, b[0], b[1], b[2]]));
            TcpOption::AccEcn(names.map(str::to_owned).into_iter().zip(values).collect())
        }
        _ => TcpOption::Other(number, body.to_vec()),
    }
}
