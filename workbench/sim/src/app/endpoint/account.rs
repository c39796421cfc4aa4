//! The report of an end: its progress, the events that it waits for, and its faults.

use super::{Close, Endpoint, EndpointReport, Open};
use crate::app::Application;

impl Endpoint {
    /// Returns the results of the end. `peer_cut` is true if the other end was cut during the flow.
    #[must_use]
    pub fn report(&self, peer_cut: bool) -> EndpointReport {
        let [sent_sha256, received_sha256] = match &self.streams {
            // The bytes of streams are compared instead.
            Some(_) => Default::default(),
            None => self.payload.sha256(),
        };
        let times = match &self.streams {
            Some(streams) => streams.times().to_vec(),
            None => self.plan.script.times().to_vec(),
        };
        EndpointReport {
            cut: self.cut,
            sent: self.sent(),
            received: self.received(),
            sent_sha256,
            received_sha256,
            messages: self.payload.counts(),
            streams: self.streams.as_ref().map(|streams| streams.counts()),
            received_ok: self.payload.may_lose() && self.payload.wrong().is_none(),
            times,
            faults: self.faults(peer_cut),
            ..self.report.clone()
        }
    }

    /// Returns its progress and the events that it waits for.
    pub(crate) fn application(&self) -> Application {
        let limit = self.streams.as_ref().map(|streams| streams.limit());
        let [to_send, to_receive] =
            limit.unwrap_or_else(|| [self.plan.script.outgoing(), self.plan.script.incoming()]);
        Application {
            sent: self.sent(),
            to_send,
            received: self.received(),
            to_receive,
            closed: self.closing,
            waits_for: self.waits_for(),
        }
    }

    fn waits_for(&self) -> Vec<String> {
        let mut waits = Vec::new();
        if self.is_over() {
            return waits;
        }
        if self.waits {
            waits.push("the end of the connection before it".to_owned());
            return waits;
        }
        if self.report.connected_at.is_none() {
            waits.push(match self.plan.open {
                Open::Listen(local, None) => format!("a connection at {local}"),
                Open::Listen(local, Some(shared)) => {
                    format!("a connection from {} at {local}", shared.client)
                }
                Open::Connect { remote, .. } => format!("its connection to {remote}"),
                Open::Absent => "nothing".to_owned(),
            });
            return waits;
        }
        if let Some(streams) = &self.streams {
            waits.extend(streams.waits_for());
            if waits.is_empty() {
                waits.push("the end of the connection".to_owned());
            }
            return waits;
        }
        let allowed = self.allowed.min(self.plan.script.outgoing());
        if self.payload.sent() < allowed {
            waits.push(format!("room to send {} bytes", allowed - self.payload.sent()));
        }
        let missing = self.expected().saturating_sub(self.received());
        if missing > 0 {
            waits.push(format!("{missing} bytes"));
        }
        let waits_for_end = self.plan.sees_end && !self.eof && self.plan.close != Close::Never;
        if self.has_all() && waits_for_end {
            waits.push("the end of the stream".to_owned());
        } else if self.closing && self.has_all() {
            waits.push("the end of the connection".to_owned());
        }
        waits
    }

    /// Returns the faults of the end. If its peer is gone, it may fail; if it waits to send, it has to,
    /// because a connection whose peer is gone must end.
    fn faults(&self, peer_cut: bool) -> Vec<String> {
        let expected = self.plan.script.incoming();
        let received = self.payload.received();
        let failed = self.failed.clone().filter(|_| !peer_cut);
        let mut faults: Vec<String> = self.error.clone().into_iter().chain(failed).collect();
        faults.extend(self.payload.wrong());
        faults.extend(self.streams.iter().filter_map(|streams| streams.wrong().cloned()));
        faults.extend(self.payload.lost_too_many().filter(|_| !peer_cut));
        if received > expected {
            faults.push(format!("{} bytes more than were sent", received - expected));
        }
        if self.eof && received < self.promised() && !self.sips {
            faults.push(format!("the stream ended after {received} of {expected} bytes"));
        }
        if !self.is_finished() && !peer_cut {
            faults.push(self.unfinished());
        } else if !self.is_finished() && (self.closed || !self.has_sent()) {
            faults.push(format!(
                "its peer is gone, but it has not failed: {}",
                self.unfinished()
            ));
        }
        faults
    }

    fn unfinished(&self) -> String {
        let (sent, received) = (self.payload.sent(), self.received());
        if self.report.connected_at.is_none() {
            return "no connection".to_owned();
        }
        if let Some(streams) = self.streams.as_ref().filter(|_| !self.has_all()) {
            return format!("not done: {}", streams.waits_for().join("; "));
        }
        if self.has_all() && self.streams.is_some() {
            return "the end of the connection did not come".to_owned();
        }
        if self.has_all() {
            return "the end of the stream did not come".to_owned();
        }
        let (to_send, to_come) = (self.plan.script.outgoing(), self.plan.script.incoming());
        let Some([outgoing, incoming]) = self.payload.counts() else {
            return format!(
                "not done: {received} of {to_come} bytes received, {sent} of {to_send} handed over"
            );
        };
        let stray = if self.payload.has_stray_bytes() {
            "; bytes wait that are no whole message: a message is a receiving unit of a stated size"
        } else {
            ""
        };
        format!(
            "not done: {} of {} messages received, {} of {} handed over{stray}",
            incoming.done, incoming.of, outgoing.done, outgoing.of
        )
    }
}
