//! The rules of a simulated link in front of a real wire.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use hawser_engine::wire::{Caps, RxFrame, TxFrame, Wire};
use hawser_time::Instant;

use crate::frame::Frame;
use crate::inbox::Inbox;
use crate::link::Pipe;
use crate::segment;

/// The maximum number of received frames that wait for the stack, and of sent frames that wait for the
/// device.
const WAITING_MAX: usize = 4096;
/// The time before a full device is tried again.
const RETRY: Duration = Duration::from_micros(100);

/// A wire whose received frames pass one [`Pipe`] and whose sent frames pass another.
///
/// Faults act on packets, not on super-segments. Received super-segments are cut before the rules see them,
/// and the stack is informed that the device cuts none. A frame that a rule holds becomes available when the
/// wire is polled after [`Wire::next_deadline`], so a driver must wake up then.
///
/// The clock is the caller's, and must be the one that stamps received frames.
pub struct Faulty<W, C> {
    wire: W,
    clock: C,
    caps: Caps,
    inward: Pipe,
    outward: Pipe,
    inbox: Inbox,
    /// Frames that have passed the rules but that the device has not yet accepted.
    outbox: VecDeque<TxFrame>,
    /// The time at which a full device is tried again.
    retry_at: Option<Instant>,
}

impl<W: Wire, C: FnMut() -> Instant> Faulty<W, C> {
    /// Puts rules in front of a wire.
    #[must_use]
    pub fn new(wire: W, clock: C, inward: Pipe, outward: Pipe) -> Faulty<W, C> {
        let caps = Caps { gso_max: 0, ..wire.caps().clone() };
        let (inbox, outbox) = (Inbox::default(), VecDeque::new());
        Faulty { wire, clock, caps, inward, outward, inbox, outbox, retry_at: None }
    }

    /// Returns the wire behind the rules.
    pub fn inner(&self) -> &W {
        &self.wire
    }

    /// Returns the wire behind the rules mutably.
    pub fn inner_mut(&mut self) -> &mut W {
        &mut self.wire
    }

    /// Returns the rules for received frames, so that the caller can read counters, change them or cut the
    /// link.
    pub fn inward(&mut self) -> &mut Pipe {
        &mut self.inward
    }

    /// Returns the rules for sent frames.
    pub fn outward(&mut self) -> &mut Pipe {
        &mut self.outward
    }

    /// Receives the device's frames and sends them through the rules.
    fn pull(&mut self, now: Instant, max: usize) -> io::Result<()> {
        let count = self.wire.receive(max)?;
        for i in 0..count {
            let frame = Frame::received(&self.wire.frame(i), self.caps.medium);
            for packet in segment::cut(frame) {
                self.inward.push(now, packet, &mut |_, _, _| {});
            }
        }
        if count > 0 {
            self.wire.release();
        }
        while self.inbox.len() < WAITING_MAX
            && let Some(frame) = self.inward.pop(now, &mut |_, _, _| {})
        {
            self.inbox.push(now, frame);
        }
        Ok(())
    }

    /// Offers the device the frames that have passed the rules.
    fn flush(&mut self, now: Instant) -> io::Result<()> {
        while self.outbox.len() < WAITING_MAX
            && let Some(frame) = self.outward.pop(now, &mut |_, _, _| {})
        {
            self.outbox.push_back(frame.into_tx());
        }
        if !self.outbox.is_empty() {
            let taken = self.wire.transmit(self.outbox.make_contiguous())?;
            self.outbox.drain(..taken);
        }
        self.retry_at = (!self.outbox.is_empty()).then(|| now + RETRY);
        Ok(())
    }
}

