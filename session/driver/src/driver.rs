//! The task that drives a session. It carries bytes between the session's carriers and the machine.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hawser_bus::ring::Waker;
use hawser_bus::{Bus, FlowInfo, Schema, Source};
use hawser_carriers::{Carrier, Description};
use hawser_session_machine::interact::{View, publish};
use hawser_session_machine::{CarrierId, Instruction, Loss, SessionEnd};
use hawser_time::Instant;
use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::carriers::{Strand, TurnResult};
use super::client::PathCandidate;
use super::error::CandidateError;
use super::log;
use super::plain::protocol;
use super::progress::ProgressTimeout;
use super::shared::{Fallback, Inner, PathInfo, Shared};
use super::trust::ALPN;
use hawser_socket::process_bus;

/// A function that opens a requested carrier.
pub(super) type Connector = Box<dyn Fn(CarrierRequest) -> Opening + Send>;

/// A request to open a carrier.
pub(super) struct CarrierRequest {
    /// The candidate's index.
    pub(super) candidate: usize,
    /// The transport and address to use.
    pub(super) path_candidate: PathCandidate,
    /// An address to use instead of the candidate's own.
    pub(super) elsewhere: Option<Elsewhere>,
    /// True to use packets that are small enough for every path.
    pub(super) small: bool,
}

/// The address at which a carrier is opened instead of its candidate's.
pub(super) struct Elsewhere {
    pub(super) address: SocketAddr,
    /// The name that the server's certificate must have there. If empty, the usual name.
    pub(super) name: String,
}

/// A carrier that arrived for a server's session.
pub(super) struct ArrivedCarrier {
    pub(super) id: CarrierId,
    pub(super) backup: bool,
    pub(super) carrier: Box<dyn Carrier>,
    /// Bytes that are written first.
    pub(super) answer: Bytes,
    /// The bytes that followed the segment that admitted it.
    pub(super) rest: Bytes,
}

type Opening = Pin<Box<dyn Future<Output = Result<Box<dyn Carrier>, CandidateError>> + Send>>;

/// Drives one session until it has ended and its carriers are closed.
pub(super) struct Driver {
    shared: Arc<Shared>,
    strands: Vec<Strand>,
    /// Bytes that one carrier delivered in one turn.
    pieces: Vec<Bytes>,
    /// Carriers that are being opened, each with true if it uses small packets.
    opening: Vec<(CarrierId, bool, Opening)>,
    connector: Option<Connector>,
    arrivals: Option<mpsc::UnboundedReceiver<ArrivedCarrier>>,
    sleep: Pin<Box<Sleep>>,
    wakes_at: Option<Instant>,
    /// The timeout for a session that has no handle, while its peer has yet to acknowledge written data.
    abandoned: ProgressTimeout,
    /// The timeout for a server's session that has lost its first carrier and has no other.
    unanswered: ProgressTimeout,
    /// True if bytes arrived after the server's answer had been sent.
    was_answered: bool,
    /// The source through which the session is watched and steered from outside.
    source: Option<Source>,
}

