//! How many connections there are, and how many of them one network may have. At either limit a newcomer takes
//! the place of the one on which nothing has moved for longest, of those of the network that has most: a client
//! that does not read, or does not ask, keeps nobody out, and one address no other.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use hawser::places::{self, Prefix, Shares};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long nothing has to move on a connection before it makes room: more than a lost packet takes to be sent
/// again on a slow path.
const STALLED: Duration = Duration::from_secs(5);

/// The places of a server.
pub(super) struct Places {
    taken: RefCell<places::Places<Rc<Occupant>>>,
    /// The network of which nobody makes room before then.
    nobody_before: Cell<Option<(Prefix, Instant)>>,
}

/// A connection that has a place.
struct Occupant {
    moved_at: Cell<Instant>,
    leave: Notify,
}

impl Places {
    pub(super) fn new(shares: Shares) -> Rc<Self> {
        let taken = RefCell::new(places::Places::new(shares));
        Rc::new(Self {
            taken,
            nobody_before: Cell::default(),
        })
    }

    /// A place for a newcomer; none if all that it could have are taken by connections on which something
    /// moves.
    pub(super) fn take(self: &Rc<Self>, peer: IpAddr) -> Option<Place> {
        let now = Instant::now();
        let crowded = self.taken.borrow().crowded(peer);
        if let Some(crowded) = crowded {
            self.make_room(crowded, now)?;
        }
        let occupant = Rc::new(Occupant {
            moved_at: Cell::new(now),
            leave: Notify::new(),
        });
        let (number, _) = self.taken.borrow_mut().take(peer, occupant.clone());
        Some(Place {
            places: self.clone(),
            number,
            occupant,
        })
    }

    /// Takes a place from a network, if something has not moved there for long enough.
    fn make_room(&self, network: Prefix, now: Instant) -> Option<()> {
        if self
            .nobody_before
            .get()
            .is_some_and(|(known, at)| known == network && now < at)
        {
            return None;
        }
        let mut taken = self.taken.borrow_mut();
        let oldest = taken
            .of(network)
            .min_by_key(|(_, occupant)| occupant.moved_at.get());
        let (number, occupant) = oldest.map(|(number, occupant)| (number, occupant.clone()))?;
        let stalled_at = occupant.moved_at.get() + STALLED;
        if now < stalled_at {
            self.nobody_before.set(Some((network, stalled_at)));
            return None;
        }
        occupant.leave.notify_one();
        taken.leave(number);
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
        Watched {
            stream,
            occupant: self.occupant.clone(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.borrow_mut().leave(self.number);
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
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{advance, timeout};

    use super::*;

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
    const THIRD: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3));

    async fn is_lost(place: &Place) -> bool {
        timeout(Duration::ZERO, place.lost()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_limit_the_longest_stalled_connection_is_replaced() {
        let places = Places::new(Shares::unshared(3));
        let take = || places.take(ONE);
        let (busy, idle, last) = (take().unwrap(), take().unwrap(), take().unwrap());
        assert!(take().is_none(), "nothing is stalled yet");
        let (mut client, ours) = tokio::io::duplex(64);
        let mut stream = busy.watch(ours);
        advance(Duration::from_secs(3)).await;
        stream.write_all(b"answer").await.unwrap();
        client.write_all(b"request").await.unwrap();
        last.watch(tokio::io::duplex(1).0).moved();
        advance(Duration::from_secs(2)).await;
        let newcomer = take().expect("one is stalled for 5 s");
        assert!(is_lost(&idle).await && !is_lost(&busy).await && !is_lost(&last).await);
        assert!(take().is_none(), "the others moved 2 s ago");
        stream.read_exact(&mut [0; 7]).await.unwrap();
        advance(Duration::from_secs(3)).await;
        let second = take().expect("one is stalled for 5 s");
        assert!(
            is_lost(&last).await && !is_lost(&busy).await,
            "what was read counts as well"
        );
        drop((idle, last, newcomer));
        assert!(take().is_some(), "a place that was left is free");
        drop(second);
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_at_its_share_takes_no_place_of_another() {
        let places = Places::new(Shares {
            total: 4,
            per_prefix: 3,
        });
        let other = places.take(OTHER).unwrap();
        let held: Vec<Place> = (0..3).map(|_| places.take(ONE).unwrap()).collect();
        advance(Duration::from_secs(3)).await;
        held.iter()
            .for_each(|place| place.occupant.moved_at.set(Instant::now()));
        advance(Duration::from_secs(3)).await;
        assert!(
            places.take(ONE).is_none(),
            "something moved on each of its own 3 s ago"
        );
        assert!(
            !is_lost(&other).await,
            "although the other one is stalled for 6 s"
        );
        advance(Duration::from_secs(2)).await;
        let newcomer = places.take(THIRD).expect("the network that has most makes room");
        let mut lost = 0;
        for place in &held {
            lost += usize::from(is_lost(place).await);
        }
        assert_eq!((lost, is_lost(&other).await), (1, false));
        drop(newcomer);
    }
}
