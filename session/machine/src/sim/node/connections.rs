//! A host's connections: how carriers begin, carry data and end.

use std::net::SocketAddr;

use crate::{CarrierDecision, CarrierId, Loss, Refusal};
use bytes::Bytes;
use hawser_engine::{Handle, RequestError};
use hawser_race::Event;
use hawser_sim::frame::Frame;
use hawser_sim::trace::Trace;

use super::{PORT, SimHost, bits};
use crate::sim::carrier::{self, Carrier, Handshake};
use crate::sim::segment::TcpSegment;
use crate::sim::side::Side;

impl SimHost {
    pub(super) fn handles(&self, which: impl Fn(&Carrier) -> bool) -> Vec<Handle> {
        self.carriers
            .values()
            .filter(|carrier| which(carrier))
            .map(|carrier| carrier.handle)
            .collect()
    }

    pub(super) fn accept(&mut self, child: Handle) {
        self.listener
            .into_iter()
            .for_each(|listener| self.stack.accept(listener));
        let Some(SocketAddr::V4(local)) = self.stack.local(child) else {
            return;
        };
        let link = usize::from(local.ip().octets()[1]);
        let carrier = Carrier::new(child, None, link, self.handshake(link));
        self.carriers.insert(child, carrier);
        self.connected(child);
        self.read(child);
    }

    pub(super) fn handshake(&self, link: usize) -> Handshake {
        let config = &self.shared.borrow().config;
        let round_trips = config.handshakes.get(link).copied().unwrap_or(2);
        Handshake::new(round_trips, config.flight, self.side == Side::Client)
    }

    pub(super) fn connected(&mut self, handle: Handle) {
        let is_open = self.carriers.get_mut(&handle).is_some_and(Carrier::connected);
        self.attempt(handle, Event::Connected);
        if is_open {
            self.open(handle);
        }
        self.write(handle);
    }

    /// Handles the end of the handshake.
    pub(super) fn open(&mut self, handle: Handle) {
        let Some(carrier) = self.carriers.get_mut(&handle) else {
            return;
        };
        let exporter = Some(carrier.exporter);
        match (self.side, &mut self.session, carrier.id) {
            (Side::Client, Some(session), Some(id)) => session.connected(id, exporter, self.now),
            (Side::Client, ..) => self.attempt(handle, Event::Established),
            (Side::Server, ..) => {
                match self
                    .acceptor
                    .accepted(handle, exporter, bits(&mut self.rng), self.now)
                {
                    Ok(first) => first.into_iter().for_each(|first| carrier.push(first)),
                    Err(_) => carrier.finishing = true,
                }
            }
        }
    }

    pub(super) fn write(&mut self, handle: Handle) {
        let now = self.now;
        if let Some(carrier) = self.carriers.get_mut(&handle) {
            carrier.write(now, &mut self.stack);
        }
    }

    pub(super) fn read(&mut self, handle: Handle) {
        loop {
            let length = self.stack.recv(self.now, handle, &mut self.buffer).unwrap_or(0);
            if length == 0 {
                return;
            }
            let mut bytes = Bytes::copy_from_slice(&self.buffer[..length]);
            let Some(carrier) = self.carriers.get_mut(&handle) else {
                continue;
            };
            if carrier.shake(&mut bytes) {
                self.open(handle);
            }
            self.write(handle);
            if !bytes.is_empty() {
                self.received(handle, bytes);
            }
        }
    }

    /// Handles bytes of the session.
    pub(super) fn received(&mut self, handle: Handle, bytes: Bytes) {
        let Some(carrier) = self.carriers.get(&handle) else {
            return;
        };
        let tenth = self.elapsed().as_millis() as u64 / 100;
        *self.shared.borrow_mut().report.carried[carrier.link]
            .entry(tenth)
            .or_default() += bytes.len() as u64;
        if carrier.finishing {
            return;
        }
        match (carrier.id, &mut self.session) {
            (Some(id), Some(session)) => session.received(id, bytes, self.now),
            (None, _) if self.side == Side::Server => self.prove(handle, bytes),
            (Some(_), None) | (None, _) => {}
        }
    }

    /// Handles bytes of a carrier that has not proved that it belongs to a session (server).
    pub(super) fn prove(&mut self, handle: Handle, bytes: Bytes) {
        let Some(carrier) = self.carriers.get_mut(&handle) else {
            return;
        };
        let (id, backup, rest) =
            match self
                .acceptor
                .received(handle, bytes, || (self.make_scheduler)(), self.now)
            {
                CarrierDecision::More => return,
                CarrierDecision::Refuse { answer, refusal } => {
                    carrier.push(answer);
                    carrier.finishing = true;
                    self.write(handle);
                    if refusal != Refusal::Gone {
                        self.fault(format!("a carrier was refused: {refusal:?}"));
                    }
                    return;
                }
                CarrierDecision::Begin { mut session, carrier: id, answer, rest } => {
                    session.accept();
                    self.session = Some(*session);
                    carrier.push(answer);
                    (id, false, rest)
                }
                CarrierDecision::Join { carrier: id, backup, answer, rest, .. } => {
                    carrier.push(answer);
                    (id, backup, rest)
                }
            };
        carrier.id = Some(id);
        self.write(handle);
        if let Some(session) = &mut self.session {
            session.admitted(id, backup, self.now);
            session.received(id, rest, self.now);
        }
    }

