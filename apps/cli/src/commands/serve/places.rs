//! How many connections there are. At the limit a newcomer takes the place of the one on which nothing has
//! moved for longest: a client that does not read, or does not ask, keeps nobody out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long nothing has to move on a connection before it makes room: more than a lost packet takes to be sent
/// again on a slow path.
const STALLED: Duration = Duration::from_secs(5);

/// The places of a server.
pub(super) struct Places {
    limit: usize,
    next: Cell<u64>,
    taken: RefCell<BTreeMap<u64, Rc<Occupant>>>,
    /// Before then nobody makes room.
    nobody_before: Cell<Instant>,
}

/// A connection that has a place.
struct Occupant {
    moved_at: Cell<Instant>,
    leave: Notify,
}

impl Places {
    pub(super) fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            limit,
            next: Cell::default(),
            taken: RefCell::default(),
            nobody_before: Cell::new(Instant::now()),
        })
    }

    /// A place for a newcomer; none if all are taken by connections on which something moves.
    pub(super) fn take(self: &Rc<Self>) -> Option<Place> {
        let now = Instant::now();
        if self.taken.borrow().len() >= self.limit {
            self.make_room(now)?;
        }
        let occupant = Rc::new(Occupant { moved_at: Cell::new(now), leave: Notify::new() });
        let number = self.next.replace(self.next.get() + 1);
        self.taken.borrow_mut().insert(number, occupant.clone());
        Some(Place { places: self.clone(), number, occupant })
    }

    fn make_room(&self, now: Instant) -> Option<()> {
        if now < self.nobody_before.get() {
            return None;
        }
        let mut taken = self.taken.borrow_mut();
        let (&number, longest) = taken.iter().min_by_key(|(_, occupant)| occupant.moved_at.get())?;
        let stalled_at = longest.moved_at.get() + STALLED;
        if now < stalled_at {
            self.nobody_before.set(stalled_at);
            return None;
        }
        longest.leave.notify_one();
        taken.remove(&number);
        Some(())
    }
}

/// The place of one connection, until it is dropped.
pub(super) struct Place {
    places: Rc<Places>,
    number: u64,
    occupant: Rc<Occupant>,
}

impl Place {
    /// Resolves when the place was given to a newcomer.
    pub(super) async fn lost(&self) {
        self.occupant.leave.notified().await;
    }

    /// The stream, whose bytes count as moved.
    pub(super) fn watch<S>(&self, stream: S) -> Watched<S> {
        Watched { stream, occupant: self.occupant.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.borrow_mut().remove(&self.number);
    }
}

/// A stream of a connection that has a place.
pub(super) struct Watched<S> {
    stream: S,
    occupant: Rc<Occupant>,
}

impl<S> Watched<S> {
    fn moved(&self) {
        self.occupant.moved_at.set(Instant::now());
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, out);
        if out.filled().len() > before {
            self.moved();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if matches!(result, Poll::Ready(Ok(1..))) {
            self.moved();
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{advance, timeout};

    use super::*;

    async fn is_lost(place: &Place) -> bool {
        timeout(Duration::ZERO, place.lost()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_limit_the_connection_that_is_stalled_for_longest_makes_room() {
        let places = Places::new(3);
        let (busy, idle, last) = (places.take().unwrap(), places.take().unwrap(), places.take().unwrap());
        assert!(places.take().is_none(), "nothing is stalled yet");
        let (mut client, ours) = tokio::io::duplex(64);
        let mut stream = busy.watch(ours);
        advance(Duration::from_secs(3)).await;
        stream.write_all(b"answer").await.unwrap();
        client.write_all(b"request").await.unwrap();
        last.watch(tokio::io::duplex(1).0).moved();
        advance(Duration::from_secs(2)).await;
        let newcomer = places.take().expect("one is stalled for 5 s");
        assert!(is_lost(&idle).await && !is_lost(&busy).await && !is_lost(&last).await);
        assert!(places.take().is_none(), "the others moved 2 s ago");
        stream.read_exact(&mut [0; 7]).await.unwrap();
        advance(Duration::from_secs(3)).await;
        let second = places.take().expect("one is stalled for 5 s");
        assert!(is_lost(&last).await && !is_lost(&busy).await, "what was read counts as well");
        drop((idle, last, newcomer));
        assert!(places.take().is_some(), "a place that was left is free");
        drop(second);
    }
}
