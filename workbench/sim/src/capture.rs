//! A wire that captures the frames that pass.

use std::io::{self, Write};
use std::time::Duration;

use hawser_engine::wire::{Caps, RxFrame, TxFrame, Wire};
use hawser_time::Instant;

use crate::frame::Frame;
use crate::pcap;

/// A wire that captures received and sent frames alike.
///
/// A capture never disturbs the traffic: a capture that can no longer be written ends, and
/// [`Capture::finish`] reports the error.
pub struct Capture<W, C, O> {
    wire: W,
    clock: C,
    pcap: Option<pcap::PcapWriter<O>>,
    failed: Option<io::Error>,
}

impl<W: Wire, C: FnMut() -> Instant, O: Write> Capture<W, C, O> {
    /// Captures the frames of this wire to `out`. Their times are those of `clock` plus `base`, the time
    /// since 1970.
    ///
    /// # Errors
    /// Returns an error if the capture's header cannot be written.
    pub fn new(wire: W, clock: C, out: O, base: Duration) -> io::Result<Capture<W, C, O>> {
        let pcap = pcap::PcapWriter::new(out, wire.caps().medium, base)?;
        Ok(Capture { wire, clock, pcap: Some(pcap), failed: None })
    }

    /// Returns the captured wire.
    pub fn inner(&self) -> &W {
        &self.wire
    }

    /// Returns the captured wire mutably.
    pub fn inner_mut(&mut self) -> &mut W {
        &mut self.wire
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// Returns the first write error, if one occurred.
    pub fn finish(&mut self) -> io::Result<()> {
        match (self.failed.take(), self.pcap.take()) {
            (Some(error), _) => Err(error),
            (None, Some(mut pcap)) => pcap.flush(),
            (None, None) => Ok(()),
        }
    }
}

impl<W: Wire, C: FnMut() -> Instant, O: Write> Capture<W, C, O> {
    fn record(&mut self, at: Instant, frame: &Frame) {
        if let Some(pcap) = &mut self.pcap
            && let Err(error) = pcap.frame(at, frame)
        {
            self.failed = Some(error);
            self.pcap = None;
        }
    }
}

impl<W: Wire, C: FnMut() -> Instant, O: Write> Wire for Capture<W, C, O> {
    fn caps(&self) -> &Caps {
        self.wire.caps()
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let count = self.wire.receive(max)?;
        if self.pcap.is_some() {
            for i in 0..count {
                let received = self.wire.frame(i);
                let (at, frame) = (received.at, Frame::received(&received, self.wire.caps().medium));
                self.record(at, &frame);
            }
        }
        Ok(count)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        self.wire.frame(i)
    }

    fn release(&mut self) {
        self.wire.release();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let count = self.wire.transmit(frames)?;
        if self.pcap.is_some() && count > 0 {
            let now = (self.clock)();
            let medium = self.wire.caps().medium;
            frames[..count]
                .iter()
                .for_each(|f| self.record(now, &Frame::sent(f, medium)));
        }
        Ok(count)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.wire.next_deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SimWire;

    /// A file that is full after this many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn both_directions_are_captured() {
        let mut bytes = Vec::new();
        let mut wire = Capture::new(
            SimWire::new(1500),
            || Instant::from_nanos(7),
            &mut bytes,
            Duration::ZERO,
        )
        .unwrap();
        let frame = TxFrame { head: vec![1; 30], ..TxFrame::default() };
        wire.transmit(std::slice::from_ref(&frame)).unwrap();
        wire.inner_mut().arrive(
            Instant::from_nanos(9),
            Frame::sent(&frame, hawser_engine::wire::Medium::Ip),
        );
        assert_eq!(wire.receive(5).unwrap(), 1);
        wire.finish().unwrap();
        assert_eq!(bytes.len(), 24 + 2 * (16 + 30));
        assert_eq!((bytes[28], bytes[74]), (7, 9));
    }

    #[test]
    fn a_full_disk_does_not_stop_the_traffic() {
        let mut wire = Capture::new(
            SimWire::new(1500),
            || Instant::from_nanos(7),
            Full(60),
            Duration::ZERO,
        )
        .unwrap();
        let frame = TxFrame { head: vec![1; 30], ..TxFrame::default() };
        for _ in 0..3 {
            assert_eq!(wire.transmit(std::slice::from_ref(&frame)).unwrap(), 1);
        }
        assert_eq!(wire.inner_mut().sent().count(), 3);
        assert_eq!(wire.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
