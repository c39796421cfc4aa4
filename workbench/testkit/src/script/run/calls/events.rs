//! Waiting for several descriptors: poll and epoll.

use std::collections::BTreeMap;

use super::errno::{EBADF, EEXIST, ENOENT};
use super::{
    Arguments, CallAnswer, CallProgress, CallResult, Connection, Kernel, Misuse, SocketRole, done, fail,
};
use crate::script::run::symbols::{NumberError, field, number};
use crate::script::syntax::tree::Expression;

const IN: i64 = 1;
const OUT: i64 = 4;
const ERR: i64 = 8;
const HUP: i64 = 16;
const RDHUP: i64 = 0x2000;
const ONE_SHOT: i64 = 1 << 30;
const EDGE: i64 = 1 << 31;
const MILLISECOND: u64 = 1_000_000;

/// An epoll descriptor.
#[derive(Debug, Default)]
pub(in crate::script::run) struct Poller {
    watched: BTreeMap<i64, EpollInterest>,
}

#[derive(Clone, Debug)]
struct EpollInterest {
    events: i64,
    /// The counts of news already reported, for edge-triggered waiting.
    reported: Option<(u64, u64)>,
    disabled: bool,
}

impl Poller {
    pub(super) fn forget(&mut self, fd: i64) {
        self.watched.remove(&fd);
    }
}

impl Kernel {
    /// Returns the events for which a descriptor is ready.
    fn ready(&self, fd: i64) -> i64 {
        let Some(socket) = self.sockets.get(&fd) else {
            return 32;
        };
        match socket.role {
            // As in Linux for a socket that was never connected.
            SocketRole::Fresh => OUT | HUP,
            SocketRole::Listener(handle) => {
                if self.queues.get(&handle).is_some_and(|queue| !queue.is_empty()) {
                    IN
                } else {
                    0
                }
            }
            SocketRole::Connection(handle) => {
                let Connection { connected, eof, over, error, errors, .. } =
                    self.connections.get(&handle).cloned().unwrap_or_default();
                let mut ready = 0;
                if self.stack.readable(handle) > 0 || eof || over || socket.shut_read {
                    ready |= IN;
                }
                if eof || over || socket.shut_read {
                    ready |= RDHUP;
                }
                if over || ((eof || socket.shut_read) && socket.shut_write) {
                    ready |= HUP;
                }
                if error.is_some() || !errors.is_empty() {
                    ready |= ERR;
                }
                let may_write = connected || self.fast_open_room(handle) > 0;
                if over || socket.shut_write || (may_write && self.stack.writable(handle) > 0) {
                    ready |= OUT;
                }
                ready
            }
        }
    }

    fn news(&self, fd: i64) -> (u64, u64) {
        let state = self
            .handle_of(fd)
            .and_then(|handle| self.connections.get(&handle));
        state.map_or((0, 0), |state| (state.read_news, state.write_news))
    }

    pub(super) fn poll(&mut self, arguments: &Arguments<'_>, stage: &mut u64) -> CallResult {
        let Expression::Array(entries) = arguments.get(0)? else {
            return Err(Misuse::PollEntries.into());
        };
        let timeout = arguments.number(2)?;
        let (mut count, mut differs) = (0, None);
        for entry in entries {
            let value = |name: &str| field(entry, name).map(number).transpose();
            let fd = value("fd")?.ok_or(Misuse::NoDescriptor)?;
            let events = value("events")?.unwrap_or(0) | ERR | HUP | 32;
            let found = self.ready(fd) & events;
            count += i64::from(found != 0);
            if let Some(expected) = value("revents")?
                && expected != found
            {
                differs = Some(format!("fd {fd} has revents={found:#x}, not {expected:#x}"));
            }
        }
        if count > 0 || self.waited(timeout, stage) {
            return Ok(CallProgress::Done(CallAnswer { value: count, errno: 0, differs }));
        }
        Ok(CallProgress::Blocked)
    }

