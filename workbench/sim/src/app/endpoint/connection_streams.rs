//! The streams within an end's connection: their notices, their work, and the effect of the connection's end
//! on them.

use hawser_engine::{Handle, Notice, Stack};
use hawser_time::Instant;

use super::Endpoint;
use crate::app::streams::Around;
use crate::trace::Trace;

impl Endpoint {
    /// Returns true if streams that are accepted on this handle belong to the end: the handle is that of its
    /// connection.
    pub(crate) fn is_connection(&self, handle: Handle) -> bool {
        self.streams.is_some() && self.handle == Some(handle)
    }

    /// Returns the handles of streams that were added or released since the last call.
    pub(crate) fn take_stream_handles(&mut self) -> Vec<(Handle, bool)> {
        let streams = self.streams.as_mut();
        streams.map_or_else(Vec::new, |streams| streams.take_changes())
    }

    /// Returns the number of bytes handed over so far.
    pub(super) fn sent(&self) -> u64 {
        let streams = self.streams.as_ref().map_or(0, |streams| streams.sent());
        self.payload.sent() + streams
    }

    pub(super) fn are_streams_wrong(&self) -> bool {
        self.streams
            .as_ref()
            .is_some_and(|streams| streams.wrong().is_some())
    }

    /// Processes a notice about a stream, or about room for another one. Returns false for any other notice.
    pub(super) fn notify_streams(
        &mut self,
        now: Instant,
        (handle, notice): (Handle, Notice),
        stack: &mut Stack,
        trace: &mut Trace,
    ) -> bool {
        let is_connection = self.is_connection(handle);
        let Some(streams) = &mut self.streams else {
            return false;
        };
        if streams.has(handle) {
            streams.on_notice(now, handle, notice, stack, trace);
            return true;
        }
        if !is_connection {
            return false;
        }
        match notice {
            Notice::Accepted(child) => {
                stack.accept(handle);
                streams.accept(now, child, stack);
                trace.event(now, self.plan.flow, "stream accepted", 0);
                if self.report.connected_at.is_none() {
                    self.blame(|| {
                        "the program delivered a stream before it reported the connection".to_owned()
                    });
                } else if self.closed {
                    self.blame(|| "the program delivered a stream after its connection's end".to_owned());
                }
                true
            }
            Notice::Writable => {
                streams.try_again();
                true
            }
            _ => false,
        }
    }

    /// Does the possible work of streams, and checks them once their connection is over.
    pub(super) fn drive_streams(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        handle: Handle,
        buffer: &mut [u8],
    ) {
        let budget = self.may_read(now);
        let is_there = self.report.connected_at.is_some() && !self.closed && !self.closing;
        let Some(streams) = &mut self.streams else {
            return;
        };
        let before = streams.received();
        streams.drive(&mut Around { now, stack, connection: is_there.then_some(handle), buffer, budget });
        if streams.received() > before {
            self.report.received_at = Some(now);
        }
        self.sips = streams.left() > 0;
        if self.closed && !self.sips && !streams.is_settled() {
            let missing = streams.missing().unwrap_or_default();
            let how = match self.left {
                Some(errno) => format!("failed: {errno}"),
                None => "the connection was closed".to_owned(),
            };
            self.gave_up_at.get_or_insert(now);
            self.failed.get_or_insert_with(|| format!("{how}; {missing}"));
        }
    }
}
