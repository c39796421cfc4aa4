//! A packet socket for who forwards frames as they are, each with the time at which it came. No system call for
//! each received frame, and no limit on socket buffers that a user without privilege cannot raise.

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::mem::take;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hawser_time::Instant;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg, sockopt};

use crate::ring::{Ring, Shape};
use crate::sys;

/// Bytes of a block, which holds whole frames.
const BLOCK: usize = 64 << 10;
/// What the kernel puts in front of a frame at most: `tpacket2_hdr`, `sockaddr_ll`, alignment.
const FRONT: usize = 96;
/// Frames of at most 1500 bytes that the ring holds: 24 ms at 1 Gbit/s, 4 MB.
const FRAMES: usize = 2048;

/// Frames that [`Messages::send`] hands over in one system call, at most.
pub const SEND_BATCH: usize = 64;

/// A packet socket on one interface.
#[derive(Debug)]
pub struct Port {
    // Before the socket: it is unmapped first.
    ring: Ring,
    socket: OwnedFd,
    /// Frames that the kernel would not send, as when the interface is down.
    pub refused: u64,
}

impl Port {
    /// Opens the interface `name` of the calling thread's network namespace.
    ///
    /// # Errors
    /// When there is no such interface, or the process has no CAP_NET_RAW.
    pub fn open(name: &str, mtu: u32) -> io::Result<Port> {
        let place = (FRONT + mtu as usize).next_power_of_two().max(2048);
        let places = (FRAMES * 2048 / place).max(512);
        let shape = Shape {
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

    /// Shows up to `max` frames with the times (CLOCK_REALTIME) of their arrival, and gives them
    /// back to the kernel. Returns how many places of the ring it went over; frames that are longer than a
    /// place are left out.
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

    /// Sends all frames; those that the kernel refuses are lost.
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

    /// Takes the kernel's error about an interface that went down: until then the socket
    /// is readable, and its next frame is refused.
    pub fn clear_error(&self) {
        // The kernel forgets an error that was asked for, and asking a socket does not fail.
        let _ = sockopt::socket_error(&self.socket);
    }

    /// Frames that found no room since this was last asked.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn missed(&self) -> io::Result<u64> {
        sys::packet_drops(self.socket.as_fd())
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What describes messages to the kernel, up to [`SEND_BATCH`] in one system call. Its memory is kept from one
/// call to the next.
pub struct Messages {
    // Both are empty between calls: nobody's bytes are borrowed for longer.
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
    /// Sends the first [`SEND_BATCH`] of the frames; returns how many were taken from the front.
    ///
    /// # Errors
    /// When the first of them is not taken.
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

/// The same memory for values of another lifetime: the standard library collects in place.
fn emptied<A, B>(mut values: Vec<A>) -> Vec<B> {
    values.clear();
    values.into_iter().map(|_| unreachable!()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_from_one_call_to_the_next() -> io::Result<()> {
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