    /// Returns whether a wait of this many milliseconds is over. `stage` keeps its end.
    fn waited(&self, timeout: i64, stage: &mut u64) -> bool {
        if timeout < 0 {
            return false;
        }
        if *stage == 0 {
            *stage = self
                .now
                .plus_nanos((timeout as u64).saturating_mul(MILLISECOND))
                .as_nanos()
                .max(1);
        }
        self.now.as_nanos() >= *stage
    }

    pub(super) fn epoll_create(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let fd = self.new_fd(arguments);
        self.pollers.insert(fd, Poller::default());
        done(fd)
    }

    pub(super) fn epoll_ctl(&mut self, arguments: &Arguments<'_>) -> CallResult {
        let (poller, operation, fd) = (arguments.number(0)?, arguments.number(1)?, arguments.number(2)?);
        if !self.sockets.contains_key(&fd) {
            return fail(EBADF);
        }
        let Some(poller) = self.pollers.get_mut(&poller) else {
            return fail(EBADF);
        };
        let known = poller.watched.contains_key(&fd);
        match (operation, known) {
            (1, true) => return fail(EEXIST),
            (2 | 3, false) => return fail(ENOENT),
            (2, true) => {
                poller.watched.remove(&fd);
                return done(0);
            }
            _ => {}
        }
        let events = field(arguments.get(3)?, "events")
            .map(number)
            .transpose()?
            .unwrap_or(0);
        poller
            .watched
            .insert(fd, EpollInterest { events, reported: None, disabled: false });
        done(0)
    }

    pub(super) fn epoll_wait(&mut self, arguments: &Arguments<'_>, stage: &mut u64) -> CallResult {
        let (poller, timeout) = (arguments.number(0)?, arguments.number(3)?);
        let Some(watched) = self.pollers.get(&poller).map(|poller| poller.watched.clone()) else {
            return fail(EBADF);
        };
        let max_events = usize::try_from(arguments.number(2)?).unwrap_or(0);
        let mut found: Vec<(i64, i64)> = Vec::new();
        for (fd, watch) in &watched {
            let ready = self.ready(*fd) & (watch.events | ERR | HUP);
            let news = self.news(*fd);
            let fresh = watch.reported.is_none_or(|(read, write)| {
                (ready & (IN | RDHUP | HUP | ERR) != 0 && news.0 > read)
                    || (ready & (OUT | HUP | ERR) != 0 && news.1 > write)
            });
            let counts = ready != 0 && !watch.disabled && (watch.events & EDGE == 0 || fresh);
            if counts && found.len() < max_events {
                found.push((*fd, ready));
                let one_shot = watch.events & ONE_SHOT != 0;
                self.reported(poller, *fd, news, one_shot);
            }
        }
        if found.is_empty() && !self.waited(timeout, stage) {
            return Ok(CallProgress::Blocked);
        }
        let differs = events_differ(arguments.get(1)?, &found)?;
        Ok(CallProgress::Done(CallAnswer {
            value: found.len() as i64,
            errno: 0,
            differs,
        }))
    }

    fn reported(&mut self, poller: i64, fd: i64, news: (u64, u64), one_shot: bool) {
        if let Some(watch) = self
            .pollers
            .get_mut(&poller)
            .and_then(|poller| poller.watched.get_mut(&fd))
        {
            watch.reported = Some(news);
            watch.disabled |= one_shot;
        }
    }
}

/// Returns the difference between the events that a script expects and the events found.
fn events_differ(expected: &Expression, found: &[(i64, i64)]) -> Result<Option<String>, NumberError> {
    let list = match expected {
        Expression::Anything => return Ok(None),
        Expression::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    for (i, expected) in list.iter().enumerate() {
        let (fd, events) = found.get(i).copied().unwrap_or((0, 0));
        let wanted = field(expected, "events").map(number).transpose()?;
        if wanted.is_some_and(|wanted| wanted != events) {
            return Ok(Some(format!(
                "the events are {events:#x}, not {:#x}",
                wanted.unwrap_or(0)
            )));
        }
        let wanted = field(expected, "fd").map(number).transpose()?;
        if events != 0 && wanted.is_some_and(|wanted| wanted != fd) {
            return Ok(Some(format!("the events are those of fd {fd}")));
        }
    }
    Ok(None)
}
