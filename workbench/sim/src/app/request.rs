//! Request and response: the client asks, waits for the whole answer, thinks, and asks again. The server
//! answers each request once it has arrived completely.

use std::time::Duration;

use hawser_time::Instant;

use super::{FlowSide, Script};
use crate::rng::Rng;

/// The sizes of all exchanges; both ends draw the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchanges {
    /// The offset at which each request ends, from the start of its direction.
    requests: Vec<u64>,
    /// The offset at which each response ends.
    responses: Vec<u64>,
}

impl Exchanges {
    /// Draws `count` exchanges with sizes between the given bounds, at least 1 byte each.
    #[must_use]
    pub fn draw(count: u64, request: (u64, u64), response: (u64, u64), rng: &mut Rng) -> Exchanges {
        let (mut requests, mut responses) = (Vec::new(), Vec::new());
        let (mut asked, mut answered) = (0, 0);
        for _ in 0..count {
            asked = u64::saturating_add(asked, rng.between(request.0, request.1).max(1));
            answered = u64::saturating_add(answered, rng.between(response.0, response.1).max(1));
            requests.push(asked);
            responses.push(answered);
        }
        Exchanges { requests, responses }
    }
}

/// One end of the exchanges.
#[derive(Clone, Debug)]
pub struct RequestEnd {
    side: FlowSide,
    exchanges: Exchanges,
    think: Duration,
    /// The number of completed exchanges (client), or of answered requests (server).
    done: usize,
    /// The time at which the client may ask next.
    ask_at: Instant,
    /// The time of the client's last request.
    asked_at: Option<Instant>,
    times: Vec<Duration>,
}

impl RequestEnd {
    /// Creates one end; the client waits for `think` after each answer.
    #[must_use]
    pub fn new(side: FlowSide, exchanges: Exchanges, think: Duration) -> RequestEnd {
        RequestEnd {
            side,
            exchanges,
            think,
            done: 0,
            ask_at: Instant::ORIGIN,
            asked_at: None,
            times: Vec::new(),
        }
    }

    fn client_allowance(&mut self, now: Instant) -> u64 {
        if self.asked_at.is_none() && self.done < self.exchanges.requests.len() && now >= self.ask_at {
            self.asked_at = Some(now);
        }
        let asked = self.done + usize::from(self.asked_at.is_some());
        ends_of(&self.exchanges.requests, asked)
    }

    fn server_allowance(&mut self, received: u64) -> u64 {
        self.done = self.exchanges.requests.partition_point(|end| *end <= received);
        ends_of(&self.exchanges.responses, self.done)
    }
}

/// Returns the offset at which the first n requests or responses end.
fn ends_of(ends: &[u64], n: usize) -> u64 {
    n.checked_sub(1)
        .and_then(|last| ends.get(last))
        .copied()
        .unwrap_or(0)
}

impl Script for RequestEnd {
    fn allowance(&mut self, now: Instant, received: u64) -> u64 {
        match self.side {
            FlowSide::Client => self.client_allowance(now),
            FlowSide::Server => self.server_allowance(received),
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        let waits = self.side == FlowSide::Client
            && self.asked_at.is_none()
            && self.done > 0
            && self.done < self.exchanges.requests.len();
        waits.then_some(self.ask_at)
    }

    fn outgoing(&self) -> u64 {
        let ends = match self.side {
            FlowSide::Client => &self.exchanges.requests,
            FlowSide::Server => &self.exchanges.responses,
        };
        ends_of(ends, ends.len())
    }

    fn incoming(&self) -> u64 {
        let ends = match self.side {
            FlowSide::Client => &self.exchanges.responses,
            FlowSide::Server => &self.exchanges.requests,
        };
        ends_of(ends, ends.len())
    }

    fn on_received(&mut self, now: Instant, received: u64) {
        if self.side == FlowSide::Server {
            return;
        }
        if let Some(asked_at) = self.asked_at
            && self
                .exchanges
                .responses
                .get(self.done)
                .is_some_and(|end| *end <= received)
        {
            self.times.push(now - asked_at);
            self.asked_at = None;
            self.done += 1;
            self.ask_at = now + self.think;
        }
    }

    fn times(&self) -> &[Duration] {
        &self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_client_sends_one_request_at_a_time() {
        let mut rng = Rng::new(1, "sizes");
        let exchanges = Exchanges::draw(2, (10, 10), (30, 30), &mut rng);
        let mut client = RequestEnd::new(FlowSide::Client, exchanges.clone(), Duration::from_nanos(5));
        let mut server = RequestEnd::new(FlowSide::Server, exchanges, Duration::from_nanos(5));
        assert_eq!((client.outgoing(), client.incoming()), (20, 60));
        assert_eq!((server.outgoing(), server.incoming()), (60, 20));
        assert_eq!(client.allowance(at(0), 0), 10);
        assert_eq!((server.allowance(at(3), 9), server.allowance(at(4), 10)), (0, 30));
        client.on_received(at(7), 29);
        assert_eq!(client.allowance(at(7), 29), 10);
        client.on_received(at(8), 30);
        assert_eq!(
            (client.allowance(at(8), 30), client.wake_at()),
            (10, Some(at(13))),
            "it thinks"
        );
        assert_eq!((client.allowance(at(13), 30), client.wake_at()), (20, None));
        client.on_received(at(20), 60);
        assert_eq!(
            (client.times(), client.wake_at()),
            (&[8, 7].map(Duration::from_nanos)[..], None)
        );
    }

    #[test]
    fn sizes_are_drawn_within_bounds() {
        let exchanges = Exchanges::draw(1000, (0, 3), (5, 9), &mut Rng::new(2, "sizes"));
        let sizes = |ends: &[u64]| -> Vec<u64> {
            std::iter::once(0)
                .chain(ends.iter().copied())
                .collect::<Vec<_>>()
                .windows(2)
                .map(|w| w[1] - w[0])
                .collect()
        };
        assert!(sizes(&exchanges.requests).iter().all(|s| (1..=3).contains(s)));
        assert!(sizes(&exchanges.responses).iter().all(|s| (5..=9).contains(s)));
    }
}
