//! Live video as a simulated application. The sender writes a frame every 40 ms to the connection; the
//! receiver notes when the frame is complete.
//!
//! A frame is not made while an earlier one still waits for room in the send buffer: live video drops frames
//! that it cannot send.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hawser::interact::twares::{Dial, RateController, TransportProgress};
use hawser::runs::Script;
use hawser::time::Instant;

use super::encoder::{FRAMES, INTERVAL, frame};

/// The history of a frame, by the simulation's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The time at which it was due.
    pub(super) made: Instant,
    /// The encoder's target rate at that time, in bit/s.
    pub(super) rate: u64,
    /// The offset of its end in the stream, or `None` if it was dropped.
    pub(super) end: Option<u64>,
    /// The time at which its last byte was read.
    pub(super) came: Option<Instant>,
}

/// The film, as both ends know it.
#[derive(Debug, Default)]
pub(super) struct Film {
    pub(super) frames: Vec<Frame>,
    /// The bytes of all frames so far.
    bytes: u64,
    /// True if the last frame was made.
    over: bool,
}

/// The component that sets the encoder's rate.
pub(super) enum Pilot {
    /// The rate is fixed: the dial keeps its value.
    Fixed,
    /// A T-ware turns the dial.
    Transport,
    /// The same controller with the data that an application has by itself: the bytes that the send buffer
    /// took, and whether it was full.
    Buffer(RateController),
}

pub(super) struct Camera {
    film: Rc<RefCell<Film>>,
    dial: Arc<Dial>,
    pilot: Pilot,
    start: Instant,
    /// The total number of frames.
    count: u64,
    sent: u64,
}

impl Camera {
    /// Makes the sender of a film of this many seconds that starts at `start`.
    pub(super) fn new(
        film: Rc<RefCell<Film>>,
        dial: Arc<Dial>,
        pilot: Pilot,
        start: Instant,
        seconds: u64,
    ) -> Self {
        Self { film, dial, pilot, start, count: seconds * FRAMES, sent: 0 }
    }

    /// Returns the time at which the next frame is due.
    fn due(&self) -> Option<Instant> {
        let number = self.film.borrow().frames.len() as u64;
        (number < self.count).then(|| self.start + INTERVAL * number as u32)
    }

    fn make(&mut self, due: Instant) {
        let film = Rc::clone(&self.film);
        let mut film = film.borrow_mut();
        let full = film.bytes > self.sent;
        if let Pilot::Buffer(controller) = &mut self.pilot {
            let seen = TransportProgress {
                now: due,
                written: film.bytes,
                delivered: self.sent,
                window: u64::MAX,
                srtt: Duration::ZERO,
            };
            controller.acked(seen);
            self.dial.set_rate(if full {
                controller.recovery_began(seen)
            } else {
                controller.rate()
            });
        }
        let (number, rate) = (film.frames.len() as u64, self.dial.rate());
        if !full {
            film.bytes += frame(number, rate);
            self.dial.set_written(film.bytes);
        }
        let end = (!full).then_some(film.bytes);
        film.frames.push(Frame { made: due, rate, end, came: None });
        film.over = number + 1 == self.count;
    }
}

impl Script for Camera {
    fn allowance(&mut self, now: Instant, _received: u64) -> u64 {
        while let Some(due) = self.due().filter(|due| *due <= now) {
            self.make(due);
        }
        self.film.borrow().bytes
    }

    fn wake_at(&self) -> Option<Instant> {
        self.due()
    }

    fn outgoing(&self) -> u64 {
        let film = self.film.borrow();
        if film.over { film.bytes } else { u64::MAX }
    }

    fn incoming(&self) -> u64 {
        0
    }

    fn on_sent(&mut self, _now: Instant, sent: u64) {
        self.sent = sent;
    }
}

pub(super) struct Screen {
    film: Rc<RefCell<Film>>,
    /// The number of frames that are complete or were dropped.
    come: usize,
}

impl Screen {
    pub(super) fn new(film: Rc<RefCell<Film>>) -> Self {
        Self { film, come: 0 }
    }
}

impl Script for Screen {
    fn allowance(&mut self, _now: Instant, _received: u64) -> u64 {
        0
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn outgoing(&self) -> u64 {
        0
    }

    fn incoming(&self) -> u64 {
        let film = self.film.borrow();
        if film.over { film.bytes } else { u64::MAX }
    }

    fn on_received(&mut self, now: Instant, received: u64) {
        let mut film = self.film.borrow_mut();
        while let Some(frame) = film.frames.get_mut(self.come)
            && frame.end.is_none_or(|end| end <= received)
        {
            frame.came = frame.end.map(|_| now);
            self.come += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn frames_are_made_in_time_and_dropped_while_the_buffer_is_full() {
        let film: Rc<RefCell<Film>> = Rc::default();
        let mut camera = Camera::new(
            film.clone(),
            Arc::new(Dial::new(2_240_000)),
            Pilot::Fixed,
            at(1_000),
            1,
        );
        let mut screen = Screen::new(film.clone());
        assert_eq!(
            (camera.allowance(at(1_000), 0), camera.wake_at()),
            (40_000, Some(at(1_000) + INTERVAL))
        );
        camera.on_sent(at(1_000), 30_000);
        assert_eq!(
            camera.allowance(at(1_000) + INTERVAL, 0),
            40_000,
            "the second one is dropped"
        );
        camera.on_sent(at(1_000) + INTERVAL, 40_000);
        assert_eq!(camera.allowance(at(1_000) + 2 * INTERVAL, 0), 50_000);
        screen.on_received(at(5_000), 49_999);
        let came = |film: &Film| film.frames.iter().map(|frame| frame.came).collect::<Vec<_>>();
        assert_eq!(came(&film.borrow()), [Some(at(5_000)), None, None]);
        screen.on_received(at(6_000), 50_000);
        assert_eq!(came(&film.borrow()), [Some(at(5_000)), None, Some(at(6_000))]);
        assert_eq!(screen.incoming(), u64::MAX, "there is more to come");
    }
}
