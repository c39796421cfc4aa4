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
use super::relay::{self, AssociationOrder, OrderReceiver, Relay};
use super::reports::Reports;
use super::stack::HelperStack;
use crate::sctp::error::Fault;
use crate::sctp::options::SctpOptions;
use crate::sctp::protocol::{self, ProcessOrder, ProcessReport};

/// The maximum time for which ending associations keep the process alive after the program is gone.
const SETTLE: Duration = Duration::from_secs(2);

/// The pause after an association was lost at once, or memory was short.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// The number of a future association, its stream, and its end.
type FutureAssociation = (u64, OwnedFd, OrderReceiver);

/// The state needed to carry out the program's orders.
struct Service {
    stack: HelperStack,
    reports: Reports,
    ends: HashMap<u64, watch::Sender<AssociationOrder>>,
    offers: HashMap<u64, mpsc::UnboundedSender<FutureAssociation>>,
}

/// Serves until the program is gone, and lets associations that it has ended complete.
pub(crate) async fn serve(stack: HelperStack, reports: Reports) {
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
                .send(&ProcessReport::Unable(Fault::Start(error.to_string())));
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

async fn next(control: &AsyncFd<Arc<OwnedFd>>) -> io::Result<Option<(ProcessOrder, Option<OwnedFd>)>> {
    control
        .async_io(Interest::READABLE, |socket| {
            protocol::receive(socket, RecvFlags::DONTWAIT)
        })
        .await
}

impl Service {
    fn carry_out(&mut self, order: ProcessOrder, descriptor: Option<OwnedFd>) {
        self.ends.retain(|_, end| !end.is_closed());
        match (order, descriptor) {
            (ProcessOrder::Beat, _) => self.reports.send(&ProcessReport::Beat(PULSE.counts())),
            (ProcessOrder::Finish { id }, _) => self.say(id, AssociationOrder::Finish),
            (ProcessOrder::End { id, at_once }, _) => {
                self.offers.remove(&id);
                self.say(
                    id,
                    if at_once {
                        AssociationOrder::Abort
                    } else {
                        AssociationOrder::End
                    },
                );
            }
            (ProcessOrder::Listen { id, addresses, port, options }, _) => {
                match Listener::open(self.stack, &addresses, port, options.clone()) {
                    Ok(listener) => self.listen(id, listener, options.idle_timeout),
                    Err(fault) => self.reports.send(&ProcessReport::Failed { id, fault }),
                }
            }
            (ProcessOrder::Connect { id, peers, locals, options }, Some(stream)) => {
                let end = self.expect(id);
                let (stack, reports) = (self.stack, self.reports.clone());
                tokio::spawn(async move {
                    connect(stack, (id, stream, end), peers, locals, options, reports).await;
                });
            }
            (ProcessOrder::Offer { listener, id }, Some(stream)) => {
                let end = self.expect(id);
                if let Some(offers) = self.offers.get(&listener) {
                    // A listener that has failed needs no streams.
                    let _ = offers.send((id, stream, end));
                }
            }
            // If the program sends no stream, it gets no association.
            (ProcessOrder::Connect { id, .. } | ProcessOrder::Offer { id, .. }, None) => {
                let fault = Fault::Other(libc::EBADF);
                self.reports.send(&ProcessReport::Failed { id, fault });
            }
        }
    }

    fn expect(&mut self, id: u64) -> OrderReceiver {
        let (end, ended) = watch::channel(AssociationOrder::GoOn);
        self.ends.insert(id, end);
        ended
    }

    fn say(&mut self, id: u64, word: AssociationOrder) {
        if let Some(end) = self.ends.get(&id) {
            end.send_replace(word);
        }
    }

    fn listen(&mut self, id: u64, listener: Listener, idle_timeout: Duration) {
        let end = self.expect(id);
        let (offer, offers) = mpsc::unbounded_channel();
        self.offers.insert(id, offer);
        self.reports
            .send(&ProcessReport::Listening { id, addresses: listener.local() });
        tokio::spawn(accept(listener, offers, end, idle_timeout, self.reports.clone()));
    }
}

async fn connect(
    stack: HelperStack,
    (id, stream, mut end): FutureAssociation,
    peers: Vec<std::net::SocketAddr>,
    locals: Vec<std::net::IpAddr>,
    options: SctpOptions,
    reports: Reports,
) {
    let attempt = tokio::select! {
        result = stack.connect(&peers, &locals, &options, || reports.send(&ProcessReport::Trying { id })) => result,
        _ = end.changed() => return,
    };
    let relay = attempt.and_then(|association| {
        Relay::new(id, association, stream, reports.clone(), options.idle_timeout).map_err(Fault::from)
    });
    match relay {
        Ok(relay) => relay.run(end).await,
        Err(fault) => reports.send(&ProcessReport::Failed { id, fault }),
    }
}

/// Accepts an association for each offer, until the program ends the listener.
async fn accept(
    listener: Listener,
    mut offers: mpsc::UnboundedReceiver<FutureAssociation>,
    mut listening: OrderReceiver,
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
            Err(error) => reports.send(&ProcessReport::Failed { id, fault: error.into() }),
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
