//! A packet socket for forwarders: raw frames, each with its time of arrival. It makes no system call for
//! each received frame. It needs no large socket buffer, whose limit an unprivileged user cannot raise.

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::mem::take;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hawser_time::Instant;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg, sockopt};

use crate::ring::{Ring, RingLayout};
use crate::sys;

/// The size of a block in bytes. A block holds whole frames.
const BLOCK: usize = 64 << 10;
/// The maximum size of the kernel's data before a frame: `tpacket2_hdr`, `sockaddr_ll`, alignment.
const FRONT: usize = 96;
/// The number of frames of at most 1500 bytes that the ring holds: 24 ms at 1 Gbit/s, 4 MB.
const FRAMES: usize = 2048;

/// The maximum number of frames that [`Messages::send`] passes to the kernel in one system call.
pub const SEND_BATCH: usize = 64;

/// A packet socket on one interface.
#[derive(Debug)]
pub struct Port {
    // The ring precedes the socket, so that it is unmapped first.
    ring: Ring,
    socket: OwnedFd,
    /// The number of frames that the kernel refused, for example while the interface was down.
    pub refused: u64,
}

impl Port {
    /// Opens the interface `name` of the calling thread's network namespace.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if the process has no CAP_NET_RAW.
    pub fn open(name: &str, mtu: u32) -> io::Result<Port> {
        let place = (FRONT + mtu as usize).next_power_of_two().max(2048);
        let places = (FRAMES * 2048 / place).max(512);
        let shape = RingLayout {
            place,
            places_per_block: BLOCK / place,
            block: BLOCK,
            blocks: places * place / BLOCK,
        };
        let yes: c_int = 1;
        let socket = sys::packet_socket()?;
        let ring = Ring::new(socket.as_fd(), shape)?;
        sys::set_option(
            socket.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &yes,
        )?;
        sys::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &yes)?;
        let index = rustix::net::netdevice::name_to_index(&socket, name)?;
        sys::bind_packet(socket.as_fd(), index as c_int)?;
        Ok(Port { ring, socket, refused: 0 })
    }

    /// Passes up to `max` frames with their times of arrival (CLOCK_REALTIME) to `show`, and returns them to
    /// the kernel. Returns the number of places of the ring that were visited. Frames that are longer than a
    /// place are skipped.
    pub fn receive(&mut self, max: usize, mut show: impl FnMut(Instant, &[u8])) -> usize {
        for taken in 0..max {
            let Some(place) = self.ring.take() else {
                return taken;
            };
            if let Some(frame) = self.ring.frame(&place) {
                show(self.ring.time(&place), &self.ring.bytes(&place)[frame]);
            }
            self.ring.release(place);
        }
        max
    }

    /// Sends all frames. Frames that the kernel refuses are lost.
    pub fn send<'a>(
        &mut self,
        mut frames: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
        messages: &mut Messages,
    ) {
        while frames.len() > 0 {
            let done = match messages.send(self.socket.as_fd(), frames.clone()) {
                Ok(sent) => sent.max(1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(_) => {
                    self.refused += 1;
                    1
                }
            };
            frames.by_ref().take(done).for_each(drop);
        }
    }

    /// Clears the kernel's error about an interface that went down. Until then the socket is readable, and
    /// its next frame is refused.
    pub fn clear_error(&self) {
        // Reading a socket's error also clears it, and does not fail.
        let _ = sockopt::socket_error(&self.socket);
    }

    /// Returns the number of frames dropped for lack of room since the last call.
    ///
    /// # Errors
    /// Fails if the kernel does not answer.
    pub fn missed(&self) -> io::Result<u64> {
        sys::packet_drops(self.socket.as_fd())
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The descriptions of up to [`SEND_BATCH`] messages for one system call. The memory is reused between calls.
pub struct Messages {
    // Both are empty between calls, so that no caller's bytes are borrowed for longer.
    pieces: Vec<[IoSlice<'static>; 1]>,
    headers: Vec<MMsgHdr<'static>>,
    controls: [SendAncillaryBuffer<'static, 'static, 'static>; SEND_BATCH],
}

impl Default for Messages {
    fn default() -> Messages {
        Messages {
            pieces: Vec::with_capacity(SEND_BATCH),
            headers: Vec::with_capacity(SEND_BATCH),
            controls: std::array::from_fn(|_| SendAncillaryBuffer::default()),
        }
    }
}

impl Messages {
    /// Sends the first [`SEND_BATCH`] of the frames. Returns how many were accepted from the front.
    ///
    /// # Errors
    /// Fails if the first of them is not accepted.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<usize> {
        let mut pieces: Vec<[IoSlice<'_>; 1]> = emptied(take(&mut self.pieces));
        pieces.extend(frames.take(SEND_BATCH).map(|frame| [IoSlice::new(frame)]));
        let mut headers: Vec<MMsgHdr<'_>> = emptied(take(&mut self.headers));
        let both = pieces.iter().zip(&mut self.controls);
        headers.extend(both.map(|(piece, control)| MMsgHdr::new(piece, control)));
        let sent = sendmmsg(socket, &mut headers, SendFlags::empty());
        self.headers = emptied(headers);
        self.pieces = emptied(pieces);
        Ok(sent?)
    }
}

/// Reuses the same memory for values of another lifetime: the standard library collects in place.
fn emptied<A, B>(mut values: Vec<A>) -> Vec<B> {
    values.clear();
    values.into_iter().map(|_| unreachable!()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_kept_between_calls() -> io::Result<()> {
        let (here, there) = std::os::unix::net::UnixDatagram::pair()?;
        let mut messages = Messages::default();
        let memory = |messages: &Messages| (messages.pieces.as_ptr(), messages.headers.as_ptr());
        let before = memory(&messages);
        for count in [1, 3] {
            let frames: Vec<Vec<u8>> = (0..count).map(|n| vec![n; 9]).collect();
            let sent = messages.send(here.as_fd(), frames.iter().map(Vec::as_slice))?;
            assert_eq!(sent, frames.len());
            for frame in frames {
                let mut buffer = [0; 20];
                assert_eq!(there.recv(&mut buffer)?, 9);
                assert_eq!(buffer[..9], frame);
            }
            assert_eq!(memory(&messages), before);
        }
        Ok(())
    }
}