    /// Handles the end of a connection, by either side.
    pub(super) fn end(&mut self, handle: Handle, why: String) {
        self.lost(handle, why);
        self.carriers.remove(&handle);
        self.stack.finish(self.now, handle);
    }

    /// Reports the loss of the carrier to the session.
    pub(super) fn lost(&mut self, handle: Handle, why: String) {
        self.acceptor.left(handle);
        self.attempt_failed(handle);
        let Some(carrier) = self.carriers.get(&handle).filter(|carrier| !carrier.finishing) else {
            return;
        };
        if let (Some(id), Some(session)) = (carrier.id, &mut self.session) {
            session.lost(id, Loss::Transport(why), self.now);
        }
    }

    pub(super) fn connect(&mut self, id: CarrierId, candidate: usize, small: bool) {
        let link = self.shared.borrow().config.session.candidates[candidate].path as usize;
        let is_first = self.shared.borrow().report.connects.is_empty();
        self.shared
            .borrow_mut()
            .report
            .connects
            .push((self.elapsed(), id, candidate));
        let profile = self.shared.borrow().config.race.clone().filter(|_| is_first);
        if let Some(profile) = profile {
            return self.begin_race(id, profile);
        }
        if let (Err(error), Some(session)) = (self.dial(Some(id), link, small), &mut self.session) {
            session.lost(id, Loss::Transport(error.to_string()), self.now);
        }
    }

    /// Opens a connection.
    pub(super) fn dial(
        &mut self,
        id: Option<CarrierId>,
        link: usize,
        small: bool,
    ) -> Result<Handle, RequestError> {
        let remote = SocketAddr::new(Side::Server.address(link), PORT);
        let handle = self
            .stack
            .connect_with(self.now, remote, None, &carrier::options(small))?;
        let mut carrier = Carrier::new(handle, id, link, self.handshake(link));
        carrier.exporter = bits(&mut self.rng);
        self.carriers.insert(handle, carrier);
        Ok(handle)
    }

    /// Aborts a connection.
    pub(super) fn abort(&mut self, handle: Handle) {
        self.stack.abort(self.now, handle);
        self.stack.release(handle);
        self.carriers.remove(&handle);
    }

    /// Returns the handle of the carrier with this number, while the session has it.
    pub(super) fn handle_of(&self, id: CarrierId) -> Option<Handle> {
        self.handles(|carrier| carrier.id == Some(id) && !carrier.finishing)
            .pop()
    }

    pub(super) fn send(&mut self, id: CarrierId, head: Bytes, body: Bytes, trace: &mut Trace) {
        trace.event(
            self.now,
            id.0 as usize,
            "segment",
            (head.len() + body.len()) as u64,
        );
        if let (false, Some(offset)) = (
            body.is_empty(),
            head.get(12..20).and_then(|bytes| bytes.try_into().ok()),
        ) {
            let offset = u64::from_be_bytes(offset);
            self.shared
                .borrow_mut()
                .report
                .sent
                .push((self.elapsed(), self.side, id, offset, body.len()));
        }
        let Some(handle) = self.handle_of(id) else { return };
        if let Some(carrier) = self.carriers.get_mut(&handle) {
            carrier.push(head);
            carrier.push(body);
        }
        self.write(handle);
    }

    pub(super) fn close(&mut self, id: CarrierId, abort: bool) {
        if self.racing.as_ref().is_some_and(|racing| racing.id == id) {
            return self.end_race();
        }
        let Some(handle) = self.handle_of(id) else { return };
        if abort {
            return self.abort(handle);
        }
        self.carriers
            .get_mut(&handle)
            .into_iter()
            .for_each(|carrier| carrier.finishing = true);
        self.write(handle);
    }

    /// Records the largest payload that arrived on a connection.
    pub(super) fn measure(&mut self, frame: &Frame) {
        let Some(segment) = TcpSegment::parse(frame) else {
            return;
        };
        let TcpSegment { link, payload, ports: [from, to], .. } = segment;
        let port = if self.side == Side::Client { to } else { from };
        let stack = &self.stack;
        let is_its = |carrier: &&mut Carrier| {
            let flow = if self.side == Side::Client {
                stack.local(carrier.handle)
            } else {
                stack.peer(carrier.handle)
            };
            carrier.link == link
                && payload > carrier.max_payload
                && flow.is_some_and(|flow| flow.port() == port)
        };
        self.carriers
            .values_mut()
            .filter(is_its)
            .for_each(|carrier| carrier.max_payload = payload);
    }
}