/// The time for which a session without handles waits for its peer's next acknowledgement.
const ABANDONED: Duration = Duration::from_secs(30);
/// The time for which a server keeps a session whose client has never answered and is gone. A client that
/// lives tries again within 10 s.
const UNANSWERED: Duration = Duration::from_secs(15);

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        connector: Option<Connector>,
        arrivals: Option<mpsc::UnboundedReceiver<ArrivedCarrier>>,
    ) -> Self {
        Self {
            source: process_bus().map(|bus| join(&bus, &shared)),
            shared,
            strands: Vec::new(),
            pieces: Vec::new(),
            opening: Vec::new(),
            connector,
            arrivals,
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            wakes_at: None,
            abandoned: ProgressTimeout::new(ABANDONED),
            unanswered: ProgressTimeout::new(UNANSWERED),
            was_answered: false,
        }
    }

    /// Takes carriers that a client has connected or that arrived at a server.
    fn take_new(&mut self, cx: &mut Context<'_>) {
        let mut index = 0;
        while index < self.opening.len() {
            let Poll::Ready(result) = self.opening[index].2.as_mut().poll(cx) else {
                index += 1;
                continue;
            };
            let (id, small, _) = self.opening.swap_remove(index);
            let mut inner = self.shared.lock();
            let now = self.shared.now();
            match result {
                Ok(carrier) => match judge(&mut inner, &carrier.describe()) {
                    PeerProtocol::Hawser => {
                        inner.infos.insert(id, PathInfo::new(carrier.describe()));
                        log::connected(inner.session.id(), id, &carrier.describe());
                        let exporter = carrier.exporter();
                        if carrier.is_kept_small() {
                            inner.session.keep_small(id, now);
                        }
                        if small || carrier.is_kept_small() {
                            inner.kept_small.notify_one();
                        }
                        self.strands.push(Strand::new(id, carrier));
                        inner.session.connected(id, exporter, now);
                    }
                    PeerProtocol::Plain => inner.fallback = Fallback::Plain(carrier),
                    PeerProtocol::Neither(why) => inner.session.lost(id, Loss::Transport(why), now),
                },
                Err(error) => {
                    inner.take_failure(&error);
                    inner.session.lost(id, Loss::Transport(error.to_string()), now);
                }
            }
        }
        while let Some(Poll::Ready(Some(arrival))) = self.arrivals.as_mut().map(|new| new.poll_recv(cx)) {
            let ArrivedCarrier { id, backup, carrier, answer, rest } = arrival;
            let mut inner = self.shared.lock();
            let now = self.shared.now();
            let mut strand = Strand::new(id, carrier);
            if inner.session.is_closed() {
                strand.carrier.abort();
                continue;
            }
            let description = strand.carrier.describe();
            log::connected(inner.session.id(), id, &description);
            // A client that sends HELLO anew has abandoned the carrier with the same number.
            self.strands.retain(|strand| strand.id != id);
            strand.push(answer);
            self.strands.push(strand);
            inner.session.admitted(id, backup, now);
            // If there are too many carriers, the new one is asked to close and receives no further input.
            if inner.session.paths().any(|path| path.carrier == id) {
                inner.infos.insert(id, PathInfo::new(description));
            }
            inner.session.received(id, rest, now);
        }
    }

    /// Moves bytes in and out of every carrier. Returns true if more may be available at once.
    ///
    /// All queued bytes are written before any carrier is asked for anything else. Thus no system call
    /// precedes the first byte that an application has just written. A carrier without activity is asked for
    /// its statistics only while bytes wait to be assigned, because the scheduler compares all carriers by
    /// them. Otherwise the session's own clock requests them while the carrier's transport has data
    /// outstanding.
    fn carry(&mut self, cx: &mut Context<'_>) -> bool {
        for strand in self.strands.iter_mut().filter(|strand| !strand.is_finishing()) {
            strand.write(cx);
        }
        let is_scheduling = self.shared.lock().session.is_scheduling();
        let mut busy = false;
        let mut index = 0;
        while index < self.strands.len() {
            let strand = &mut self.strands[index];
            let is_over = if strand.is_finishing() {
                strand.end(cx)
            } else {
                match strand.read(cx, |bytes| self.pieces.push(bytes)) {
                    TurnResult::Idle if !strand.take_moved() && !is_scheduling => false,
                    TurnResult::Idle => self.report(index, None),
                    TurnResult::Busy => {
                        busy = true;
                        self.report(index, None)
                    }
                    TurnResult::Over(why) => self.report(index, Some(why)),
                }
            };
            if is_over {
                self.strands.swap_remove(index);
            } else {
                index += 1;
            }
        }
        busy
    }

    /// Passes a carrier's bytes, statistics and room to the session. `over` is the reason if the carrier is
    /// over; the result is then true.
    fn report(&mut self, index: usize, over: Option<String>) -> bool {
        let strand = &mut self.strands[index];
        let id = strand.id;
        self.was_answered |= !self.pieces.is_empty() && strand.has_written();
        let (statistics, room) = (strand.carrier.statistics(), strand.room());
        let mut inner = self.shared.lock();
        let now = self.shared.now();
        for bytes in self.pieces.drain(..) {
            inner.session.received(id, bytes, now);
        }
        inner.enforce_budget(now);
        inner.session.statistics(id, statistics, now);
        match over {
            Some(why) => {
                inner.session.lost(id, Loss::Transport(why), now);
                true
            }
            None => {
                inner.session.room(id, room, now);
                false
            }
        }
    }

    /// Carries out the session's instructions.
    fn obey(&mut self) {
        let shared = self.shared.clone();
        let mut inner = shared.lock();
        while let Some(instruction) = inner.session.poll() {
            match instruction {
                Instruction::Connect { carrier, candidate, small } => {
                    let elsewhere = inner.session.home_of(carrier);
                    let elsewhere =
                        elsewhere.map(|(address, name)| Elsewhere { address, name: name.to_owned() });
                    if let (Some(connector), Some(path_candidate)) =
                        (&self.connector, inner.candidates.get(candidate))
                    {
                        let wanted = CarrierRequest {
                            candidate,
                            path_candidate: path_candidate.clone(),
                            elsewhere,
                            small,
                        };
                        self.opening.push((carrier, small, connector(wanted)));
                    }
                }
                Instruction::Send { carrier, head, body } => {
                    if let Some(strand) = self.strand(carrier) {
                        strand.push(head);
                        strand.push(body);
                    }
                }
                Instruction::Close { carrier, abort } => {
                    self.opening.retain(|(id, ..)| *id != carrier);
                    if let Some(strand) = self.strand(carrier) {
                        if abort {
                            strand.carrier.abort();
                            self.strands.retain(|strand| strand.id != carrier);
                        } else {
                            strand.finish();
                        }
                    }
                }
                Instruction::Notify(notice) => {
                    if let Some(source) = &mut self.source {
                        let inner = &mut *inner;
                        let describe = |carrier| inner.infos.get(&carrier).map(describe);
                        let (session, now) = (&mut inner.session, shared.now());
                        publish(source, &notice, &mut View { session, now, describe: &describe });
                    }
                    inner.take_notice(notice);
                }
            }
        }
    }

    /// Takes orders of the interactive layer. Returns true if there were any.
    fn interact(&mut self) -> bool {
        let Some(source) = &mut self.source else {
            return false;
        };
        let (mut inner, now) = (self.shared.lock(), self.shared.now());
        let inner = &mut *inner;
        let describe = |carrier| inner.infos.get(&carrier).map(describe);
        let mut view = View { session: &mut inner.session, now, describe: &describe };
        source.poll(now, &mut view)
    }

    fn strand(&mut self, id: CarrierId) -> Option<&mut Strand> {
        self.strands
            .iter_mut()
            .find(|strand| strand.id == id && !strand.is_finishing())
    }

    /// Calls the session's timeout if it is due, and arranges to be woken at the next one. Returns true if it
    /// was due.
    fn tick(&mut self, cx: &mut Context<'_>) -> bool {
        let mut fired = false;
        loop {
            let now = self.shared.now();
            let next = self.shared.lock().session.next_timeout(now);
            let watched = self.source.as_ref().and_then(Source::next_deadline);
            let next = [next, watched].into_iter().flatten().min();
            let Some(next) = next else { return fired };
            if watched.is_some_and(|watched| watched <= now) {
                return true;
            }
            if next <= now {
                for strand in &mut self.strands {
                    let statistics = strand.carrier.statistics();
                    self.shared.lock().session.statistics(strand.id, statistics, now);
                }
                self.shared.lock().session.timeout(now);
                return true;
            }
            if self.wakes_at != Some(next) {
                self.wakes_at = Some(next);
                let at = self.shared.epoch + next.since_origin();
                self.sleep.as_mut().reset(tokio::time::Instant::from_std(at));
            }
            if self.sleep.as_mut().poll(cx).is_pending() {
                return fired;
            }
            self.wakes_at = None;
            fired = true;
        }
    }
}

