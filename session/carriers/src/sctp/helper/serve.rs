//! Carries out the program's orders.
#![allow(unsafe_code)] // A descriptor is registered with the runtime.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};

use super::association::Association;
use super::interpose::PULSE;
use super::listener::Listener;
use super::relay::{self, End, Relay, Word};
use super::reports::Reports;
use super::stack::Stack;
use crate::sctp::error::Fault;
use crate::sctp::options::SctpOptions;
use crate::sctp::protocol::{self, Order, Report};

/// The maximum time for which ending associations keep the process alive after the program is gone.
const SETTLE: Duration = Duration::from_secs(2);

/// The pause after an association was lost at once, or memory was short.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// The number of a future association, its stream, and its end.
type Offer = (u64, OwnedFd, End);

/// The state needed to carry out the program's orders.
struct Service {
    stack: Stack,
    reports: Reports,
    ends: HashMap<u64, watch::Sender<Word>>,
    offers: HashMap<u64, mpsc::UnboundedSender<Offer>>,
}

/// Serves until the program is gone, and lets associations that it has ended complete.
pub(crate) async fn serve(stack: Stack, reports: Reports) {
    let mut service = Service {
        stack,
        reports: reports.clone(),
        ends: HashMap::new(),
        offers: HashMap::new(),
    };
    // SAFETY: the registered value owns the descriptor and never returns another.
    let control = unsafe { AsyncFd::register_with_interest(reports.0, Interest::READABLE) };
    let control = match control {
        Ok(control) => control,
        Err(error) => {
            return service
                .reports
                .send(&Report::Unable(Fault::Start(error.to_string())));
        }
    };
    while let Ok(Some((order, descriptor))) = next(&control).await {
        service.carry_out(order, descriptor);
    }
    // Dropping the service ends the associations that the program has not ended.
    drop(service);
    let _ = tokio::time::timeout(SETTLE, relay::none_left()).await;
    stack.settle(SETTLE).await;
}

async fn next(control: &AsyncFd<Arc<OwnedFd>>) -> io::Result<Option<(Order, Option<OwnedFd>)>> {
    control
        .async_io(Interest::READABLE, |socket| {
            protocol::receive(socket, RecvFlags::DONTWAIT)
        })
        .await
}

impl Service {
    fn carry_out(&mut self, order: Order, descriptor: Option<OwnedFd>) {
        self.ends.retain(|_, end| !end.is_closed());
        match (order, descriptor) {
            (Order::Beat, _) => self.reports.send(&Report::Beat(PULSE.counts())),
            (Order::Finish { id }, _) => self.say(id, Word::Finish),
            (Order::End { id, at_once }, _) => {
                self.offers.remove(&id);
                self.say(id, if at_once { Word::Abort } else { Word::End });
            }
            (Order::Listen { id, addresses, port, options }, _) => {
                match Listener::open(self.stack, &addresses, port, options.clone()) {
                    Ok(listener) => self.listen(id, listener, options.idle_timeout),
                    Err(fault) => self.reports.send(&Report::Failed { id, fault }),
                }
            }
            (Order::Connect { id, peers, locals, options }, Some(stream)) => {
                let end = self.expect(id);
                let (stack, reports) = (self.stack, self.reports.clone());
                tokio::spawn(async move {
                    connect(stack, (id, stream, end), peers, locals, options, reports).await;
                });
            }
            (Order::Offer { listener, id }, Some(stream)) => {
                let end = self.expect(id);
                if let Some(offers) = self.offers.get(&listener) {
                    // A listener that has failed needs no streams.
                    let _ = offers.send((id, stream, end));
                }
            }
            // If the program sends no stream, it gets no association.
            (Order::Connect { id, .. } | Order::Offer { id, .. }, None) => {
                let fault = Fault::Other(libc::EBADF);
                self.reports.send(&Report::Failed { id, fault });
            }
        }
    }

    fn expect(&mut self, id: u64) -> End {
        let (end, ended) = watch::channel(Word::GoOn);
        self.ends.insert(id, end);
        ended
    }

    fn say(&mut self, id: u64, word: Word) {
        if let Some(end) = self.ends.get(&id) {
            end.send_replace(word);
        }
    }

    fn listen(&mut self, id: u64, listener: Listener, idle_timeout: Duration) {
        let end = self.expect(id);
        let (offer, offers) = mpsc::unbounded_channel();
        self.offers.insert(id, offer);
        self.reports
            .send(&Report::Listening { id, addresses: listener.local() });
        tokio::spawn(accept(listener, offers, end, idle_timeout, self.reports.clone()));
    }
}

async fn connect(
    stack: Stack,
    (id, stream, mut end): Offer,
    peers: Vec<std::net::SocketAddr>,
    locals: Vec<std::net::IpAddr>,
    options: SctpOptions,
    reports: Reports,
) {
    let attempt = tokio::select! {
        result = stack.connect(&peers, &locals, &options, || reports.send(&Report::Trying { id })) => result,
        _ = end.changed() => return,
    };
    let relay = attempt.and_then(|association| {
        Relay::new(id, association, stream, reports.clone(), options.idle_timeout).map_err(Fault::from)
    });
    match relay {
        Ok(relay) => relay.run(end).await,
        Err(fault) => reports.send(&Report::Failed { id, fault }),
    }
}

/// Accepts an association for each offer, until the program ends the listener.
async fn accept(
    listener: Listener,
    mut offers: mpsc::UnboundedReceiver<Offer>,
    mut listening: End,
    idle_timeout: Duration,
    reports: Reports,
) {
    while let Some((id, stream, end)) = offers.recv().await {
        let association = tokio::select! {
            association = next_association(&listener) => association,
            _ = listening.changed() => return,
        };
        match Relay::new(id, association, stream, reports.clone(), idle_timeout) {
            Ok(relay) => drop(tokio::spawn(relay.run(end))),
            Err(error) => reports.send(&Report::Failed { id, fault: error.into() }),
        }
    }
}

/// Waits for the next association. One that is lost before it is accepted is skipped.
async fn next_association(listener: &Listener) -> Association {
    loop {
        match listener.accept().await {
            Ok(association) => return association,
            Err(_) => tokio::time::sleep(AFTER_ERROR).await,
        }
    }
}
