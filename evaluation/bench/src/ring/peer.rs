//! Two of smoltcp's stacks, ring to ring, in the same arrangement as ours in [`super::pair`].

use std::net::Ipv4Addr;
use std::rc::Rc;

use hawser_testing::memory_wire::{PacketSlot, SharedDirection};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Checksum, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use super::{CHUNK, MTU, STEP, Traffic};
use crate::sides::smoltcp::socket;

const PORT: u16 = 5201;

/// One end of the wire.
struct WireSide {
    sums: bool,
    outward: SharedDirection,
    inward: SharedDirection,
}

struct Received {
    slot: PacketSlot,
    lane: SharedDirection,
}

struct Sending(SharedDirection);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        let result = read(self.slot.packet());
        self.lane.borrow_mut().give(self.slot);
        result
    }
}

impl phy::TxToken for Sending {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut result = None;
        // A token exists only while there is room.
        self.0.borrow_mut().put(len, 0, |room| result = Some(write(room)));
        result.unwrap_or_else(|| unreachable!("a token without room"))
    }
}

impl Device for WireSide {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending)> {
        if !self.outward.borrow().has_room() {
            return None;
        }
        let slot = self.inward.borrow_mut().take()?;
        Some((
            Received { slot, lane: Rc::clone(&self.inward) },
            Sending(Rc::clone(&self.outward)),
        ))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending> {
        self.outward
            .borrow()
            .has_room()
            .then(|| Sending(Rc::clone(&self.outward)))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        if !self.sums {
            capabilities.checksum.ipv4 = Checksum::None;
            capabilities.checksum.tcp = Checksum::None;
        }
        capabilities
    }
}

struct PeerHost {
    end: WireSide,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl PeerHost {
    fn new(number: u8, [outward, inward]: [&SharedDirection; 2], window: usize, sums: bool) -> PeerHost {
        let mut end = WireSide { sums, outward: Rc::clone(outward), inward: Rc::clone(inward) };
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut end, Instant::ZERO);
        interface.update_ip_addrs(|list| {
            // The list is empty, and has room for at least one address.
            let _ = list.push(IpCidr::new(address(number), 24));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket(window));
        PeerHost { end, interface, sockets, socket }
    }

    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    fn work(&mut self, now: u64) {
        let now = Instant::from_micros((now / 1000) as i64);
        self.interface.poll(now, &mut self.end, &mut self.sockets);
    }

    /// Sends bytes at once.
    fn say(&mut self, now: u64, bytes: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
        let taken = self.socket().send_slice(bytes)?;
        self.work(now);
        match taken == bytes.len() {
            true => Ok(()),
            false => Err("smoltcp has no room".into()),
        }
    }

    /// Reads the bytes that have just arrived. They must fill `out`.
    fn hear(&mut self, now: u64, out: &mut [u8]) -> Result<(), Box<dyn std::error::Error>> {
        self.work(now);
        match self.socket().recv_slice(out)? == out.len() {
            true => Ok(()),
            false => Err("nothing arrived at smoltcp".into()),
        }
    }
}

fn address(number: u8) -> IpAddress {
    IpAddress::Ipv4(Ipv4Addr::new(10, 0, 0, number))
}

/// The two hosts. The client sends.
pub(crate) struct Peers {
    client: PeerHost,
    server: PeerHost,
    lanes: [SharedDirection; 2],
    now: u64,
    bytes: u64,
    chunk: Vec<u8>,
}

impl Peers {
    /// Makes two stacks with a connection between them and buffers of `window` bytes. With `sums`, they
    /// compute and verify checksums.
    ///
    /// # Errors
    /// The connection could not be opened.
    pub(crate) fn new(window: usize, sums: bool) -> Result<Peers, Box<dyn std::error::Error>> {
        let lanes = [SharedDirection::default(), SharedDirection::default()];
        let client = PeerHost::new(1, [&lanes[0], &lanes[1]], window, sums);
        let server = PeerHost::new(2, [&lanes[1], &lanes[0]], window, sums);
        let mut peers = Peers { client, server, lanes, now: STEP, bytes: 0, chunk: vec![7; CHUNK] };
        peers.server.socket().listen(PORT).map_err(|e| e.to_string())?;
        let PeerHost { interface, sockets, socket, .. } = &mut peers.client;
        let client = sockets.get_mut::<tcp::Socket<'_>>(*socket);
        client
            .connect(interface.context(), (address(2), PORT), 49_152)
            .map_err(|e| e.to_string())?;
        for _ in 0..100 {
            peers.turn();
        }
        match peers.client.socket().may_send() {
            true => Ok(peers),
            false => Err("smoltcp did not connect".into()),
        }
    }

    fn turn(&mut self) {
        self.client.work(self.now);
        self.server.work(self.now);
        self.now += STEP;
    }

    /// Sends until the receiver's application has `bytes` more.
    ///
    /// # Errors
    /// The connection failed, or made no progress.
    pub(crate) fn bulk(&mut self, bytes: u64) -> Result<(), Box<dyn std::error::Error>> {
        let goal = self.bytes + bytes;
        let mut out = vec![0; CHUNK];
        let mut idle = 0;
        while self.bytes < goal {
            let before = self.bytes;
            while self
                .client
                .sockets
                .get_mut::<tcp::Socket<'_>>(self.client.socket)
                .send_slice(&self.chunk)?
                > 0
            {}
            self.client.work(self.now);
            self.server.work(self.now);
            loop {
                match self.server.socket().recv_slice(&mut out)? {
                    0 => break,
                    n => self.bytes += n as u64,
                }
            }
            self.server.work(self.now);
            self.now += STEP;
            idle = if self.bytes == before { idle + 1 } else { 0 };
            if idle > 1_000_000 {
                return Err("the transfer does not go on".into());
            }
        }
        Ok(())
    }

    /// Sends `len` bytes and as many back, `rounds` times, one after the other.
    ///
    /// # Errors
    /// The connection failed, or did not carry the bytes at once.
    pub(crate) fn round_trips(&mut self, rounds: u64, len: usize) -> Result<(), Box<dyn std::error::Error>> {
        let mut out = vec![0; len];
        for _ in 0..rounds {
            self.client.say(self.now, &self.chunk[..len])?;
            self.now += STEP;
            self.server.hear(self.now, &mut out)?;
            self.server.say(self.now, &out)?;
            self.now += STEP;
            self.client.hear(self.now, &mut out)?;
            self.bytes += len as u64;
        }
        Ok(())
    }

    /// Returns the traffic on the wire so far.
    pub(crate) fn traffic(&self) -> Traffic {
        let packets = |lane: &SharedDirection| lane.borrow().packets;
        Traffic {
            data: packets(&self.lanes[0]),
            answers: packets(&self.lanes[1]),
            bytes: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_moves_the_bytes_that_it_reports() {
        let mut peers = Peers::new(256 << 10, false).unwrap();
        let before = peers.traffic();
        peers.bulk(1 << 20).unwrap();
        let traffic = peers.traffic() - before;
        assert!(
            traffic.bytes >= 1 << 20 && traffic.data >= (1 << 20) / 1460,
            "{traffic:?}"
        );
    }

    #[test]
    fn a_round_trip_is_a_packet_each_way() {
        let mut peers = Peers::new(256 << 10, false).unwrap();
        peers.round_trips(1, 32).unwrap();
        let before = peers.traffic();
        peers.round_trips(100, 32).unwrap();
        let traffic = peers.traffic() - before;
        assert_eq!((traffic.data, traffic.answers, traffic.bytes), (100, 100, 3200));
    }
}