/// Connects a session to the bus. Orders wake the task that drives it.
fn join(bus: &Bus, shared: &Arc<Shared>) -> Source {
    static SCHEMA: LazyLock<Arc<Schema>> =
        LazyLock::new(|| Arc::new(hawser_session_machine::interact::schema()));
    let shared = Arc::downgrade(shared);
    let waker: Waker = Arc::new(move || {
        if let Some(shared) = shared.upgrade() {
            shared.wake_driver();
        }
    });
    bus.source(SCHEMA.clone(), Some(waker))
}

/// Describes a carrier for people.
fn describe(info: &PathInfo) -> FlowInfo {
    let Description { local, peer, interface, transport, .. } = &info.description;
    let on = interface
        .as_deref()
        .map_or_else(String::new, |name| format!(" on {name}"));
    FlowInfo {
        local: Some(*local),
        remote: Some(*peer),
        label: format!("{transport}{on}"),
        ..FlowInfo::default()
    }
}

/// The number of turns before other tasks have theirs.
const TURNS: usize = 8;

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        driver.shared.lock().driver = Some(cx.waker().clone());
        for _ in 0..TURNS {
            // Subscribers that joined before a notice came receive it.
            let steered = driver.interact();
            // Carriers that it opens are polled for the first time right after it.
            driver.obey();
            driver.take_new(cx);
            let busy = driver.carry(cx);
            let fired = driver.tick(cx) | steered;
            if driver.shared.lock().session.has_instructions() {
                continue;
            }
            if driver.is_over() || driver.gives_up(cx) {
                return Poll::Ready(());
            }
            if !(busy || fired) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The protocol that a new carrier's peer speaks.
enum PeerProtocol {
    Hawser,
    /// Another protocol, which is accepted.
    Plain,
    /// Another protocol, which is not accepted, for this reason.
    Neither(String),
}

/// Determines the peer's protocol from the first carrier. Once a peer speaks Hawser, its later carriers must
/// do so, too.
fn judge(inner: &mut Inner, description: &Description) -> PeerProtocol {
    let is_open = matches!(inner.fallback, Fallback::Open);
    let verdict = match description.alpn.as_deref() {
        Some(ALPN) => PeerProtocol::Hawser,
        // A caller that supplied a TLS configuration without ALPN knows its peer's protocol.
        None if !inner.offers => PeerProtocol::Hawser,
        None => PeerProtocol::Neither("the server selected none of the offered protocols (ALPN)".into()),
        Some(_) if is_open => PeerProtocol::Plain,
        Some(_) => PeerProtocol::Neither(format!(
            "the server speaks {} here, not Hawser",
            protocol(description)
        )),
    };
    if is_open && matches!(verdict, PeerProtocol::Hawser) {
        inner.fallback = Fallback::Refused;
    }
    if is_open {
        inner.wake_all();
    }
    verdict
}

impl Driver {
    /// Returns true once a session that has ended has no carriers left. Attempts to open more are dropped.
    fn is_over(&mut self) -> bool {
        let inner = self.shared.lock();
        if matches!(inner.fallback, Fallback::Plain(_) | Fallback::Taken) {
            return true;
        }
        if !inner.session.is_closed() {
            return false;
        }
        drop(inner);
        self.opening.clear();
        self.strands.is_empty()
    }

    /// Returns true if the rest of the session is not worth waiting for. Either it has no handle and its peer
    /// takes no more data, or its client has never answered and is gone.
    fn gives_up(&mut self, cx: &mut Context<'_>) -> bool {
        let mut inner = self.shared.lock();
        let was_answered = self.was_answered || inner.session.is_confirmed();
        let is_unanswered = self.arrivals.is_some() && self.strands.is_empty() && !was_answered;
        let is_late = match (inner.is_abandoned, is_unanswered) {
            (true, _) => self.abandoned.is_over(inner.session.held().unacknowledged, cx),
            (false, true) => self.unanswered.is_over(0, cx),
            (false, false) => {
                self.unanswered.reset();
                false
            }
        };
        if is_late {
            self.strands
                .drain(..)
                .for_each(|mut strand| strand.carrier.abort());
            inner.closed.get_or_insert(SessionEnd::Abandoned);
            inner.wake_all();
        }
        is_late
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.end_life();
        inner.is_over = true;
        inner.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::handle::Session;
    use super::super::shared::Handle;
    use super::super::testing::{Calls, Mute, served};
    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    /// Returns a driver with short timeouts, its handle, and a channel to give it carriers.
    fn driver(carriers: u8) -> (Driver, Session, mpsc::UnboundedSender<ArrivedCarrier>, Bytes) {
        let (machine, answer) = served(carriers);
        let shared = Shared::new(machine, std::time::Instant::now());
        let (sender, arrivals) = mpsc::unbounded_channel();
        let mut driver = Driver::new(shared.clone(), None, Some(arrivals));
        (driver.abandoned, driver.unanswered) = (ProgressTimeout::new(SHORT), ProgressTimeout::new(SHORT));
        (driver, Session { shared: Handle::new(shared) }, sender, answer)
    }

    fn arrival(id: u32, carrier: Box<Mute>, answer: Bytes) -> ArrivedCarrier {
        ArrivedCarrier { id: CarrierId(id), backup: false, carrier, answer, rest: Bytes::new() }
    }

    async fn soon(driver: Driver) {
        tokio::time::timeout(Duration::from_secs(2), driver)
            .await
            .expect("it is over");
    }

    #[tokio::test]
    async fn unread_data_is_given_up_after_the_last_handle() {
        let (driver, session, carriers, answer) = driver(8);
        let (carrier, aborted) = Mute::new(1_000);
        carriers.send(arrival(0, carrier, answer)).ok().unwrap();
        let mut stream = session.open().unwrap();
        stream.write_bytes(vec![1; 100_000].into()).await.unwrap();
        let mut end = session.shared.lock().end();
        drop((stream, session));
        soon(driver).await;
        assert!(aborted.load(Ordering::Relaxed), "its carrier is cut");
        tokio::time::timeout(SHORT, end.come())
            .await
            .expect("whoever waits for its end is notified");
    }

    #[tokio::test]
    async fn a_session_ends_when_an_unanswering_client_leaves() {
        let (driver, session, carriers, _) = driver(8);
        soon(driver).await;
        assert!(session.is_closed());
        drop(carriers);
    }

    async fn turn(driver: &mut Driver) {
        std::future::poll_fn(|cx| {
            let _ = Pin::new(&mut *driver).poll(cx);
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn a_write_reaches_a_carrier_before_other_requests() {
        let (mut driver, session, carriers, answer) = driver(8);
        let calls = Calls::default();
        for id in 0..2 {
            let (mut carrier, _) = Mute::new(1 << 20);
            carrier.calls = calls.clone();
            carriers.send(arrival(id, carrier, answer.clone())).ok().unwrap();
        }
        let mut stream = session.open().unwrap();
        turn(&mut driver).await;
        calls.lock().unwrap().clear();
        stream
            .write_bytes(Bytes::from_static(b"a request"))
            .await
            .unwrap();
        turn(&mut driver).await;
        assert_eq!(calls.lock().unwrap()[0], "write");
    }

    #[tokio::test]
    async fn an_idle_carrier_is_not_asked_for_statistics() {
        let (mut driver, session, carriers, answer) = driver(8);
        let calls = [Calls::default(), Calls::default()];
        for (id, calls) in (0..).zip(&calls) {
            let (mut carrier, _) = Mute::new(1 << 20);
            carrier.calls = calls.clone();
            carriers.send(arrival(id, carrier, answer.clone())).ok().unwrap();
        }
        let mut stream = session.open().unwrap();
        turn(&mut driver).await;
        calls.iter().for_each(|calls| calls.lock().unwrap().clear());
        stream
            .write_bytes(Bytes::from_static(b"a request"))
            .await
            .unwrap();
        turn(&mut driver).await;
        let asked = |calls: &&Calls| calls.lock().unwrap().contains(&"statistics");
        assert_eq!(calls.iter().filter(asked).count(), 1);
    }

    #[tokio::test]
    async fn a_carrier_beyond_the_limit_leaves_no_state() {
        let (mut driver, session, carriers, answer) = driver(1);
        let (carrier, _) = Mute::new(1_000);
        carriers.send(arrival(0, carrier, answer)).ok().unwrap();
        for id in 1..4 {
            let (carrier, _) = Mute::new(1_000);
            carriers.send(arrival(id, carrier, Bytes::new())).ok().unwrap();
        }
        turn(&mut driver).await;
        assert_eq!(session.paths().len(), 1);
        assert_eq!(driver.strands.len(), 1);
    }
}
