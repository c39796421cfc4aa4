//! Sessions and carriers for tests, without a network.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use hawser_carriers::{Carrier, Description, Statistics};
use hawser_session_machine::scheduler::by_name;
use hawser_session_machine::{Acceptor, AcceptorConfig, Candidate, CarrierDecision, Config, Security};

use super::handle::Session;
use super::shared::{Handle, Shared};

/// Returns a client's session without a task.
pub(super) fn session() -> Session {
    let config = Config {
        security: Security::None,
        candidates: vec![Candidate::new(0)],
        ..Config::default()
    };
    let scheduler = by_name("ecf").expect("it comes with Hawser");
    let machine =
        hawser_session_machine::Session::client(config, scheduler, [0; 16], hawser_time::Instant::ORIGIN);
    Session { shared: Handle::new(Shared::new(machine, Instant::now())) }
}

/// Returns a server's session that has just begun and allows `carriers` carriers, and its ACCEPT.
pub(super) fn served(carriers: u8) -> (hawser_session_machine::Session, Bytes) {
    let session = Config { carriers, ..Config::default() };
    let mut acceptor: Acceptor<u32> =
        Acceptor::new(AcceptorConfig { insecure: true, session, ..AcceptorConfig::default() });
    // HELLO of an insecure session (docs/session-protocol.md).
    let mut hello = vec![1, 52, 0, 0, 0, 0, 0, 52, 1, 1, 1, 8];
    hello.extend_from_slice(&1_024u32.to_be_bytes());
    hello.extend_from_slice(&[7; 16]);
    hello.extend_from_slice(&[0; 8]);
    hello.extend_from_slice(&(1u64 << 30).to_be_bytes());
    hello.extend_from_slice(&0u32.to_be_bytes());
    acceptor
        .accepted(0, None, [1; 28], hawser_time::Instant::ORIGIN)
        .expect("a place");
    let make = || by_name("ecf").expect("it comes with Hawser");
    match acceptor.received(0, hello.into(), make, hawser_time::Instant::ORIGIN) {
        CarrierDecision::Begin { session, answer, .. } => (*session, answer),
        other => panic!("{other:?}"),
    }
}

/// A carrier that takes `room` bytes and delivers none. `aborted` records whether it was aborted.
pub(super) struct Mute {
    pub(super) room: usize,
    pub(super) aborted: Arc<AtomicBool>,
    /// The calls on this carrier and on others that share the list.
    pub(super) calls: Calls,
}

/// The names of carrier calls for which a transport may need system calls, in their order.
pub(super) type Calls = Arc<Mutex<Vec<&'static str>>>;

impl Mute {
    fn call(&self, what: &'static str) {
        self.calls.lock().expect("no test panicked").push(what);
    }
}

impl Mute {
    pub(super) fn new(room: usize) -> (Box<Self>, Arc<AtomicBool>) {
        let aborted = Arc::new(AtomicBool::new(false));
        (
            Box::new(Self { room, aborted: aborted.clone(), calls: Calls::default() }),
            aborted,
        )
    }
}

impl Carrier for Mute {
    fn describe(&self) -> Description {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
        Description {
            transport: "tcp",
            secure: false,
            local: nowhere,
            peer: nowhere,
            interface: None,
            fallback: None,
            alpn: None,
        }
    }

    fn statistics(&mut self) -> Statistics {
        self.call("statistics");
        Statistics::default()
    }

    fn exporter(&self) -> Option<[u8; 32]> {
        None
    }

    fn poll_read(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.call("read");
        Poll::Pending
    }

    fn poll_write(&mut self, _: &mut Context<'_>, queue: &mut VecDeque<Bytes>) -> Poll<io::Result<usize>> {
        self.call("write");
        let Some(mut first) = queue.pop_front() else {
            return Poll::Ready(Ok(0));
        };
        let taken = first.len().min(self.room);
        self.room -= taken;
        let _ = first.split_to(taken);
        if !first.is_empty() {
            queue.push_front(first);
        }
        if taken > 0 {
            Poll::Ready(Ok(taken))
        } else {
            Poll::Pending
        }
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn abort(&mut self) {
        self.aborted.store(true, Ordering::Relaxed);
    }
}
