//! The inputs of a program: one step a line, `#` begins a comment.
//!
//! ```text
//! start
//! connect local=192.0.2.1:1000 remote=198.51.100.7:80
//! listen local=192.0.2.1:80 backlog=3
//! send len=5 self=0102          # self: the bytes of the handle's context id
//! packet src=192.0.2.1 dst=198.51.100.7 unverified 0102030405
//! icmp kind=3 mtu=1280 src=192.0.2.1 dst=198.51.100.7 0102030405
//! timer conn.rtx                # of the oldest context of this type
//! now 1500                      # nanoseconds
//! ```

use std::net::{IpAddr, SocketAddr};

use hawser_ir::AppOp;
use hawser_ir::abi::{Csum, Icmp, Id, Net, Op};
use hawser_ir::buf::NET_ZERO;

/// A step of a script.
pub(crate) enum Step {
    Start,
    App(AppOp, Box<Op>),
    Packet { net: Box<Net>, bytes: Vec<u8>, csum: Csum, icmp: Option<Icmp> },
    Timer { context: String, timer: String },
    Now(u64),
}

/// Parses a line; `None` for an empty one.
pub(crate) fn parse(line: &str) -> Result<Option<Step>, String> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let mut words = line.split_whitespace();
    let Some(verb) = words.next() else { return Ok(None) };
    let words: Vec<&str> = words.collect();
    let step = match verb {
        "start" => Step::Start,
        "listen" => app(AppOp::Listen, &words)?,
        "connect" => app(AppOp::Connect, &words)?,
        "send" => app(AppOp::Send, &words)?,
        "recv" => app(AppOp::Recv, &words)?,
        "close" => app(AppOp::Close, &words)?,
        "abort" => app(AppOp::Abort, &words)?,
        "release" => app(AppOp::Release, &words)?,
        "option" => app(AppOp::Option, &words)?,
        "packet" | "icmp" => packet(verb == "icmp", &words)?,
        "timer" => {
            let name = words.first().and_then(|word| word.split_once('.'));
            let (context, timer) = name.ok_or("a timer is named context.timer")?;
            Step::Timer { context: context.into(), timer: timer.into() }
        }
        "now" => Step::Now(words.first().ok_or("now needs a time").and_then(|w| number(w))?),
        _ => return Err(format!("unknown step `{verb}`")),
    };
    Ok(Some(step))
}

fn number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "expected a number")
}

/// Parses the bytes of a hexadecimal text.
fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let pair = |i: usize| {
        hex.get(i..i + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    (0..hex.len())
        .step_by(2)
        .map(|i| pair(i).ok_or_else(|| format!("`{hex}` is not hexadecimal")))
        .collect()
}

/// Parses an address into the ABI's form.
fn ip(text: &str) -> Result<[u8; 16], String> {
    let address: IpAddr = text.parse().map_err(|_| format!("`{text}` is no address"))?;
    Ok(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    })
}

fn app(kind: AppOp, words: &[&str]) -> Result<Step, String> {
    let mut op: Op = bytemuck::Zeroable::zeroed();
    (op.path_mtu, op.link_mtu, op.receive_limit) = (1500, 1500, 8 << 20);
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("expected key=value, not `{word}`"))?;
        let socket = || {
            value
                .parse::<SocketAddr>()
                .map_err(|_| format!("`{value}` is no address and port"))
        };
        match key {
            "local" => (op.local_ip, op.local_port) = (ip(&socket()?.ip().to_string())?, socket()?.port()),
            "remote" => (op.remote_ip, op.remote_port) = (ip(&socket()?.ip().to_string())?, socket()?.port()),
            "len" => op.len = number(value)?,
            "addr" => op.addr = number(value)?,
            "backlog" => op.backlog = number(value)? as u32,
            "option" => op.option = number(value)? as u32,
            "value" => op.arg = number(value)?,
            "mtu" => op.path_mtu = number(value)? as u32,
            "self" => {
                op.self_id = Id::NONE;
                op.self_id.push_bytes(&bytes(value)?);
            }
            _ => return Err(format!("unknown key `{key}`")),
        }
    }
    Ok(Step::App(kind, Box::new(op)))
}

fn packet(quoted: bool, words: &[&str]) -> Result<Step, String> {
    let mut net = Net { segs: 1, ttl: 64, version: 4, ..NET_ZERO };
    let mut icmp = Icmp { kind: 0, mtu: 0, icmp_type: 0, icmp_code: 0, pad: [0; 6] };
    let mut csum = Csum::Complete;
    let mut data = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some(("src", value)) => net.src_ip = ip(value)?,
            Some(("dst", value)) => net.dst_ip = ip(value)?,
            Some(("ecn", value)) => net.ecn = number(value)? as u8,
            Some(("proto", value)) => net.protocol = number(value)? as u8,
            Some(("kind", value)) => icmp.kind = number(value)? as u32,
            Some(("mtu", value)) => icmp.mtu = number(value)? as u32,
            Some((key, _)) => return Err(format!("unknown key `{key}`")),
            None if *word == "unverified" => csum = Csum::Unverified,
            None => data.extend(bytes(word)?),
        }
    }
    Ok(Step::Packet { net: Box::new(net), bytes: data, csum, icmp: quoted.then_some(icmp) })
}
