//! A host without a stack: a wire, an interface, and a test's handling of packets.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hawser_engine::net::{Ingress, Interface, InterfaceConfig};
use hawser_engine::wire::{Csum, Medium, PayRef, TxFrame, Wire};
use hawser_host::{Clock, PacketWire, TunWire, WireCounters};
use hawser_ir::abi::{Icmp, Net};
use hawser_ir::buf::NET_ZERO;
use hawser_testing::internet_checksum;

/// The common operations of both kinds of wire.
pub(crate) trait HostWire: Wire + AsFd + Send {
    fn wait(&self, limit: Duration) -> io::Result<()>;
    fn counters(&self) -> WireCounters;
}

impl HostWire for TunWire {
    fn wait(&self, limit: Duration) -> io::Result<()> {
        TunWire::wait(self, Some(limit))
    }

    fn counters(&self) -> WireCounters {
        TunWire::counters(self)
    }
}

impl HostWire for PacketWire {
    fn wait(&self, limit: Duration) -> io::Result<()> {
        PacketWire::wait(self, Some(limit))
    }

    fn counters(&self) -> WireCounters {
        PacketWire::counters(self)
    }
}

/// An arrival at the station.
#[derive(Clone, Debug)]
pub(crate) enum Arrival {
    Packet { net: Net, bytes: Vec<u8>, csum: Csum },
    Error { net: Net, icmp: Icmp },
}

pub(crate) struct Station<W> {
    pub(crate) wire: W,
    pub(crate) interface: Interface,
    /// The protocol whose packets are refused with an ICMP error.
    pub(crate) refuses: Option<u8>,
    /// The Ethernet source addresses of received frames.
    pub(crate) sources: BTreeSet<[u8; 6]>,
}

impl<W: HostWire> Station<W> {
    pub(crate) fn new(wire: W, addresses: &[(&str, u8)], gateways: &[&str]) -> Station<W> {
        let config = InterfaceConfig {
            addresses: addresses
                .iter()
                .map(|(ip, bits)| (ip.parse().unwrap(), *bits))
                .collect(),
            gateways: gateways.iter().map(|ip| ip.parse().unwrap()).collect(),
            mtu: u32::MAX,
        };
        let interface = Interface::new(config, wire.caps()).unwrap();
        Station { wire, interface, refuses: None, sources: BTreeSet::new() }
    }

    /// Takes part in the network until `work` reports completion or the time is over. Returns whether it
    /// completed. `work` receives each arrival.
    pub(crate) fn run(
        &mut self,
        limit: Duration,
        mut work: impl FnMut(&mut Station<W>, Arrival) -> bool,
    ) -> io::Result<bool> {
        let end = Instant::now() + limit;
        loop {
            for arrival in self.receive()? {
                if work(self, arrival) {
                    self.flush()?;
                    return Ok(true);
                }
            }
            self.interface.poll(Clock.now());
            self.flush()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.wire.wait(left.min(Duration::from_millis(50)))?;
        }
    }

    fn receive(&mut self) -> io::Result<Vec<Arrival>> {
        let now = Clock.now();
        let mut arrivals = Vec::new();
        for i in 0..self.wire.receive(64)? {
            let frame = self.wire.frame(i);
            if self.wire.caps().medium != Medium::Ip {
                self.sources.extend(frame.head[6..].first_chunk::<6>());
            }
            match self.interface.ingress(now, &frame) {
                Ingress::Packet { net, .. } if self.refuses == Some(net.protocol) => {
                    self.interface.unreachable_reply(now, &frame);
                }
                Ingress::Packet { net, head, tail, csum, head_offset } => {
                    assert!(frame.head[head_offset as usize..].starts_with(head));
                    arrivals.push(Arrival::Packet { net, bytes: [head, tail].concat(), csum });
                }
                Ingress::IcmpError { net, icmp, .. } => arrivals.push(Arrival::Error { net, icmp }),
                Ingress::Trimmed { .. } | Ingress::Done | Ingress::Drop(_) => {}
            }
        }
        self.wire.release();
        Ok(arrivals)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let frames = self.interface.outgoing();
        let taken = self.wire.transmit(frames)?;
        frames.drain(..taken);
        Ok(())
    }

    /// Sends a transport header and payload. The checksum at offset `field` of the header is to be completed.
    pub(crate) fn send(&mut self, to: IpAddr, protocol: u8, header: &[u8], field: usize, payload: Payload) {
        let mut net = Net { dst_ip: hawser_engine::net::to_bytes(to), protocol, ..NET_ZERO };
        self.interface.route(&mut net).unwrap();
        let room = self.interface.header_room(&net);
        let mut head = vec![0; room];
        head.extend(header);
        let len = header.len() + payload.bytes.len();
        head[room + field..room + field + 2].copy_from_slice(&pseudo_sum(&net, len as u32));
        let csum = Some((room as u16, (room + field) as u16));
        let piece = PayRef::from(payload.bytes.to_vec());
        let frame = TxFrame {
            head,
            payload: vec![piece],
            csum,
            gso_size: payload.seg_size,
            prio: 0,
            cause: 0,
        };
        self.interface.send(Clock.now(), &net, frame);
    }
}

/// Bytes to send in packets of `seg_size`, or in one packet if it is 0.
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    pub(crate) seg_size: u16,
}

/// Returns the folded, uncomplemented sum of the pseudo-header, pair by pair.
pub(crate) fn pseudo_sum(net: &Net, len: u32) -> [u8; 2] {
    let mut bytes = Vec::new();
    if net.version == 4 {
        bytes.extend(&net.src_ip[12..]);
        bytes.extend(&net.dst_ip[12..]);
    } else {
        bytes.extend(net.src_ip);
        bytes.extend(net.dst_ip);
    }
    bytes.extend(len.to_be_bytes());
    bytes.extend([0, 0, 0, net.protocol]);
    internet_checksum(&[&bytes]).map(|byte| !byte)
}
