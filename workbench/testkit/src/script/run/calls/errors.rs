//! Error queues of sockets: the reports of `recvmsg` with MSG_ERRQUEUE about sent bytes.
//!
//! * SO_ZEROCOPY: the peer has acknowledged a write. The bytes are always copied here, and each notification
//!   states that.
//! * SO_TIMESTAMPING: the times when the last byte of a write left and when it was acknowledged.

use std::collections::VecDeque;
use std::time::Duration;

use hawser_time::nanos;

use super::errno::EAGAIN;
use super::{Arguments, CallAnswer, CallProgress, CallResult, Kernel, fail};
use crate::script::run::symbols::{NumberError, constant, field, number};
use crate::script::syntax::tree::Expression;

/// Bits of SO_TIMESTAMPING.
const SENT: i64 = 1 << 1;
const COUNTED: i64 = 1 << 7;
const SCHEDULED: i64 = 1 << 8;
const ACKNOWLEDGED: i64 = 1 << 9;
/// The maximum number of writes and notifications that are kept for each connection.
const MAX_REMEMBERED: usize = 4096;

/// The content of a connection's error queue, and the writes that will add to it.
#[derive(Clone, Debug, Default)]
pub(in crate::script::run) struct ErrorQueue {
    /// The next notification's number, for SO_ZEROCOPY.
    next: u32,
    /// The unacknowledged writes, each with its end in the stream and its number.
    copied: VecDeque<(u64, u32)>,
    /// The writes with pending timestamps, each with its end, number and requested kinds.
    stamped: VecDeque<Stamped>,
    notifications: VecDeque<Notification>,
}

#[derive(Clone, Debug)]
struct Stamped {
    end: u64,
    key: u32,
    wanted: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Notification {
    /// The writes with these numbers, both included, are acknowledged.
    Copied(u32, u32),
    /// An event of a write: its kind (SCM_TSTAMP_…), its time, and the write's number.
    Stamp { kind: u32, at: Duration, key: u32 },
}

impl ErrorQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.notifications.is_empty()
    }

    /// Adds the notifications that are due, given the numbers of bytes sent and acknowledged. Returns whether
    /// there are new ones.
    fn settle(&mut self, (sent, acknowledged): (u64, u64), at: Duration) -> bool {
        let before = self.notifications.len();
        let mut news = false;
        for write in &mut self.stamped {
            for (bit, kind, reached) in [
                (SCHEDULED, 1, sent),
                (SENT, 0, sent),
                (ACKNOWLEDGED, 2, acknowledged),
            ] {
                if write.wanted & bit != 0
                    && reached >= write.end
                    && self.notifications.len() < MAX_REMEMBERED
                {
                    write.wanted &= !bit;
                    self.notifications
                        .push_back(Notification::Stamp { kind, at, key: write.key });
                }
            }
        }
        self.stamped
            .retain(|write| write.wanted & (SCHEDULED | SENT | ACKNOWLEDGED) != 0);
        while let Some((_, number)) = self
            .copied
            .front()
            .copied()
            .filter(|(end, _)| *end <= acknowledged)
        {
            self.copied.pop_front();
            news = true;
            // One notification covers adjacent writes, as in Linux.
            let room = self.notifications.len() < MAX_REMEMBERED;
            match self.notifications.back_mut() {
                Some(Notification::Copied(_, last)) if last.wrapping_add(1) == number => *last = number,
                _ if room => self.notifications.push_back(Notification::Copied(number, number)),
                _ => {}
            }
        }
        news || self.notifications.len() > before
    }
}

impl Kernel {
    /// Records a write that ends at `end` in the stream.
    pub(super) fn note_write(&mut self, fd: i64, handle: hawser_engine::Handle, zero_copy: bool) {
        let zero_copy = zero_copy && self.chose(fd, SOCKET, "SO_ZEROCOPY") != 0;
        let wanted = self.chose(fd, SOCKET, "SO_TIMESTAMPING");
        let state = self.connections.entry(handle).or_default();
        let end = state.written;
        let queue = &mut state.errors;
        if zero_copy && queue.copied.len() < MAX_REMEMBERED {
            queue.copied.push_back((end, queue.next));
            queue.next = queue.next.wrapping_add(1);
        }
        if wanted & (SCHEDULED | SENT | ACKNOWLEDGED) != 0 && queue.stamped.len() < MAX_REMEMBERED {
            let key = if wanted & COUNTED != 0 {
                end.wrapping_sub(1).wrapping_sub(state.counted) as u32
            } else {
                0
            };
            queue.stamped.push_back(Stamped { end, key, wanted });
        }
    }

