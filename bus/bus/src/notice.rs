//! Notices, which a subscriber receives beside its signals: a lease of its own ended before its time.

use std::collections::VecDeque;
use std::fmt;

use parking_lot::{Mutex, MutexGuard};

use crate::flow::SourceFlow;
use crate::ring::Waker;
use crate::schema::VariableId;

/// The maximum number of notices queued for a subscriber. When it is reached, the oldest are dropped. The log
/// has all of them.
pub const MAX_NOTICES: usize = 1024;

/// A lease that ended before its time without being released by its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The flow of the variable.
    pub target: SourceFlow,
    /// The variable that was held.
    pub variable: VariableId,
    /// The reason why the lease ended: a phrase without a full stop.
    pub why: String,
}

/// The notices queued for a subscriber, from all sources.
pub(crate) struct Notices {
    waiting: Mutex<VecDeque<Notice>>,
    waker: Option<Waker>,
}

impl Notices {
    pub(crate) fn new(waker: Option<Waker>) -> Notices {
        Notices { waiting: Mutex::default(), waker }
    }

    pub(crate) fn send(&self, notice: Notice) {
        {
            let mut waiting = self.lock();
            if waiting.len() >= MAX_NOTICES {
                waiting.pop_front();
            }
            waiting.push_back(notice);
        }
        if let Some(waker) = &self.waker {
            waker();
        }
    }

    pub(crate) fn take(&self) -> Option<Notice> {
        self.lock().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Notice>> {
        self.waiting.lock()
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices")
            .field("waiting", &self.lock().len())
            .finish_non_exhaustive()
    }
}