impl<W: Wire, C: FnMut() -> Instant> Wire for Faulty<W, C> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let now = (self.clock)();
        self.flush(now)?;
        if self.inbox.len() < WAITING_MAX {
            self.pull(now, max)?;
        }
        Ok(self.inbox.take(max))
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        self.inbox.frame(i)
    }

    fn release(&mut self) {
        self.inbox.release();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let now = (self.clock)();
        self.flush(now)?;
        if self.outbox.len() >= WAITING_MAX {
            return Ok(0);
        }
        for frame in frames {
            self.outward
                .push(now, Frame::sent(frame, self.caps.medium), &mut |_, _, _| {});
        }
        self.flush(now)?;
        Ok(frames.len())
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waiting = (self.inbox.len() > 0).then_some(Instant::ORIGIN);
        // While the device is full, frames that have passed the rules wait too.
        let outward = self.retry_at.or_else(|| self.outward.next_deadline());
        let others = [self.inward.next_deadline(), self.wire.next_deadline()];
        others.into_iter().chain([waiting, outward]).flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::frame::samples::super_segment;
    use crate::link::Profile;
    use crate::wire::SimWire;

    /// A device that takes one frame at a time.
    struct SingleFrameDevice(SimWire, bool);

    impl Wire for SingleFrameDevice {
        fn caps(&self) -> &Caps {
            self.0.caps()
        }

        fn receive(&mut self, max: usize) -> io::Result<usize> {
            self.0.receive(max)
        }

        fn frame(&self, i: usize) -> RxFrame<'_> {
            self.0.frame(i)
        }

        fn release(&mut self) {
            self.0.release();
        }

        fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                self.0.transmit(&frames[..1])
            } else {
                Ok(0)
            }
        }
    }

    #[test]
    fn a_full_device_is_asked_again() {
        let pipe = || Pipe::new(&Profile::default(), 1, "none");
        let mut wire = Faulty::new(
            SingleFrameDevice(SimWire::new(1500), false),
            || Instant::from_nanos(7),
            pipe(),
            pipe(),
        );
        assert_eq!(wire.transmit(&[frame(20), frame(21)]).unwrap(), 2);
        assert_eq!(wire.next_deadline(), Some(Instant::from_nanos(7) + RETRY));
        for _ in 0..4 {
            wire.receive(1).unwrap();
        }
        let lengths: Vec<usize> = wire.inner_mut().0.sent().map(|f| f.len()).collect();
        assert_eq!(lengths, [20, 21]);
        assert_eq!(wire.next_deadline(), None);
    }

    /// Returns a wire with faults, and a function that sets its clock, in nanoseconds.
    fn faulty(
        inward: Profile,
        outward: Profile,
    ) -> (impl FnMut(u64), Faulty<SimWire, impl FnMut() -> Instant>) {
        let hand = Rc::new(Cell::new(Instant::ORIGIN));
        let clock = {
            let hand = hand.clone();
            move || hand.get()
        };
        let pipes = (Pipe::new(&inward, 1, "in"), Pipe::new(&outward, 1, "out"));
        (
            move |now| hand.set(Instant::from_nanos(now)),
            Faulty::new(SimWire::new(1500), clock, pipes.0, pipes.1),
        )
    }

    fn frame(len: usize) -> TxFrame {
        TxFrame { head: vec![0; len], ..TxFrame::default() }
    }

    #[test]
    fn sent_frames_leave_when_they_are_due() {
        let (mut set, mut wire) = faulty(
            Profile::default(),
            Profile { delay: Duration::from_nanos(50), ..Profile::default() },
        );
        assert_eq!(wire.transmit(&[frame(20)]).unwrap(), 1);
        assert_eq!(wire.next_deadline(), Some(Instant::from_nanos(50)));
        set(49);
        wire.receive(10).unwrap();
        assert_eq!(wire.inner_mut().sent().count(), 0);
        set(50);
        wire.receive(10).unwrap();
        assert_eq!(wire.inner_mut().sent().count(), 1);
        assert_eq!(wire.next_deadline(), None);
    }

    #[test]
    fn received_frames_pass_the_rules() {
        let (mut set, mut wire) = faulty(
            Profile { drop: vec![2], delay: Duration::from_nanos(10), ..Profile::default() },
            Profile::default(),
        );
        for len in [20, 21, 22] {
            wire.inner_mut().arrive(
                Instant::ORIGIN,
                Frame::sent(&frame(len), hawser_engine::wire::Medium::Ip),
            );
        }
        assert_eq!(wire.receive(10).unwrap(), 0);
        wire.release();
        set(10);
        assert_eq!(wire.receive(10).unwrap(), 2);
        assert_eq!([wire.frame(0).head.len(), wire.frame(1).head.len()], [20, 22]);
        wire.release();
        assert_eq!(wire.receive(10).unwrap(), 0);
    }

    #[test]
    fn faults_act_on_packets_and_not_on_super_segments() {
        let second = Profile { drop: vec![2], ..Profile::default() };
        let (_, mut wire) = faulty(second, Profile::default());
        assert_eq!(wire.caps().gso_max, 0);
        wire.inner_mut()
            .arrive(Instant::ORIGIN, super_segment(&[7; 25], 10));
        assert_eq!(wire.receive(10).unwrap(), 2);
        assert_eq!([wire.frame(0).tail.len(), wire.frame(1).tail.len()], [10, 5]);
    }
}