    /// Updates the notifications about writes.
    pub(in crate::script::run) fn settle_errors(&mut self) {
        let waiting =
            |state: &super::Connection| !state.errors.copied.is_empty() || !state.errors.stamped.is_empty();
        let handles: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, state)| waiting(state))
            .map(|(handle, _)| *handle)
            .collect();
        let at = self.now - self.began;
        for handle in handles {
            let written = self.connections.get(&handle).map_or(0, |state| state.written);
            let info = self.info_of(handle);
            // A connection that is gone holds no unacknowledged data.
            let left = |field| u64::try_from(info.number(field).unwrap_or(0)).unwrap_or(0);
            let reached = (
                written.saturating_sub(left("siocoutqnsd")),
                written.saturating_sub(left("siocoutq")),
            );
            if let Some(state) = self.connections.get_mut(&handle)
                && state.errors.settle(reached, at)
            {
                state.read_news += 1;
            }
        }
    }

    /// Implements `recvmsg` with MSG_ERRQUEUE.
    pub(super) fn read_errors(
        &mut self,
        handle: Option<hawser_engine::Handle>,
        arguments: &Arguments<'_>,
    ) -> CallResult {
        let notification = handle.and_then(|handle| {
            self.connections
                .get_mut(&handle)?
                .errors
                .notifications
                .pop_front()
        });
        let Some(notification) = notification else {
            return fail(EAGAIN);
        };
        let expected = field(arguments.get(1)?, "msg_control");
        let differs = match expected {
            Some(Expression::Array(messages)) => self.difference(&notification, messages)?,
            _ => None,
        };
        Ok(CallProgress::Done(CallAnswer { value: 0, errno: 0, differs }))
    }

    /// Returns the difference between a notification and the script's expectation.
    fn difference(
        &self,
        notification: &Notification,
        messages: &[Expression],
    ) -> Result<Option<String>, NumberError> {
        let (origin, errno, code, info, data) = match notification {
            Notification::Copied(first, last) => ("SO_EE_ORIGIN_ZEROCOPY", 0, 1, *first, *last),
            Notification::Stamp { kind, key, .. } => (
                "SO_EE_ORIGIN_TIMESTAMPING",
                constant("ENOMSG").unwrap_or(0),
                0,
                *kind,
                *key,
            ),
        };
        let found = [
            ("ee_errno", errno),
            ("ee_origin", constant(origin).unwrap_or(-1)),
            ("ee_type", 0),
            ("ee_code", code),
            ("ee_info", info.into()),
            ("ee_data", data.into()),
        ];
        for message in messages {
            let Some(body) = field(message, "cmsg_data") else {
                continue;
            };
            for (name, value) in found {
                let wanted = field(body, name).map(number).transpose()?;
                if wanted.is_some_and(|wanted| wanted != value) {
                    return Ok(Some(format!("{name} is {value}, not {}", wanted.unwrap_or(0))));
                }
            }
            let seconds = field(body, "scm_sec").map(number).transpose()?;
            let rest = field(body, "scm_nsec").map(number).transpose()?;
            if let (Notification::Stamp { at, .. }, Some(seconds), Some(rest)) = (notification, seconds, rest)
            {
                let wanted = (seconds as u64)
                    .saturating_mul(1_000_000_000)
                    .saturating_add(rest as u64);
                let wanted = Duration::from_nanos(wanted);
                if at.abs_diff(wanted) > self.config.tolerance {
                    return Ok(Some(format!(
                        "the time is {} ns, not {} ns",
                        nanos(*at),
                        nanos(wanted)
                    )));
                }
            }
        }
        Ok(None)
    }
}

const SOCKET: i64 = 1;
